"""Several worker processes behind one port, because one Python process uses only one core.

Each worker is a whole server, with services and caches of its own; what they have to agree on they agree on through the
database, as servers on several machines do. The parent only starts them, and starts another when one dies.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import threading
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized

import uvicorn
from starlette.types import ASGIApp
from uvicorn.supervisors import Multiprocess

from server import logs
from server.adapters import connect_database
from server.app import create_app
from server.background.registry import build_background
from server.container import build_services
from server.prometheus import share_counts
from server.read_timeouts import TimedProtocol
from server.settings import Settings


@dataclass(frozen=True)
class Worker:
    """The arguments of a worker process; calling it there creates the application."""

    settings: Settings
    announcement: str
    answering: Synchronized[int]
    """The number of ready workers; the last one prints the announcement."""

    def __call__(self) -> ASGIApp:
        """The application of this process, which ends when its parent does, however that ends."""
        logs.configure(self.settings.log_level)
        threading.Thread(target=_end_with_parent, daemon=True).start()
        services = build_services(self.settings, connect_database(self.settings))
        return create_app(self.settings, services, build_background(self.settings, services), self._ready)

    def _ready(self) -> None:
        with self.answering.get_lock():
            self.answering.value += 1
            if self.answering.value == self.settings.workers:
                print(self.announcement, flush=True)  # noqa: T201 (the one line that a server says)


def serve_with_workers(settings: Settings, shared: socket.socket, announcement: str) -> None:
    """Run the workers until a signal; `shared` is a port that `server.port.share` reserved."""
    share_counts(settings.data_dir.absolute() / "metrics")
    answering: Synchronized[int] = multiprocessing.get_context("spawn").Value("i", 0)
    config = uvicorn.Config(
        Worker(settings, announcement, answering),
        factory=True,
        workers=settings.workers,
        timeout_worker_healthcheck=60,  # a worker answers only after all its imports
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=10,
        lifespan="on",
        http=TimedProtocol,
        ws="none",
    )
    _Workers(config, sockets=[shared]).run()


class _Workers(Multiprocess):
    """Uvicorn's parent of workers, with its own copy of their end of the line hung up.

    It asks each worker whether it lives. While it holds their end too, it never hears that one it waits for is gone:
    nothing is replaced, and no signal heeded, until the answer is overdue.
    """

    def init_processes(self) -> None:
        super().init_processes()
        self._hang_up()

    def keep_subprocess_alive(self) -> None:
        super().keep_subprocess_alive()
        self._hang_up()

    def _hang_up(self) -> None:
        for process in self.processes:
            process.child_conn.close()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
