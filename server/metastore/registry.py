"""One client per metastore, shared by all catalogs that are linked to it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace

from catalog.hive.ports import Metastore
from server.metastore.client import HiveMetastore
from server.metastore.pool import MetastoreSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreTimes:
    """Time-outs and connections of every metastore client."""

    connect_seconds: float
    read_seconds: float
    connections: int


@dataclass(frozen=True)
class MetastoreRegistry:
    """See catalog.ports.hive.Metastores."""

    times: MetastoreTimes
    _clients: dict[str, HiveMetastore] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, uri: str) -> Metastore:
        """The metastore at these addresses; Invalid when they are none."""
        with self._lock:
            if uri not in self._clients:
                settings = replace(
                    MetastoreSettings.parse(uri),
                    connect_seconds=self.times.connect_seconds,
                    read_seconds=self.times.read_seconds,
                    connections=self.times.connections,
                )
                self._clients[uri] = HiveMetastore(settings)
            return self._clients[uri]
