"""Runs that add the changes of an input to counts and sums of the target's rows, and read no other rows of the groups.

The SQL is the plan's. This module decides whether the run may use it (docs/protocols.md, rules 8.29 and 8.30), and
recomputes the groups of which the SQL is not sure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.pipelines.group_changes import CHANGES, CURRENT, UNSURE, GroupChanges
from firn.pipelines.plan import Plan
from firn.protocol.names import quote_name
from firn.protocol.pipeline_outputs import OutputMode
from firn.protocol.pipeline_pins import TargetPins
from firn.protocol.pipelines import TableDefinition
from optimizer.pipelines.computing import Computing
from optimizer.pipelines.inputs import PinnedInput
from optimizer.pipelines.selection import Selection
from optimizer.pipelines.target import PipelineTarget


def can_be_exact(definition: TableDefinition, plan: Plan) -> bool:
    """Whether a run of the table can know that its rows are those of a full computation.

    Rows that validators drop are missing, and code and other writers may give others.
    """
    is_own = definition.output_mode is OutputMode.UPSERT and definition.code is None and definition.quarantine is None
    reads_itself = definition.name.lower() in {name.lower() for name in definition.inputs}
    return bool(plan.maintained_by()) and is_own and not reads_itself


def hides_rows(target: PipelineTarget, inputs: Mapping[str, PinnedInput]) -> bool:
    """Whether rows that are too old for reads vanish without a commit, from the target or from an input."""
    return target.shown.hides is not None or any(pinned.hides_rows() for pinned in inputs.values())


def find_group_changes(plan: Plan, pins: TargetPins, changed: Sequence[str]) -> GroupChanges | None:
    """How the run adds changes, if only one input has changed; None beside backfills, which recompute rows."""
    has_backfills = pins.chunks is not None or pins.replay is not None or pins.writes_unchanged
    return None if has_backfills else plan.group_changes(changed)


@dataclass(frozen=True)
class Maintained:
    """The rows of a run that adds changes. `recomputed` is the number of affected values that were recomputed."""

    rows: DataFrame
    selection: Selection
    recomputed: int


def add_changes(
    computing: Computing, target: PipelineTarget, changed: str, group_changes: GroupChanges, *, are_found: bool
) -> Maintained | None:
    """Add the changes of an input to the target's rows; None if no group has any.

    The target's rows have to be exact, and to have the types of the query: see `has_equal_types`. If the changes are
    found already, a view has them.
    """
    spark = computing.spark
    if not are_found:
        computing.show_changes(changed, group_changes.changes)
        computing.name_view(CHANGES, computing.compute_now(spark.sql(group_changes.changes)))
    affected = computing.count_affected(spark.sql(group_changes.affected))
    if affected is None:
        return None
    current = computing.compute_now(affected.restrict(target.read_rows()))
    computing.name_view(CURRENT, current)
    counted = Observation()
    unsure = F.count_if(F.col(UNSURE)).alias("unsure")
    maintained = computing.compute_now(spark.sql(group_changes.maintained).observe(counted, unsure))
    rows, selection = maintained.drop(UNSURE), Selection(affected, current=current)
    if not counted.get["unsure"]:
        return Maintained(rows, selection, 0)
    names = [quote_name(name) for name in affected.scope]
    doubtful = computing.count_affected(maintained.where(UNSURE).select(*names).distinct())
    assert doubtful is not None  # noqa: S101 -- they are counted
    others = doubtful.exclude(rows)
    return Maintained(others.unionByName(computing.compute_affected(doubtful)), selection, doubtful.count)


def has_equal_types(computing: Computing, target: PipelineTarget) -> bool:
    """Whether the target has each value as the query gives it: a cast may have rounded or cut it."""
    fields = {name.lower(): field.dataType for name, field in target.read_fields().items()}
    return all(fields.get(field.name.lower()) == field.dataType for field in computing.compute_full().schema.fields)
