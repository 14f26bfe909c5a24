"""The streams of tables: made with the table, shown, paused, resumed and restarted by users, and measured."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from catalog.commits.positions import NO_POSITION
from catalog.commits.writers import Writer
from catalog.errors import CatalogError
from catalog.jobs.stream import Stream, StreamId, pause_stream, restart_stream, resume_stream
from catalog.keyed.spec import LOG_WRITER
from catalog.policy.log_settings import LogSettings
from catalog.ports.page import Page
from catalog.ports.store import Database, UnitOfWork
from catalog.ports.streams import NamedStream, StreamFilter
from firn.protocol.streams import StreamStatus
from server.service.access.caller import caller
from server.service.planning.policies import load_policy
from server.service.streams.drains import fence_copies
from server.service.streams.log_stores import LogStores

log = logging.getLogger(__name__)

MEASURED_EVERY = timedelta(seconds=60)
"""How often the server measures the lag of a stream that no optimizer runs."""
MEASURED_AT_ONCE = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamView:
    """A stream with the facts that people see beside it. `settings` is None if the table's properties are bad."""

    stream: Stream
    table: str
    settings: LogSettings | None
    position: str | None
    last_commit_at: datetime | None
    at: datetime


@dataclass(frozen=True)
class Streams:
    """Shows streams, and lets users pause, resume and restart them."""

    database: Database
    log_stores: LogStores

    def list(self, which: StreamFilter, *, limit: int, cursor: str | None = None) -> Page[NamedStream]:
        """List the streams by catalog and name of the table."""
        with self.database.reading() as uow:
            return uow.streams.list(which, limit=limit, cursor=cursor)

    def describe(self, named: Sequence[NamedStream]) -> Sequence[StreamView]:
        """Add the facts that people see, in three queries for all. Leaves out streams whose tables are gone."""
        with self.database.reading() as uow:
            now = uow.now()
            keyed = uow.keyed.get_many([item.stream.relation_id for item in named])
            stats = uow.stats.get_many([table.base_id for table in keyed.values()])
            writers = {id_: uow.writers.find(table.change_id, LOG_WRITER) for id_, table in keyed.items()}
        return [
            _build_view(item, stats[keyed[id_].base_id].properties, writers[id_], now)
            for item in named
            if (id_ := item.stream.relation_id) in keyed and keyed[id_].base_id in stats
        ]

    def get(self, stream_id: StreamId) -> StreamView:
        """One stream; NotFound."""
        with self.database.reading() as uow:
            named = uow.streams.get(stream_id)
        return self.describe([named])[0]

    def read_log(self, stream_id: StreamId) -> Sequence[tuple[datetime, str]]:
        """The log of a stream, oldest line first; NotFound."""
        with self.database.reading() as uow:
            uow.streams.get(stream_id)
            return uow.streams.log(stream_id)

    def pause(self, stream_id: StreamId) -> StreamView:
        """Pause a stream. After the answer no copy of it commits; a repeated request changes nothing. NotFound."""
        with self.database.writing() as uow:
            uow.streams.get(stream_id)
            stream = uow.streams.lock(stream_id)
            paused = pause_stream(stream, uow.now())
            _save(uow, stream, paused, "paused")
        return self.get(stream_id)

    def resume(self, stream_id: StreamId) -> StreamView:
        """Let a paused stream go on; NotFound, and Conflict for a stopped one."""
        with self.database.writing() as uow:
            uow.streams.get(stream_id)
            stream = uow.streams.lock(stream_id)
            _save(uow, stream, resume_stream(stream, uow.now()), "resumed")
        return self.get(stream_id)

    def restart(self, stream_id: StreamId) -> StreamView:
        """Begin a new first attempt, also of a stopped stream; NotFound, and Conflict for a paused one."""
        with self.database.writing() as uow:
            uow.streams.get(stream_id)
            stream = uow.streams.lock(stream_id)
            _save(uow, stream, restart_stream(stream, uow.now()), "restarted")
        return self.get(stream_id)

    def measure(self) -> int:
        """Measure the lag of streams that do not run, and follow the policies' groups; the number of both."""
        with self.database.reading() as uow:
            unattended = uow.streams.unattended(uow.now() - MEASURED_EVERY, limit=MEASURED_AT_ONCE)
        for named in unattended:
            self._measure(named)
        return len(unattended)

    def _measure(self, named: NamedStream) -> None:
        lag: int | None = None
        try:
            lag = self.log_stores.show(named.stream.catalog, named.table).state.lag
        except CatalogError as error:  # the next attempt tells it to people
            log.info("the lag of %s is unknown: %s", named.table, error.message)
        with self.database.writing() as uow:
            stream, now = uow.streams.lock(named.stream.id), uow.now()
            if stream.status is StreamStatus.RUNNING:
                return
            relation = uow.relations.get_many([stream.relation_id]).get(stream.relation_id)
            if relation is not None:
                properties = uow.stats.get(uow.keyed.get(relation.id).base_id).properties
                stream = replace(stream, group=load_policy(uow, relation, properties)["firn.optimize.group"])
            current_at = now if lag == 0 else stream.current_at
            uow.streams.put(replace(stream, lag_rows=lag, current_at=current_at, measured_at=now))


def _save(uow: UnitOfWork, before: Stream, after: Stream, action: str) -> None:
    if after == before:
        return
    if before.status is StreamStatus.RUNNING:
        fence_copies(uow, before)
    by = caller.get().principal
    uow.streams.put(after)
    uow.streams.add_log(after.id, [f"{action} by {by}" if by else action], uow.now())


def _build_view(named: NamedStream, properties: Mapping[str, str], writer: Writer | None, now: datetime) -> StreamView:
    try:
        settings = LogSettings.from_properties(properties)
    except CatalogError:  # of an older version
        settings = None
    position = None if writer is None or writer.position == NO_POSITION else writer.position
    return StreamView(
        stream=named.stream,
        table=str(named.table),
        settings=settings,
        position=position,
        last_commit_at=None if writer is None else writer.committed_at,
        at=now,
    )
