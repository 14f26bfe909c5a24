"""Keeps the lease of a query: heartbeats with its progress. A canceled query loses its lease."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import httpx

from firn.protocol.query_leases import QueryHeartbeat, QueryLease
from optimizer.errors import JobError, LeaseLost
from optimizer.kept_lease import KeptLease
from optimizer.spark_queries.api import QueryApi

log = logging.getLogger(__name__)


class QueryKeeper(KeptLease):
    """The lease of a query. Its work is interrupted when it is lost, or when the process is told to stop."""

    def __init__(self, api: QueryApi, lease: QueryLease, *, stopping: threading.Event) -> None:
        seconds = lease.heartbeat_seconds
        super().__init__(lease.query_id, stopping, heartbeat_seconds=seconds, first_heartbeat_seconds=seconds)
        self.lease = lease
        self.progress: Callable[[], float | None] = lambda: None
        self._api = api
        self._kept_at = time.monotonic()

    @property
    def is_to_end(self) -> bool:
        """Whether the query has to end."""
        return self.is_lost or self._stopping.is_set()

    def check(self) -> None:
        """Raise LeaseLost if the query has to end."""
        if self.is_to_end:
            raise LeaseLost(self._lost or "the optimizer stops")

    def _try_to_beat(self) -> None:
        try:
            self._api.beat(self.lease, QueryHeartbeat(progress=self.progress(), memory=self.memory()))
            self._kept_at = time.monotonic()
        except LeaseLost as error:
            self._lost = str(error)
        except (JobError, httpx.HTTPError) as error:
            log.warning("beat failed: %s", error)
            if time.monotonic() - self._kept_at > self.lease.lease_seconds:
                self._lost = f"no heartbeat got through for {self.lease.lease_seconds:g} s: {error}"
