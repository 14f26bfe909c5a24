"""One client per metastore, shared by all catalogs with this metastore."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace

from catalog.ports.metastore import Metastore
from server.metastore.client import HiveMetastore
from server.metastore.locks import LockSettings
from server.metastore.pool import MetastoreSettings
from server.metastore.security import MetastoreSecurity


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreWays:
    """Time-outs, connections, security and locks of every metastore client."""

    connect_timeout_seconds: float
    read_timeout_seconds: float
    connections: int
    security: MetastoreSecurity = field(default_factory=MetastoreSecurity)
    locks: LockSettings = field(default_factory=LockSettings)


@dataclass(frozen=True)
class MetastoreRegistry:
    """See catalog.ports.hive.Metastores."""

    ways: MetastoreWays
    _clients: dict[str, HiveMetastore] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, uri: str) -> Metastore:
        """Get the client for these addresses; Invalid when they cannot be parsed."""
        with self._lock:
            if uri not in self._clients:
                settings = replace(
                    MetastoreSettings.parse(uri),
                    connect_timeout_seconds=self.ways.connect_timeout_seconds,
                    read_timeout_seconds=self.ways.read_timeout_seconds,
                    connections=self.ways.connections,
                    security=self.ways.security,
                    locks=self.ways.locks,
                )
                self._clients[uri] = HiveMetastore(settings)
            return self._clients[uri]
