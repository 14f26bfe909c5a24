"""The port of a server: one listening socket, or one for each of its workers."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, TypeVar

S = TypeVar("S", bound=socket.socket)

BACKLOG = 2048
"""The most connections that wait to be accepted."""


class SharedPort(socket.socket):
    """A port kept for workers: it never listens, and each process that it is handed to gets a listening socket there.

    The kernel deals connections out among those sockets. Were one socket shared, a worker would accept all that wait at
    it, and clients that come together would all be with the worker that woke first.
    """

    def __reduce__(self) -> tuple[Callable[..., socket.socket], tuple[Any, ...]]:
        """Over there it is a plain listening socket; it ends with the worker, so that nothing waits at a dead one."""
        return listen, (*self.getsockname()[:2], socket.SO_REUSEPORT)


def listen(host: str, port: int, *options: int) -> socket.socket:
    """Open a listening socket; OSError if another program has the port."""
    listener = _bind(socket.socket(_family(host), socket.SOCK_STREAM), host, port, *options)
    listener.listen(BACKLOG)
    return listener


def share(host: str, port: int) -> SharedPort:
    """Reserve a port for workers; OSError if another program has it."""
    with _bind(socket.socket(_family(host), socket.SOCK_STREAM), host, port) as alone:
        port = alone.getsockname()[
            1
        ]  # bound exclusively first, because another server's workers would share their port
    return _bind(SharedPort(_family(host), socket.SOCK_STREAM), host, port, socket.SO_REUSEPORT)


def _bind(unbound: S, host: str, port: int, *options: int) -> S:
    for option in (socket.SO_REUSEADDR, *options):
        unbound.setsockopt(socket.SOL_SOCKET, option, 1)
    try:
        unbound.bind((host, port))
    except OSError:
        unbound.close()
        raise
    return unbound


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
