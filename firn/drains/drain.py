"""A drain, whatever engine reads, decodes and writes: where it begins and ends, and what became of a lost answer.

A drain has no checkpoint. It reads from the table's position to the last stable offset, commits the changes and the new
position together, and begins again. If it dies, the next drain goes on from the table's position.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from firn.client import TableHandle
from firn.drains.errors import DrainOvertaken, DrainStopped
from firn.drains.new_columns import NewColumns
from firn.errors import FirnError, Refused
from firn.logs import LogBatch, plan_batch, suggest_remedy
from firn.protocol.answers.logs import LogOut
from firn.protocol.answers.writers import WriterOut
from firn.protocol.streams import StreamStatus
from firn.streams import Streams

TRIES = 4
LOG_WRITER = "log"


@dataclass(frozen=True, slots=True)
class Drained:
    """The result of a drain: commits, and at most so many records, because some offsets have none."""

    table: str
    commits: int
    most_records: int
    position: str | None
    added_columns: tuple[str, ...] = ()
    """The columns that the table got because records have them (`firn.log.schema`)."""


def refuse_running(handle: TableHandle) -> None:
    """Raise Refused if an optimizer drains the table: each of the two would end the other one."""
    name = handle.name
    running = Streams(handle.transport).list(catalog=name.catalog, table=name.table, status=[StreamStatus.RUNNING])
    for stream in running:
        raise Refused(
            f"optimizer {stream.owner} drains {name.table} already",
            hint=f"`firn stream show {name}` shows how far it is; `firn stream pause {name}` ends it",
        )


class Drain(ABC):
    """One copy of the log's writer. `check` is called between steps, and raises if the drain has to end."""

    handle: TableHandle
    writer: WriterOut
    pause: Callable[[float], None]
    check: Callable[[], None]
    table: str
    """The table's name in messages."""
    done: Drained | None = None
    """What `run` has done so far, also if it has failed."""
    new_columns: NewColumns

    @abstractmethod
    def commit(self, log: LogOut, batch: LogBatch) -> LogBatch:
        """Bring a batch, or the first part of it, to the change store; returns what the table has then."""

    def run(self) -> Drained:
        """Commit batches until the table has all records up to the end of the first look, or later ones."""
        commits = records = 0
        goal: dict[int, int] | None = None
        while True:
            log = self.look()
            goal = log.end if goal is None else goal
            self.done = Drained(self.table, commits, records, log.position, tuple(self.new_columns.added))
            batch = None if _has_reached(log, goal, commits) else self.plan(log)
            if batch is None:
                return self.done
            commits, records = commits + 1, records + self.commit(log, batch).most_records

    def look(self) -> LogOut:
        """Ask the server for the log; DrainStopped if a user has to act first."""
        log = self.handle.log.show()
        if log.problem is not None:
            remedy = suggest_remedy(log, str(self.handle.name))
            raise DrainStopped(f"{self.table}: {log.problem.message}", hint=remedy)
        return log

    def plan(self, log: LogOut) -> LogBatch | None:
        """The next batch; None if there is nothing to commit."""
        return plan_batch(log)

    def build_summary(self, log: LogOut, batch: LogBatch) -> dict[str, str]:
        """The step of the position, for the summary of the commit's snapshot."""
        return {
            "firn.writer-id": self.writer.name,
            "firn.writer-epoch": str(self.writer.epoch),
            "firn.position-from": log.position or "none",
            "firn.position": batch.position,
            "firn.log-topic-id": log.topic_id,
        }

    def has_committed(self, batch: LogBatch) -> bool:
        """Whether the table has the batch; DrainStopped if another drain has started."""
        now = self.handle.writers.get(LOG_WRITER)
        if now.epoch != self.writer.epoch or now.fenced_at is not None:
            raise DrainOvertaken.by(self.table, now.registered_at)
        return now.position == batch.position

    def is_hopeless(self, log: LogOut, tries: int) -> bool:
        """Whether another try cannot succeed, or the tries are used up."""
        return tries == TRIES or self.handle.log.show().position != log.position

    def build_failure(self, batch: LogBatch, why: str) -> FirnError:
        """The error of a drain that has used up its tries."""
        return FirnError(
            f"{self.table}: the drain could not commit records up to {batch.position}: {why}",
            hint="start the drain again: it goes on from the table's position",
        )


def _has_reached(log: LogOut, goal: dict[int, int], commits: int) -> bool:
    """Whether the table has what the log had at the first look. Without this, a drain of a busy topic never ends."""
    return commits > 0 and all(log.start.get(number, 0) >= at for number, at in goal.items())
