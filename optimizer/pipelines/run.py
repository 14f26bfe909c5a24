"""One run of a pipeline: the targets, their pins, the computation of each, and one commit at the end.

A run computes one table, or several that move together. `PipelineRun` is the whole run, `TableRun` one target of it. A
target is first computed to a `ComputedTable`, which is ready to be committed and which nobody can read, and only when
all are ready, `commit_run` commits them. Each step may be repeated after a failure anywhere: nothing but the commit
changes what readers see, and it moves the writers' positions (docs/protocols.md#pipelines).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from pyspark.sql import SparkSession

from firn.protocol.pipeline_pins import PinRequest, PinTarget, TargetPins
from firn.protocol.pipelines import RunResult, TableDefinition
from firn.protocol.tasks.pipeline import PipelineTask
from optimizer.pipelines.commit import Checkpoints, commit_run
from optimizer.pipelines.context import RunContext, SharedInputs
from optimizer.pipelines.inputs import StateRead
from optimizer.pipelines.lake import Lake, open_lake
from optimizer.pipelines.plain_files import TargetChanged
from optimizer.pipelines.store_files import StoreFiles
from optimizer.pipelines.table_run import TableRun
from optimizer.pipelines.tuning import NO_VARIABLES, Tuning, use_settings

MOST_REPEATS = 3
"""A run begins again as often as this if others change the table without a key that it writes."""


@dataclass(frozen=True)
class PipelineRun:
    """One attempt at a run, in a session of its own, which sees the pipeline's catalog as `catalog`."""

    spark: SparkSession
    catalog: str
    task: PipelineTask
    checkpoints: Checkpoints
    run_id: str = ""
    """The id of the job; its attempts share it."""
    stage: Callable[[str], None] = lambda _: None
    say: Callable[[str], None] = lambda _: None
    check_reads: Callable[[Sequence[StateRead]], None] = lambda _: None
    """Raises Refused if the run may not open the files of one of these."""
    allow_code: bool = False
    """Whether this process runs the Python of pipelines."""
    files: StoreFiles | None = None
    """The way to the files of keyed tables without Spark."""

    def run(self) -> RunResult:
        """Compute all targets up to new pins, and commit them; again if somebody else has changed a target meanwhile.

        Raises Refused if nothing was committed and the same run would fail again, WriteUnknown if the next attempt has
        to find out.
        """
        for _ in range(MOST_REPEATS):
            try:
                return self._run_once()
            except TargetChanged as changed:
                self.say(f"again from the start: {changed}")
        return self._run_once()

    def _run_once(self) -> RunResult:
        with use_settings(self.spark, NO_VARIABLES), open_lake(self.spark, self.catalog) as lake, ExitStack() as stack:
            tables = self.list_tables(self.build_context(lake, stack))
            for table in tables:
                table.prepare()
            pins = self._pin(tables)
            inputs = SharedInputs(lake, {})
            computed = [table.compute(pinned, inputs) for table, pinned in zip(tables, pins, strict=True)]
            first, *others = commit_run(computed, self.checkpoints, self.stage, holds=self.task.holds)
        return first.model_copy(
            update={"together": {table.name: result for table, result in zip(tables[1:], others, strict=True)}}
        )

    def build_context(self, lake: Lake, stack: ExitStack) -> RunContext:
        """What all tables of the run share, until `stack` closes."""
        tuning = Tuning(self.spark)
        stack.enter_context(tuning.stack)
        return RunContext(
            spark=self.spark,
            lake=lake,
            run_id=self.run_id,
            deterministic=self.task.deterministic,
            is_full_requested=self.task.full,
            holds=self.task.holds,
            stage=self.stage,
            say=self.say,
            check_reads=self.check_reads,
            claim=self.checkpoints.claim,
            stack=stack,
            tuning=tuning,
            pipeline=self.task.pipeline,
            texts={file.path: file.text for file in self.task.modules},
            allow_code=self.allow_code,
            files=None if self.task.holds or len(self.task.targets) > 1 else self.files,
        )

    def list_tables(self, context: RunContext) -> list[TableRun]:
        """The targets of the run."""
        return [
            TableRun(context, tuple(target.target), TableDefinition.model_validate(target.definition))
            for target in self.task.targets
        ]

    def _pin(self, tables: Sequence[TableRun]) -> list[TargetPins]:
        """Register the writers of all tables and pin their inputs, in one transaction of the server."""
        self.stage("pinning inputs")
        targets = [PinTarget(table=table.name, fingerprint=table.definition.fingerprint) for table in tables]
        return self.checkpoints.pin(PinRequest(targets=targets)).targets
