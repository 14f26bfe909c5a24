"""Proxies that lose, delay, repeat or invent answers, so that a client does not learn the outcome of its request."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

Loses = Callable[[str, str], bool]
Forward = Callable[[], httpx.Response]
"""Sends the request to the target and returns its answer; each call sends it once more."""
Meddle = Callable[[str, str, Forward], httpx.Response | None]
"""Chooses the answer to a request by method and path; None closes the connection without an answer."""
_HOP = {"connection", "content-length", "transfer-encoding", "keep-alive", "host", "content-encoding"}
_MADE_UP = {"error": {"message": "made up by the proxy", "type": "CommitFailedException", "code": 409}}


@dataclass
class Proxy:
    """The proxy's address, and the requests (method and path) whose answers it lost."""

    url: str
    lost: list[str] = field(default_factory=list)


@contextmanager
def lossy_proxy(target: str, loses: Loses, answers: Mapping[str, int] | None = None) -> Iterator[Proxy]:
    """Forward all requests to the target, but close the connection without an answer if `loses` says so.

    `answers` maps the end of a path to a status: the proxy answers a POST there without the target.
    """

    def meddle(method: str, path: str, forward: Forward) -> httpx.Response | None:
        status = next((code for end, code in (answers or {}).items() if path.endswith(end)), None)
        if status is not None and method == "POST":
            return httpx.Response(status, json=_MADE_UP)
        answer = forward()
        return None if loses(method, path) else answer

    with meddling_proxy(target, meddle) as proxy:
        yield proxy


class _Handler(BaseHTTPRequestHandler):
    """Sends every request through `meddle` of its server."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {key: value for key, value in self.headers.items() if key.lower() not in _HOP}

        def forward() -> httpx.Response:
            url = f"{self.server.target}{self.path}"
            return self.server.http.request(self.command, url, content=body, headers=headers)

        answer = self.server.meddle(self.command, self.path, forward)
        if answer is None:
            self.server.proxy.lost.append(f"{self.command} {self.path}")
            self.close_connection = True
            return
        self._say(answer)

    def _say(self, answer: httpx.Response) -> None:
        self.send_response(answer.status_code)
        for key, value in answer.headers.items():
            if key.lower() not in _HOP:
                self.send_header(key, value)
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.content)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _handle  # noqa: N815 -- http.server's names

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the server under test has a log."""


class _Server(ThreadingHTTPServer):
    """Listens on a port of its own."""

    daemon_threads = True

    def __init__(self, target: str, meddle: Meddle, http: httpx.Client) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target, self.meddle, self.http = target, meddle, http
        self.proxy = Proxy(f"http://127.0.0.1:{self.server_port}")


@contextmanager
def meddling_proxy(target: str, meddle: Meddle) -> Iterator[Proxy]:
    """Every request goes through `meddle`, each in a thread of its own."""
    with httpx.Client(timeout=60) as http, _Server(target, meddle, http) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.proxy
        finally:
            server.shutdown()
            thread.join()
