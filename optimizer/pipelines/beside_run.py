"""A job that computes chunks of a backfill beside the live runs of a table (docs/protocols.md, rules 8.24 to 8.28).

It takes one chunk after the other, and commits each by itself. A kill between any two lines loses the chunk that it
has, which the next attempt, or another job, takes again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Protocol

import httpx
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.protocol.beside import BACKFILL_KEY, ChunkState, CommitChunk, Take, TakeChunk, TakenChunk
from firn.protocol.names import join_name
from firn.protocol.pipelines import RunResult
from firn.spark.changes import Feed, plan_feed
from firn.spark.errors import WriteUnknown
from optimizer.errors import Refused, Unknown
from optimizer.pipelines.context import SharedInputs
from optimizer.pipelines.lake import open_lake
from optimizer.pipelines.publishing import ComputedTable
from optimizer.pipelines.run import PipelineRun
from optimizer.pipelines.set_commit import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, TRIES
from optimizer.pipelines.staged_rows import StagedRows
from optimizer.pipelines.table_run import TableRun
from optimizer.pipelines.tuning import NO_VARIABLES, use_settings
from optimizer.pipelines.writing import ChangeRows

MOST_LOOKS = 20
"""How often live runs may commit between the look for written keys and the commit of one chunk."""
MOST_VOIDS = 3
"""The chunks in a row that the server takes from a job."""


class Chunks(Protocol):
    """What the job asks of the server, with its lease."""

    def take(self, request: TakeChunk) -> TakenChunk:
        """The next chunk, or none."""

    def commit(self, request: CommitChunk) -> ChunkState:
        """Commit a chunk, with its rows if it has some.

        Raises Refused if another commit came first, Unknown and httpx.HTTPError without an answer.
        """


@dataclass(frozen=True)
class BesideRun:
    """One attempt at a job beside live runs."""

    attempt: PipelineRun
    chunks: Chunks
    now: Callable[[], float] = time.monotonic

    def run(self) -> RunResult:
        """Compute chunks until none is left, or the job's time is over.

        Raises Refused if a chunk cannot be computed, WriteUnknown if nobody knows whether it was committed.
        """
        until, total, voids = self.now() + self.attempt.task.beside_seconds, RunResult(mode="incremental"), 0
        while True:
            result = self._run_once()
            if isinstance(result, str):
                return total.model_copy(update={"reason": result})
            voids = voids + 1 if result is None else 0
            if voids == MOST_VOIDS:
                raise Refused("the server has taken several chunks from the job: another one computes them")
            if result is not None:
                total = _add(total, result)
            if self.now() >= until:
                return total.model_copy(update={"reason": "its time is over; another job goes on"})

    def _run_once(self) -> RunResult | str | None:
        """Compute one chunk; None if it was void, and the reason if there is none."""
        attempt = self.attempt
        settings = use_settings(attempt.spark, NO_VARIABLES)
        with settings, open_lake(attempt.spark, attempt.catalog) as lake, ExitStack() as stack:
            (table,) = attempt.list_tables(attempt.build_context(lake, stack))
            attempt.stage("taking a chunk")
            taken_chunk = self.chunks.take(TakeChunk(fingerprint=table.definition.fingerprint))
            if taken_chunk.take is None:
                return taken_chunk.reason
            return self._compute(table, taken_chunk.take, SharedInputs(lake, {}))

    def _compute(self, table: TableRun, take: Take, inputs: SharedInputs) -> RunResult | None:
        (chunk,) = take.chunks.chunks
        self.attempt.say(f"chunk {chunk.number} of backfill {take.chunks.backfill}: {chunk.condition}")
        computed = table.compute_chunk(take, inputs)
        with ExitStack() as stack:
            self.attempt.stage("committing")
            state, written = _Commit(self.chunks, take, computed, stack).send()
        if state is ChunkState.VOID:
            self.attempt.say("the chunk is void: a user or another run was faster")
            return None
        return computed.result.model_copy(update={"chunks": 1, "written": written})


@dataclass(frozen=True)
class _Commit:
    """The commit of one chunk."""

    server: Chunks
    take: Take
    computed: ComputedTable
    stack: ExitStack

    def send(self) -> tuple[ChunkState, int]:
        """Leave out the keys that were written since, and commit; again while live runs come first."""
        for _ in range(MOST_LOOKS):
            position, rows = self._look()
            staged = None if rows is None else rows.stage(self.stack)
            if staged is not None and not any(True for _ in staged.files.list_new()):
                staged = None  # all keys were written since
            state = self._send_until_answered(position, staged)
            if state is not ChunkState.MOVED:
                changed = 0 if staged is None else staged.written or 0
                return state, max(0, changed - self.computed.result.deleted)
        raise Refused(f"live runs have come first {MOST_LOOKS} times; the next job computes the chunk again")

    def _look(self) -> tuple[str, ChangeRows | None]:
        """The position of the live runs' writer, and the rows without the keys that were written up to then.

        The position is read first: what comes later is left out needlessly, and never too little.
        """
        target = self.computed.target
        handle = target.lake.table(target.table)
        position, rows = handle.writers.get(self.take.writer).position or "none", self.computed.rows
        version = int(handle.show().version or 0)
        if rows is None:
            return position, None
        if not isinstance(rows, ChangeRows):
            raise Refused(f"{target.path} has no key any more: cancel the backfill")
        if version == self.take.version:
            return position, replace(rows, is_counted=False)
        plan = plan_feed(target.lake.client, target.path, join_name(target.parts), self.take.version, version)
        keys = Feed(target.lake.spark, target.parts, plan).list_changed_keys()
        columns = [F.col("row").getField(name).alias(f"k{i}") for i, name in enumerate(plan.primary_key)]
        names = [f"k{i}" for i in range(len(columns))]
        left = rows.changes.select("*", *columns).join(keys, names, "left_anti").drop(*names)
        return position, replace(rows, changes=left, is_counted=False)

    def _send_until_answered(self, position: str, staged: StagedRows | None) -> ChunkState:
        """Send the commit until the server has applied it, or certainly will not.

        The same take is committed once, however often it is sent.
        """
        for attempt in range(1, TRIES + 1):
            try:
                return self.server.commit(self._build(position, staged))
            except Refused:
                if attempt == TRIES:
                    raise
                # Another commit, such as a merge, came first. Built again, the snapshot has its files, too.
            except (Unknown, httpx.HTTPError) as error:
                if attempt == TRIES:
                    raise WriteUnknown(f"no answer to the commit of a chunk of {self.computed.pins.table}") from error
            time.sleep(min(FIRST_PAUSE_SECONDS * 2**attempt, LONGEST_PAUSE_SECONDS))
        raise AssertionError("unreachable")

    def _build(self, position: str, staged: StagedRows | None) -> CommitChunk:
        summary = {BACKFILL_KEY: f"{self.take.chunks.backfill}/{self.take.chunks.chunks[0].number}"}
        table = self.computed.pins.table
        change = None if staged is None else staged.build_changes(table, summary)
        return CommitChunk(take=self.take.id, position=position, change=change)


def _add(total: RunResult, result: RunResult) -> RunResult:
    names = ("chunks", "written", "unchanged", "deleted")
    return total.model_copy(update={name: getattr(total, name) + getattr(result, name) for name in names})
