"""Computes the rows of a run: the SQL of a plan over temporary views of its inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention
from pyspark.sql.types import BooleanType, DateType, IntegralType, StringType, StructType

from firn.pipelines.plan import Input, Plan, State, Step
from firn.pipelines.recompute import values_sql
from firn.pipelines.relations import AFFECTED
from firn.protocol.names import quote_name
from optimizer.pipelines.inputs import ChangedRows, PinnedInput

MOST_FEW = 20_000
"""Up to so many rows are few: the driver compares and writes them itself, which takes a second of its CPU."""
MOST_COLLECTED = 200_000
"""Up to so many affected values are read by the driver, and sent to each task of a join."""
MOST_LITERALS = 1_000
"""Up to so many different values of a column stand in SQL. With more of them, files are left out by other columns."""
_LITERAL_TYPES = (BooleanType, IntegralType, StringType, DateType)


@dataclass(frozen=True)
class Affected:
    """The values of the scope whose rows may differ. `values` has those of the columns that have few."""

    frame: DataFrame
    scope: tuple[str, ...]
    count: int
    values: Mapping[str, Sequence[Any]]
    rows: pa.Table | None = None
    """The values, if they are few."""

    def restrict(self, rows: DataFrame) -> DataFrame:
        """The rows with affected values. Literal values let Iceberg leave out files."""
        affected = self.frame.select(*(F.col(quote_name(name)).alias(f"s{i}") for i, name in enumerate(self.scope)))
        for name, values in self.values.items():
            rows = rows.where(values_sql(name, values))
        same = [F.col(f"s{i}").eqNullSafe(rows[quote_name(name)]) for i, name in enumerate(self.scope)]
        return rows.join(affected, same, "left_semi")

    def exclude(self, rows: DataFrame) -> DataFrame:
        """The rows whose values are not affected."""
        values = self.frame.select(*(F.col(quote_name(name)).alias(f"s{i}") for i, name in enumerate(self.scope)))
        same = [F.col(f"s{i}").eqNullSafe(rows[quote_name(name)]) for i, name in enumerate(self.scope)]
        return rows.join(values, same, "left_anti")


@dataclass(frozen=True)
class Computing:
    """A plan, its inputs, and what it keeps in Spark's memory until `close`. The session has to be the run's own."""

    spark: SparkSession
    plan: Plan
    inputs: Mapping[str, PinnedInput]
    earlier: Affected | None = None
    """Values that count as affected in any case: those of a replay."""
    stack: ExitStack = field(default_factory=ExitStack)

    def keep(self, frame: DataFrame) -> DataFrame:
        """Compute a frame at most once, on memory and disk."""
        kept = frame.persist()
        self.stack.callback(kept.unpersist)
        return kept

    def compute_full(self, frames: Mapping[str, DataFrame] = MappingProxyType({})) -> DataFrame:
        """All rows of the table at the new pins, or those of the query over other `frames` of some inputs."""
        for read in self.plan.inputs:
            frame = frames[read.name] if read.name in frames else self.inputs[read.name].read_new()
            self._show(read, State.NEW, frame)
        return self.spark.sql(self.plan.full())

    def find_affected(self, changed: Sequence[str]) -> Affected | None:
        """Compute the affected values, for inputs that changed; None if there are none."""
        affected = self._find_changed(changed)
        if self.earlier is None:
            return affected
        if affected is not None:
            return self.count_affected(affected.frame.unionByName(self.earlier.frame).distinct())
        self._show_states([], [])
        return self.count_affected(self.earlier.frame)

    def _find_changed(self, changed: Sequence[str]) -> Affected | None:
        steps = self.plan.affected(changed)
        if not steps:
            return None
        self._show_states(changed, steps)
        for number, step in enumerate(steps[:-1]):
            frame, uses = self.spark.sql(step.sql), sum(later.sql.count(step.name) for later in steps[number + 1 :])
            self.name_view(step.name, self.compute_now(frame) if uses > 1 else frame)
        return self.count_affected(self.spark.sql(steps[-1].sql))

    def show_changes(self, changed: str, sql: str) -> None:
        """Views of the states that SQL over the changes of one input reads, and those that a recomputation reads."""
        self._show_states([changed], [Step("", sql)], is_added=True)

    def count_affected(self, frame: DataFrame) -> Affected | None:
        """The values of a frame, which the recomputation reads by the name of the last step."""
        rows, computed = self.collect_few(frame)
        count = computed.count() if rows is None else len(rows)
        computed = computed.hint("broadcast") if count <= MOST_COLLECTED else computed
        self.name_view(AFFECTED, computed)
        if not count:
            return None
        return Affected(computed, self.plan.scope, count, self._list_literals(computed, rows, count), rows)

    def use_affected(self, rows: pa.Table) -> Affected:
        """As `count_affected`, of values that the driver has found."""
        frame = self.spark.createDataFrame(rows).hint("broadcast")
        self.name_view(AFFECTED, frame)
        return Affected(frame, self.plan.scope, len(rows), self._list_literals(frame, rows, len(rows)), rows)

    def collect(self, frame: DataFrame) -> pa.Table | None:
        """The rows of a frame; None if they are not few."""
        return self.collect_few(frame)[0]

    def collect_few(self, frame: DataFrame) -> tuple[pa.Table | None, DataFrame]:
        """The rows, None if they are not few, and a frame that has them: Spark computes them once, in one job."""
        kept = frame.localCheckpoint(eager=False)
        self.stack.callback(_forget, kept)
        rows = kept.limit(MOST_FEW + 1).toArrow()
        return (None if len(rows) > MOST_FEW else rows), kept

    def compute_now(self, frame: DataFrame) -> DataFrame:
        """Compute a frame that SQL reads by its name. Spark does not find rows that it keeps for the plan of a view."""
        computed = frame.localCheckpoint()
        self.stack.callback(_forget, computed)
        return computed

    def compute_affected(self, affected: Affected) -> DataFrame:
        """The rows of the table with affected values."""
        pruned = self.plan.pruned_columns()
        return self.spark.sql(
            self.plan.rows({name: affected.values[name] for name in affected.values if name in pruned})
        )

    def _show_states(self, changed: Sequence[str], steps: Sequence[Step], *, is_added: bool = False) -> None:
        """Views of the states that the steps and the recomputation read.

        One query adds changed rows: Spark finds them once for it, without a job before it.
        """
        sql, columns = " ".join(step.sql for step in steps), self.plan.read_columns()
        for read in self.plan.inputs:
            pinned, needed = self.inputs[read.name], columns[read.name] or read.columns[:1]
            self._show(read, State.NEW, pinned.read_new())
            if f"{read.relation(State.OLD)}`" in sql:
                self._show(read, State.OLD, pinned.read_old())
            if read.name not in changed:
                continue
            changes = pinned.read_changed(needed, is_net=not is_added)
            uses = sum(sql.count(f"{read.relation(state)}`") for state in (State.BEFORE, State.AFTER))
            if uses > 1 and not is_added:
                changes = ChangedRows(self.compute_now(changes.frame))
            self._show(read, State.BEFORE, changes.before)
            self._show(read, State.AFTER, changes.after)

    def _show(self, read: Input, state: State, frame: DataFrame) -> None:
        self.name_view(read.relation(state), frame)

    def name_view(self, view: str, frame: DataFrame) -> None:
        """Let SQL read a frame by a name, until the end of the run."""
        frame.createOrReplaceTempView(quote_name(view))
        self.stack.callback(self.spark.catalog.dropTempView, view)

    def _list_literals(self, frame: DataFrame, rows: pa.Table | None, count: int) -> dict[str, list[Any]]:
        """The affected values of columns that have few, if they can stand in SQL."""
        flat = [name for name in self.plan.scope if isinstance(frame.schema[name].dataType, _LITERAL_TYPES)]
        if count > MOST_COLLECTED or not flat:
            return {}
        rows = frame.select(*map(quote_name, flat)).toArrow() if rows is None else rows
        few = {name: values for name in flat if len(values := rows[name].unique()) <= MOST_LITERALS}
        listed = {name: values.to_pylist() for name, values in few.items()}
        return {name: values for name, values in listed.items() if all(map(_is_literal, values))}


def _forget(computed: DataFrame) -> None:
    """Free the rows of a checkpoint, which Spark would keep until Java collects its garbage."""
    computed._jdf.queryExecution().analyzed().rdd().unpersist(False)


def _is_literal(value: Any) -> bool:
    """Whether a value stands in SQL as it is. Spark and the planner escape other characters of text differently."""
    return not isinstance(value, str) or (value.isprintable() and "\\" not in value)


@contextmanager
def open_computing(computing: Computing) -> Iterator[Computing]:
    """Views and kept frames of a run, which are gone at the end."""
    with computing.stack:
        yield computing


def read_result_schema(spark: SparkSession, plan: Plan, heads: Mapping[str, DataFrame]) -> StructType:
    """The columns of the query over these frames, of which nothing is read."""
    views = [(read.relation(State.NEW), heads[read.name]) for read in plan.inputs]
    for view, frame in views:
        frame.createOrReplaceTempView(quote_name(view))
    try:
        return spark.sql(plan.full()).schema
    finally:
        for view, _ in views:
            spark.catalog.dropTempView(view)
