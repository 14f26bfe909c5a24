"""The database's streams; errors as in catalog.ports.store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from catalog.jobs.job import OptimizerId
from catalog.jobs.stream import Stream, StreamId
from catalog.names import CatalogName, RelationId, TableName
from catalog.ports.page import Page
from firn.protocol.streams import StreamKind, StreamStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFilter:
    """The filter of a list of streams; None and empty mean all."""

    catalog: CatalogName | None = None
    table: TableName | None = None
    statuses: Collection[StreamStatus] = ()
    group: str | None = None
    search: str | None = None


@dataclass(frozen=True, slots=True)
class NamedStream:
    """A stream, and the current name of its table."""

    stream: Stream
    table: TableName


@dataclass(frozen=True, slots=True)
class WaitingStreams:
    """The streams of a group that could run now, and since when the oldest of them could."""

    group: str
    streams: int
    oldest: datetime


class Streams(Protocol):
    """The streams of tables. Those of dropped tables are kept, but not listed and not leased."""

    def add(self, stream: Stream) -> bool:
        """Store a new stream; False if the table has one of this kind already."""

    def get(self, stream_id: StreamId) -> NamedStream:
        """Raises NotFound, also while the table is dropped."""

    def find(self, relation_id: RelationId, kind: StreamKind) -> Stream | None: ...

    def lock(self, stream_id: StreamId) -> Stream:
        """The stream, which nobody else changes until this transaction ends; NotFound."""

    def put(self, stream: Stream) -> None: ...

    def next_waiting(self, group: str, now: datetime) -> Stream | None:
        """The stream of the group that has waited longest for an attempt which may begin now."""

    def waiting(self, now: datetime) -> Sequence[WaitingStreams]:
        """The streams that could run now, by group."""

    def count_by_owner(self) -> Mapping[str, int]:
        """The number of running streams of each optimizer that has one."""

    def list_reap_candidates(self, now: datetime, lasts: timedelta) -> Sequence[Stream]:
        """Running streams whose leases have ended or outlast new ones, and all streams that pause."""

    def owned_by(self, owner: OptimizerId) -> Sequence[Stream]:
        """Running streams of an optimizer."""

    def unattended(self, measured_before: datetime, *, limit: int) -> Sequence[NamedStream]:
        """Streams that do not run and that nobody has measured since; the longest ago first."""

    def list(self, which: StreamFilter, *, limit: int, cursor: str | None = None) -> Page[NamedStream]:
        """By catalog and name of the table."""

    def add_log(self, stream_id: StreamId, lines: Sequence[str], now: datetime) -> None:
        """Append lines to the stream's log, which keeps the newest ones."""

    def log(self, stream_id: StreamId) -> Sequence[tuple[datetime, str]]:
        """Oldest first."""
