"""Avro files without footers, written by fastavro; what Hive writes is read in tests/integration/hive."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest

from catalog.files.data_file import FileFormat, FileStats
from server.files.footers import BadFile, Footers
from server.files.storage import Storage
from tests.server.files.hive_schemas import a_schema

Read = Callable[..., FileStats]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def reading(
        fields: Sequence[tuple[str, Any]],
        rows: Sequence[Mapping[str, Any]],
        *columns: tuple[str, Any],
        nulls_of: Collection[int] = (),
        **options: Any,
    ) -> FileStats:
        schema = {"type": "record", "name": "row", "fields": [{"name": name, "type": kind} for name, kind in fields]}
        with (tmp_path / "f.avro").open("wb") as file:
            fastavro.writer(file, schema, rows, **options)
        footers = Footers(Storage(), a_schema(*columns), nulls_of=nulls_of)
        return footers.read(f"file:{tmp_path}/f.avro", FileFormat.AVRO)

    return reading


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "bzip2", "zstandard"])
def test_rows_are_counted_from_many_blocks_and_nulls_where_they_are_asked_for(read: Read, codec: str) -> None:
    rows = [{"x": None if n % 3 else n, "y": None} for n in range(10_000)]
    fields = [("x", ["null", "long"]), ("y", ["long", "null"])]
    columns = (("x", "long"), ("y", "long"), ("gone", "long"), ("sure", "int"))
    stats = read(fields, rows, *columns, codec=codec, sync_interval=1_000)
    assert (stats.format, stats.record_count) == (FileFormat.AVRO, 10_000)
    assert (stats.null_counts, stats.value_counts, stats.lower_bounds) == ({}, {}, {})
    counted = read(fields, rows, *columns, nulls_of=[1, 3], codec=codec, sync_interval=1_000)
    assert counted.null_counts == {1: 6_666, 3: 10_000}


def test_a_column_that_has_no_room_for_nulls_has_none(read: Read) -> None:
    stats = read([("x", "long")], [{"x": 1}], ("x", "long"), nulls_of=[1])
    assert stats.null_counts == {1: 0}


@pytest.mark.parametrize("days", [-719_163, 2_932_897, 2**31 - 1])
def test_days_that_no_job_could_read_are_named_as_such_and_not_as_damage(read: Read, days: int) -> None:
    path = read(
        [("x", ["null", "int"]), ("day", {"type": "int", "logicalTypo": "date"})],
        [{"x": 1, "day": days}],
        ("x", "int"),
        ("day", "int"),
    ).location.removeprefix("file:")
    content = Path(path).read_bytes()
    Path(path).write_bytes(content.replace(b"logicalTypo", b"logicalType"))
    with pytest.raises(BadFile, match="before the year 1 or after 9999") as refused:
        Footers(Storage(), a_schema(("x", "int"), ("day", "date")), nulls_of=[1]).read(f"file:{path}", FileFormat.AVRO)
    assert "in Hive" in (refused.value.hint or "")
    assert not refused.value.has_rows


def test_an_empty_file_is_a_file_without_rows(read: Read) -> None:
    assert read([("x", "long")], [], ("x", "long")).record_count == 0


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


@pytest.mark.parametrize(
    ("kind", "avro", "value"),
    [
        ("int", "int", 1),
        ("long", "int", 1),
        ("double", "float", 1.0),
        ("binary", "bytes", b"x"),
        ("string", {"type": "string", "logicalType": "varchar", "maxLength": 3}, "abc"),
        ("decimal(12, 2)", decimal(9, 2), Decimal("1.25")),
        ("date", {"type": "int", "logicalType": "date"}, date(2024, 1, 1)),
        ("timestamptz", {"type": "long", "logicalType": "timestamp-millis"}, datetime(2024, 1, 1, tzinfo=UTC)),
        ("timestamptz", {"type": "long", "logicalType": "timestamp-micros"}, datetime(2024, 1, 1, tzinfo=UTC)),
    ],
)
def test_types_that_iceberg_reads(read: Read, kind: str, avro: object, value: object) -> None:
    assert read([("x", ["null", avro])], [{"x": value}], ("x", kind)).record_count == 1


@pytest.mark.parametrize(
    ("kind", "avro", "value", "message"),
    [
        ("int", "long", 1, "is a int in the table and a long in the file"),
        ("date", "int", 1, "is a date"),
        ("int", {"type": "int", "logicalType": "date"}, date(2024, 1, 1), "a date in the file"),
        ("decimal(9, 2)", decimal(9, 3), Decimal("1.250"), r"decimal\(9, 3\)"),
        ("timestamptz", {"type": "long", "logicalType": "local-timestamp-micros"}, 1, "local-timestamp-micros"),
        ("int", ["null", "int", "string"], 1, "a union in the file"),
        ("string", {"type": "enum", "name": "e", "symbols": ["a"]}, "a", "a enum in the file"),
    ],
)
def test_columns_that_iceberg_would_not_read_are_named(
    read: Read, kind: str, avro: object, value: object, message: str
) -> None:
    with pytest.raises(BadFile, match=f"f.avro: column 'x' .*{message}") as refused:
        read([("x", avro)], [{"x": value}], ("x", kind))
    assert refused.value.hint


def test_named_types_are_followed_and_a_table_s_capitals_are_small_in_files(read: Read) -> None:
    struct = {"type": "struct", "fields": [{"id": 10, "name": "A", "required": False, "type": "int"}]}
    many = {"type": "list", "element-id": 11, "element": {**struct, "fields": [{**struct["fields"][0], "id": 12}]}}  # type: ignore[dict-item]
    pairs = {"type": "map", "key-id": 13, "key": "string", "value-id": 14, "value": "long"}
    record = {"type": "record", "name": "inner", "namespace": "n", "fields": [{"name": "a", "type": ["null", "int"]}]}
    stats = read(
        [
            ("s", record),
            ("l", {"type": "array", "items": ["null", "n.inner"]}),
            ("m", {"type": "map", "values": "long"}),
        ],
        [{"s": {"a": 1}, "l": [{"a": 2}], "m": {"k": 1}}],
        ("s", struct),
        ("l", many),
        ("m", pairs),
    )
    assert stats.aliases == ((10, "a"), (12, "a"))


def test_names_that_hive_does_not_find_are_refused(read: Read) -> None:
    """Its readers show nulls there, Iceberg's would not."""
    with pytest.raises(BadFile, match="'x' is spelled 'X'"):
        read([("X", "int")], [{"X": 1}], ("x", "int"))
    struct = {"type": "struct", "fields": [{"id": 10, "name": "a", "required": False, "type": "int"}]}
    many = {"type": "list", "element-id": 11, "element": struct, "element-required": False}
    record = {"type": "record", "name": "inner", "fields": [{"name": "A", "type": "int"}]}
    with pytest.raises(BadFile, match=r"'l\.a' is spelled 'A'"):
        read([("l", {"type": "array", "items": record})], [{"l": [{"A": 1}]}], ("l", many))


def test_foreign_field_ids_are_refused(tmp_path: Path) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "x", "type": "long", "field-id": 7}]}
    with (tmp_path / "f").open("wb") as file:
        fastavro.writer(file, schema, [{"x": 1}])
    with pytest.raises(BadFile, match="field ids"):
        Footers(Storage(), a_schema(("x", "long"))).read(f"{tmp_path}/f", FileFormat.AVRO)


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard"])
def test_every_cut_of_a_file_is_told_and_every_changed_byte_survived(tmp_path: Path, codec: str) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "x", "type": ["null", "long"]}]}
    with (tmp_path / "good").open("wb") as file:
        rows = [{"x": 1}, {"x": None}]
        fastavro.writer(file, schema, rows, codec, sync_interval=1, sync_marker=b"0123456789abcdef")
    good = (tmp_path / "good").read_bytes()
    header = good.index(b"0123456789abcdef") + 16
    broken = tmp_path / "broken"
    footers = Footers(Storage(), a_schema(("x", "long")), nulls_of=[1])
    for at in range(len(good)):
        broken.write_bytes(good[:at])
        if at == header or good[at - 16 : at] == b"0123456789abcdef":
            continue  # it ends where a block does: nothing shows that another one was there
        with pytest.raises(BadFile, match="broken is not a readable Avro file"):
            footers.read(str(broken), FileFormat.AVRO)
    for at in range(len(good)):
        broken.write_bytes(good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1 :])
        try:
            footers.read(str(broken), FileFormat.AVRO)
        except BadFile as error:
            assert "broken" in error.message  # noqa: PT017 - not every changed byte matters
