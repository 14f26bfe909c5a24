"""A proxy that loses answers: what was asked is done, and nobody hears of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

Loses = Callable[[str, str], bool]
_HOP = {"connection", "content-length", "transfer-encoding", "keep-alive", "host", "content-encoding"}


@dataclass
class Proxy:
    """Where it listens, and which answers (by method and path) it lost."""

    url: str
    lost: list[str] = field(default_factory=list)


@contextmanager
def lossy_proxy(target: str, loses: Loses, answers: Mapping[str, int] | None = None) -> Iterator[Proxy]:
    """Forward everything to the target, but close the connection instead of answering what `loses` picks.

    `answers` gives commits on paths with these ends a status without asking the target.
    """
    made_up = {"error": {"message": "made up by the proxy", "type": "CommitFailedException", "code": 409}}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status = next((code for end, code in (answers or {}).items() if self.path.endswith(end)), None)
            if status is not None and self.command == "POST":
                self._say(status, json.dumps(made_up).encode(), {})
                return
            headers = {key: value for key, value in self.headers.items() if key.lower() not in _HOP}
            answer = http.request(self.command, f"{target}{self.path}", content=body, headers=headers)
            if loses(self.command, self.path):
                proxy.lost.append(f"{self.command} {self.path}")
                self.close_connection = True
                return
            self._say(answer.status_code, answer.content, answer.headers)

        def _say(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
            self.send_response(status)
            for key, value in headers.items():
                if key.lower() not in _HOP:
                    self.send_header(key, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _forward  # noqa: N815 -- http.server's names

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: the server under test has a log."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server, httpx.Client(timeout=60) as http:
        server.daemon_threads = True
        proxy = Proxy(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield proxy
        finally:
            server.shutdown()
            thread.join()
