"""The SQL of a keyed table, run by Spark on random histories and compared with a plain dict."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeAlias

import pytest
from pyspark.sql import SparkSession

from catalog.keyed.spec import KeyScope, KeySpec
from catalog.keyed.view_sql import (
    Pair,
    build_effective_sql,
    build_merged_sql,
    build_target_partitions_sql,
    build_touched_partitions_sql,
    name_pinned_view,
    quote_name,
)
from tests.spark_fixtures import shared_spark

Value: TypeAlias = Any  # an int, a string or None, as the column has it
Row = tuple[Value, ...]
Key = tuple[Value, ...]


@dataclass(frozen=True)
class Shape:
    """A table to make histories for: `part` is the partition column."""

    spec: KeySpec
    columns: Mapping[str, type]
    part: str

    def at(self, row: Row, column: str) -> Value:
        return row[list(self.columns).index(column)]

    def key(self, row: Row) -> Key:
        return tuple(self.at(row, column) for column in self.spec.primary_key)


PLAIN = Shape(KeySpec(primary_key=("id",)), {"id": int, "part": str, "v": str}, "part")
ODD = Shape(
    KeySpec(primary_key=("k0", "a.b")),
    {"r": str, "k0": int, "we`ird, name": str, "a.b": str, "op": int, "c1": str, "newest": str, "n": str},
    "we`ird, name",
)
ORDERED = Shape(
    KeySpec(primary_key=("id",), sequence_field="at"), {"id": int, "part": str, "at": int, "v": str}, "part"
)
SCOPED = Shape(
    KeySpec(primary_key=("id",), scope=KeyScope.PARTITION, sequence_field="s e q"),
    {"id": int, "part": str, "s e q": int},
    "part",
)
INSERT_ONLY = Shape(
    KeySpec(primary_key=("k", "n"), is_insert_only=True), {"k": int, "part": str, "n": str, "i": int}, "part"
)
SHAPES = [PLAIN, ODD, ORDERED, SCOPED, INSERT_ONLY]


@dataclass(frozen=True)
class Change:
    op: str
    row: Row


class Model:
    """A table that applies changes one by one, in commit order (docs/protocols.md, rule 1.2)."""

    def __init__(self, shape: Shape, rows: Iterable[Row] = ()) -> None:
        self.shape = shape
        self.rows: dict[Key, Row] = {shape.key(row): row for row in rows}
        self.deleted: dict[Key, int] = {}

    def apply(self, changes: Iterable[Change]) -> None:
        for change in changes:
            key = self.shape.key(change.row)
            if self._wins(key, change):
                self.rows.pop(key, None)
                if change.op != "D":
                    self.rows[key] = change.row

    def _wins(self, key: Key, change: Change) -> bool:
        if self.shape.spec.is_insert_only:
            return change.op != "D" and key not in self.rows
        field = self.shape.spec.sequence_field
        if field is None:
            return True
        mine = self.shape.at(change.row, field)
        held = self.rows.get(key)
        floor = self.deleted.get(key) if held is None else self.shape.at(held, field)
        if change.op == "D":
            self.deleted[key] = max(mine, self.deleted.get(key, mine))
        return floor is None or mine >= floor


def random_row(shape: Shape, rng: random.Random, *, null_sequence: bool) -> Row:
    def value(column: str, kind: type) -> Value:
        if column == shape.spec.sequence_field:
            return None if null_sequence and rng.random() < 0.3 else rng.randrange(5)
        if column in shape.spec.primary_key:
            return rng.randrange(4) if kind is int else rng.choice("xy")
        if rng.random() < 0.25:
            return None
        return rng.randrange(100) if kind is int else rng.choice("pqr")

    row = tuple(value(column, kind) for column, kind in shape.columns.items())
    if shape.spec.scope is KeyScope.PARTITION:  # a key never changes its partition
        part = "pq"[shape.key(row)[0] % 2]
        row = tuple(part if column == shape.part else v for column, v in zip(shape.columns, row, strict=True))
    return row


def as_delete(shape: Shape, row: Row) -> Row:
    kept = {*shape.spec.primary_key, shape.spec.sequence_field}
    if shape.spec.scope is KeyScope.PARTITION:
        kept.add(shape.part)
    return tuple(v if column in kept else None for column, v in zip(shape.columns, row, strict=True))


def random_batch(shape: Shape, rng: random.Random) -> list[Change]:
    changes = []
    for _ in range(rng.randrange(1, 5)):
        row = random_row(shape, rng, null_sequence=False)
        op = rng.choice("IUUD")
        changes.append(Change(op, as_delete(shape, row) if op == "D" else row))
    return changes


def literal(value: object) -> str:
    return "NULL" if value is None else repr(value)


class Stores:
    """Makes stores out of rows: temporary views that bring Iceberg's metadata columns as columns of their own."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.numbers = count()

    def make(self, shape: Shape, rows: Sequence[Row], **extra: str) -> str:
        """Rows as literals: Spark's optimizer folds them, where rows out of Python cost a worker process a query."""
        name = quote_name(f"store {next(self.numbers)}")
        types = {**{column: "INT" if kind is int else "STRING" for column, kind in shape.columns.items()}, **extra}
        columns = ", ".join(
            f"CAST({quote_name(column)} AS {kind}) AS {quote_name(column)}" for column, kind in types.items()
        )
        literals = ", ".join(f"({', '.join(map(literal, row))})" for row in rows or [(None,) * len(types)])
        where = "" if rows else " WHERE false"
        names = ", ".join(map(quote_name, types))
        self.spark.sql(f"CREATE TEMP VIEW {name} AS SELECT {columns} FROM VALUES {literals} AS t({names}){where}")
        return name

    def base(self, shape: Shape, rows: Sequence[Row] = ()) -> str:
        return self.make(shape, rows)

    def change(self, shape: Shape, commits: Sequence[Sequence[Change]]) -> str:
        """One commit after the other; the first has sequence number 1."""
        changes = [(change, sequence) for sequence, commit in enumerate(commits, start=1) for change in commit]
        rows = [(*change.row, change.op, row_id, sequence) for row_id, (change, sequence) in enumerate(changes)]
        return self.make(shape, rows, _op="STRING", _row_id="BIGINT", _last_updated_sequence_number="BIGINT")

    def rows(self, sql: str) -> list[Row]:
        return sorted((tuple(row) for row in self.spark.sql(sql).collect()), key=repr)


@pytest.fixture(scope="module")
def stores() -> Stores:
    return Stores(shared_spark().newSession())


def pair(shape: Shape, base: str, change: str, watermark: int, *, pending: bool) -> Pair:
    columns = list(shape.columns)
    return Pair(
        spec=shape.spec,
        columns=columns,
        base=base,
        change=change,
        watermark=watermark,
        pending=pending,
        folding=None,
    )


@pytest.mark.spark
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("shape", SHAPES, ids=["plain", "odd names", "sequence", "partition scope", "insert-only"])
def test_the_view_is_the_replay_of_all_changes_wherever_the_watermark_stands(
    stores: Stores, shape: Shape, seed: int
) -> None:
    rng = random.Random(seed)
    model = Model(shape, (random_row(shape, rng, null_sequence=True) for _ in range(3)))
    commits: list[list[Change]] = []
    merged_at = [list(model.rows.values())]
    for _ in range(5):
        commits.append(random_batch(shape, rng))
        model.apply(commits[-1])
        merged_at.append(list(model.rows.values()))
    expected = sorted(model.rows.values(), key=repr)
    change = stores.change(shape, commits)
    for watermark, rows in enumerate(merged_at):
        at = pair(shape, stores.base(shape, rows), change, watermark, pending=watermark < len(commits))
        assert stores.rows(build_merged_sql(at)) == expected
        if at.pending:
            check_effective(stores, shape, at, rows, expected)


@pytest.mark.spark
@pytest.mark.parametrize("shape", [PLAIN, ORDERED], ids=["plain", "sequence field"])
def test_a_change_of_a_key_that_hive_wrote_twice_takes_effect_once(stores: Stores, shape: Shape) -> None:
    def row(number: int) -> Row:
        return (1, "p", number, "v") if shape is ORDERED else (1, "p", f"v{number}")

    change = stores.change(shape, [[Change("U", row(5))]])
    at = pair(shape, stores.base(shape, [row(1), row(2)]), change, 0, pending=True)
    assert stores.rows(build_merged_sql(at)) == [row(5)]
    assert stores.rows(build_effective_sql(at)) == [(*row(5), "U")]


def check_effective(stores: Stores, shape: Shape, at: Pair, base: Sequence[Row], expected: Sequence[Row]) -> None:
    """The effective changes over base give the same, and all they do happens in the touched partitions."""
    effective = stores.rows(build_effective_sql(at))
    merged = {shape.key(row): row for row in base}
    assert len({shape.key(row) for row in effective}) == len(effective)
    for *row, op in effective:
        merged.pop(shape.key(tuple(row)), None)
        if op != "D":
            merged[shape.key(tuple(row))] = tuple(row)
    assert sorted(merged.values(), key=repr) == list(expected)
    touched = stores.rows(build_touched_partitions_sql(at, [(shape.part, lambda column: column)]))
    assert len(set(touched)) == len(touched)
    led_to = stores.rows(build_target_partitions_sql(at, [(shape.part, lambda column: column)]))
    assert set(led_to) == {(shape.at(tuple(row), shape.part),) for *row, op in effective if op != "D"} <= set(touched)
    changed = {(shape.at(row, shape.part),) for row in {*base} ^ {*expected}}
    assert changed <= set(touched)


@pytest.mark.spark
def test_a_late_change_loses_to_a_merged_delete_and_wins_a_tie(stores: Stores) -> None:
    deletes = [Change("D", (1, None, 3, None)), Change("D", (2, None, 3, None))]
    late = [Change("U", (1, "p", 2, "late")), Change("U", (2, "p", 3, "tie"))]
    change = stores.change(ORDERED, [deletes, late])
    assert stores.rows(build_merged_sql(pair(ORDERED, stores.base(ORDERED), change, 1, pending=True))) == [
        (2, "p", 3, "tie")
    ]


@pytest.mark.spark
def test_a_base_row_without_a_sequence_value_loses(stores: Stores) -> None:
    change = stores.change(ORDERED, [[Change("D", (1, None, 9, None))], [Change("U", (1, "q", 0, "new"))]])
    at = pair(ORDERED, stores.base(ORDERED, [(1, "p", None, "old")]), change, 1, pending=True)
    assert stores.rows(build_merged_sql(at)) == [(1, "q", 0, "new")]
    assert stores.rows(build_touched_partitions_sql(at, [("part", lambda column: column)])) == [("p",), ("q",)]


@pytest.mark.spark
def test_a_lookup_of_one_key_reads_no_other_key_anywhere(stores: Stores) -> None:
    columns = "id, 'p' AS part, 'v' AS v, 'U' AS _op, 2 * id AS _row_id, id AS _last_updated_sequence_number"
    stores.spark.sql(f"CREATE TEMP VIEW numbers AS SELECT {columns} FROM range(9)")
    try:
        merged = stores.spark.sql(build_merged_sql(pair(PLAIN, "numbers", "numbers", 0, pending=True)))
        plan = merged.where("id = 7")._jdf.queryExecution().optimizedPlan().toString()
    finally:
        stores.spark.catalog.dropTempView("numbers")
    assert plan.count("Range (0, 9") == 4, plan
    assert plan.count(" = 7)") == 4, plan


def test_nothing_pending_reads_base_alone() -> None:
    sql = build_merged_sql(pair(PLAIN, "`base_at_7_0`", "`change_at_9_0`", 4, pending=False))
    assert sql == "SELECT `id`, `part`, `v` FROM `base_at_7_0`"


def test_pinned_names_say_which_snapshot_and_schema() -> None:
    assert name_pinned_view("base", 7, 0) == "base_at_7_0"
    assert name_pinned_view("change", None, 2) == "change_at_none_2"


def test_a_backtick_in_a_name_cannot_end_it() -> None:
    assert quote_name("db", "a`b.c") == "`db`.`a``b.c`"
