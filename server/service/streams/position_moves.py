"""Commits that only move the position of a log, because a user asks for it (docs/protocols.md, rules 6.5 and 6.15)."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, TypeVar

from catalog.errors import CatalogError, Conflict, NotFound, RequirementFailed, Unavailable, WriterFenced
from catalog.history.commit import TableCommit
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
"""The number of tries if the change store moves meanwhile, or a drain starts."""
_NOTHING = SentRows(upserts=())


class PositionMove(Protocol):
    """A move that a user has agreed to."""

    @property
    def start(self) -> str: ...
    @property
    def end(self) -> str: ...


Move = TypeVar("Move", bound=PositionMove)


@dataclass(frozen=True)
class PositionMoves:
    """Moves positions of logs. Drains that run end; a stream that ran or has stopped starts again."""

    stores: LogStores
    writers: Writers
    committer: Committer
    files: SentFiles
    streams: Streams

    def move(self, catalog: CatalogName, table: TableName, plan: Callable[[LogStatus], Move]) -> Move:
        """Move the position as `plan` says. Its argument is the log at a moment from which on no drain commits.

        `plan` raises the refusal if the user has agreed to something else. Conflict if other commits or drains are
        always faster. Raises as `LogStores.show` does.
        """
        for _ in range(MOST_TRIES):
            epoch = self.writers.register(catalog, table, LOG_WRITER).epoch
            log = self.stores.show(catalog, table)
            move = plan(log)
            with suppress(RequirementFailed, WriterFenced):
                self._commit(catalog, table, log, move, epoch)
                self._restart_stream(catalog, table)
                return move
        raise Conflict(
            f"other commits change {table} too fast; the server tried {MOST_TRIES} times",
            hint=f"`firn stream pause {table}` ends the drain of an optimizer",
        )

    def _commit(self, catalog: CatalogName, table: TableName, log: LogStatus, move: PositionMove, epoch: int) -> None:
        pin = self.stores.keyed.pin(catalog, table)
        with self.stores.database.reading() as uow:
            now_ms = int(uow.now().timestamp() * 1000)
        summary = {
            WRITER_ID: LOG_WRITER,
            WRITER_EPOCH: str(epoch),
            POSITION_FROM: move.start,
            POSITION: move.end,
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
        """Restart a stopped stream, and one that runs: its drain can commit nothing more. A paused one stays so."""
        statuses = [StreamStatus.STOPPED, StreamStatus.RUNNING]
        for named in self.streams.list(StreamFilter(catalog=catalog, table=table, statuses=statuses), limit=1).items:
            with suppress(Conflict, NotFound):  # somebody else was faster
                self.streams.restart(named.stream.id)

    def _discard(self, locations: Sequence[str]) -> None:
        with suppress(Unavailable):  # orphan removal deletes them
            self.files.discard(locations)
