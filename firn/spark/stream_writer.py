"""One copy of a writer on one table: what it may commit, and what became of a commit without an answer.

Rules 6.1 to 6.3 and 6.5 of docs/protocols.md. The server checks the first two again in the commit's transaction.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import SparkSession

from firn.client import Client
from firn.errors import FirnError
from firn.protocol.answers.writers import WriterOut
from firn.spark.batch_steps import BatchStep
from firn.spark.errors import CommitRefused, WriteUnknown, is_refusal, is_uncertain, reason
from firn.spark.positions import TopicPosition
from firn.spark.sessions import client_of
from firn.spark.write import is_known_batch

TRIES = 4
SUMMARY_OPTION = "snapshot-property."
log = logging.getLogger(__name__)

_resumed: dict[tuple[str, str, str], WriterOut] = {}
"""Registrations of `resume` that no sink has taken yet, by server, table and writer."""
_resumed_lock = threading.Lock()


@dataclass
class StreamWriter:
    """One copy of a writer, and the position up to which the table has its records."""

    table: str
    client: Client
    path: str
    """The table's name at the server."""
    registered: WriterOut
    warned: bool = False

    @classmethod
    def register(cls, spark: SparkSession, table: str, name: str, *, takes_resumed: bool = True) -> StreamWriter:
        """Register a copy, which ends all earlier ones; or take the registration that `resume` has just made.

        With `takes_resumed` False, the registration waits for the sink that is created next.
        """
        client, path = client_of(spark, table)
        key = client.url, path, name
        with _resumed_lock:
            registered = _resumed.pop(key, None) if takes_resumed else None
        registered = registered or client.tables[path].writers.register(name)
        if not takes_resumed:
            with _resumed_lock:
                _resumed[key] = registered
        return cls(table, client, path, registered)

    @property
    def name(self) -> str:
        return self.registered.name

    def commit(self, step: BatchStep, append: Callable[[dict[str, str]], None]) -> bool:
        """Commit one batch with `append`, which gets the entries of the snapshot's summary.

        Returns False, and appends nothing, if the table has the batch. Raises CommitRefused if the batch does not
        begin where the table ends, or if another copy has registered: that one finds the position that the table has.
        Raises WriteUnknown if nobody knows whether the batch is in the table.
        """
        if step.end is None:
            return self._commit_batch(step, append)
        if self._contains(step):
            log.warning("%s has batch %s of writer %r already: %s", self.table, step.batch, self.name, step.end)
            return False
        self.commit_to(str(step.end), append)
        return True

    def commit_to(self, end: str, append: Callable[[dict[str, str]], None]) -> None:
        """Commit the step from the registered position to `end` with `append`, which gets options of Spark's writer.

        `append` runs again if no answer came and the table does not have its commit. Raises as `commit`, and what
        `append` raises if it sent no commit.
        """
        for attempt in range(1, TRIES + 1):
            try:
                append(_format_options(self.registered.summary_to(end)))
            except Exception as error:
                if not is_refusal(error) and not is_uncertain(error):
                    raise  # the rows themselves failed: no commit was sent
                self._settle(end, error, is_last=attempt == TRIES)
                if self.registered.position == end:
                    return
                time.sleep(0.5 * 2**attempt)
            else:
                self.registered = self.registered.model_copy(update={"position": end})
                return
        raise AssertionError("unreachable")

    def _contains(self, step: BatchStep) -> bool:
        """Whether the table has all of the batch; raise CommitRefused if it has a part, or lacks what is before."""
        if step.end is None:
            return False
        if self.registered.position is None:
            self._check_is_first(step)
            return False
        stored = TopicPosition.parse(self.registered.position)
        if stored is None or stored.topic != step.end.topic:
            raise CommitRefused(
                f"{self.table}: the position of writer {self.name!r} is {self.registered.position}, but the query "
                f"reads topic {step.end.topic}: use another writer for another source"
            )
        if step.end.is_within(stored):
            return True
        if step.start is not None and step.start.is_at(stored):
            return False
        lost = step.start is not None and stored.is_within(step.start)
        fault = "the records between are missing" if lost else "the table has a part of it already"
        raise self._refuse(step, f"the table has the records of writer {self.name!r} up to {stored}: {fault}")

    def _check_is_first(self, step: BatchStep) -> None:
        """Raise CommitRefused if the query has read records that a table without a position cannot have.

        They went into an earlier table of this name, or a rollback has removed them.
        """
        if step.batch > 0 and (step.start is None or step.first is None or not step.start.is_at(step.first)):
            began = step.first or "an unknown position"
            raise self._refuse(
                step,
                f"the table has no records of writer {self.name!r}, and the query began at {began}: the records "
                "between are missing",
            )

    def _refuse(self, step: BatchStep, reason: str) -> CommitRefused:
        return CommitRefused(
            f"{self.table}: the batch begins at {step.start or 'an unknown position'} and ends at {step.end}, but "
            f"{reason}. Start the query with a new checkpoint, and its source with "
            f".options(**firn.spark.resume({self.table!r}, writer={self.name!r}))"
        )

    def _settle(self, end: str, error: Exception, *, is_last: bool) -> None:
        """Ask the server what became of a commit. Returns if it is in the table, or if it may be sent again."""
        now = self._ask(error)
        if now.epoch == self.registered.epoch and now.position == end:
            self.registered = now
            return
        if is_refusal(error) or now.epoch != self.registered.epoch or now.fenced_at is not None:
            raise CommitRefused(f"{self.table}: {_explain(self.registered, now, error)}") from error
        if is_last or now.position != self.registered.position:
            raise self._unknown(error) from error

    def _ask(self, error: Exception) -> WriterOut:
        for attempt in range(1, TRIES + 1):
            try:
                return self.client.tables[self.path].writers.get(self.name)
            except FirnError as unanswered:
                if attempt == TRIES:
                    raise self._unknown(error) from unanswered
                time.sleep(0.5 * 2**attempt)
        raise AssertionError("unreachable")

    def _unknown(self, error: Exception) -> WriteUnknown:
        return WriteUnknown(
            f"{self.table}: no answer to a commit of writer {self.name!r}: start the query again, the batch is applied "
            f"once. Last error: {reason(error)}"
        )

    def _commit_batch(self, step: BatchStep, append: Callable[[dict[str, str]], None]) -> bool:
        """Commit a batch of a source without positions under the name of its query and its number."""
        if not self.warned:
            log.warning(
                "the source of writer %r of %s has no positions: if the query loses its checkpoint, its rows are "
                "written twice",
                *(self.name, self.table),
            )
            self.warned = True
        batch = f"{step.query_id}/{step.batch}"
        try:
            append(_format_options({"firn.writer-id": self.name, "firn.batch-id": batch}))
        except Exception as error:
            if is_known_batch(error):
                log.warning("%s has batch %s of writer %r already", self.table, batch, self.name)
                return False
            if is_uncertain(error):
                raise self._unknown(error) from error
            raise
        return True


def _format_options(summary: dict[str, str]) -> dict[str, str]:
    return {f"{SUMMARY_OPTION}{key}": value for key, value in summary.items()}


def _explain(mine: WriterOut, now: WriterOut, error: Exception) -> str:
    if now.fenced_at is not None:
        return f"writer {mine.name!r} was fenced for good at {now.fenced_at:%Y-%m-%d %H:%M:%S} UTC"
    if now.epoch != mine.epoch:
        by = f" by {now.registered_by}" if now.registered_by else ""
        return (
            f"a newer copy of writer {mine.name!r}, epoch {now.epoch}, was started at "
            f"{now.registered_at:%Y-%m-%d %H:%M:%S} UTC{by}; this copy, epoch {mine.epoch}, is fenced: end it"
        )
    return reason(error)
