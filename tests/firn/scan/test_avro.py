"""Avro data files in a scan: Hive's, which have no field ids, and those of Iceberg's writers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import FileScanTask
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
    UUIDType,
)

from firn.errors import Refused
from firn.scan import Scan
from firn.scan import avro as module
from firn.scan.avro import read_avro_rows
from tests.firn.scan.avro_files import Plain, WrittenTable, column

DAY = {"type": "int", "logicalType": "date"}
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 7, "scale": 2}


def record(*fields: Mapping[str, Any], name: str = "row") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def named(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def columns_of_all_types() -> list[NestedField]:
    """Also two that the files do not have: `later` of the table, and `later` of the pairs."""
    return [
        column(1, "id", LongType()),
        column(2, "price", DecimalType(9, 2)),
        column(3, "at", TimestamptzType()),
        column(4, "share", DoubleType()),
        column(5, "raw", BinaryType()),
        column(
            6,
            "pairs",
            ListType(
                20,
                StructType(
                    column(21, "day", DateType()), column(22, "code", StringType()), column(23, "later", IntegerType())
                ),
                element_required=False,
            ),
        ),
        column(7, "times", MapType(24, StringType(), 25, TimestamptzType(), value_required=False)),
        column(8, "one", StructType(column(26, "code", StringType()), column(27, "day", DateType()))),
        column(9, "later", StringType()),
    ]


def schema_of_all_types() -> dict[str, Any]:
    """What Hive writes; `unknown` is no column of the table."""
    pair = record(
        named("code", ["null", {"type": "string", "logicalType": "char", "maxLength": 3}]),
        named("day", ["null", DAY]),
        name="pair",
    )
    millis = {"type": "long", "logicalType": "timestamp-millis"}
    return record(
        named("unknown", ["null", "string"]),
        named("id", ["null", "int"]),  # widened since
        named("price", ["null", MONEY]),
        named("at", ["null", millis]),
        named("share", ["float", "null"]),
        named("raw", "bytes"),
        named("pairs", ["null", {"type": "array", "items": ["null", pair]}]),
        named("times", ["null", {"type": "map", "values": ["null", millis]}]),
        named("one", ["null", "pair"]),
    )


def test_values_of_all_types_as_hive_writes_them(tmp_path: Path) -> None:
    table = WrittenTable(tmp_path, *columns_of_all_types())
    row = {
        "unknown": "x", "id": 1, "price": Decimal("-12345.67"), "at": -1, "share": 0.5, "raw": b"\x00\xff",
        "pairs": [None, {"code": "a  ", "day": date(2026, 1, 1)}, {"code": None, "day": None}],
        "times": {"k": 1500, "none": None}, "one": {"code": "b", "day": date(1969, 12, 31)},
    }  # fmt: skip
    nothing = dict.fromkeys(row) | {"raw": b"", "id": 2}
    table.add(schema_of_all_types(), row, nothing)
    read_rows = table.scanned()
    rows = Scan(source=Plain(table.table)).to_arrow()
    assert rows["at"].cast(pa.int64()).to_pylist() == [-1000, None]
    assert read_rows[0] | {"at": None, "times": None} == {
        "id": 1, "price": Decimal("-12345.67"), "at": None, "share": 0.5, "raw": b"\x00\xff",
        "pairs": [None, {"day": date(2026, 1, 1), "code": "a  ", "later": None},
                  {"day": None, "code": None, "later": None}],
        "times": None, "one": {"code": "b", "day": date(1969, 12, 31)}, "later": None,
    }  # fmt: skip
    assert [(key, value and value.timestamp()) for key, value in read_rows[0]["times"]] == [("k", 1.5), ("none", None)]
    assert read_rows[1] == dict.fromkeys(read_rows[0]) | {"id": 2, "raw": b""}
    assert table.scanned("price < 0 and one.day is not null", "share") == [{"share": 0.5}]
    assert table.scanned("later = 'x'") == []


def test_days_that_python_does_not_have(tmp_path: Path) -> None:
    table = WrittenTable(
        tmp_path, column(1, "day", DateType()), column(2, "more", ListType(3, DateType(), element_required=False))
    )
    number = {"type": "int", "logicalTypo": "date"}  # else fastavro would not write them
    file = table.add(
        record(named("day", number), named("more", {"type": "array", "items": number})),
        *({"day": day, "more": [day]} for day in (-800_000, 3_000_000)),
    )
    path = Path(file.file_path.removeprefix("file://"))
    path.write_bytes(path.read_bytes().replace(b"logicalTypo", b"logicalType"))
    rows = Scan(source=Plain(table.table)).to_arrow()
    assert rows["day"].cast(pa.int32()).to_pylist() == [-800_000, 3_000_000]
    assert pc.list_flatten(rows["more"]).cast(pa.int32()).to_pylist() == [-800_000, 3_000_000]


def test_filters_partitions_and_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS_PER_BATCH", 3)
    table = WrittenTable(tmp_path, column(1, "id", LongType()), by=column(2, "p", StringType()))
    schema = record(named("id", "long"))
    table.add(schema, *({"id": number} for number in range(10)), partition=["x"])
    table.add(schema, {"id": 100}, partition=[None])
    pq.write_table(pa.table({"id": pa.array([5, 50], pa.int64())}), tmp_path / "g.parquet")
    table.register(tmp_path / "g.parquet", FileFormat.PARQUET, 2, ["y"])
    assert sorted(row["id"] for row in table.scanned()) == [*range(5), 5, *range(5, 10), 50, 100]
    assert table.scanned("p is null") == [{"id": 100, "p": None}]
    assert sorted(table.scanned("id = 5", "p"), key=str) == [{"p": "x"}, {"p": "y"}]
    assert [row["id"] for row in table.scanned("p = 'x' and id > 7")] == [8, 9]


def test_rows_that_delete_files_take_are_found_by_their_positions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ROWS_PER_BATCH", 3)
    table = WrittenTable(tmp_path, column(1, "id", LongType()))
    files = [
        table.add(record(named("id", "long")), *({"id": start + number} for number in range(8))) for start in (0, 10)
    ]
    deletes = []
    for at, positions in enumerate(([0, 3, 7], [3, 4])):
        path = tmp_path / f"deletes{at}.parquet"
        pq.write_table(pa.table({"file_path": [files[0].file_path] * len(positions), "pos": positions}), path)
        deletes.append(DataFile.from_args(
            content=DataFileContent.POSITION_DELETES, file_path=path.as_uri(), file_format=FileFormat.PARQUET,
            partition=Record(), record_count=len(positions), file_size_in_bytes=path.stat().st_size,
        ))  # fmt: skip
    tasks = [FileScanTask(file, {*deletes}) for file in files]
    rows = pa.concat_tables(read_avro_rows(table.table, tasks, table.table.schema()))
    assert rows["id"].to_pylist() == [1, 2, 5, 6, *range(10, 18)]


def test_files_of_iceberg_s_own_writers_go_by_their_ids(tmp_path: Path) -> None:
    table = WrittenTable(
        tmp_path,
        column(1, "id", LongType()),
        column(2, "u", UUIDType()),
        column(3, "by", MapType(5, IntegerType(), 6, DateType(), value_required=False)),
    )
    with table.table.update_schema() as change:
        change.rename_column("id", "key")
    entry = record(named("key", "int", **{"field-id": 4}), named("value", ["null", DAY], **{"field-id": 5}), name="kv")
    schema = record(
        named("id", "long", **{"field-id": 1}),
        named("u", ["null", {"type": "fixed", "size": 16, "name": "uuid", "logicalType": "uuid"}], **{"field-id": 2}),
        named("by", {"type": "array", "items": entry, "logicalType": "map"}, **{"field-id": 3}),
    )
    table.add(schema, {"id": 1, "u": None, "by": [{"key": 1, "value": date(2026, 1, 1)}, {"key": 2, "value": None}]})
    assert table.scanned() == [{"key": 1, "u": None, "by": [(1, date(2026, 1, 1)), (2, None)]}]


@pytest.mark.parametrize(
    ("there", "value", "reason"),
    [
        (["null", "string", "int"], 1, "several types"),
        ("string", "1", "its string is not read as long"),
        (MONEY, Decimal(1), "its bytes decimal is not read as long"),
    ],
)
def test_a_file_that_is_not_read_is_named(tmp_path: Path, there: Any, value: Any, reason: str) -> None:
    table = WrittenTable(tmp_path, column(1, "id", LongType()))
    file = table.add(record(named("id", there)), {"id": value})
    with pytest.raises(Refused, match=reason) as refused:
        table.scanned()
    assert file.file_path in str(refused.value)
    assert "firn sql" in (refused.value.hint or "")


def test_a_file_that_is_cut_off_is_named(tmp_path: Path) -> None:
    table = WrittenTable(tmp_path, column(1, "id", LongType()))
    file = table.add(record(named("id", "long")), *({"id": number} for number in range(1000)))
    path = Path(file.file_path.removeprefix("file://"))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(Refused, match="cannot be read as Avro"):
        table.scanned()
