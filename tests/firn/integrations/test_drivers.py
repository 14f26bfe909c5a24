"""The driver for event loops: it never blocks, and reads the token again once the server has refused it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from firn.errors import Invalid, OutcomeUnknown, Unauthenticated, Unreachable
from firn.integrations.drivers import AsyncServer, run_steps_async
from firn.integrations.steps import Call, Pause, Steps
from tests.waiting import LONG


class TokenServer(ThreadingHTTPServer):
    """Takes one token, and may be slow, or close connections without an answer."""

    token = "new"
    hangs_up = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: TokenServer

    def do_GET(self) -> None:
        if self.server.hangs_up:
            self.connection.close()
            return
        is_valid = self.headers["Authorization"] == f"Bearer {self.server.token}"
        body = b'{"path": "%s"}' % self.path.encode() if is_valid else b'{"error": {"message": "who?"}}'
        self.send_response(200 if is_valid else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 -- the name that the server looks for

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@pytest.fixture
def served() -> Iterator[TokenServer]:
    with TokenServer() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def a_call(method: str = "GET") -> Steps[Any]:
    return (yield Call(method, "/x", params={"a": 1, "b": None}))


def drive(url: str, *tokens: str, steps: Steps[Any] | None = None) -> tuple[Any, int]:
    """The result, and how often the address was loaded."""
    left = list(tokens)

    async def load() -> tuple[str, str | None]:
        return url, left.pop(0) if len(left) > 1 else left[0]

    async def run() -> Any:
        server = AsyncServer(load)
        try:
            return await run_steps_async(a_call() if steps is None else steps, server)
        finally:
            await server.close()

    return asyncio.run(run()), len(tokens) - len(left)


def test_a_call_is_answered(served: TokenServer) -> None:
    assert drive(served.url, "new")[0] == {"path": "/api/v1/x?a=1"}


def test_a_token_that_was_renewed_is_read_again(served: TokenServer) -> None:
    assert drive(served.url, "old", "new")[0] == {"path": "/api/v1/x?a=1"}
    with pytest.raises(Unauthenticated, match="who"):
        drive(served.url, "old")
    with pytest.raises(Unauthenticated):
        drive(served.url, "old", "older")


@pytest.mark.parametrize(("method", "error"), [("GET", Unreachable), ("POST", OutcomeUnknown)])
def test_a_server_that_hangs_up_is_away(served: TokenServer, method: str, error: type[Exception]) -> None:
    served.hangs_up = True
    with pytest.raises(error):
        drive(served.url, "new", steps=a_call(method))


def test_nobody_there() -> None:
    with pytest.raises(Unreachable, match="no Firn server answers"):
        drive("http://127.0.0.1:9", "new")


@pytest.mark.parametrize("url", ["", "ftp://x", "firn", "http://", "http://[::"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(Invalid):
        drive(url, "new")


@pytest.mark.parametrize("token", ["a\nb", "ä"])
def test_a_token_that_is_none_is_refused(token: str) -> None:
    with pytest.raises(Invalid):
        drive("http://127.0.0.1:9", token)


def test_others_work_while_steps_pause() -> None:
    """Many tasks wait in one event loop."""

    def pause() -> Steps[str]:
        yield Pause(0.05)
        return "done"

    async def never() -> tuple[str, str | None]:
        raise AssertionError

    async def run() -> list[str]:
        return await asyncio.gather(*(run_steps_async(pause(), AsyncServer(never)) for _ in range(200)))

    assert asyncio.run(asyncio.wait_for(run(), LONG)) == ["done"] * 200
