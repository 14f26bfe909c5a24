"""The metrics of streams and of consumers of changes.

They come from the database, so every server exposes the same values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from catalog.names import RelationId
from catalog.ports.consumers import NamedConsumer
from catalog.ports.store import UnitOfWork
from catalog.ports.streams import NamedStream
from firn.protocol.streams import StreamStatus
from server.prometheus import Figures

_TABLE = ("catalog", "table")
_CONSUMER = (*_TABLE, "consumer")


def count_bad_rows(uow: UnitOfWork, streams: Sequence[NamedStream]) -> Mapping[RelationId, int]:
    """The rows in the quarantine of each stream's table, by the id of the table; tables without one are left out."""
    quarantines = uow.relations.quarantines_of([named.stream.relation_id for named in streams])
    stats = uow.stats.get_many(quarantines.values())
    return {table: stats[quarantine].records for table, quarantine in quarantines.items() if quarantine in stats}


def build_stream_figures(
    streams: Sequence[NamedStream], at: datetime, bad_rows: Mapping[RelationId, int]
) -> Sequence[Figures]:
    """Measure the streams by state; and of each one its lag, its rate, its bad rows, and whether it has stopped."""
    states: dict[tuple[str, ...], float] = {(str(status),): 0.0 for status in StreamStatus}
    lags, ages, rates, stopped = (dict[tuple[str, ...], float]() for _ in range(4))
    for named in streams:
        stream, key = named.stream, (str(named.stream.catalog), str(named.table))
        states[str(stream.status),] += 1
        if stream.lag_rows is not None:
            lags[key] = stream.lag_rows
        ages[key] = stream.lag_seconds(at)
        rates[key] = stream.rows_per_second or 0.0
        stopped[key] = float(stream.status is StreamStatus.STOPPED)
    bad: dict[tuple[str, ...], float] = {
        (str(named.stream.catalog), str(named.table)): float(bad_rows.get(named.stream.relation_id, 0))
        for named in streams
    }
    behind = "How long ago the table had all records of its topic."
    return [
        Figures("firn_streams", "Streams by status.", ("status",), states),
        Figures("firn_stream_lag_rows", "Records of the topic that the table does not have, at most.", _TABLE, lags),
        Figures("firn_stream_lag_seconds", behind, _TABLE, ages),
        Figures("firn_stream_rows_per_second", "Records that the stream commits in a second.", _TABLE, rates),
        Figures("firn_stream_bad_rows", "Records in the quarantine of the table.", _TABLE, bad),
        Figures("firn_stream_stopped", "Whether the stream has stopped and waits for a user.", _TABLE, stopped),
    ]


def build_consumer_figures(behind: Sequence[NamedConsumer], at: datetime) -> Sequence[Figures]:
    """Measure the consumers that have versions to read, and for how long expiry still keeps these."""
    lags, kept = dict[tuple[str, ...], float](), dict[tuple[str, ...], float]()
    for named in behind:
        key = (str(named.catalog), str(named.table), named.consumer.name)
        lags[key] = named.lag_versions
        kept[key] = (named.consumer.kept_until - at).total_seconds()
    until = "Seconds until expiry stops keeping changes for the consumer; below 0 it may have lost them."
    return [
        Figures("firn_consumer_lag_versions", "Versions that the consumer has not read.", _CONSUMER, lags),
        Figures("firn_consumer_kept_seconds", until, _CONSUMER, kept),
    ]
