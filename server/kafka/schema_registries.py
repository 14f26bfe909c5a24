"""Schema registries over HTTP: no redirects, bounded in time and size, and no address that a user must not reach."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import quote, urlsplit

import httpx
import orjson

from catalog.errors import CatalogError, Forbidden, Invalid, NotFound, Unavailable
from catalog.kafka.schema_registry import LARGEST_SCHEMA, MOST_REFERENCES, RegisteredSchema, SchemaRegistry
from catalog.locations.addresses import check_address

SECONDS = 10.0
"""How long the server waits for one answer of a registry."""
LARGEST_ANSWER = 4 * 1024 * 1024
"""In bytes: a schema is JSON text inside of JSON, so an answer is longer than its schema."""
MOST_SCHEMAS = 1_000
"""How many schemas the server keeps in memory. The schema of an id never changes."""
MOST_KEPT_CHARACTERS = 16 * 1024 * 1024
_AVRO = "AVRO"


@dataclass(frozen=True)
class HttpSchemaRegistries:
    """See catalog.ports.kafka.SchemaRegistries. Safe to share between threads."""

    transport: httpx.BaseTransport | None = None
    _kept: OrderedDict[tuple[str, str | None, int], RegisteredSchema] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def load_schema(
        self, registry: SchemaRegistry, password: str | None, number: int, ca: str | None
    ) -> RegisteredSchema:
        """Load a schema with all that it refers to, or take it from memory."""
        name = (registry.url, registry.username, number)
        with self._lock:
            if name in self._kept:
                self._kept.move_to_end(name)
                return self._kept[name]
        with _open(registry, password, ca, self.transport) as requests:
            answer = requests.get(f"/schemas/ids/{number}")
            texts: dict[tuple[str, int], str] = {}
            requests.load_references(answer, texts)
            schema = RegisteredSchema(number, [*texts.values(), requests.read_schema(answer)])
        if sum(map(len, schema.texts)) > LARGEST_SCHEMA:
            raise Invalid(f"schema {number} of {registry.url} has more than {LARGEST_SCHEMA:,} characters")
        self._keep(name, schema)
        return schema

    def count_subjects(self, registry: SchemaRegistry, password: str | None, ca: str | None) -> int:
        """Count the subjects that the user sees."""
        with _open(registry, password, ca, self.transport) as requests:
            subjects = requests.get("/subjects")
        if not isinstance(subjects, list):
            raise Invalid(f"{registry.url} does not answer like a schema registry", hint="check the address")
        return len(subjects)

    def _keep(self, name: tuple[str, str | None, int], schema: RegisteredSchema) -> None:
        with self._lock:
            self._kept[name] = schema
            while len(self._kept) > MOST_SCHEMAS or _count_characters(self._kept) > MOST_KEPT_CHARACTERS:
                self._kept.popitem(last=False)


def _count_characters(kept: Mapping[Any, RegisteredSchema]) -> int:
    return sum(len(text) for schema in kept.values() for text in schema.texts)


def _open(
    registry: SchemaRegistry, password: str | None, ca: str | None, transport: httpx.BaseTransport | None
) -> _Requests:
    verify = ssl.create_default_context()
    try:
        if ca is not None:
            verify.load_verify_locations(cadata=ca)
    except ssl.SSLError as error:
        raise Invalid(f"the certificates of the connection cannot be read: {error}") from error
    sign_in = None if registry.username is None else httpx.BasicAuth(registry.username, password or "")
    client = httpx.Client(
        timeout=SECONDS, follow_redirects=False, transport=transport, trust_env=False, verify=verify, auth=sign_in
    )
    return _Requests(registry.url.rstrip("/"), client, checks_host=transport is None)


@dataclass
class _Requests:
    """Requests to one registry, which end within a minute."""

    url: str
    client: httpx.Client
    checks_host: bool
    deadline: float = field(default_factory=lambda: time.monotonic() + 6 * SECONDS)

    def __enter__(self) -> Self:
        if self.checks_host:
            self._check_host()
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def get(self, path: str) -> Any:
        """The JSON of an answer. NotFound for 404, Forbidden for 401 and 403, Unavailable if nobody answers."""
        where = f"the schema registry {self.url}"
        try:
            with self.client.stream("GET", self.url + path) as answer:
                body = self._read(answer, where)
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise Unavailable(f"{where} does not answer: {reason}", hint="check that it runs there") from error
        if not answer.is_success:
            raise _describe_refusal(answer.status_code, where, path)
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise Invalid(f"{where} does not answer like a schema registry", hint="check the address") from error

    def load_references(self, answer: Any, texts: dict[tuple[str, int], str], depth: int = 0) -> None:
        """Add the texts of all schemas to which one refers, each one after those to which it refers itself."""
        references = answer.get("references") or [] if isinstance(answer, dict) else []
        if not isinstance(references, list) or depth > MOST_REFERENCES:
            raise self._refuse()
        for reference in references:
            if not isinstance(reference, dict):
                raise self._refuse()
            subject, version = reference.get("subject"), reference.get("version")
            if not isinstance(subject, str) or not isinstance(version, int):
                raise self._refuse()
            if (subject, version) in texts:
                continue
            if len(texts) >= MOST_REFERENCES:
                raise Invalid(f"a schema of {self.url} refers to more than {MOST_REFERENCES} schemas")
            referred = self.get(f"/subjects/{quote(subject, safe='')}/versions/{version}")
            self.load_references(referred, texts, depth + 1)
            texts[subject, version] = self.read_schema(referred)

    def read_schema(self, answer: Any) -> str:
        """The text of an answer's schema; NotFound if it is not one of Avro."""
        text = answer.get("schema") if isinstance(answer, dict) else None
        if not isinstance(text, str):
            raise self._refuse()
        kind = answer.get("schemaType") or _AVRO
        if kind != _AVRO:
            raise NotFound(f"the schema registry {self.url} has no Avro schema of this id, but one of {str(kind)[:20]}")
        return text

    def _read(self, answer: httpx.Response, where: str) -> bytes:
        parts, length = [], 0
        for part in answer.iter_bytes():
            parts.append(part)
            length += len(part)
            if length > LARGEST_ANSWER:
                raise Invalid(f"{where} answers with more than {LARGEST_ANSWER // 2**20} MiB")
            if time.monotonic() > self.deadline:
                raise Unavailable(f"{where} takes more than {6 * SECONDS:.0f} s to answer")
        return b"".join(parts)

    def _check_host(self) -> None:
        """Check the addresses of the host's name, which can be forbidden ones."""
        host = urlsplit(self.url).hostname or ""
        try:
            addresses = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except OSError as error:
            raise Unavailable(f"the name {host} cannot be resolved: {error.strerror or error}") from error
        for *_, address in addresses:
            check_address(str(address[0]).partition("%")[0])

    def _refuse(self) -> Invalid:
        return Invalid(f"the schema registry {self.url} has a schema that is malformed")


def _describe_refusal(status: int, where: str, path: str) -> CatalogError:
    if 300 <= status < 400:
        return Invalid(f"{where} redirects, which the server does not follow", hint="use the address of the redirect")
    if status in (401, 403):
        return Forbidden(f"{where} refuses the connection's user: status {status}")
    if status == 404:
        return NotFound(f"{where} has no {path}")
    if status in (408, 429) or status >= 500:
        return Unavailable(f"{where} answers with status {status}")
    return Invalid(f"{where} answers with status {status}")
