"""A pipeline on rows that the driver has: its tables computed in full, and then kept up to date by their plans.

Tests of pipelines use it. It follows a plan as a run does, on temporary views, and needs neither a server nor Iceberg.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention
from pyspark.sql.types import ArrayType, MapType, StructField, StructType

from firn.errors import Invalid
from firn.pipelines.plan import Plan, State
from firn.protocol.names import quote_name
from firn.spark.errors import reason
from firn.spark.local_frames import create_local_frame

Rows: TypeAlias = list[tuple[Any, ...]]
SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
}
"""Compiling a query costs far more than a few rows do."""
_DIGITS = 9
"""Sums of floating-point numbers differ in later digits, by the order of addition."""


@dataclass(frozen=True)
class Difference:
    """Rows of a table that one side lacks."""

    missing: Rows
    surplus: Rows

    def __bool__(self) -> bool:
        return bool(self.missing or self.surplus)


@dataclass
class LocalPipeline:
    """The tables of a pipeline, by name, in an order in which each comes after those that it reads.

    `schemas` has the columns and Spark types of the inputs that no table of the pipeline is. The session is changed:
    its settings fit few rows.
    """

    spark: SparkSession
    plans: Mapping[str, Plan]
    schemas: Mapping[str, Mapping[str, str]]
    compute_by: Mapping[str, Callable[[Mapping[str, DataFrame]], DataFrame]] = field(default_factory=dict)
    """Tables that are computed otherwise than by the SQL of their plans, and always in full."""
    rows: dict[str, Rows] = field(default_factory=dict)
    types: dict[str, StructType] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in SETTINGS.items():
            self.spark.conf.set(name, value)
        for table, columns in self.schemas.items():
            ddl = ", ".join(f"`{column}` {_without_length(type_)}" for column, type_ in columns.items())
            self.types[table] = StructType.fromDDL(ddl)  # type: ignore[assignment]  # its annotation is too wide

    def build(self, inputs: Mapping[str, Rows]) -> None:
        """Compute all tables in full from these rows of the inputs; inputs without an entry are empty.

        Raises Invalid if Spark refuses a query or one of its values.
        """
        self.rows = {table: inputs.get(table, []) for table in self.schemas}
        for name in self.plans:
            self.rows[name] = self.compute(name)

    def compute(self, name: str) -> Rows:
        """The rows of a table, computed in full from the current rows of its inputs."""
        plan = self.plans[name]
        with _explain(name):
            if name in self.compute_by:
                read = {source.name: self._read(source.name, self.rows[source.name]) for source in plan.inputs}
                frame = self.compute_by[name](read)
            else:
                for source in plan.inputs:
                    self._show(source.relation(State.NEW), source.name, self.rows[source.name])
                frame = self.spark.sql(plan.full())
            self.types[name] = frame.schema
            return _collect(frame)

    def change(self, inputs: Mapping[str, Rows]) -> None:
        """Give inputs other rows, and bring all tables up to date: those with an incremental plan by this plan."""
        old = dict(self.rows)
        self.rows |= inputs
        for name, plan in self.plans.items():
            changed = {source.name for source in plan.inputs if self._has_changed(source.name, old)}
            if not plan.is_incremental or name in self.compute_by:
                self.rows[name] = self.compute(name)
            elif changed:
                with _explain(name):
                    self.rows[name] = self._follow(plan, old, old[name], changed)

    def read_texts(self, table: str, rows: Sequence[Mapping[str, str | None]]) -> Rows:
        """Rows of a table, whose types are known, from texts by column. Raises Invalid for a text of no value."""
        columns = self.types[table].fields
        names = [column.name.lower() for column in columns]
        if unknown := sorted({name for row in rows for name in row if name not in names}):
            raise Invalid(f"{table} has no column {', '.join(unknown)}", hint=f"it has {', '.join(names)}")
        texts = create_local_frame(
            self.spark, [[row.get(name) for name in names] for row in rows], ", ".join(f"`{n}` string" for n in names)
        )
        with _explain(table):
            return _collect(texts.select(*(_read_text(column) for column in columns)))

    def compare(self, name: str) -> Difference:
        """The difference between a table and a full computation; empty if there is none."""
        return compare_rows(self.compute(name), self.rows[name])

    def _follow(self, plan: Plan, old: Mapping[str, Rows], target: Rows, changed: set[str]) -> Rows:
        for source in plan.inputs:
            was, now = old[source.name], self.rows[source.name]
            states = {State.OLD: was, State.NEW: now, State.BEFORE: _minus(was, now), State.AFTER: _minus(now, was)}
            for state, rows in states.items():
                self._show(source.relation(state), source.name, rows)
        for step in plan.affected(changed):
            self.spark.sql(step.sql).createOrReplaceTempView(step.name)
        affected = {_canonical_row(row) for row in _collect(self.spark.sql("SELECT * FROM firn_affected"))}
        positions = [[column.name for column in plan.columns].index(name) for name in plan.scope]
        kept = [row for row in target if _canonical_row([row[position] for position in positions]) not in affected]
        return kept + _collect(self.spark.sql(plan.rows()))

    def _has_changed(self, table: str, old: Mapping[str, Rows]) -> bool:
        return bool(compare_rows(old[table], self.rows[table]))

    def _show(self, view: str, table: str, rows: Rows) -> None:
        self._read(table, rows).createOrReplaceTempView(view)

    def _read(self, table: str, rows: Rows) -> DataFrame:
        return create_local_frame(self.spark, rows, self.types[table])


def compare_rows(expected: Sequence[Sequence[Any]], actual: Sequence[Sequence[Any]]) -> Difference:
    """The rows that only one side has; floating-point numbers are equal if their first nine digits are."""
    wanted, actual_rows = (Counter(_canonical_row(row) for row in rows) for rows in (expected, actual))
    samples = {_canonical_row(row): tuple(row) for row in [*expected, *actual]}
    missing, surplus = wanted - actual_rows, actual_rows - wanted
    return Difference([samples[row] for row in missing.elements()], [samples[row] for row in surplus.elements()])


def _canonical_row(row: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(_canonical_value(value) for value in row)


def _canonical_value(value: Any) -> Any:
    """A value that can be hashed, and is equal for values that count as equal."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else float(f"{value:.{_DIGITS}g}")
    if isinstance(value, Decimal):
        return value.normalize()
    if isinstance(value, bytearray | bytes):
        return bytes(value)
    if isinstance(value, dict):
        return frozenset((_canonical_value(key), _canonical_value(item)) for key, item in value.items())
    if isinstance(value, list | tuple | Row):
        return tuple(_canonical_value(item) for item in value)
    return value


def _minus(rows: Rows, others: Rows) -> Rows:
    counts = Counter(_canonical_row(row) for row in others)
    left = []
    for row in rows:
        key = _canonical_row(row)
        if counts[key]:
            counts[key] -= 1
        else:
            left.append(row)
    return left


def _read_text(column: StructField) -> Column:
    text, type_ = F.col(quote_name(column.name.lower())), column.dataType
    if isinstance(type_, ArrayType | MapType | StructType):
        return F.from_json(text, type_.simpleString(), {"mode": "FAILFAST"})
    return text.cast(type_)


def _collect(frame: DataFrame) -> Rows:
    return [tuple(row) for row in frame.collect()]


def _without_length(type_: str) -> str:
    return "string" if type_.lower().startswith(("varchar", "char")) else type_


@contextmanager
def _explain(table: str) -> Iterator[None]:
    try:
        yield
    except PySparkException as error:
        raise Invalid(f"{table}: {reason(error)}", hint="correct the query, or the rows of the test") from error
