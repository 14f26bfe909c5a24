"""An API server of Kubernetes that records what spark-submit asks for, and lets the driver's pod end at once."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_MISSING = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}


@dataclass
class RecordedKubernetes:
    """The requests, and the exit code with which the driver ends."""

    exit_code: int = 0
    port: int = 0
    created: list[dict[str, Any]] = field(default_factory=list)

    @property
    def master(self) -> str:
        return f"k8s://http://127.0.0.1:{self.port}"

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [created for created in self.created if created["kind"] == kind]

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if method in ("POST", "PATCH", "PUT"):
            if method == "POST" or (method == "PATCH" and "force=true" in path):
                self.created.append(body)
            metadata = {"uid": "u1", "namespace": "default", **body.get("metadata", {})}
            return 201, {**body, "metadata": metadata}
        pods = self.of_kind("Pod")
        if method == "GET" and "/pods/" in path and pods:
            return 200, {**pods[-1], "metadata": {"uid": "u1", **pods[-1]["metadata"]}, "status": self._status()}
        return 404, {**_MISSING, "message": f"{path} not found"}

    def _status(self) -> dict[str, Any]:
        ended = {"exitCode": self.exit_code, "reason": "Error" if self.exit_code else "Completed"}
        container = {"name": "spark-kubernetes-driver", "image": "i", "imageID": "i", "state": {"terminated": ended}}
        return {"phase": "Failed" if self.exit_code else "Succeeded", "containerStatuses": [container]}


@contextmanager
def recorded_kubernetes() -> Iterator[RecordedKubernetes]:
    """Run it on a free port of the loopback."""
    recorded = RecordedKubernetes()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if "watch=true" in self.path:
                status, answer = 200, b""  # no event comes: the pod has ended already
            else:
                document = json.loads(body) if body[:1] == b"{" else {}
                status, described = recorded.answer(self.command, self.path, document)
                answer = json.dumps(described).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815 -- names of http.server

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    recorded.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield recorded
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
