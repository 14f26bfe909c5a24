"""The commit of a run of several tables: one request, which the server applies to all of them or to none."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol

import httpx
from pyspark.errors import PySparkException

from firn.errors import FirnError
from firn.protocol.answers.writers import WriterOut
from firn.protocol.held_rows import RowSample, SampledRow
from firn.protocol.pipeline_pins import MoveCheckpoint
from firn.protocol.pipelines import CHECKPOINT_KEY, PublishRun, RunResult, TableChanges
from firn.spark.errors import WriteUnknown, is_refusal, is_uncertain
from optimizer.errors import Refused, Unknown
from optimizer.pipelines.publishing import ComputedTable
from optimizer.pipelines.sampling import sample_rows
from optimizer.pipelines.staged_rows import StagedRows
from optimizer.pipelines.writing import WritableRows

log = logging.getLogger(__name__)

TRIES = 8
"""How often a run sends its commit: another writer, such as a merge, may be faster, or answers may be lost."""
FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 10.0


class Publishing(Protocol):
    """What the commit of several tables asks of the server, with the run's lease."""

    def publish(self, request: PublishRun) -> bool:
        """Whether the commit waits for approval, instead of being applied.

        Raises Refused if the server certainly did not commit, Unknown and httpx.HTTPError without an answer.
        """


def commit_together(
    tables: Sequence[ComputedTable], server: Publishing, stage: Callable[[str], None], *, holds: bool = False
) -> list[RunResult]:
    """Write the files of all tables, and commit them in one transaction; the result of each, in order.

    With `holds` the commit may have to wait for approval, and has some of the changed rows for people.

    Raises Refused if another copy of the run has registered, or a writer's position has moved, and TargetChanged if
    somebody has changed a table that the run has read: nothing was committed. Raises WriteUnknown if no answer came.
    The next attempt finds the positions then.
    """
    with ExitStack() as stack:
        stage("writing")
        parts = [_write_part(table, stack) for table in tables]
        samples = _sample(parts) if holds else {}
        stage("committing")
        sent = _Commit(parts, server, samples).send()
    snapshots = {change.table: _find_snapshot(change) for change in sent.request.changes}
    return [part.describe(snapshots.get(part.table.pins.table), is_held=sent.is_held) for part in parts]


@dataclass(frozen=True)
class _Sent:
    """The request that the server has applied, or keeps until a user publishes it."""

    request: PublishRun
    is_held: bool = False


@dataclass(frozen=True)
class _Part:
    """One table of the commit. `rows` is None if it gets none: then its position moves alone.

    `quarantined` are dropped rows for its quarantine.
    """

    table: ComputedTable
    rows: StagedRows | None
    quarantined: StagedRows | None = None

    def build_changes(self) -> TableChanges | None:
        if self.rows is None:
            return None
        pins = self.table.pins
        summary = {**pins.writer.summary_to(pins.until.id), CHECKPOINT_KEY: pins.until.model_dump_json()}
        return self.rows.build_changes(pins.table, summary)

    def build_quarantine(self) -> TableChanges | None:
        """The snapshot of the quarantine, with a step of the writer there."""
        pins = self.table.pins
        if self.quarantined is None or pins.quarantine_writer is None:
            return None
        return self.quarantined.build_changes(pins.table, pins.quarantine_writer.summary_to(pins.until.id))

    def build_move(self) -> MoveCheckpoint:
        pins = self.table.pins
        start = pins.writer.position or "none"
        exact_at = pins.until.exact_at
        return MoveCheckpoint(
            table=pins.table, epoch=pins.writer.epoch, start=start, end=pins.until.id, exact_at=exact_at
        )

    def read_writer(self) -> WriterOut:
        target = self.table.target
        return target.lake.table(target.table).writers.get(self.table.pins.writer.name)

    def has_arrived(self, now: WriterOut) -> bool:
        """Whether the commit was applied."""
        return (now.epoch, now.position) == (self.table.pins.writer.epoch, self.table.pins.until.id)

    def is_unmoved(self, now: WriterOut) -> bool:
        """Whether the commit may still be applied."""
        writer = self.table.pins.writer
        return (now.epoch, now.position, now.fenced_at) == (writer.epoch, writer.position, None)

    @property
    def written(self) -> int:
        """The rows that the table gets."""
        counted = None if self.rows is None else self.rows.written
        return self.table.result.written if counted is None else counted

    def describe(self, snapshot: str | None, *, is_held: bool) -> RunResult:
        done: dict[str, object] = {"checkpoint": self.table.pins.until.id, "snapshot_id": snapshot}
        if is_held:
            done |= {"checkpoint": None, "snapshot_id": None, "held": True}
        return self.table.result.model_copy(update={**done, "written": self.written})

    def sample(self) -> RowSample:
        """Some of the changed rows. Without them, if Spark fails: people decide by the counts then."""
        rows = list[SampledRow]()
        if self.table.changes is not None:
            try:
                rows = sample_rows(self.table.changes)
            except PySparkException as error:
                log.warning("no sample of %s: %s", self.table.pins.table, error)
        return RowSample(rows=rows, written=self.written, deleted=self.table.result.deleted)


@dataclass(frozen=True)
class _Commit:
    parts: Sequence[_Part]
    server: Publishing
    samples: Mapping[str, RowSample]

    def send(self) -> _Sent:
        """Send the commit until the server has applied or kept it, or certainly cannot any more."""
        request = self._build()
        for attempt in range(1, TRIES + 1):
            try:
                is_held = self.server.publish(request)
            except Refused as refusal:
                if self._has_arrived(refusal):
                    return _Sent(request)
                if attempt == TRIES:
                    raise
                # Another commit came first. Built again, the snapshot has that commit's rows, too.
                request = self._build()
            except (Unknown, httpx.HTTPError) as error:
                if self._has_arrived(error):
                    return _Sent(request)
                if attempt == TRIES:
                    raise WriteUnknown(f"no answer to the commit of {self._names}: {error}") from error
            else:
                return _Sent(request, is_held)
            time.sleep(min(FIRST_PAUSE_SECONDS * 2**attempt, LONGEST_PAUSE_SECONDS))
        raise AssertionError("unreachable")

    def _build(self) -> PublishRun:
        changes = [changes for part in self.parts if (changes := part.build_changes()) is not None]
        moves = [part.build_move() for part in self.parts if part.rows is None]
        quarantines = [change for part in self.parts if (change := part.build_quarantine()) is not None]
        return PublishRun(changes=changes, moves=moves, quarantines=quarantines, samples=dict(self.samples))

    def _has_arrived(self, error: Exception) -> bool:
        """Whether the server has applied the commit. Raises Refused if it never will."""
        writers = self._read_writers(error)
        if all(part.has_arrived(now) for part, now in zip(self.parts, writers, strict=True)):
            return True
        if not all(part.is_unmoved(now) for part, now in zip(self.parts, writers, strict=True)):
            raise Refused(f"superseded: another run or a user has moved {self._names}: {error}") from error
        return False

    def _read_writers(self, error: Exception) -> list[WriterOut]:
        for attempt in range(1, TRIES + 1):
            try:
                return [part.read_writer() for part in self.parts]
            except FirnError as unanswered:
                if attempt == TRIES:
                    raise WriteUnknown(f"no answer about the commit of {self._names}: {error}") from unanswered
                time.sleep(min(FIRST_PAUSE_SECONDS * 2**attempt, LONGEST_PAUSE_SECONDS))
        raise AssertionError("unreachable")

    @property
    def _names(self) -> str:
        return ", ".join(part.table.pins.table for part in self.parts)


def _sample(parts: Sequence[_Part]) -> dict[str, RowSample]:
    return {part.table.pins.table: part.sample() for part in parts}


def _write_part(table: ComputedTable, stack: ExitStack) -> _Part:
    rows, quarantined = (None if of is None else _write(of, stack) for of in (table.rows, table.quarantined))
    return _Part(table, rows, quarantined)


def _write(rows: WritableRows, stack: ExitStack) -> StagedRows:
    try:
        return rows.stage(stack)
    except Exception as error:  # Java throws many types of errors
        if not is_refusal(error) and not is_uncertain(error):
            rows.explain()
        raise


def _find_snapshot(change: TableChanges) -> str | None:
    added = [update["snapshot"] for update in change.updates if update.get("action") == "add-snapshot"]
    return str(added[0]["snapshot-id"]) if added else None
