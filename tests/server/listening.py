"""An application behind a real socket, in this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from server.read_timeouts import TimedProtocol


@contextmanager
def listening(app: ASGIApp, protocol: type[TimedProtocol] = TimedProtocol) -> Iterator[str]:
    """The app's address, while a server in a thread of this process answers for it."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, lifespan="off", ws="none", http=protocol, log_config=None))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    host, port = server.servers[0].sockets[0].getsockname()
    yield f"http://{host}:{port}"
    server.should_exit = True
    thread.join()
