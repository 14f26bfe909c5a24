"""One attempt at a drain: commits what the topic has, as often as the table's `firn.log.max-lag` wants."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from dataclasses import dataclass

from firn.drains.engine import Engine
from firn.logs import LogBatch
from firn.protocol.answers.logs import LogOut
from firn.protocol.streams import StreamLease
from optimizer.client import ServerApi
from optimizer.drain_engines import DrainEngines
from optimizer.spark import SparkProcess
from optimizer.stream_keeper import StreamKeeper

SHARE = 0.5
"""The time between the beginnings of two commits, as a share of the lag at which the drain aims."""


@dataclass(frozen=True)
class DrainStream:
    """Drains the table of a lease until the attempt has to end."""

    api: ServerApi
    spark: SparkProcess
    lease: StreamLease
    engine: Engine = Engine.AUTO

    def run(self, keeper: StreamKeeper) -> None:
        """Raise StreamEnded when the lease is over or the process stops, and any error that ends the attempt."""
        with self._open(keeper) as drain:
            while True:
                began = time.monotonic()
                log = drain.look()
                keeper.measures.look(log.lag, began)
                batch = drain.plan(log)
                if batch is not None:
                    batch = _commit(drain, keeper, log, batch, began)
                if batch is None or batch.end == log.end:
                    keeper.wait_until(began + log.max_lag_seconds * SHARE)
                keeper.check()

    def _open(self, keeper: StreamKeeper) -> AbstractContextManager[DrainEngines]:
        return DrainEngines(self.api, self.spark, self.lease, keeper, self.engine)


def _commit(drain: DrainEngines, keeper: StreamKeeper, log: LogOut, planned: LogBatch, began: float) -> LogBatch:
    known = [*drain.added_columns]
    batch = drain.commit(log, planned)
    added = [name for name in drain.added_columns if name not in known]
    if added:
        keeper.say(f"added columns {', '.join(added)}: records have them")
    rows, seconds = batch.most_records, time.monotonic() - began
    keeper.measures.commit(rows, log.lag - rows, began)
    keeper.say(f"committed up to {rows:,} records in {seconds:.1f} s; the table is at {batch.position}")
    return batch
