"""GET and token requests to an address that a user has named: no redirects, bounded in time and size.

What a stranger's server answers is not passed on, but for the words of an Iceberg error: somebody who may start imports
must not be able to read with the server's eyes what else answers HTTP inside its network.
"""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx
import orjson

from catalog.errors import CatalogError, Forbidden, Invalid, NotFound, Unavailable
from catalog.imports.spec import check_address

CONNECT_SECONDS = 5.0
READ_SECONDS = 30.0
WHOLE_SECONDS = 120.0
LARGEST_ANSWER = 64 * 1024 * 1024
_SHOWN = 300


class Web:
    """One host's HTTP. Safe to share between threads."""

    def __init__(self, url: str, transport: httpx.BaseTransport | None = None) -> None:
        """Nothing is sent yet."""
        self._url = url
        timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
        # A proxy that the environment names is for the world outside: it knows another 127.0.0.1 than we do.
        self._http = httpx.Client(
            timeout=timeout, follow_redirects=False, transport=transport, trust_env=not _is_loopback(url)
        )
        self._looked_up = transport is not None

    def get(self, url: str, params: Mapping[str, str], headers: Mapping[str, str]) -> Any:
        """The answer's JSON; see `catalog.ports.imports.ForeignCatalog` for failures."""
        return self._answer(
            self._http.build_request("GET", url, params=dict(params), headers={"Accept": "application/json", **headers})
        )

    def post_form(self, url: str, form: Mapping[str, str]) -> Any:
        """The same, after sending a form."""
        return self._answer(self._http.build_request("POST", url, data=dict(form)))

    def close(self) -> None:
        """Let connections go."""
        self._http.close()

    def _answer(self, request: httpx.Request) -> Any:
        where = f"{request.url.scheme}://{request.url.netloc.decode()}{request.url.path}"
        self._check_host(request.url.host)
        try:
            answer = self._http.send(request, stream=True)
            try:
                body = _bounded(answer, where)
            finally:
                answer.close()
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise Unavailable(f"{where} does not answer: {reason}", hint="check that the catalog runs there") from error
        if answer.is_success:
            return _parsed(body, where)
        raise _refusal(answer.status_code, body, where)

    def _check_host(self, host: str) -> None:
        """A name may lead where no address may; looked up once, so a name that changes afterwards is not noticed."""
        if self._looked_up:
            return
        try:
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except OSError as error:
            raise Unavailable(f"the name {host} cannot be looked up: {error.strerror or error}") from error
        for *_, address in found:
            check_address(str(address[0]).partition("%")[0])
        self._looked_up = True


def _bounded(answer: httpx.Response, where: str) -> bytes:
    """The body, unless it is longer or slower than any catalog's."""
    parts, length, deadline = [], 0, time.monotonic() + WHOLE_SECONDS
    for part in answer.iter_bytes():
        parts.append(part)
        length += len(part)
        if length > LARGEST_ANSWER:
            raise Invalid(f"{where} answers with more than {LARGEST_ANSWER // 2**20} MiB")
        if time.monotonic() > deadline:
            raise Unavailable(f"{where} takes more than {WHOLE_SECONDS:.0f} s for one answer")
    return b"".join(parts)


def _parsed(body: bytes, where: str) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Invalid(f"{where} does not answer like an Iceberg REST catalog", hint="check the address") from error


def _refusal(status: int, body: bytes, where: str) -> CatalogError:
    said = f"{where} answers {status}{_words(body)}"
    if 300 <= status < 400:
        return Invalid(f"{where} redirects elsewhere, which is not followed", hint="give the address it leads to")
    if status in (401, 403):
        return Forbidden(said, hint="give a token or a credential that may read there")
    if status == 404:
        return NotFound(said)
    if status in (408, 429) or status >= 500:
        return Unavailable(said)
    return Invalid(said)


def _words(body: bytes) -> str:
    """What an Iceberg catalog says in its error; nothing of any other answer."""
    try:
        message = orjson.loads(body)["error"]["message"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return ""
    return f": {message[:_SHOWN]}" if isinstance(message, str) else ""


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return False
