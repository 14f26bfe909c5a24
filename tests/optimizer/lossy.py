"""A proxy that loses answers: what was asked is done, and nobody hears of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
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
def lossy_proxy(target: str, loses: Loses) -> Iterator[Proxy]:
    """Forward everything to the target, but close the connection instead of answering what `loses` picks."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {key: value for key, value in self.headers.items() if key.lower() not in _HOP}
            answer = http.request(self.command, f"{target}{self.path}", content=body, headers=headers)
            if loses(self.command, self.path):
                proxy.lost.append(f"{self.command} {self.path}")
                self.close_connection = True
                return
            self.send_response(answer.status_code)
            for key, value in answer.headers.items():
                if key.lower() not in _HOP:
                    self.send_header(key, value)
            self.send_header("Content-Length", "0" if answer.status_code in (204, 304) else str(len(answer.content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.content)

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
