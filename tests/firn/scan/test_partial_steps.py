"""Rows followed through changes of some columns, against a dict that takes one change after the other."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import LongType, NestedField

from firn.protocol.partial import SET, ColumnRule
from firn.scan.folding import BaseRows, FoldedRows, fold_changes
from firn.scan.lineage import ROW_ID
from firn.scan.newest import OP
from firn.scan.partial_steps import follow_changes

FIELDS = [NestedField(number, name, LongType()) for number, name in enumerate(("id", "a", "total", "at", "b"), 1)]
NAMES = [field.name for field in FIELDS]
RULES = {"total": ColumnRule.SUM}
GROUPS = {"at": "at", "b": "at"}
SCHEMA = pa.schema([(name, pa.int64()) for name in NAMES])
OF_CHANGES = pa.schema([*SCHEMA, (OP, pa.string()), (SET, pa.string()), (ROW_ID, pa.int64())])
Row = dict[str, Any]


def fold(pending: pa.Table, held: pa.Table) -> FoldedRows:
    base = BaseRows(fields=FIELDS, keys=held.select(["id"]), read=lambda names: held.select(list(names)))
    return fold_changes(pending, base, ["id"], RULES, GROUPS)


def apply(row: Row | None, change: Row) -> Row | None:
    """The rules of docs/protocols.md, 1.7, 1.8 and 1.10, for one change."""
    if change[OP] == "D":
        return None
    sets = {*range(1, 6)} if change[SET] is None else {int(part) for part in change[SET].split(",") if part}
    after = dict(row) if row is not None else {**dict.fromkeys(NAMES), "id": change["id"]}
    if 2 in sets:
        after["a"] = change["a"]
    if 3 in sets and change["total"] is not None:
        after["total"] = change["total"] + (after["total"] or 0)
    if {4, 5} <= sets:
        held, new = after["at"], change["at"]
        if held is None or (new is not None and new >= held):
            after |= {"at": new, "b": change["b"]}
    return after


@pytest.mark.parametrize("seed", range(30))
def test_each_change_begins_where_the_one_before_ended(seed: int) -> None:
    chance = random.Random(seed)

    def pick() -> int | None:
        value: int | None = chance.choice([None, *range(5)])
        return value

    rows = {key: {"id": key, **{name: pick() for name in NAMES[1:]}} for key in range(0, 6, 2)}
    changes = [
        {
            "id": chance.choice([0, 0, 0, *range(8)]),  # a key with many changes
            **{name: pick() for name in NAMES[1:]},
            OP: chance.choice("UUUUD"),
            SET: chance.choice([None, "2", "3", "4,5", "2,3,4,5", ""]),
            ROW_ID: number,
        }
        for number in range(chance.randint(0, 40))
    ]
    followed = follow_changes(
        pa.Table.from_pylist([*rows.values()], SCHEMA), pa.Table.from_pylist(changes, OF_CHANGES), ["id"], fold
    )
    shown = followed.rows.to_pylist()
    expected = []
    for number, change in enumerate(changes):
        before = rows.get(change["id"])
        after = apply(before, change)
        if before is not None or after is not None:
            expected.append((number, before, after))
        rows.pop(change["id"], None)
        if after is not None:
            rows[change["id"]] = after
    moves = zip(followed.places, followed.before, followed.after, strict=True)
    assert [
        (place, None if was < 0 else shown[was], None if now < 0 else shown[now]) for place, was, now in moves
    ] == expected


def test_rows_that_share_a_key_change_together_until_a_change_sets_all_columns() -> None:
    state = pa.Table.from_pylist([{"id": 1, "a": 1}, {"id": 1, "a": 2}], SCHEMA)
    lines = [(5, "2"), (6, None)]
    changes = pa.Table.from_pylist(
        [{"id": 1, "a": a, OP: "U", SET: set_ids, ROW_ID: number} for number, (a, set_ids) in enumerate(lines)],
        OF_CHANGES,
    )

    def fold_plainly(pending: pa.Table, held: pa.Table) -> FoldedRows:
        base = BaseRows(fields=FIELDS, keys=held.select(["id"]), read=lambda names: held.select(list(names)))
        return fold_changes(pending, base, ["id"], {}, {})

    followed = follow_changes(state, changes, ["id"], fold_plainly)
    values = followed.rows["a"].to_pylist()
    moves = [
        (values[was] if was >= 0 else None, values[now] if now >= 0 else None)
        for was, now in zip(followed.before, followed.after, strict=True)
    ]
    assert moves == [(1, 5), (2, 5), (5, None), (5, 6)]
