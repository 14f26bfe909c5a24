"""The commit of a run, which moves the writers of its tables to the new checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from firn.protocol.backfills import Claimed, ClaimRequest
from firn.protocol.pipeline_pins import MoveCheckpoint, PinRequest, Pins, TargetPins
from firn.protocol.pipelines import CHECKPOINT_KEY, PublishRun, RunResult
from firn.spark.errors import CommitRefused, is_refusal, is_uncertain
from firn.spark.stream_writer import SUMMARY_OPTION, StreamWriter
from optimizer.errors import Refused
from optimizer.pipelines.publishing import ComputedTable
from optimizer.pipelines.set_commit import commit_together
from optimizer.pipelines.target import PipelineTarget
from optimizer.pipelines.writing import WritableRows


class Checkpoints(Protocol):
    """What a run asks of the server, with its lease."""

    def pin(self, request: PinRequest) -> Pins:
        """Register the run's writer on each target, and pin the inputs."""

    def move(self, step: MoveCheckpoint) -> None:
        """Move the writer of the only target to the new checkpoint without a commit."""

    def publish(self, request: PublishRun) -> bool:
        """Commit several targets together, or let the commit wait; see `set_commit.Publishing`."""

    def claim(self, request: ClaimRequest) -> Claimed:
        """Let the commit of a target with all rows end its backfills."""


def commit_run(
    tables: Sequence[ComputedTable], checkpoints: Checkpoints, stage: Callable[[str], None], *, holds: bool
) -> list[RunResult]:
    """Commit what a run has computed, several tables in one transaction; the result of each table, in order.

    Dropped rows come to the quarantine in the same transaction.

    With `holds` the server keeps the commit of rows until a user publishes it.

    Raises Refused if another copy of the run has registered, or a writer's position has moved: nothing was committed.
    Raises WriteUnknown if no answer came. The next attempt finds the position then.
    """
    has_dropped = any(table.quarantined is not None for table in tables)
    if len(tables) > 1 or has_dropped or (holds and tables[0].rows is not None):
        return commit_together(tables, checkpoints, stage, holds=holds)
    return [_commit_alone(table, checkpoints, stage) for table in tables]


def _commit_alone(table: ComputedTable, checkpoints: Checkpoints, stage: Callable[[str], None]) -> RunResult:
    """Write and commit the rows of one table at once, or move its checkpoint if it gets none."""
    pins, rows, done = table.pins, table.rows, {"checkpoint": table.pins.until.id}
    if rows is None:
        start = pins.writer.position or "none"
        end, exact_at = pins.until.id, pins.until.exact_at
        step = MoveCheckpoint(table=pins.table, epoch=pins.writer.epoch, start=start, end=end, exact_at=exact_at)
        checkpoints.move(step)
        return table.result.model_copy(update=done)
    stage("committing" if table.result.written or table.result.deleted else "computing and committing")
    counts = list[int | None]()
    snapshot = commit_step(table.target, pins, lambda options: counts.append(_write(rows, options)))
    written = table.result.written if not counts or counts[-1] is None else counts[-1]
    return table.result.model_copy(update={**done, "snapshot_id": snapshot, "written": written})


def commit_step(target: PipelineTarget, pins: TargetPins, append: Callable[[Mapping[str, str]], None]) -> str | None:
    """Commit with `append`, which gets the options of Spark's writer; return the snapshot, if the server tells it.

    Raises Refused if another copy of the run has registered, or the writer's position has moved: nothing was committed.
    Raises WriteUnknown if no answer came. The next attempt finds the position then.
    """
    writer = StreamWriter(target.path, target.lake.client, target.path, pins.writer)
    checkpoint = {f"{SUMMARY_OPTION}{CHECKPOINT_KEY}": pins.until.model_dump_json()}
    try:
        writer.commit_to(pins.until.id, lambda options: append({**options, **checkpoint}))
    except CommitRefused as refused:
        raise Refused(f"superseded: {refused}") from refused
    return target.lake.table(target.table).writers.get(pins.writer.name).snapshot_id


def _write(rows: WritableRows, options: Mapping[str, str]) -> int | None:
    try:
        return rows.commit(options)
    except Exception as error:  # Java throws many types of errors
        if not is_refusal(error) and not is_uncertain(error):
            rows.explain()
        raise
