"""The SQL of a keyed table with partial columns, run by Spark on random histories and compared with a plain dict."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest
from pyspark.errors import PySparkException

from catalog.keyed.partial import Folding
from catalog.keyed.spec import KeySpec
from catalog.keyed.view_sql import (
    Pair,
    build_effective_sql,
    build_merged_sql,
    build_touched_partitions_sql,
    build_updates,
    quote_name,
)
from catalog.retention.ttl import Cutoff, build_keyed_facts
from firn.protocol.partial import ColumnRule
from tests.catalog.retention.test_ttl import MERGE
from tests.integration.keyed.test_view_sql import Shape, Stores
from tests.partial_model import PartialChange, PartialModel, combine, make_random_change
from tests.spark_fixtures import shared_spark

PLAIN = Shape(KeySpec(primary_key=("id",)), {"id": int, "name": str, "v": int, "seen": str}, "id")
ODD = Shape(
    KeySpec(primary_key=("k0", "a.b")),
    {"r": str, "k0": int, "we`ird, name": str, "a.b": str, "f1": int, "o": str, "given0": int, "_row": str},
    "k0",
)
RULED = Shape(
    KeySpec(primary_key=("id",)),
    {"id": int, "sum": int, "max": int, "min": int, "first": str, "last": str, "plain": str},
    "id",
)
RULES = {
    "sum": ColumnRule.SUM,
    "max": ColumnRule.MAX,
    "min": ColumnRule.MIN,
    "first": ColumnRule.FIRST,
    "last": ColumnRule.LAST_NOT_NULL,
}
GROUPED = Shape(
    KeySpec(primary_key=("id",)),
    {"id": int, "plain": str, "mail": str, "mail at": int, "p`hone": str, "zip": str, "at": str, "sum": int},
    "id",
)
GROUPS = {"mail": "mail at", "mail at": "mail at", "p`hone": "at", "zip": "at", "at": "at"}
"""The sequence field of each column in a group."""
IDS = {"id": 1, "name": 30, "v": 3, "seen": 13, "r": 2, "k0": 4, "we`ird, name": 5, "a.b": 6, "f1": 7}


@pytest.fixture(scope="module")
def stores() -> Stores:
    return Stores(shared_spark().newSession())


def ids_of(shape: Shape) -> tuple[int, ...]:
    return tuple(IDS.get(column, 300 + number) for number, column in enumerate(shape.columns))


def fold_by(shape: Shape) -> Folding:
    groups = groups_of(shape)
    return Folding(
        ids=ids_of(shape),
        rules=tuple(rules_of(shape).get(column) for column in shape.columns),
        types=tuple("long" if kind is int else "string" for kind in shape.columns.values()),
        sequences=tuple(groups.get(column) for column in shape.columns),
    )


def rules_of(shape: Shape) -> dict[str, ColumnRule]:
    return RULES if shape is RULED else {"sum": ColumnRule.SUM} if shape is GROUPED else {}


def groups_of(shape: Shape) -> dict[str, str]:
    return GROUPS if shape is GROUPED else {}


def make_change_store(stores: Stores, shape: Shape, commits: Sequence[Sequence[PartialChange]]) -> str:
    """One commit after the other; the first has sequence number 1."""
    ids = dict(zip(shape.columns, ids_of(shape), strict=True))
    rows = list[tuple[Any, ...]]()
    for sequence, commit in enumerate(commits, start=1):
        for change in commit:
            set_ids = (
                None
                if change.set_columns is None
                else ",".join(str(ids[column]) for column in sorted(change.set_columns))
            )
            values = [change.row.get(column) for column in shape.columns]
            rows.append((*values, change.op, set_ids, len(rows), sequence))
    lineage = {"_row_id": "BIGINT", "_last_updated_sequence_number": "BIGINT"}
    return stores.make(shape, rows, _op="STRING", _set="STRING", **lineage)


def make_pair(shape: Shape, base: str, change: str, watermark: int, *, pending: bool = True) -> Pair:
    return Pair(
        spec=shape.spec,
        columns=list(shape.columns),
        base=base,
        change=change,
        watermark=watermark,
        pending=pending,
        folding=fold_by(shape),
    )


def make_row(shape: Shape, rng: random.Random) -> dict[str, Any]:
    def value(column: str, kind: type) -> Any:
        if column in shape.spec.primary_key:
            return rng.randrange(4) if kind is int else rng.choice("xy")
        return None if rng.random() < 0.25 else rng.randrange(100) if kind is int else rng.choice("pqr")

    return {column: value(column, kind) for column, kind in shape.columns.items()}


def apply_merge(shape: Shape, base: Sequence[tuple[Any, ...]], effective: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The statement MERGE INTO of a merge, in Python: matched rows get the columns that are given."""
    rows = list(base)
    for *values, op, is_set in effective:
        key = shape.key(tuple(values))
        matched = [row for row in rows if shape.key(row) == key]
        rows = [row for row in rows if shape.key(row) != key]
        if op != "D" and matched:
            rows += [_update(shape, row, values, is_set) for row in matched]
        elif op != "D":
            rows.append(tuple(values))
    return sorted(rows, key=repr)


def _update(
    shape: Shape, row: tuple[Any, ...], values: Sequence[Any], is_set_by_column: Sequence[bool]
) -> tuple[Any, ...]:
    rules: Sequence[ColumnRule | None] = fold_by(shape).rules
    return tuple(
        new if is_given else old if rule is None else combine(rule, old, new)
        for new, is_given, old, rule in zip(values, is_set_by_column, row, rules, strict=True)
    )


def write_merge_sql(pair: Pair) -> str:
    """The rows of base after MERGE INTO, with the assignments that the server writes for it."""
    updates = build_updates(pair)
    columns = [quote_name(name) for name in pair.columns]
    patched = [updates.get(name, f"t.{quote_name(name)}") for name in pair.columns]
    same = " AND ".join(f"t.{quote_name(key)} = s.{quote_name(key)}" for key in pair.spec.primary_key)
    source = f"({build_effective_sql(pair)})"
    return (
        f"SELECT {', '.join(patched)} FROM {pair.base} AS t JOIN {source} AS s ON {same} WHERE s._op <> 'D'"
        f" UNION ALL SELECT {', '.join(f's.{name}' for name in columns)} FROM {source} AS s"
        f" LEFT ANTI JOIN {pair.base} AS t ON {same} WHERE s._op <> 'D'"
        f" UNION ALL SELECT {', '.join(f't.{name}' for name in columns)} FROM {pair.base} AS t"
        f" LEFT ANTI JOIN {source} AS s ON {same}"
    )


@pytest.mark.spark
@pytest.mark.parametrize(
    ("shape", "seed"),
    [(PLAIN, 0), (PLAIN, 1), (ODD, 2), (RULED, 3), (RULED, 4), (GROUPED, 5), (GROUPED, 6), (GROUPED, 7)],
)
def test_the_view_and_merges_are_the_replay_of_all_changes_wherever_the_watermark_stands(
    stores: Stores, shape: Shape, seed: int
) -> None:
    rng = random.Random(seed)
    others = [column for column in shape.columns if column not in shape.spec.primary_key]
    writers = [frozenset(others[:1]), frozenset(others[1:2]), frozenset(others[1:])]
    unique = {shape.key(tuple(row.values())): row for row in (make_row(shape, rng) for _ in range(3))}
    if shape is GROUPED:
        writers = [frozenset({"mail", "mail at"}), frozenset({"p`hone", "zip", "at"}), frozenset({"zip", "sum"})]
    model = PartialModel(
        shape.spec.primary_key, list(shape.columns), unique.values(), rules_of(shape), groups_of(shape)
    )
    commits: list[list[PartialChange]] = []
    merged_at = [model.list_rows()]
    for _ in range(4):
        rows = [make_row(shape, rng) for _ in range(rng.randrange(1, 6))]
        commits.append([make_random_change(rng, row, shape.spec.primary_key, writers) for row in rows])
        for change in commits[-1]:
            model.apply(change)
        merged_at.append(model.list_rows())
    store = make_change_store(stores, shape, commits)
    for watermark, rows_then in list(enumerate(merged_at))[seed % 2 :: 2]:
        at = make_pair(shape, stores.base(shape, rows_then), store, watermark, pending=watermark < len(commits))
        assert stores.rows(build_merged_sql(at)) == merged_at[-1]
        if at.pending:
            if shape is not GROUPED:
                effective = stores.rows(build_effective_sql(at))
                assert apply_merge(shape, rows_then, effective) == merged_at[-1]
            assert stores.rows(write_merge_sql(at)) == merged_at[-1]
            check_partitions(stores, shape, at, rows_then, merged_at[-1])
            part = replace(at, through=watermark + 1)
            assert stores.rows(build_merged_sql(part)) == merged_at[watermark + 1]


def check_partitions(stores: Stores, shape: Shape, at: Pair, before: Sequence[Any], after: Sequence[Any]) -> None:
    """All that the merge changes lies in the partitions that it finds."""
    touched = stores.rows(build_touched_partitions_sql(at, [(shape.part, lambda column: column)]))
    assert {(shape.at(row, shape.part),) for row in {*before} ^ {*after}} <= {*touched}


@pytest.mark.spark
def test_rows_of_base_that_share_a_key_are_patched_each_and_replaced_together(stores: Stores) -> None:
    base = stores.base(PLAIN, [(1, "a", 1, "x"), (1, "b", 2, "y"), (2, "c", 3, "z"), (2, "d", 4, "z")])
    patch = PartialChange("U", {"id": 1, "v": 9}, frozenset({"v"}))
    whole = PartialChange("U", {"id": 2, "name": "new"})
    at = make_pair(PLAIN, base, make_change_store(stores, PLAIN, [[patch, whole]]), 0)
    assert stores.rows(build_merged_sql(at)) == [(1, "a", 9, "x"), (1, "b", 9, "y"), (2, "new", None, None)]


@pytest.mark.spark
def test_base_takes_part_in_a_group_with_its_own_sequence_value(stores: Stores) -> None:
    """Less, equal and greater than base's; null on either side; a part of a group; a delete."""
    base = stores.base(GROUPED, [(key, "p", "base", None if key == 5 else 5, None, None, None, 1) for key in range(9)])
    mail, sent = frozenset({"mail", "mail at"}), list[PartialChange]()
    for key, at in [(1, 4), (2, 5), (3, 6), (4, None), (5, 1), (6, 9), (7, 1)]:
        sent.append(
            PartialChange("U", {"id": key, "mail": "new", "mail at": at}, mail - {"mail at"} if key == 6 else mail)
        )
    sent.append(PartialChange("U", {"id": 1, "plain": "whole", "mail": "whole", "mail at": 4}))
    sent.insert(0, PartialChange("D", {"id": 7, "mail at": 8}))
    pair = make_pair(GROUPED, base, make_change_store(stores, GROUPED, [sent]), 0)
    rows = [
        (0, "p", "base", 5, None, None, None, 1),
        (1, "whole", "base", 5, None, None, None, 1),
        (2, "p", "new", 5, None, None, None, 1),
        (3, "p", "new", 6, None, None, None, 1),
        (4, "p", "base", 5, None, None, None, 1),
        (5, "p", "new", 1, None, None, None, 1),
        (6, "p", "base", 5, None, None, None, 1),
        (7, None, "new", 1, None, None, None, None),
        (8, "p", "base", 5, None, None, None, 1),
    ]
    assert stores.rows(build_merged_sql(pair)) == rows
    assert stores.rows(write_merge_sql(pair)) == rows


@pytest.mark.spark
def test_an_id_is_compared_as_a_whole(stores: Stores) -> None:
    """`name` has the id 30, `v` has 3 and `seen` 13: none is a part of another."""
    base = stores.base(PLAIN, [(1, "a", 1, "x")])
    changes = [PartialChange("U", {"id": 1, "name": "n", "v": 5, "seen": "s"}, frozenset({"v"}))]
    at = make_pair(PLAIN, base, make_change_store(stores, PLAIN, [changes]), 0)
    assert stores.rows(build_merged_sql(at)) == [(1, "a", 5, "x")]


@pytest.mark.spark
def test_rows_that_are_too_old_after_a_partial_change_leave(stores: Stores) -> None:
    """The time of a row may come from a change, or from base."""
    spark = stores.spark
    spark.sql(
        "CREATE OR REPLACE TEMP VIEW ttl_base AS SELECT * FROM VALUES (1, DATE '2020-01-01', 'a'),"
        " (2, DATE '2020-01-01', 'b'), (3, DATE '2026-01-01', 'c'), (4, DATE '2026-01-01', 'd'),"
        " (5, DATE '2020-01-01', 'e'), (6, DATE '2026-01-01', 'f') AS t(id, day, v)"
    )
    spark.sql(
        "CREATE OR REPLACE TEMP VIEW ttl_change AS SELECT id, CAST(day AS DATE) AS day, v, _op, _set,"
        " CAST(i AS BIGINT) AS _row_id, 1L AS _last_updated_sequence_number FROM VALUES"
        " (1, NULL, 'patched', 'U', '3', 1), (2, '2026-02-02', NULL, 'U', '2', 2),"
        " (3, '2019-01-01', NULL, 'U', '2', 3), (4, NULL, 'patched', 'U', '3', 4),"
        " (7, '2019-01-01', 'new', 'U', NULL, 5), (8, NULL, 'new', 'U', '3', 6), (6, NULL, NULL, 'D', NULL, 7)"
        " AS t(id, day, v, _op, _set, i)"
    )
    pair = Pair(
        spec=KeySpec(primary_key=("id",)),
        columns=["id", "day", "v"],
        base="ttl_base",
        change="ttl_change",
        watermark=0,
        pending=True,
        folding=Folding(
            ids=(1, 2, 3), rules=(None, None, None), types=("long", "date", "string"), sequences=(None,) * 3
        ),
    )
    cutoff = Cutoff(column="day", field_id=2, kind="date", at=datetime(2025, 1, 1, tzinfo=UTC))
    facts = build_keyed_facts(pair, cutoff, MERGE)
    assert facts.concerned is not None
    assert stores.rows(facts.concerned)
    shape = Shape(pair.spec, {"id": int, "day": str, "v": str}, "id")
    base = stores.rows("SELECT * FROM ttl_base")
    assert apply_merge(shape, base, stores.rows(facts.leaving or "")) == [
        (2, date(2026, 2, 2), "b"),
        (4, date(2026, 1, 1), "patched"),
        (8, None, "new"),
    ]
    assert stores.rows(facts.staying) == stores.rows(
        f"SELECT * FROM ({build_merged_sql(pair)}) WHERE day IS NULL OR day >= DATE '2025-01-01'"
    )


@pytest.mark.spark
@pytest.mark.parametrize(("held", "changed"), [(2**63 - 1, 1), (-(2**63), -1), (None, 2**63)])
def test_a_sum_that_its_column_cannot_hold_fails(stores: Stores, held: int | None, changed: int) -> None:
    stores.spark.sql(f"CREATE OR REPLACE TEMP VIEW sum_base AS SELECT 1 AS id, CAST({held or 'NULL'} AS BIGINT) AS sum")
    halves = f"({changed // 2}, 1), ({changed - changed // 2}, 2)"
    stores.spark.sql(
        "CREATE OR REPLACE TEMP VIEW sum_change AS SELECT 1 AS id, CAST(n AS BIGINT) AS sum, 'U' AS _op,"
        f" CAST(NULL AS STRING) AS _set, CAST(i AS BIGINT) AS _row_id, 1L AS _last_updated_sequence_number"
        f" FROM VALUES {halves} AS t(n, i)"
    )
    pair = Pair(
        spec=KeySpec(primary_key=("id",)),
        columns=["id", "sum"],
        base="sum_base",
        change="sum_change",
        watermark=0,
        pending=True,
        folding=Folding(ids=(1, 2), rules=(None, ColumnRule.SUM), types=("long", "long"), sequences=(None, None)),
    )
    with pytest.raises(PySparkException, match="out of the range of long"):
        stores.rows(build_merged_sql(pair))
