"""A load generator for HTTP that costs next to nothing: prepared requests, kept connections, one thread, no parsing.

Each client sends its next request as soon as its last one is answered. What the generator itself needs of a CPU is
reported with the result: while that is far from a whole core, it is not what limits the rate.
"""

from __future__ import annotations

import selectors
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_BUFFER = 1 << 20
_LAST_CHUNK = b"0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Driven:
    """What one run of load saw; times in seconds."""

    answers: int
    errors: int
    seconds: float
    cpu_seconds: float
    latencies: Sequence[float]
    bytes: int

    @property
    def rate(self) -> float:
        """Good answers per second."""
        return (self.answers - self.errors) / self.seconds

    def quantile(self, share: float) -> float:
        """The latency that this share of answers did not exceed."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


@dataclass(slots=True)
class _Client:
    """One connection and where its answer stands."""

    socket: socket.socket
    requests: Iterator[bytes]
    sent_at: float = 0.0
    head: bytearray = field(default_factory=bytearray)
    missing: int = 0
    status: int = 0
    chunked: bool = False
    tail: bytes = b""

    def send(self) -> bool:
        """The next request, if there is one."""
        request = next(self.requests, None)
        if request is None:
            return False
        self.sent_at, self.missing, self.status, self.tail = time.perf_counter(), 0, 0, b""
        self.head.clear()
        self.socket.sendall(request)
        return True

    def take(self, data: memoryview) -> bool:
        """Some of the answer; True when it is whole."""
        if not self.status:
            self.head += data
            end = self.head.find(b"\r\n\r\n")
            if end < 0:
                return False
            lines = bytes(self.head[:end]).lower()
            self.status = int(lines[9:12])
            at = lines.find(b"content-length:")
            length = 0 if at < 0 else int(lines[at + 15 :].partition(b"\r\n")[0])
            self.chunked = b"transfer-encoding: chunked" in lines
            self.missing = length - (len(self.head) - end - 4)
        else:
            self.missing -= len(data)
        if self.chunked:
            self.tail = (self.tail + bytes(data[-len(_LAST_CHUNK) :]))[-len(_LAST_CHUNK) :]
            return self.tail == _LAST_CHUNK
        return self.missing <= 0


def drive(address: tuple[str, int], clients: Sequence[Iterator[bytes]], seconds: float) -> Driven:
    """Send for some seconds, or until every client has sent all it has; each iterator is one client's requests."""
    buffer = memoryview(bytearray(_BUFFER))
    latencies: list[float] = []
    errors = received = 0
    with selectors.DefaultSelector() as selector:
        for requests in clients:
            connection = socket.create_connection(address)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(connection, selectors.EVENT_READ, _Client(connection, requests))
        began, cpu = time.perf_counter(), time.process_time()
        for key in list(selector.get_map().values()):
            key.data.send()
        until = began + seconds
        while selector.get_map():
            for key, _ in selector.select():
                client: _Client = key.data
                count = client.socket.recv_into(buffer)
                if not count:
                    raise ConnectionError("the server closed a connection")
                received += count
                if not client.take(buffer[:count]):
                    continue
                now = time.perf_counter()
                latencies.append(now - client.sent_at)
                if client.status >= 400:
                    errors += 1
                    print(f"answer {client.status}: {bytes(client.head)[:500]!r}", file=sys.stderr)
                if now >= until or not client.send():
                    selector.unregister(client.socket)
                    client.socket.close()  # a server hangs up on who is silent
        ended, cpu = time.perf_counter(), time.process_time() - cpu
    return Driven(len(latencies), errors, ended - began, cpu, latencies, received)


def request(method: str, path: str, body: bytes = b"", headers: str = "") -> bytes:
    """A request as it goes over the wire."""
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n"
    kind = "Content-Type: application/json\r\n" if body else ""
    return f"{head}{kind}{headers}\r\n".encode() + body
