"""Connections to one or more metastores with the same database."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from puresasl import SASLError
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.Thrift import TException

from catalog.errors import Unavailable
from catalog.locations.paths import parse_metastore_address, parse_metastore_uris
from server.metastore.calls import HiveClient
from server.metastore.locks import LockSettings
from server.metastore.security import Authentication, MetastoreSecurity


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreSettings:
    """The addresses of the metastores, time-outs, security and locks."""

    uris: tuple[str, ...]
    connect_timeout_seconds: float = 5.0
    read_timeout_seconds: float = 60.0
    connections: int = 8
    idle_seconds: float = 300.0
    security: MetastoreSecurity = field(default_factory=MetastoreSecurity)
    locks: LockSettings = field(default_factory=LockSettings)

    @classmethod
    def parse(cls, uris: str) -> MetastoreSettings:
        """Parse addresses like `thrift://a:9083,thrift://b:9083`, the format of Hive's setting; Invalid."""
        return cls(uris=parse_metastore_uris(uris))


class Connection:
    """One open socket and its client; used by one thread at a time."""

    def __init__(self, uri: str, settings: MetastoreSettings) -> None:
        """Connect; TException, OSError or SASLError when the metastore does not answer or refuses."""
        host, port = parse_metastore_address(uri)
        security = settings.security
        socket = security.socket(host, port)
        socket.setTimeout(settings.connect_timeout_seconds * 1000)
        self._transport = security.transport(socket, host)
        try:
            self._transport.open()
            self.client = HiveClient(TBinaryProtocolAccelerated(self._transport))
            if security.authentication is Authentication.NONE and security.user is not None:
                self.client.set_ugi(security.user, [])
        except BaseException:
            if socket.handle is not None:
                socket.close()
            raise
        socket.setTimeout(settings.read_timeout_seconds * 1000)
        self.uri = uri
        self.idle_since = time.monotonic()

    def close(self) -> None:
        self._transport.close()


@dataclass(frozen=True, slots=True)
class _Turn:
    """A permit to use a connection. A class, because contextlib tries to modify thrift's immutable exceptions."""

    turns: threading.BoundedSemaphore
    settings: MetastoreSettings

    def __enter__(self) -> None:
        if not self.turns.acquire(timeout=self.settings.read_timeout_seconds):
            raise Unavailable(
                f"all {self.settings.connections} connections to the Hive metastore are busy",
                hint="Allow more metastore connections, or check why the metastore is slow.",
            )

    def __exit__(self, *_: object) -> None:
        self.turns.release()


class Pool:
    """A pool of at most `connections` open connections; callers wait for a free one."""

    def __init__(self, settings: MetastoreSettings) -> None:
        self._settings = settings
        self._turns = threading.BoundedSemaphore(settings.connections)
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._uris: Sequence[str] = settings.uris

    def turn(self) -> AbstractContextManager[object]:
        """Get a permit to use one connection; Unavailable when all stay busy for the read time-out."""
        return _Turn(self._turns, self._settings)

    def idle(self) -> Connection | None:
        """Take a recently used connection, which may have died since; None if there is none."""
        limit = time.monotonic() - self._settings.idle_seconds
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is not None and connection.idle_since < limit:
            connection.close()
            return None
        return connection

    def connect(self) -> Connection:
        """Connect to the first metastore that accepts; Unavailable when none does, and then nothing was sent."""
        reasons = []
        for uri in self._uris:
            try:
                connection = Connection(uri, self._settings)
            except (TException, OSError, SASLError) as error:
                reason = getattr(error, "inner", None) or getattr(error, "message", None) or error
                reasons.append(f"{uri}: {reason}")
                self.avoid(uri)
                continue
            return connection
        raise Unavailable(
            f"no Hive metastore can be reached: {'; '.join(reasons)}",
            hint="Check that the metastore runs, that its address is right, and that FIRN_HIVE__TLS and "
            "FIRN_HIVE__AUTHENTICATION match its settings.",
        )

    def avoid(self, uri: str) -> None:
        """Close the connections to a failed metastore and prefer the others."""
        with self._lock:
            failed = [connection for connection in self._idle if connection.uri == uri]
            self._idle = [connection for connection in self._idle if connection.uri != uri]
            self._uris = [*(other for other in self._uris if other != uri), uri]
        for connection in failed:
            connection.close()

    def give_back(self, connection: Connection) -> None:
        """Return a connection whose last call was answered."""
        connection.idle_since = time.monotonic()
        with self._lock:
            self._idle.append(connection)

    def close(self) -> None:
        """Close idle connections; the others are closed by their users, or once they are idle for too long."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
