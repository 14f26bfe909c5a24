"""Columns of data files as the table names them now: a field is known by its id."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField, StructType

from firn.scan.reading import ColumnReader

INSIDE = StructType(NestedField(3, "a", LongType(), required=False), NestedField(4, "b", LongType(), required=False))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """One row with a struct."""
    catalog = InMemoryCatalog("test", warehouse=tmp_path.as_uri())
    catalog.create_namespace("db")
    columns = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "s", INSIDE, required=False))
    table = catalog.create_table("db.t", columns)
    kind = pa.struct([pa.field("a", pa.int64()), pa.field("b", pa.int64())])
    table.append(pa.table([pa.array([1]), pa.array([{"a": 7, "b": 8}], kind)], names=["id", "s"]))
    return table


def read_rows(table: Table) -> list[dict[str, object]]:
    (task,) = table.scan().plan_files()
    reader = ColumnReader(table, table.schema())
    (part,) = reader.read_parts(task.file, 10)
    assert part.equals(reader.read(task.file))
    rows: list[dict[str, object]] = part.to_pylist()
    return rows


def test_a_struct_is_read_with_its_fields(table: Table) -> None:
    assert read_rows(table) == [{"id": 1, "s": {"a": 7, "b": 8}}]


def test_a_dropped_field_in_a_struct_stays_gone_when_another_takes_its_name(table: Table) -> None:
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column(("s", "b"))
    with table.update_schema() as update:
        update.add_column(("s", "b"), LongType())
    assert read_rows(table.refresh()) == [{"id": 1, "s": {"a": 7, "b": None}}]
