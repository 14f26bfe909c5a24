"""Skips: a user lets a table go on after records that its topic no longer has (docs/protocols.md, rule 6.5)."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from catalog.commits.positions import NO_POSITION
from catalog.errors import CatalogError, Conflict, NotFound, RequirementFailed, Unavailable
from catalog.history.commit import TableCommit
from catalog.kafka.log_state import LogProblem
from catalog.keyed.spec import (
    CHANGE,
    LOG_SKIP,
    LOG_TOPIC_ID,
    LOG_WRITER,
    POSITION,
    POSITION_FROM,
    WRITER_EPOCH,
    WRITER_ID,
)
from catalog.names import CatalogName, TableName
from catalog.ports.images import SentFiles, SentRows
from catalog.ports.streams import StreamFilter
from firn.protocol.streams import StreamStatus
from server.service.commit.commit_path import CommitRequest, Committer
from server.service.streams.log_stores import LogStatus, LogStores
from server.service.streams.streams import Streams
from server.service.tables.writers import Writers

MOST_TRIES = 5
"""The number of tries if the change store moves meanwhile."""
_NOTHING = SentRows(upserts=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """A step of a table's position over records that are gone."""

    start: str
    end: str
    problem: LogProblem


@dataclass(frozen=True)
class LogSkips:
    """Commits that only move the positions of logs."""

    stores: LogStores
    writers: Writers
    committer: Committer
    files: SentFiles
    streams: Streams

    def skip(
        self, catalog: CatalogName, table: TableName, *, expected: str | None = None, dry_run: bool = False
    ) -> Skip:
        """Move the position to the next records that the topic has. A drain that runs ends; a stopped stream restarts.

        `expected` is the position to which the user agreed. Conflict if another one is next now, or if drains can go
        on without a skip. Raises as `LogStores.show` does.
        """
        skip = _plan(table, self.stores.show(catalog, table), expected)
        if dry_run:
            return skip
        epoch = self.writers.register(catalog, table, LOG_WRITER).epoch
        for _ in range(MOST_TRIES):
            log = self.stores.show(catalog, table)  # no drain commits any more: the registration ended it
            skip = _plan(table, log, expected)  # nor does the topic drop more than the user has seen
            with suppress(RequirementFailed):
                self._commit(catalog, table, log, skip, epoch)
                self._restart_stream(catalog, table)
                return skip
        raise Conflict(f"other commits change {table} too fast; the server tried {MOST_TRIES} times")

    def _commit(self, catalog: CatalogName, table: TableName, log: LogStatus, skip: Skip, epoch: int) -> None:
        pin = self.stores.keyed.pin(catalog, table)
        with self.stores.database.reading() as uow:
            now_ms = int(uow.now().timestamp() * 1000)
        summary = {
            WRITER_ID: LOG_WRITER,
            WRITER_EPOCH: str(epoch),
            POSITION_FROM: skip.start,
            POSITION: skip.end,
            LOG_TOPIC_ID: log.state.topic.id,
            LOG_SKIP: "true",
        }
        appended = self.files.append(
            pin.change, _NOTHING, snapshot_id=secrets.randbits(62), now_ms=now_ms, summary=summary
        )
        store = TableName(table.as_namespace, CHANGE)
        commit = TableCommit(name=store, requirements=appended.requirements(), updates=appended.updates())
        try:
            self.committer.commit(CommitRequest(catalog=catalog, changes=[commit], engine="Firn server"))
        except CatalogError:  # which an unknown outcome is not: its files stay
            self._discard(appended.written)
            raise

    def _restart_stream(self, catalog: CatalogName, table: TableName) -> None:
        """Restart the table's stream if it has stopped, which it did for the records that are skipped now."""
        stopped = StreamFilter(catalog=catalog, table=table, statuses=[StreamStatus.STOPPED])
        for named in self.streams.list(stopped, limit=1).items:
            with suppress(Conflict, NotFound):  # somebody else was faster
                self.streams.restart(named.stream.id)

    def _discard(self, locations: Sequence[str]) -> None:
        with suppress(Unavailable):  # orphan removal deletes them
            self.files.discard(locations)


def _plan(table: TableName, log: LogStatus, expected: str | None) -> Skip:
    if log.state.problem is None:
        raise Conflict(
            f"the log of {table} has nothing to skip: drains go on from {_name(log.state.position)}",
            hint=f"run `firn drain {table}`",
        )
    end = log.state.start_position
    if expected is not None and expected != end:
        raise Conflict(
            f"a skip of {table} would now go on from {end}, and not from {expected}", hint="look at the log again"
        )
    return Skip(start=log.state.position, end=end, problem=log.state.problem)


def _name(position: str) -> str:
    return "its start" if position == NO_POSITION else position
