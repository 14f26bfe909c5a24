"""Streams and their logs in the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Select, and_, delete, func, or_, select, tuple_

from catalog.errors import NotFound
from catalog.jobs.job import Attempt, OptimizerId
from catalog.jobs.stream import Stream, StreamId
from catalog.names import SEPARATOR, RelationId, TableName, decode_namespace, encode_namespace
from catalog.ports.page import Page
from catalog.ports.streams import NamedStream, StreamFilter, WaitingStreams
from firn.protocol.streams import StreamKind, StreamStatus
from server.store import cursor as cursors
from server.store.rows import RelationRow
from server.store.session import ReadSession
from server.store.stream_rows import StreamLogRow, StreamRow
from server.store.upsert import insert_unless_taken, upsert

KEPT_LINES = 1_000
_OTHERS = ("group", "attempts", "kind", "status")
_SAME = tuple(field.name for field in fields(Stream) if field.name not in _OTHERS)
_NAMED = select(StreamRow, RelationRow.namespace, RelationRow.name).join(
    RelationRow, RelationRow.id == StreamRow.relation_id
)
_BY_NAME = (RelationRow.catalog, RelationRow.namespace, RelationRow.name, StreamRow.kind)


@dataclass(frozen=True)
class SqlStreams:
    """See catalog.ports.streams.Streams."""

    session: ReadSession

    def add(self, stream: Stream) -> bool:
        """Store a new stream; False if the table has one of this kind already."""
        return insert_unless_taken(self.session, StreamRow, _to_values(stream))

    def get(self, stream_id: StreamId) -> NamedStream:
        """Get a stream of an existing table; NotFound."""
        row = self.session.execute(_NAMED.where(StreamRow.id == stream_id)).first()
        if row is None:
            raise _build_unknown_error(stream_id)
        return _to_named(row)

    def find(self, relation_id: RelationId, kind: StreamKind) -> Stream | None:
        """Find the stream of a table."""
        query = select(StreamRow).where(StreamRow.relation_id == relation_id, StreamRow.kind == kind)
        row = self.session.scalar(query)
        return None if row is None else _to_stream(row)

    def lock(self, stream_id: StreamId) -> Stream:
        """Get a stream, and lock it until the transaction ends (SQLite has one writing transaction at a time)."""
        query = select(StreamRow).where(StreamRow.id == stream_id).with_for_update()
        row = self.session.scalar(query.execution_options(populate_existing=True))
        if row is None:
            raise _build_unknown_error(stream_id)
        return _to_stream(row)

    def put(self, stream: Stream) -> None:
        """Replace a stored stream."""
        upsert(self.session, StreamRow, _to_values(stream))

    def next_waiting(self, group: str, now: datetime) -> Stream | None:
        """Find the stream that has waited longest, of an existing table."""
        due = (StreamRow.status == StreamStatus.WAITING, StreamRow.group_name == group, StreamRow.retry_at <= now)
        query = select(StreamRow).join(RelationRow, RelationRow.id == StreamRow.relation_id).where(*due)
        row = self.session.scalar(query.order_by(StreamRow.retry_at, StreamRow.id).limit(1))
        return None if row is None else _to_stream(row)

    def waiting(self, now: datetime) -> Sequence[WaitingStreams]:
        """Count the streams of existing tables that could run now, by group."""
        group = StreamRow.group_name
        query = select(group, func.count(), func.min(StreamRow.retry_at))
        query = query.join(RelationRow, RelationRow.id == StreamRow.relation_id)
        query = query.where(StreamRow.status == StreamStatus.WAITING, StreamRow.retry_at <= now)
        return [WaitingStreams(*row) for row in self.session.execute(query.group_by(group).order_by(group))]

    def count_by_owner(self) -> Mapping[str, int]:
        """Count the running streams of each optimizer."""
        query = select(StreamRow.owner, func.count()).where(StreamRow.status == StreamStatus.RUNNING)
        return {owner: count for owner, count in self.session.execute(query.group_by(StreamRow.owner)) if owner}

    def list_reap_candidates(self, now: datetime, lasts: timedelta) -> Sequence[Stream]:
        """List running streams whose leases have ended or outlast new ones, and all that pause."""
        has_odd_lease = or_(StreamRow.lease_until <= now, StreamRow.lease_until > now + lasts)
        is_running = and_(StreamRow.status == StreamStatus.RUNNING, has_odd_lease)
        pauses = and_(StreamRow.status == StreamStatus.WAITING, StreamRow.retry_at > now)
        query = select(StreamRow).where(or_(is_running, pauses)).order_by(StreamRow.id)
        return [_to_stream(row) for row in self.session.scalars(query)]

    def owned_by(self, owner: OptimizerId) -> Sequence[Stream]:
        """List running streams of an optimizer."""
        query = select(StreamRow).where(StreamRow.status == StreamStatus.RUNNING, StreamRow.owner == owner)
        return [_to_stream(row) for row in self.session.scalars(query.order_by(StreamRow.id))]

    def unattended(self, measured_before: datetime, *, limit: int) -> Sequence[NamedStream]:
        """List streams that do not run and were not measured since, the longest ago first."""
        at = func.coalesce(StreamRow.measured_at, StreamRow.created_at)
        query = _NAMED.where(StreamRow.status != StreamStatus.RUNNING, at < measured_before)
        return [_to_named(row) for row in self.session.execute(query.order_by(at, StreamRow.id).limit(limit))]

    def list(self, which: StreamFilter, *, limit: int, cursor: str | None = None) -> Page[NamedStream]:
        """List streams of existing tables by catalog and name."""
        query = _filter(_NAMED, which)
        if cursor is not None:
            query = query.where(tuple_(*_BY_NAME) > tuple_(*cursors.decode_texts(cursor, len(_BY_NAME))))
        rows = self.session.execute(query.order_by(*_BY_NAME).limit(limit + 1)).all()
        named = [_to_named(row) for row in rows[:limit]]
        return Page(named, _encode_cursor(named[-1]) if len(rows) > limit else None)

    def add_log(self, stream_id: StreamId, lines: Sequence[str], now: datetime) -> None:
        """Append lines to the stream's log, and drop the oldest of many."""
        self.session.add_all(StreamLogRow(stream_id=stream_id, at=now, line=line) for line in lines)
        self.session.flush()
        newest = select(StreamLogRow.id).where(StreamLogRow.stream_id == stream_id).order_by(StreamLogRow.id.desc())
        last = self.session.scalar(newest.offset(KEPT_LINES).limit(1))
        if last is not None:
            old = delete(StreamLogRow).where(StreamLogRow.stream_id == stream_id, StreamLogRow.id <= last)
            self.session.execute(old)

    def log(self, stream_id: StreamId) -> Sequence[tuple[datetime, str]]:
        """Get all log lines, oldest first."""
        query = select(StreamLogRow.at, StreamLogRow.line).where(StreamLogRow.stream_id == stream_id)
        return [(at, line) for at, line in self.session.execute(query.order_by(StreamLogRow.id))]

    def delete(self, relation_id: RelationId) -> None:
        """Remove the streams of a table that is gone, with their logs."""
        ids = select(StreamRow.id).where(StreamRow.relation_id == relation_id)
        self.session.execute(delete(StreamLogRow).where(StreamLogRow.stream_id.in_(ids)))
        self.session.execute(delete(StreamRow).where(StreamRow.relation_id == relation_id))


def _filter(query: Select[StreamRow, str, str], which: StreamFilter) -> Select[StreamRow, str, str]:
    if which.catalog is not None:
        query = query.where(StreamRow.catalog == which.catalog)
    if which.table is not None:
        path = encode_namespace(which.table.namespace)
        query = query.where(RelationRow.namespace == path, RelationRow.name == which.table.name)
    if which.statuses:
        query = query.where(StreamRow.status.in_(which.statuses))
    if which.group is not None:
        query = query.where(StreamRow.group_name == which.group)
    if which.search:
        full = func.replace(RelationRow.namespace, SEPARATOR, ".") + "." + RelationRow.name
        query = query.where(full.icontains(which.search, autoescape=True))
    return query


def _encode_cursor(named: NamedStream) -> str:
    table, stream = named.table, named.stream
    return cursors.encode(stream.catalog, encode_namespace(table.namespace), table.name, str(stream.kind))


def _build_unknown_error(stream_id: StreamId) -> NotFound:
    return NotFound(f"stream {stream_id} does not exist", hint="see the streams with `firn stream list`")


def _to_values(stream: Stream) -> dict[str, Any]:
    values = {name: getattr(stream, name) for name in _SAME}
    texts = {"group_name": stream.group, "kind": str(stream.kind), "status": str(stream.status)}
    return values | texts | {"attempts": [attempt.as_json() for attempt in stream.attempts]}


def _to_stream(row: StreamRow) -> Stream:
    values = {name: getattr(row, name) for name in _SAME}
    values |= {"kind": StreamKind(row.kind), "status": StreamStatus(row.status), "group": row.group_name}
    return Stream(**values, attempts=tuple(Attempt.from_json(attempt) for attempt in row.attempts))


def _to_named(row: Any) -> NamedStream:
    stream, namespace, name = row
    return NamedStream(_to_stream(stream), TableName(decode_namespace(namespace), name))
