"""Columns that a table is partitioned by and its files do not hold, as Hive writes them: values of the partition."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import DataScan, FileScanTask
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    UUIDType,
)

from tests.firn.scan.avro_files import WrittenTable, column

KINDS: list[tuple[IcebergType, Any, Any]] = [
    (StringType(), "p", "p"),
    (DateType(), 20_600, date(2026, 5, 27)),
    (IntegerType(), 7, 7),
    (LongType(), -7, -7),
    (BooleanType(), False, False),
    (DecimalType(9, 2), Decimal("12.50"), Decimal("12.50")),
    (TimestampType(), 1_700_000_000_000_000, datetime(2023, 11, 14, 22, 13, 20)),  # noqa: DTZ001 (without a zone)
    (UUIDType(), UUID(int=5), UUID(int=5)),
    (FixedType(2), b"ab", b"ab"),
]
"""Types, their values in a partition, and in rows."""
Write = Callable[[pa.Table, Path], object]
FORMATS: list[tuple[FileFormat, Write]] = [(FileFormat.PARQUET, pq.write_table), (FileFormat.ORC, orc.write_table)]


def made_by(directory: Path, kind: IcebergType, *, required: bool) -> WrittenTable:
    by = NestedField(9, "day", kind, required=required)
    return WrittenTable(
        directory, NestedField(1, "id", LongType(), required=True), column(2, "word", StringType()), by=by
    )


def add(
    table: WrittenTable, value: Any, *ids: int, kind: FileFormat = FileFormat.PARQUET, write: Write = pq.write_table
) -> None:
    path = table.directory / f"000000_{len(list(table.directory.iterdir()))}"
    write(pa.table({"id": pa.array(ids), "word": pa.array([f"w{row_id}" for row_id in ids])}), path)
    table.register(path, kind, len(ids), [value])


@pytest.mark.parametrize("required", [True, False])
@pytest.mark.parametrize(("kind", "value", "shown"), KINDS, ids=[str(kind) for kind, *_ in KINDS])
def test_a_partition_column_that_is_not_in_the_files(
    tmp_path: Path, kind: IcebergType, value: Any, shown: Any, *, required: bool
) -> None:
    """A required one, as keys are, failed with `Field is required, and could not be found in the file`."""
    table = made_by(tmp_path, kind, required=required)
    add(table, value, 1, 2)
    assert table.scanned() == [{"id": row_id, "word": f"w{row_id}", "day": shown} for row_id in (1, 2)]
    assert table.scanned(None, "day", "id") == [{"day": shown, "id": row_id} for row_id in (1, 2)]


@pytest.mark.parametrize(("kind", "write"), FORMATS)
@pytest.mark.parametrize("required", [True, False])
def test_filters_on_it(tmp_path: Path, kind: FileFormat, write: Write, *, required: bool) -> None:
    table = made_by(tmp_path, StringType(), required=required)
    add(table, "p", 1, 2, kind=kind, write=write)
    add(table, "q", 3, kind=kind, write=write)
    assert table.scanned("day = 'p' and id > 1") == [{"id": 2, "word": "w2", "day": "p"}]
    assert table.scanned("day = 'p'", "id") == [{"id": 1}, {"id": 2}]
    assert table.scanned("day != 'p'", "word") == [{"word": "w3"}]
    assert table.scanned("day in ('p', 'z') and id = 2", "id") == [{"id": 2}]
    assert table.scanned("not (day = 'q') and word = 'w1'", "id") == [{"id": 1}]
    assert sorted(row["id"] for row in table.scanned("day = 'q' or id = 1", "id")) == [1, 3]


def test_it_can_be_asked_for_alone(tmp_path: Path) -> None:
    table = made_by(tmp_path, StringType(), required=True)
    add(table, "p", 1, 2)
    add(table, "q", 3)
    assert sorted(row["day"] for row in table.scanned(None, "day")) == ["p", "p", "q"]
    assert table.scanned("day = 'q'", "day") == [{"day": "q"}]


def test_a_partition_without_a_value_is_null(tmp_path: Path) -> None:
    table = made_by(tmp_path, StringType(), required=False)
    add(table, None, 1)
    add(table, "p", 2)
    assert {row["id"]: row["day"] for row in table.scanned()} == {1: None, 2: "p"}
    assert table.scanned("day is null", "id") == [{"id": 1}]
    assert table.scanned("day is not null", "id") == [{"id": 2}]


def test_a_required_column_that_nothing_gives_is_still_missed(tmp_path: Path) -> None:
    table = made_by(tmp_path, StringType(), required=True)
    path = tmp_path / "000000_9"
    pq.write_table(pa.table({"word": ["w"]}), path)
    table.register(path, FileFormat.PARQUET, 1, ["p"])
    with pytest.raises(Exception, match="id: required long"):
        table.scanned()


@pytest.mark.parametrize(("kind", "write"), FORMATS)
@pytest.mark.parametrize("where", [None, "day = 'p' and id > 1", "word = 'w2'"])
def test_rows_at_hidden_positions_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: FileFormat, write: Write, where: str | None
) -> None:
    """An image hides rows of Hive's files by position-delete files."""
    table = made_by(tmp_path, StringType(), required=True)
    add(table, "p", 1, 2, 3, kind=kind, write=write)
    add(table, "q", 3, kind=kind, write=write)
    hidden = tmp_path / "hidden.parquet"
    plan = DataScan.plan_files

    def planned(scan: DataScan) -> list[FileScanTask]:
        tasks = list(plan(scan))
        paths = [task.file.file_path for task in tasks]
        pq.write_table(pa.table({"file_path": paths, "pos": [0] * len(paths)}), hidden)
        file = DataFile.from_args(
            content=DataFileContent.POSITION_DELETES, file_path=hidden.as_uri(), file_format=FileFormat.PARQUET
        )
        return [FileScanTask(task.file, {file}) for task in tasks]

    monkeypatch.setattr(DataScan, "plan_files", planned)
    assert [row["id"] for row in table.scanned(where)] == ([2] if where and "word" in where else [2, 3])
