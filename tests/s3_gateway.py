"""A gateway to moto's S3 that enforces session policies: moto hands out credentials, and lets them do everything."""

from __future__ import annotations

import http.client
import json
import math
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

_CREDENTIAL = re.compile(r"Credential=([^/,]+)/")
_NEW_KEY = re.compile(rb"<AccessKeyId>([^<]+)</AccessKeyId>")
_PART_OF_PATTERN = re.compile(r"\$\{[*?$]\}|\*|\?|[^*?$]+|\$")
_DENIED = b"<Error><Code>AccessDenied</Code><Message>the session policy does not allow it</Message></Error>"


@dataclass
class Gateway:
    """Its address, the requests that were refused, and the requests of sessions that were allowed."""

    url: str = ""
    denied: list[tuple[str, str]] = field(default_factory=list)
    allowed: list[tuple[str, str]] = field(default_factory=list)
    policies: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    session_seconds: float | None = None
    """For how long new sessions are valid; None for ever."""
    ends: dict[str, float] = field(default_factory=dict)
    """The time on the monotonic clock when a session ends."""

    def written(self) -> set[str]:
        """The keys, with their bucket, that sessions have written."""
        return {resource for action, resource in self.allowed if action == "s3:PutObject"}

    def is_allowed(self, key_id: str, action: str, resource: str, prefix: str | None) -> bool:
        """Whether the policy of the key's session allows an action; keys without a session may do everything."""
        statements = self.policies.get(key_id)
        if statements is None:
            return True
        is_allowed = time.monotonic() < self.ends.get(key_id, math.inf) and any(
            _allows(statement, action, resource, prefix) for statement in statements
        )
        (self.allowed if is_allowed else self.denied).append((action, resource))
        return is_allowed


@contextmanager
def enforcing_s3(moto: str) -> Iterator[Gateway]:
    """Run a gateway in front of moto; it ends at the end."""
    gateway = Gateway()
    handler = type("Handler", (_Handler,), {"gateway": gateway, "moto": urlsplit(moto).netloc})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    gateway.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield gateway
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    gateway: ClassVar[Gateway]
    moto: ClassVar[str]

    def _pass(self) -> None:
        body = self._read_body()
        key_id = self._find_key()
        for action, resource, prefix in _list_actions(self.command, self.path, body):
            if not self.gateway.is_allowed(key_id, action, resource, prefix):
                self._answer(403, {"Content-Type": "application/xml"}, _DENIED)
                return
        upstream = http.client.HTTPConnection(self.moto, timeout=60)
        hop = {"connection", "transfer-encoding", "expect", "content-length"}
        headers = {name: value for name, value in self.headers.items() if name.lower() not in hop}
        upstream.request(self.command, self.path, body, {**headers, "Content-Length": str(len(body))})
        response = upstream.getresponse()
        data = response.read()
        self._remember_session(body, data)
        kept = {name: value for name, value in response.getheaders() if name.lower() not in hop}
        if self.command == "HEAD":
            kept["Content-Length"] = response.getheader("Content-Length") or "0"
        self._answer(response.status, kept, data)
        upstream.close()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass  # noqa: N815 - the names are those of http.server

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def _find_key(self) -> str:
        query = parse_qs(urlsplit(self.path).query).get("X-Amz-Credential", [""])[0]
        match = _CREDENTIAL.search(self.headers.get("Authorization", "") or f"Credential={query}")
        return match[1] if match else ""

    def _remember_session(self, body: bytes, answer: bytes) -> None:
        form = parse_qs(body.decode(errors="replace")) if b"Action=AssumeRole" in body else {}
        key = _NEW_KEY.search(answer)
        if "Policy" in form and key is not None:
            self.gateway.policies[key[1].decode()] = json.loads(form["Policy"][0])["Statement"]
            if self.gateway.session_seconds is not None:
                self.gateway.ends[key[1].decode()] = time.monotonic() + self.gateway.session_seconds

    def _answer(self, status: int, headers: Mapping[str, str], data: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _list_actions(method: str, target: str, body: bytes) -> Iterator[tuple[str, str, str | None]]:
    """The actions of a request in path style, each with its resource, and the prefix of a listing."""
    parts = urlsplit(target)
    bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
    query = parse_qs(parts.query, keep_blank_values=True)
    if not bucket:
        return
    if not key:
        if method == "POST" and "delete" in query:
            for name in re.findall(rb"<Key>([^<]+)</Key>", body):
                yield "s3:DeleteObject", f"{bucket}/{name.decode()}", None
            return
        yield "s3:ListBucket", bucket, query.get("prefix", [""])[0]
        return
    actions = {"GET": "s3:GetObject", "HEAD": "s3:GetObject", "PUT": "s3:PutObject", "POST": "s3:PutObject"}
    aborts = method == "DELETE" and "uploadId" in query
    yield "s3:AbortMultipartUpload" if aborts else actions.get(method, "s3:DeleteObject"), f"{bucket}/{key}", None


def _allows(statement: Mapping[str, Any], action: str, resource: str, prefix: str | None) -> bool:
    if action not in statement["Action"]:
        return False
    if not any(_matches(pattern.partition(":::")[2], resource) for pattern in statement["Resource"]):
        return False
    prefixes = statement.get("Condition", {}).get("StringLike", {}).get("s3:prefix")
    return prefixes is None or any(_matches(pattern, prefix or "") for pattern in prefixes)


def _matches(pattern: str, value: str) -> bool:
    wild = {"*": ".*", "?": "."}
    parts = (part for part in _PART_OF_PATTERN.findall(pattern))
    regular = "".join(
        re.escape(part[2]) if part.startswith("${") else wild.get(part, re.escape(part)) for part in parts
    )
    return re.fullmatch(regular, value, re.DOTALL) is not None
