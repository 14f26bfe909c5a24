"""Computes the rows of a run: the SQL of a plan over temporary views of its inputs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention
from pyspark.sql.types import StructType

from firn.pipelines.plan import Input, Plan, State, Step
from firn.protocol.names import quote_name
from optimizer.pipelines.inputs import PinnedInput

MOST_LITERALS = 10_000
"""With more affected values, a run reads all files of the inputs and leaves it to joins to find the rows."""
_LITERALS = (bool, int, str, dt.date)


@dataclass(frozen=True)
class Affected:
    """The values of the scope whose rows may differ. `values` has them by column if there are few."""

    frame: DataFrame
    scope: tuple[str, ...]
    count: int
    values: Mapping[str, Sequence[Any]]

    def restrict(self, rows: DataFrame) -> DataFrame:
        """The rows with affected values. Literal values let Iceberg leave out files."""
        affected = self.frame.select(*(F.col(quote_name(name)).alias(f"s{i}") for i, name in enumerate(self.scope)))
        for name, values in self.values.items():
            known = [value for value in values if value is not None]
            is_one = F.col(quote_name(name)).isin(known) if known else F.lit(False)
            is_null = F.col(quote_name(name)).isNull()
            rows = rows.where(is_one | is_null if len(known) < len(values) else is_one)
        same = [F.col(f"s{i}").eqNullSafe(rows[quote_name(name)]) for i, name in enumerate(self.scope)]
        return rows.join(F.broadcast(affected) if self.values else affected, same, "left_semi")

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
        steps = self.plan.affected(changed)
        if not steps:
            return None
        self._show_states(changed, steps)
        for number, step in enumerate(steps[:-1]):
            frame, uses = self.spark.sql(step.sql), sum(later.sql.count(step.name) for later in steps[number + 1 :])
            self._name(step.name, self.keep(frame) if uses > 1 else frame)
        frame = self.keep(self.spark.sql(steps[-1].sql))
        self._name(steps[-1].name, frame)
        count = frame.count()
        return Affected(frame, self.plan.scope, count, self._collect_few(frame, count)) if count else None

    def compute_affected(self, affected: Affected) -> DataFrame:
        """The rows of the table with affected values."""
        pruned = self.plan.pruned_columns()
        return self.spark.sql(
            self.plan.rows({name: affected.values[name] for name in affected.values if name in pruned})
        )

    def _show_states(self, changed: Sequence[str], steps: Sequence[Step]) -> None:
        """Views of the states that the steps and the recomputation read."""
        sql, columns = " ".join(step.sql for step in steps), self.plan.read_columns()
        for read in self.plan.inputs:
            pinned, needed = self.inputs[read.name], columns[read.name] or read.columns[:1]
            self._show(read, State.NEW, pinned.read_new())
            if f"{read.relation(State.OLD)}`" in sql:
                self._show(read, State.OLD, pinned.read_old())
            if read.name not in changed:
                continue
            before, after = pinned.read_changed(needed)
            for state, frame in ((State.BEFORE, before), (State.AFTER, after)):
                if uses := sql.count(f"{read.relation(state)}`"):
                    self._show(read, state, self.keep(frame) if uses > 1 else frame)

    def _show(self, read: Input, state: State, frame: DataFrame) -> None:
        self._name(read.relation(state), frame)

    def _name(self, view: str, frame: DataFrame) -> None:
        frame.createOrReplaceTempView(quote_name(view))
        self.stack.callback(self.spark.catalog.dropTempView, view)

    def _collect_few(self, frame: DataFrame, count: int) -> dict[str, list[Any]]:
        """The affected values by column, of columns whose values can stand in SQL; none if there are many."""
        if count > MOST_LITERALS:
            return {}
        rows = frame.collect()
        by_column = {name: list(dict.fromkeys(row[name] for row in rows)) for name in self.plan.scope}
        return {name: values for name, values in by_column.items() if all(map(_is_literal, values))}


def _is_literal(value: Any) -> bool:
    """Whether a value stands in SQL as it is. Spark and the planner escape other characters of text differently."""
    if isinstance(value, str) and not (value.isprintable() and "\\" not in value):
        return False
    return value is None or (isinstance(value, _LITERALS) and not isinstance(value, dt.datetime))


@contextmanager
def open_computing(spark: SparkSession, plan: Plan, inputs: Mapping[str, PinnedInput]) -> Iterator[Computing]:
    """Views and kept frames of a run, which are gone at the end."""
    computing = Computing(spark, plan, inputs)
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
