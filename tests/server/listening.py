"""An application behind a real socket, in this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from server.read_timeouts import TimedProtocol

PATIENCE_SECONDS = 60


class Listener:
    """A server in a thread of its own that answers for one application after another.

    To start and to stop one takes a third of a second, most of it waiting: longer than most tests.
    """

    def __init__(self, protocol: type[TimedProtocol]) -> None:
        self._app: ASGIApp | None = None
        self._running = 0
        self._idle = threading.Condition()
        config = uvicorn.Config(
            self._answer, port=0, lifespan="off", ws="none", http=protocol, log_config=None, interface="asgi3"
        )
        server = uvicorn.Server(config)
        threading.Thread(target=server.run, daemon=True).start()
        while not server.started:
            time.sleep(0.001)
        host, port = server.servers[0].sockets[0].getsockname()
        self.url = f"http://{host}:{port}"

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        assert app is not None, f"{scope['path']} is asked of an application that has ended"
        self._running += 1
        try:
            await app(scope, receive, send)
        finally:
            with self._idle:
                self._running -= 1
                self._idle.notify_all()

    def begin(self, app: ASGIApp) -> None:
        self._app = app

    def end(self) -> None:
        """Let the application answer what it was asked, and nothing more."""
        with self._idle:
            assert self._idle.wait_for(lambda: self._running == 0, PATIENCE_SECONDS), "a request does not end"
        self._app = None


_free: dict[type[TimedProtocol], list[Listener]] = {}


@contextmanager
def listening(app: ASGIApp, protocol: type[TimedProtocol] = TimedProtocol) -> Iterator[str]:
    """The app's address, while a server in a thread of this process answers for it."""
    free = _free.setdefault(protocol, [])
    listener = free.pop() if free else Listener(protocol)
    listener.begin(app)
    yield listener.url
    listener.end()
    free.append(listener)
