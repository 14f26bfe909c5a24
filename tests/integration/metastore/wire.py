"""A relay before the real metastore that can lose answers and break connections."""

from __future__ import annotations

import contextlib
import socket
import threading


class Wire:
    """A relay before the real metastore that can lose answers and break connections."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.lose_answers_to: bytes | None = None
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def uri(self) -> str:
        return f"thrift://127.0.0.1:{self._listener.getsockname()[1]}"

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            far = socket.create_connection(self._target)
            self._open += [near, far]
            lost = threading.Event()
            threading.Thread(target=self._pump, args=(near, far, lost), kwargs={"forth": True}, daemon=True).start()
            threading.Thread(target=self._pump, args=(far, near, lost), kwargs={"forth": False}, daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, lost: threading.Event, *, forth: bool) -> None:
        try:
            while data := source.recv(65536):
                if forth and self.lose_answers_to and self.lose_answers_to in data:
                    lost.set()
                if not forth and lost.is_set():
                    break
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            hang_up(end)

    def break_connections(self) -> None:
        for end in self._open:
            hang_up(end)
        self._open = []

    def close(self) -> None:
        self._listener.close()
        self.break_connections()


def hang_up(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
