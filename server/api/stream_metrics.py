"""The metrics of streams. They come from the database, so every server exposes the same values."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from catalog.ports.streams import NamedStream
from firn.protocol.streams import StreamStatus
from server.prometheus import Figures

_TABLE = ("catalog", "table")


def build_stream_figures(streams: Sequence[NamedStream], at: datetime) -> Sequence[Figures]:
    """Measure the streams by state; and of each one its lag, its rate, and whether it has stopped."""
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
    behind = "How long ago the table had all records of its topic."
    return [
        Figures("firn_streams", "Streams by status.", ("status",), states),
        Figures("firn_stream_lag_rows", "Records of the topic that the table does not have, at most.", _TABLE, lags),
        Figures("firn_stream_lag_seconds", behind, _TABLE, ages),
        Figures("firn_stream_rows_per_second", "Records that the stream commits in a second.", _TABLE, rates),
        Figures("firn_stream_stopped", "Whether the stream has stopped and waits for a user.", _TABLE, stopped),
    ]
