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
from firn.protocol.names import format_sql_name, split_name
from firn.protocol.pipelines import MoveCheckpoint, PinRequest, Pins, Refresh, RunResult, TableDefinition
from firn.protocol.tasks.pipeline import PipelineTask
from firn.spark.sessions import client_of
from optimizer.errors import Refused
from optimizer.pipelines.computing import Computing, describe_changes, open_computing, read_result_schema
from optimizer.pipelines.inputs import open_inputs
from optimizer.pipelines.mode import choose_mode, weigh
from optimizer.pipelines.publishing import Publishing
from optimizer.pipelines.target import PipelineTarget, create_target, find_target


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
    check_reads: Callable[[Pins], None] = lambda _: None
    """Raises Refused if the run may not open the files of an input."""

    @property
    def definition(self) -> TableDefinition:
        """The table's definition."""
        return TableDefinition.model_validate(self.task.definition)

    def run(self) -> RunResult:
        """Compute the table up to new pins, and commit it.

        Raises Refused if nothing was committed and the same run would fail again, WriteUnknown if the next attempt has
        to find out.
        """
        target = self._prepare_target()
        self.stage("pinning inputs")
        pins = self.checkpoints.pin(PinRequest(fingerprint=self.definition.fingerprint))
        self.check_reads(pins)
        since = None if pins.since is None else pins.since.pins
        inputs = open_inputs(self.spark, self.catalog, since, pins.until.pins)
        plan = self._plan(_read_schemas({name: pinned.read_new() for name, pinned in inputs.items()}))
        changed = [name for name, pinned in inputs.items() if pinned.has_changed]
        mode = choose_mode(plan, self.definition.refresh, pins, inputs, is_keyed=target.is_keyed, asked=self.task.full)
        if pins.since is not None and not changed and not self.task.full:
            return self._move(pins, RunResult(mode="nothing", reason="no input has changed"))
        if self.definition.refresh is Refresh.AUTO and not mode.is_full:
            mode = weigh(plan, inputs, changed, target.shown.bytes + target.shown.pending_bytes)
        if mode.reason is not None:
            self.say(f"{'full' if mode.is_full else 'incremental'}: {mode.reason}")
        with open_computing(self.spark, plan, inputs) as computing:
            result = self._compute(target, pins, computing, changed if not mode.is_full else None)
        return result.model_copy(update={"reason": mode.reason, "inputs": describe_changes(inputs)})

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
        publishing = Publishing(target, pins, computing, self.stage)
        counted = publishing.publish(rows, affected)
        result = RunResult(
            mode="full" if affected is None else "incremental",
            keys=None if affected is None else affected.count,
            written=counted.written,
            unchanged=counted.unchanged,
            deleted=counted.deleted,
        )
        if not counted.is_committed:
            return self._move(pins, result)
        return result.model_copy(update={"snapshot_id": counted.snapshot_id, "checkpoint": pins.until.id})

    def _prepare_target(self) -> PipelineTarget:
        """The target, created if it is missing: the writer's registration needs a table."""
        target = find_target(self.spark, self.catalog, self.task.target)
        if target is None:
            self.stage("creating the table")
            target = create_target(
                self.spark, self.catalog, self.task.target, self.definition, self._read_result_schema()
            )
            self.say(f"created {target.path}")
        given, keyed = [key.lower() for key in self.definition.key], [key.lower() for key in target.shown.primary_key]
        if sorted(given) != sorted(keyed):
            raise Refused(
                f"{target.path} has the primary key {', '.join(keyed) or '(none)'}, and the pipeline says "
                f"{', '.join(given) or '(none)'}: drop the table, or change the definition"
            )
        return target

    def _read_result_schema(self) -> StructType:
        """The columns of the query over the inputs of now. Nothing is read."""
        heads = {name: self._open_head(name) for name in self.definition.inputs}
        return read_result_schema(self.spark, self._plan(_read_schemas(heads)), heads)

    def _open_head(self, name: str) -> DataFrame:
        """A frame with the columns of a table as it is now: those of the base store, if it is keyed."""
        parts = (self.catalog, *split_name(name))
        client, path = client_of(self.spark, format_sql_name(parts))
        is_keyed = bool(client.tables[path].show().primary_key)
        return self.spark.table(format_sql_name((*parts, "base") if is_keyed else parts))

    def _plan(self, schema: Mapping[str, Mapping[str, str]]) -> Plan:
        try:
            return incremental(
                self.definition.query, schema, key=self.definition.key, deterministic=self.task.deterministic
            )
        except InvalidDefinition as problem:
            raise Refused(f"{self.definition.path}: {problem.message}") from problem

    def _move(self, pins: Pins, result: RunResult) -> RunResult:
        """End a run that changes no row."""
        start = pins.writer.position or "none"
        self.checkpoints.move(MoveCheckpoint(epoch=pins.writer.epoch, start=start, end=pins.until.id))
        return result.model_copy(update={"checkpoint": pins.until.id})


def _read_schemas(frames: Mapping[str, DataFrame]) -> dict[str, dict[str, str]]:
    """The columns of tables and their types, as the planner takes them."""
    return {
        name: {field.name.lower(): name_type(field.dataType.simpleString()) for field in frame.schema.fields}
        for name, frame in frames.items()
    }
