"""Keeps the lease of a query: heartbeats with its progress. A canceled query loses its lease."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from types import TracebackType

import httpx
from py4j.protocol import Py4JError

from firn.protocol.query_leases import QueryHeartbeat, QueryLease
from optimizer.errors import JobError, LeaseLost
from optimizer.kept_lease import KeptLease
from optimizer.spark_queries.api import QueryApi

log = logging.getLogger(__name__)
MEASURE_SECONDS = 1.0


class QueryKeeper(KeptLease):
    """The lease of a query. Its work is interrupted when it is lost, or when the process is told to stop."""

    def __init__(self, api: QueryApi, lease: QueryLease, *, stopping: threading.Event) -> None:
        seconds = lease.heartbeat_seconds
        super().__init__(lease.query_id, stopping, heartbeat_seconds=seconds, first_heartbeat_seconds=seconds)
        self.lease = lease
        self.progress: Callable[[], float | None] = lambda: None
        self._measured: tuple[float | None, dict[str, int]] = (None, {})
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="measure-query")
        self._reading: Future[tuple[float | None, dict[str, int]]] | None = None
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._reader.shutdown(wait=False)

    def _measure(self) -> tuple[float | None, dict[str, int]]:
        """Progress and memory; the last ones while Java does not answer because it is short of memory.

        Heartbeats go on then, so that the query ends with its own reason.
        """
        if self._reading is None or self._reading.done():
            self._reading = self._reader.submit(lambda: (self.progress(), self.memory()))
        try:
            self._measured = self._reading.result(MEASURE_SECONDS)
        except FutureTimeoutError:
            log.warning("Java does not answer; query %s goes on", self.lease.query_id)
        except (Py4JError, OSError) as failure:  # Java has ended: the thread of the query hears it, too
            log.warning("Java cannot be asked: %s", failure)
        return self._measured

    def _try_to_beat(self) -> None:
        try:
            progress, memory = self._measure()
            self._api.beat(self.lease, QueryHeartbeat(progress=progress, memory=memory))
            self._kept_at = time.monotonic()
        except LeaseLost as error:
            self._lost = str(error)
        except (JobError, httpx.HTTPError) as error:
            log.warning("beat failed: %s", error)
            if time.monotonic() - self._kept_at > self.lease.lease_seconds:
                self._lost = f"no heartbeat got through for {self.lease.lease_seconds:g} s: {error}"
