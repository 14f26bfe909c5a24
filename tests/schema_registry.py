"""A schema registry for tests: a small HTTP server that speaks the four routes used, and records in its wire format."""

from __future__ import annotations

import base64
import io
import json
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

import fastavro


@dataclass
class Registry:
    """Schemas by subject and version. `answers` replaces the answer of a path: its status and its body."""

    user: tuple[str, str] | None = None
    subjects: dict[str, list[int]] = field(default_factory=dict)
    schemas: list[dict[str, Any]] = field(default_factory=list)
    answers: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    url: str = ""

    def register(self, subject: str, schema: Any, **more: Any) -> int:
        """Register a schema under a subject, and return its id."""
        self.schemas.append({"schema": json.dumps(schema), **more})
        self.subjects.setdefault(subject, []).append(len(self.schemas))
        return len(self.schemas)

    def answer(self, path: str) -> tuple[int, bytes]:
        self.requests.append(path)
        if path in self.answers:
            return self.answers[path]
        match [unquote(part) for part in path.strip("/").split("/")]:
            case ["subjects"]:
                return 200, json.dumps([*self.subjects]).encode()
            case ["schemas", "ids", number] if 0 < int(number) <= len(self.schemas):
                return 200, json.dumps(self.schemas[int(number) - 1]).encode()
            case ["subjects", subject, "versions", version] if subject in self.subjects:
                id_ = self.subjects[subject][int(version) - 1]
                about = {"subject": subject, "version": int(version), "id": id_}
                return 200, json.dumps({**about, **self.schemas[id_ - 1]}).encode()
            case _:
                return 404, b'{"error_code": 40403, "message": "not found"}'


@contextmanager
def running_registry(user: tuple[str, str] | None = None) -> Iterator[Registry]:
    """A registry on loopback; with `user`, it wants this name and password."""
    registry = Registry(user)
    wanted = None if user is None else "Basic " + base64.b64encode(":".join(user).encode()).decode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_known = wanted is None or self.headers.get("Authorization") == wanted
            status, body = registry.answer(self.path) if is_known else (401, b"{}")
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", body.decode())
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            subject = unquote(self.path.strip("/").split("/")[1])
            answer = json.dumps({"id": registry.register(subject, json.loads(body["schema"]))}).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            """Tests read no log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def record(name: str, /, **types: Any) -> dict[str, Any]:
    """A schema of a record."""
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": column, "type": type_} for column, type_ in types.items()],
    }


def encode(number: int, schema: Any, value: Any) -> bytes:
    """A key or value as Confluent's serializers write it."""
    data = io.BytesIO()
    fastavro.schemaless_writer(data, fastavro.parse_schema(schema), value)
    return struct.pack(">bi", 0, number) + data.getvalue()


def nullable(type_: Any) -> list[Any]:
    """The type, or null."""
    return ["null", type_]


def logical(type_: str, name: str, **more: Any) -> Mapping[str, Any]:
    """A logical type."""
    return {"type": type_, "logicalType": name, **more}
