"""One run of a pipeline's table: target, pins, computation, and the commit or the step without one.

Each step may be repeated after a failure anywhere: nothing but the commit changes what readers see, and it moves the
writer's position (docs/protocols.md#pipelines).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from firn.pipelines import Plan, incremental
from firn.pipelines.errors import InvalidDefinition
from firn.pipelines.types import name_type
from firn.protocol.names import format_sql_name, join_name
from firn.protocol.pipelines import InputChanges, MoveCheckpoint, PinRequest, Pins, Refresh, RunResult, TableDefinition
from firn.protocol.tasks.pipeline import PipelineTask
from optimizer.errors import Refused
from optimizer.pipelines.auditing import Audit
from optimizer.pipelines.computing import Computing, open_computing, read_result_schema
from optimizer.pipelines.inputs import BASE, PinnedInput, StateRead, list_changed, open_inputs
from optimizer.pipelines.lake import Lake, open_lake
from optimizer.pipelines.mode import choose_mode, weigh
from optimizer.pipelines.publishing import Publishing
from optimizer.pipelines.target import PipelineTarget, create_target, find_target
from optimizer.pipelines.tuning import NO_VARIABLES, choose_settings, use_settings


class Checkpoints(Protocol):
    """What a run asks of the server, with its lease."""

    def pin(self, request: PinRequest) -> Pins:
        """Register the run's writer on the target, and pin the inputs."""

    def move(self, step: MoveCheckpoint) -> None:
        """Move the writer to the new checkpoint without a commit."""


@dataclass(frozen=True)
class PipelineRun:
    """One attempt at a run, in a session of its own, which sees the pipeline's catalog as `catalog`."""

    spark: SparkSession
    catalog: str
    task: PipelineTask
    checkpoints: Checkpoints
    stage: Callable[[str], None] = lambda _: None
    say: Callable[[str], None] = lambda _: None
    check_reads: Callable[[Sequence[StateRead]], None] = lambda _: None
    """Raises Refused if the run may not open the files of one of these."""

    @property
    def definition(self) -> TableDefinition:
        """The table's definition."""
        return TableDefinition.model_validate(self.task.definition)

    def run(self) -> RunResult:
        """Compute the table up to new pins, and commit it.

        Raises Refused if nothing was committed and the same run would fail again, WriteUnknown if the next attempt has
        to find out.
        """
        with use_settings(self.spark, NO_VARIABLES), open_lake(self.spark, self.catalog) as lake:
            self._prepare_target(lake)
            self.stage("pinning inputs")
            pins = self.checkpoints.pin(PinRequest(fingerprint=self.definition.fingerprint))
            changed = [] if pins.since is None else list_changed(pins.since.pins, pins.until.pins)
            if pins.since is not None and not changed and not self.task.full:
                return self._move(pins, RunResult(mode="nothing", reason="no input has changed"))
            inputs = open_inputs(lake, None if pins.since is None else pins.since.pins, pins.until.pins)
            # What the server shows now is not older than the writer's position.
            result = self._run_pinned(self._find_target(lake), pins, inputs, changed)
        return result.model_copy(update={"inputs": [InputChanges(table=name) for name in changed]})

    def _run_pinned(
        self, target: PipelineTarget, pins: Pins, inputs: Mapping[str, PinnedInput], changed: Sequence[str]
    ) -> RunResult:
        states = [state for pinned in inputs.values() for state in pinned.list_states()]
        self.check_reads([*states, *target.list_states()])
        plan = self._plan(_read_schemas({name: pinned.read_new() for name, pinned in inputs.items()}))
        mode = choose_mode(plan, self.definition.refresh, pins, inputs, is_keyed=target.is_keyed, asked=self.task.full)
        measured = {name: pinned.measure() for name, pinned in inputs.items()}
        if self.definition.refresh is Refresh.AUTO and not mode.is_full:
            mode = weigh(plan, measured, changed, target.total_bytes)
        if mode.reason is not None:
            self.say(f"{'full' if mode.is_full else 'incremental'}: {mode.reason}")
        settings = choose_settings(sum(total for _, total in measured.values()) + target.total_bytes)
        with use_settings(self.spark, settings), open_computing(self.spark, plan, inputs) as computing:
            result = self._compute(target, pins, computing, None if mode.is_full else changed)
        return result.model_copy(update={"reason": mode.reason})

    def _compute(
        self, target: PipelineTarget, pins: Pins, computing: Computing, changed: Sequence[str] | None
    ) -> RunResult:
        """Compute and commit; all rows if `changed` is None, otherwise those that the changed inputs affect."""
        affected = None
        if changed is not None:
            self.stage("finding affected rows")
            affected = computing.find_affected(changed)
            if affected is None:
                return self._move(pins, RunResult(mode="incremental", keys=0))
            self.say(f"{affected.count} values of {', '.join(affected.scope)} are affected")
        self.stage("computing")
        rows = computing.compute_full() if affected is None else computing.compute_affected(affected)
        published = Publishing(target, pins, computing, self.stage, self._build_audit(rows, computing)).publish(
            rows, affected
        )
        result = RunResult(
            mode="full" if affected is None else "incremental",
            keys=None if affected is None else affected.count,
            written=published.written,
            unchanged=published.unchanged,
            deleted=published.deleted,
            snapshot_id=published.snapshot_id,
            validators=[*published.validators],
        )
        return (
            result.model_copy(update={"checkpoint": pins.until.id})
            if published.is_committed
            else self._move(pins, result)
        )

    def _build_audit(self, rows: DataFrame, computing: Computing) -> Audit | None:
        """The validators of the table. Raises Refused for one that does not fit the query."""
        definition = self.definition
        if not definition.validators:
            return None
        try:
            return Audit(
                spark=self.spark,
                validators=definition.validators,
                columns=rows.columns,
                inputs=definition.inputs,
                key=definition.key,
                read_input=lambda name: computing.inputs[name].read_new(),
            )
        except InvalidDefinition as problem:
            raise Refused(f"{definition.path}: {problem.message}") from problem

    @property
    def _table(self) -> str:
        return join_name(self.task.target)

    def _prepare_target(self, lake: Lake) -> None:
        """Create the target if it is missing: the writer's registration needs a table."""
        if find_target(lake, self._table) is None:
            self.stage("creating the table")
            create_target(lake, self._table, self.definition, self._read_result_schema(lake))
            self.say(f"created {self._table}")

    def _find_target(self, lake: Lake) -> PipelineTarget:
        """The target as it is now. Raises Refused if it has another key than the definition."""
        target = find_target(lake, self._table)
        if target is None:
            raise Refused(f"{self._table} was dropped while the run began: run again")
        given, keyed = [key.lower() for key in self.definition.key], [key.lower() for key in target.shown.primary_key]
        if sorted(given) != sorted(keyed):
            raise Refused(
                f"{target.path} has the primary key {', '.join(keyed) or '(none)'}, and the pipeline says "
                f"{', '.join(given) or '(none)'}: drop the table, or change the definition"
            )
        return target

    def _read_result_schema(self, lake: Lake) -> StructType:
        """The columns of the query over the inputs of now. Nothing is read."""
        heads = {name: _open_head(lake, name) for name in self.definition.inputs}
        return read_result_schema(self.spark, self._plan(_read_schemas(heads)), heads)

    def _plan(self, schema: Mapping[str, Mapping[str, str]]) -> Plan:
        query, key = self.definition.query, self.definition.key
        try:
            return incremental(query, schema, key=key, deterministic=self.task.deterministic)
        except InvalidDefinition as problem:
            raise Refused(f"{self.definition.path}: {problem.message}") from problem

    def _move(self, pins: Pins, result: RunResult) -> RunResult:
        """End a run that changes no row."""
        start = pins.writer.position or "none"
        self.checkpoints.move(MoveCheckpoint(epoch=pins.writer.epoch, start=start, end=pins.until.id))
        return result.model_copy(update={"checkpoint": pins.until.id})


def _open_head(lake: Lake, name: str) -> DataFrame:
    """A frame with the columns of a table as it is now: those of the base store, if it is keyed."""
    is_keyed = bool(lake.table(name).show().primary_key)
    parts = lake.parts(name)
    return lake.spark.table(format_sql_name((*parts, BASE) if is_keyed else parts))


def _read_schemas(frames: Mapping[str, DataFrame]) -> dict[str, dict[str, str]]:
    """The columns of tables and their types, as the planner takes them."""
    return {
        name: {field.name.lower(): name_type(field.dataType.simpleString()) for field in frame.schema.fields}
        for name, frame in frames.items()
    }
