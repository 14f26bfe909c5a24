"""Leases of streams: optimizers take them, keep them and report their ends (docs/protocols.md, rules 6.9 and 6.10)."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from catalog.commits.writers import Writer
from catalog.errors import CatalogError, Invalid, LeaseLost, NoSuchTable, NotFound, Unavailable
from catalog.jobs.job import LeaseToken, OptimizerId
from catalog.jobs.stream import (
    Stream,
    StreamId,
    StreamLease,
    check_stream_lease,
    end_silent_stream,
    fail_stream,
    hand_back_stream,
    lease_stream,
    limit_waits,
    note_engine,
    stop_stream,
)
from catalog.keyed.spec import CHANGE, LOG_WRITER, QUARANTINE
from catalog.names import CatalogName, TableName
from catalog.policy.log_settings import LogSettings
from catalog.ports.store import Database, UnitOfWork
from firn.protocol.streams import StreamHeartbeat, StreamOutcome, StreamReport
from server.service.access.credential_vending import Mechanism
from server.service.jobs.leased_files import list_mechanisms
from server.service.jobs.leases import LeaseTimes
from server.service.locations.allowed_locations import load_storage
from server.service.streams.connections import Connections
from server.service.tables.writers import register_copy

_LONGEST_AGE = 10.0 * 365 * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedStream:
    """A stream with the new lease of an optimizer, and what the optimizer needs to run it."""

    stream: Stream
    lease: StreamLease
    table: TableName
    writer: Writer
    password: str | None
    delegation: Sequence[Mechanism]


@dataclass(frozen=True)
class StreamLeases:
    """The operations of optimizers on streams."""

    database: Database
    connections: Connections
    times: LeaseTimes

    def has_work(self, group: str) -> bool:
        """Whether a request for a lease may succeed; cheap, for long polling."""
        with self.database.reading() as uow:
            return uow.streams.next_waiting(group, uow.now()) is not None

    def take(self, optimizer_id: str) -> LeasedStream | None:
        """Lease a waiting stream of the optimizer's group, and register the optimizer as the log's writer.

        One transaction does both, so a copy that still runs can commit nothing more. None if there is no stream, or if
        the stream cannot run before somebody acts: then it states the reason.
        """
        with self.database.writing() as uow:
            optimizer = uow.optimizers.find(optimizer_id)
            if optimizer is None:
                raise NotFound(f"optimizer {optimizer_id} is not registered", hint="register again")
            candidate = None if optimizer.draining else uow.streams.next_waiting(optimizer.group, uow.now())
            if candidate is None:
                return None
            stream, now = uow.streams.lock(candidate.id), uow.now()
            if stream != candidate:  # another optimizer was faster
                return None
            token = LeaseToken(secrets.token_urlsafe(18).replace(".", "_"))
            until = now + self.times.lasts
            stream = lease_stream(stream, owner=OptimizerId(optimizer.id), token=token, now=now, until=until)
            lease = StreamLease(stream.id, stream.attempt, token)
            uow.optimizers.record_heartbeat(optimizer.id, now, {})
            try:
                leased = self._grant(uow, stream, lease)
            except NoSuchTable:  # dropped at this moment
                return None
            except Unavailable:
                raise
            except CatalogError as error:
                _stop(uow, stream, error)
                return None
            uow.streams.put(replace(stream, leased_table=str(leased.table)))
            uow.streams.add_log(stream.id, [f"attempt {stream.attempt}: {optimizer.id} drains {leased.table}"], now)
        return leased

    def _grant(self, uow: UnitOfWork, stream: Stream, lease: StreamLease) -> LeasedStream:
        relation, keyed = uow.relations.get(stream.relation_id), uow.keyed.get(stream.relation_id)
        settings = LogSettings.from_properties(uow.stats.get(keyed.base_id).properties)
        if settings is None:
            raise Invalid(f"{relation.name} has no log")
        password = None
        if settings.connection is not None:
            password = self.connections.reveal_password(uow.connections.get(settings.connection))
        return LeasedStream(
            stream=stream,
            lease=lease,
            table=relation.name,
            writer=register_copy(uow, keyed.change_id, relation.name, LOG_WRITER),
            password=password,
            delegation=list_mechanisms(load_storage(uow, relation.catalog)),
        )

    def covers(self, text: str, catalog: CatalogName, store: TableName) -> bool:
        """Whether a text is the current lease of the stream that writes to this change store or quarantine."""
        table = self.find_leased(text, catalog)
        return table is not None and store in {TableName(table.as_namespace, name) for name in (CHANGE, QUARANTINE)}

    def find_leased(self, text: str, catalog: CatalogName) -> TableName | None:
        """The keyed table of this catalog whose stream has this lease now; None for any other text."""
        with suppress(CatalogError), self.database.reading() as uow:
            lease = StreamLease.parse(text)
            named = uow.streams.get(lease.stream_id)
            check_stream_lease(named.stream, lease)
            return named.table if named.stream.catalog == catalog else None
        return None

    def beat(self, lease: StreamLease, measured: StreamHeartbeat) -> Stream:
        """Extend a lease and store what its optimizer has measured.

        Raises LeaseLost when the lease has ended, also because the table was dropped or renamed.
        """
        with self.database.writing() as uow:
            now = uow.now()
            stream = check_stream_lease(uow.streams.lock(lease.stream_id), lease)
            _add_log(uow, stream, measured.log)
            stream = _record(stream, measured, now, self.times.lasts)
            moved = _explain_move(uow, stream)
            if moved is not None:
                stream = hand_back_stream(stream, moved, now)
                _add_log(uow, stream, [moved])
            uow.streams.put(stream)
            if stream.owner is not None:
                uow.optimizers.record_heartbeat(stream.owner, now, measured.memory)
        if moved is not None:
            raise LeaseLost(moved, hint="the next attempt goes on from the table's position")
        return stream

    def report(self, lease: StreamLease, ended: StreamReport) -> Stream:
        """End an attempt as its optimizer reports it. Raises LeaseLost for an ended lease, and changes nothing then."""
        with self.database.writing() as uow:
            now = uow.now()
            stream = check_stream_lease(uow.streams.lock(lease.stream_id), lease)
            _add_log(uow, stream, ended.log)
            moved = _explain_move(uow, stream)
            reason = moved or ended.reason or str(ended.outcome)
            if moved is not None or ended.outcome is StreamOutcome.HANDED_BACK:
                after = hand_back_stream(stream, reason, now)
            elif ended.outcome is StreamOutcome.STOPPED:
                after = stop_stream(stream, reason, ended.remedy, now)
            else:
                after = fail_stream(stream, reason, ended.remedy, now)
            _add_log(uow, after, [f"attempt {stream.attempt} has ended: {reason}; the stream is {after.status}"])
            uow.streams.put(after)
        return after

    def reap(self) -> int:
        """End the leases of silent optimizers; any server may run it at any time. Returns their number."""
        lasts = self.times.lasts
        with self.database.reading() as uow:
            now = uow.now()
            candidates = uow.streams.list_reap_candidates(now, lasts)
        changed = [stream for stream in candidates if end_silent_stream(limit_waits(stream, now, lasts), now) != stream]
        return sum(self._reap_stream(stream.id) for stream in changed)

    def _reap_stream(self, stream_id: StreamId) -> bool:
        """End the lease of a stream whose optimizer is silent. False if it lasts."""
        with self.database.writing() as uow:
            stream, now = uow.streams.lock(stream_id), uow.now()
            limited = limit_waits(stream, now, self.times.lasts)
            ended = end_silent_stream(limited, now)
            if ended != stream:
                uow.streams.put(ended)
            if ended == limited:
                return False
            _add_log(uow, ended, [f"attempt {stream.attempt} has ended: {ended.reason}"])
        return True


def hand_back_streams(uow: UnitOfWork, owner: OptimizerId) -> None:
    """Let others take the streams of an optimizer that leaves."""
    for candidate in uow.streams.owned_by(owner):
        stream = uow.streams.lock(candidate.id)
        if stream.owner == owner:
            uow.streams.put(hand_back_stream(stream, "handed back", uow.now()))


def _record(stream: Stream, measured: StreamHeartbeat, now: datetime, lasts: timedelta) -> Stream:
    stream = replace(stream, lease_until=now + lasts)
    if measured.lag_rows is not None:
        stream = replace(stream, lag_rows=measured.lag_rows, rows_per_second=measured.rows_per_second, measured_at=now)
    if measured.current_age_seconds is not None:
        current_at = now - timedelta(seconds=min(measured.current_age_seconds, _LONGEST_AGE))
        stream = replace(stream, current_at=max(stream.current_at, current_at))
    if measured.engine is not None:
        stream = note_engine(stream, measured.engine, measured.engine_reason)
    if measured.has_progressed:
        stream = replace(stream, failures=0, reason=None, remedy=None)
    return stream


def _explain_move(uow: UnitOfWork, stream: Stream) -> str | None:
    """Why the optimizer no longer finds its table: it was dropped or renamed; None if it was not."""
    relation = uow.relations.get_many([stream.relation_id]).get(stream.relation_id)
    if relation is None:
        return f"{stream.leased_table} was dropped"
    if str(relation.name) != stream.leased_table:
        return f"{stream.leased_table} was renamed to {relation.name}: the next attempt drains it under its new name"
    return None


def _stop(uow: UnitOfWork, stream: Stream, error: CatalogError) -> None:
    stopped = stop_stream(stream, error.message, error.hint, uow.now())
    uow.streams.put(stopped)
    _add_log(uow, stopped, [f"attempt {stream.attempt} did not begin: {error.message}"])


def _add_log(uow: UnitOfWork, stream: Stream, lines: Sequence[str]) -> None:
    if lines:
        uow.streams.add_log(stream.id, lines, uow.now())
