"""Which change takes effect, against the rule said row by row: docs/protocols.md, rules 1.2 and 5.1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.scan.lineage import ROW_ID
from firn.scan.newest import OP, select_effective, select_newest
from optimizer.images.positions import KeySearch

KEYS = ["id", "part"]
BASE = pa.schema([("id", pa.int64()), ("part", pa.large_string()), ("at", pa.int32()), ("v", pa.list_(pa.int64()))])
CHANGE = pa.schema([*BASE, pa.field(OP, pa.string()), pa.field(ROW_ID, pa.int64())])


@dataclass(frozen=True)
class Row:
    id: int
    part: str
    at: int | None
    v: int
    op: str = "U"
    row_id: int = 0

    @property
    def key(self) -> tuple[int, str]:
        return self.id, self.part


rows = st.builds(
    Row,
    id=st.integers(1, 3),
    part=st.sampled_from("ab"),
    at=st.integers(0, 4),
    v=st.integers(0, 99),
    op=st.sampled_from(["I", "U", "D"]),
)


def numbered(changes: Sequence[Row]) -> list[Row]:
    return [Row(row.id, row.part, row.at, row.v, row.op, position) for position, row in enumerate(changes)]


def table(listed: Sequence[Row], schema: pa.Schema) -> pa.Table:
    values = [
        {"id": row.id, "part": row.part, "at": row.at, "v": [row.v], OP: row.op, ROW_ID: row.row_id} for row in listed
    ]
    return pa.Table.from_pylist([{name: value[name] for name in schema.names} for value in values], schema=schema)


def apply(base: Sequence[Row], effective: pa.Table) -> dict[tuple[int, str], tuple[int | None, int]]:
    """Base's rows by their keys, after the effective changes, of which each key has one at most."""
    merged = {row.key: (row.at, row.v) for row in base}
    changes = {(row["id"], row["part"]): row for row in effective.to_pylist()}
    assert len(changes) == len(effective), "a key came twice"
    for key, row in changes.items():
        merged.pop(key, None)
        if row[OP] != "D":
            merged[key] = (row["at"], row["v"][0])
    return merged


@given(base=st.lists(rows, unique_by=lambda row: row.key), changes=st.lists(rows, min_size=1))
def test_without_a_sequence_field_the_last_change_of_a_key_counts(base: list[Row], changes: list[Row]) -> None:
    expected = {row.key: (row.at, row.v) for row in base}
    for change in changes:
        expected.pop(change.key, None)
        if change.op != "D":
            expected[change.key] = (change.at, change.v)
    shuffled = table(sorted(numbered(changes), key=lambda row: (row.v, row.row_id)), CHANGE)
    assert apply(base, select_newest(shuffled, KEYS, None)) == expected


@given(
    base=st.lists(
        st.builds(lambda row, null: Row(row.id, row.part, None if null else row.at, row.v), rows, st.booleans()),
        unique_by=lambda row: row.key,
    ),
    deleted=st.lists(rows),
    changes=st.lists(rows, min_size=1),
)
def test_with_a_sequence_field_the_highest_value_counts_and_base_loses_ties(
    base: list[Row], deleted: list[Row], changes: list[Row]
) -> None:
    expected = {row.key: (row.at, row.v) for row in base}
    for key in {change.key for change in changes}:
        mine = max((row for row in numbered(changes) if row.key == key), key=lambda row: (row.at or 0, row.row_id))
        late = [row.at for row in deleted if row.key == key]
        opponents = [expected[key][0]] if key in expected else late
        if all(opponent is None or (mine.at or 0) >= opponent for opponent in opponents):
            expected.pop(key, None)
            if mine.op != "D":
                expected[key] = (mine.at, mine.v)
    held = table(base, BASE)
    last = select_newest(table(numbered(changes), CHANGE), KEYS, "at")
    effective = select_effective(last, KEYS, "at", base_rows=held, deleted=table(deleted, BASE))
    assert apply(base, effective) == expected


@pytest.mark.parametrize(
    "keys",
    [
        pa.array([1, 2, 3], pa.date32()),
        pa.array([1, 2, 3], pa.timestamp("us", tz="UTC")),
        pa.array([Decimal("1.10"), Decimal("2.20"), Decimal("3.30")], pa.decimal128(10, 2)),
        pa.array([b"a" * 16, b"b" * 16, b"c" * 16], pa.binary(16)),
        pa.array([UUID(int=number).bytes for number in (1, 2, 3)], pa.uuid()),
        pa.array([b"a", b"b", b"c"], pa.large_binary()),
        pa.array([True, False, None]),
    ],
    ids=lambda keys: str(keys.type),
)
def test_keys_of_every_type_find_each_other(keys: pa.Array) -> None:
    twice = pa.chunked_array([keys.slice(0, 1), keys.slice(0, 1)])
    changes = pa.table({"id": twice, "at": [5, 5], "v": ["older", "new"], OP: ["U", "U"], ROW_ID: [1, 2]})
    newest = select_newest(changes, ["id"], "at")
    assert newest["v"].to_pylist() == select_newest(changes, ["id"], None)["v"].to_pylist() == ["new"]
    base = pa.table({"id": keys, "at": [6, 0, 0]})
    assert KeySearch(newest, ["id"]).find(base).tolist() == [0]
    composite = newest.append_column("part", pa.array(["a"]))
    parts = base.append_column("part", pa.array(["a", "a", "b"]))
    assert KeySearch(composite, ["id", "part"]).find(parts).tolist() == [0]
    assert len(select_effective(newest, ["id"], "at", base_rows=base, deleted=base.slice(0, 0))) == 0
    assert len(select_effective(newest, ["id"], "at", base_rows=base.slice(1), deleted=base.slice(0, 1))) == 0
    assert len(select_effective(newest, ["id"], "at", base_rows=base.slice(1), deleted=base.slice(1))) == 1
