"""A proxy in front of a metastore that counts the calls which pass through it, by method."""

from __future__ import annotations

import re
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field

_CHUNK = 1 << 16
_CALL = re.compile(rb"\x80\x01\x00[\x01\x04]\x00\x00\x00.([A-Za-z_]{3,60})", re.DOTALL)
"""A message of Thrift's strict binary protocol begins with its version, its kind, and the length of its name."""


@dataclass
class CallCounter:
    """The calls so far."""

    uri: str = ""
    calls: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, sent: bytes) -> None:
        """Count the call that a client's bytes begin: it sends one, and waits for the answer."""
        if (call := _CALL.match(sent)) is not None:
            with self._lock:
                self.calls[call.group(1).decode()] += 1

    def since(self, before: Counter[str]) -> Counter[str]:
        """The calls that came after a copy of `calls` was taken."""
        return self.calls - before


@contextmanager
def count_calls(host: str, port: int) -> Iterator[CallCounter]:
    """Listen on a free port, and pass everything on to the metastore."""
    counter = CallCounter()
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        counter.uri = f"thrift://127.0.0.1:{listener.getsockname()[1]}"
        threading.Thread(target=_accept, args=(listener, (host, port), counter), daemon=True).start()
        yield counter


def _accept(listener: socket.socket, target: tuple[str, int], counter: CallCounter) -> None:
    with suppress(OSError):  # the listener is closed at the end
        while True:
            client, _ = listener.accept()
            metastore = socket.create_connection(target)
            for side in (client, metastore):
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=_pass_on, args=(client, metastore, counter), daemon=True).start()
            threading.Thread(target=_pass_on, args=(metastore, client, None), daemon=True).start()


def _pass_on(source: socket.socket, target: socket.socket, counter: CallCounter | None) -> None:
    with suppress(OSError):
        while sent := source.recv(_CHUNK):
            if counter is not None:
                counter.count(sent)
            target.sendall(sent)
    for side in (source, target):
        with suppress(OSError):
            side.shutdown(socket.SHUT_RDWR)
        side.close()
