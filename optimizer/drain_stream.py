"""One attempt at a drain: commits what the topic has, as often as the table's `firn.log.max-lag` wants."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from firn.logs import LogBatch
from firn.protocol.answers.logs import LogOut
from firn.protocol.answers.writers import WriterOut
from firn.protocol.names import join_name
from firn.protocol.streams import StreamLease
from firn.spark.log_drain import LogDrain
from firn.spark.sessions import client_of
from firn.spark.target import load_target
from optimizer.client import ServerApi
from optimizer.spark import STREAM_CATALOG, open_stream_session
from optimizer.stream_keeper import StreamKeeper

SHARE = 0.5
"""The time between the beginnings of two commits, as a share of the lag at which the drain aims."""
Drain = Callable[[StreamKeeper], None]


@dataclass(frozen=True)
class DrainStream:
    """Drains the table of a lease in a Spark session of its own, until the attempt has to end."""

    api: ServerApi
    spark: SparkSession
    lease: StreamLease

    def run(self, keeper: StreamKeeper) -> None:
        """Raise StreamEnded when the lease is over or the process stops, and any error that ends the attempt."""
        with self._open(keeper) as drain:
            while True:
                began = time.monotonic()
                log = drain.look()
                keeper.measures.look(log.lag, began)
                batch = drain.plan(log)
                if batch is not None:
                    self._commit(drain, keeper, log, batch, began)
                if batch is None or batch.end == log.end:
                    keeper.wait_until(began + log.max_lag_seconds * SHARE)
                keeper.check()

    @contextmanager
    def _open(self, keeper: StreamKeeper) -> Iterator[LogDrain]:
        lease, tag = self.lease, f"{self.lease.stream_id}-{self.lease.attempt}"
        with open_stream_session(self.spark, self.api, lease, tag) as session:
            context = session.sparkContext
            keeper.interrupt = lambda: context.cancelJobsWithTag(tag)
            table = join_name([STREAM_CATALOG, *lease.namespace, lease.name])
            client, name = client_of(session, table)
            yield LogDrain(
                session,
                client.tables[name],
                load_target(session, table),
                build_writer(lease),
                lease.password,
                check=keeper.check,
                table=lease.table,
                stream_lease=lease.lease,
            )

    def _commit(self, drain: LogDrain, keeper: StreamKeeper, log: LogOut, batch: LogBatch, began: float) -> None:
        drain.target = load_target(drain.spark, drain.target.name)  # somebody may have added a column
        drain.commit(log, batch)
        rows, seconds = batch.most_records, time.monotonic() - began
        keeper.measures.commit(rows, log.lag - rows, began)
        keeper.say(f"committed up to {rows:,} records in {seconds:.1f} s; the table is at {batch.position}")


def build_writer(lease: StreamLease) -> WriterOut:
    """The registration that came with the lease."""
    return WriterOut(
        name=lease.writer,
        epoch=lease.writer_epoch,
        position=lease.position,
        registered_at=datetime.now(UTC),
        registered_by=None,
        committed_at=None,
        snapshot_id=None,
        fenced_at=None,
    )
