"""Footers of real Parquet files, written by PyArrow; PyIceberg's conversions judge the bounds."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

from catalog.errors import NotFound
from catalog.files.data_file import FileFormat, FileStats
from server.files.bounds import BOUND_LENGTH, find_bounds
from server.files.footers import BadFile, Footers
from server.files.listing import Listings
from server.files.parquet import Statistics
from server.files.storage import Storage
from server.files.table_files import TableFiles
from tests.server.files.hive_schemas import a_schema, bound

Read = Callable[..., FileStats]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def reading(table: pa.Table, *columns: tuple[str, Any], **options: object) -> FileStats:
        pq.write_table(table, tmp_path / "f.parquet", **options)
        return Footers(Storage(), a_schema(*columns)).read(f"file:{tmp_path}/f.parquet")

    return reading


DAY = date(2024, 1, 5)
NOON = datetime(2024, 1, 5, 12, 0, 0, 123456, tzinfo=UTC)
MICROS = int(NOON.timestamp()) * 1_000_000 + 123456


@pytest.mark.parametrize(
    ("kind", "arrow", "values", "low", "high"),
    [
        ("int", pa.int32(), [3, -7, None], -7, 3),
        ("int", pa.int16(), [3, -7], -7, 3),
        ("long", pa.int64(), [2**40, -(2**40)], -(2**40), 2**40),
        ("long", pa.int32(), [5, -6], -6, 5),
        ("float", pa.float32(), [1.5, -2.5], -2.5, 1.5),
        ("double", pa.float64(), [1.5, -2.5], -2.5, 1.5),
        ("double", pa.float32(), [1.5, -2.5], -2.5, 1.5),
        ("boolean", pa.bool_(), [True, False], False, True),
        ("string", pa.string(), ["b", "ä", "a"], "a", "ä"),
        ("binary", pa.binary(), [b"\x01", b"\xff\xfe"], b"\x01", b"\xff\xfe"),
        ("date", pa.date32(), [DAY], DAY.toordinal() - 719163, DAY.toordinal() - 719163),
        ("decimal(9, 2)", pa.decimal128(9, 2), [Decimal("-1.28"), Decimal("1.27")], Decimal("-1.28"), Decimal("1.27")),
        ("decimal(38, 2)", pa.decimal128(38, 2), [Decimal("1e30"), Decimal(-1)], Decimal(-1), Decimal("1e30")),
        ("timestamptz", pa.timestamp("us", tz="UTC"), [NOON], MICROS, MICROS),
        ("timestamptz", pa.timestamp("ms", tz="UTC"), [NOON.replace(microsecond=0)], MICROS - 123456, MICROS - 123456),
    ],
)  # fmt: skip
def test_bounds_are_what_iceberg_expects(
    read: Read, kind: str, arrow: pa.DataType, values: list[Any], low: object, high: object
) -> None:
    stats = read(pa.table({"x": pa.array(values, arrow)}), ("x", kind))
    assert bound(stats, kind) == (low, high)
    assert stats.record_count == stats.value_counts[1] == len(values)
    assert stats.null_counts[1] == values.count(None)
    assert stats.column_sizes[1] > 0


def test_decimals_stored_as_integers_have_bounds_too(read: Read) -> None:
    """As Spark stores them, up to 18 digits."""
    column = pa.array([Decimal("-128.00"), Decimal("3.00")], pa.decimal128(9, 2))
    stats = read(pa.table({"x": column}), ("x", "decimal(9, 2)"), store_decimal_as_integer=True)
    assert bound(stats, "decimal(9, 2)") == (Decimal("-128.00"), Decimal("3.00"))


def test_bounds_span_all_row_groups(read: Read) -> None:
    values = pa.array([5, 2**31 - 1, None, None, -3, 0], pa.int32())
    stats = read(
        pa.table({"x": values, "s": pa.array(list("bbccaa"))}), ("x", "int"), ("s", "string"), row_group_size=2
    )
    assert bound(stats, "int") == (-3, 2**31 - 1)
    assert bound(stats, "string", 2) == ("a", "c")
    assert (stats.record_count, stats.null_counts[1], len(stats.split_offsets)) == (6, 2, 3)
    assert stats.split_offsets[0] == 4
    assert sorted(stats.split_offsets) == list(stats.split_offsets)


def test_a_column_of_nulls_has_counts_and_no_bounds(read: Read) -> None:
    stats = read(pa.table({"x": pa.array([None, None], pa.int32())}), ("x", "int"))
    assert (stats.value_counts, stats.null_counts, stats.lower_bounds) == ({1: 2}, {1: 2}, {})


def test_an_empty_file_is_a_file_without_rows(read: Read) -> None:
    stats = read(pa.table({"x": pa.array([], pa.int32())}), ("x", "int"))
    assert (stats.record_count, stats.lower_bounds) == (0, {})


def test_a_file_without_statistics_claims_nothing(read: Read) -> None:
    stats = read(pa.table({"x": pa.array([1, 2], pa.int32())}), ("x", "int"), write_statistics=False)
    assert (stats.value_counts, stats.null_counts, stats.lower_bounds, stats.upper_bounds) == ({1: 2}, {}, {}, {})


def test_int96_timestamps_have_no_bounds(read: Read) -> None:
    table = pa.table({"x": pa.array([NOON], pa.timestamp("us", tz="UTC"))})
    stats = read(table, ("x", "timestamptz"), use_deprecated_int96_timestamps=True)
    assert (stats.value_counts, stats.lower_bounds, stats.upper_bounds) == ({1: 1}, {}, {})


def test_columns_that_the_file_lacks_and_the_table_lacks_are_left_out(read: Read) -> None:
    stats = read(
        pa.table({"gone": [1], "x": pa.array([1], pa.int32())}), ("x", "int"), ("new", "string"), ("day", "date")
    )
    assert stats.value_counts == {1: 1}


def test_names_match_without_regard_to_case_and_the_file_s_spelling_is_told(read: Read) -> None:
    stats = read(pa.table({"userId": pa.array([7], pa.int32())}), ("userid", "int"))
    assert bound(stats, "int") == (7, 7)
    assert stats.aliases == ((1, "userId"),)


def test_nested_columns_count_inside_structs_only(read: Read) -> None:
    inner = {"type": "struct", "fields": [{"id": 10, "name": "a", "required": False, "type": "int"}]}
    many = {"type": "list", "element-id": 11, "element": "int", "element-required": False}
    table = pa.table(
        {
            "s": pa.array([{"a": 3}, None], pa.struct([("a", pa.int32())])),
            "l": pa.array([[1, 2], []], pa.list_(pa.int32())),
            "x": pa.array([1, 2], pa.int32()),
        }
    )
    stats = read(table, ("s", inner), ("l", many), ("x", "int"))
    assert stats.value_counts == {10: 2, 3: 2}
    assert bound(stats, "int", 10) == (3, 3)


@pytest.mark.parametrize(
    ("kind", "arrow", "values", "message"),
    [
        ("int", pa.string(), ["a"], "is a int in the table and a BYTE_ARRAY"),
        ("int", pa.int64(), [1], "is a int in the table and a INT64"),
        ("long", pa.uint64(), [1], "is a long"),
        ("string", pa.int32(), [1], "is a string"),
        ("date", pa.int32(), [1], "is a date"),
        ("decimal(9, 2)", pa.decimal128(9, 3), [Decimal("1.000")], r"decimal\(9, 3\)"),
        ("timestamptz", pa.timestamp("ns", tz="UTC"), [NOON], "timestamp of nanos"),
        ("float", pa.float64(), [1.0], "is a float"),
        ("int", pa.list_(pa.int32()), [[1]], "is a int in the table and a group"),
    ],
)
def test_columns_of_another_type_are_named(
    read: Read, kind: str, arrow: pa.DataType, values: list[Any], message: str
) -> None:
    with pytest.raises(BadFile, match=f"f.parquet: column 'x' {message}|{message}") as refused:
        read(pa.table({"x": pa.array(values, arrow)}), ("x", kind))
    assert refused.value.hint


def test_names_that_differ_in_case_only_cannot_be_told_apart(read: Read) -> None:
    with pytest.raises(BadFile, match="could be any of ID, id"):
        read(pa.table({"id": [1], "ID": [2]}), ("id", "long"))


JULIAN = [
    {"org.apache.spark.version": "3.5.1", "org.apache.spark.legacyDateTime": ""},
    {"org.apache.spark.version": "2.4.8"},
    {"writer.time.zone": "UTC", "writer.date.proleptic": "false"},
]
GREGORIAN = [{}, {"org.apache.spark.version": "4.1.4"}, {"writer.date.proleptic": "true"}]


@pytest.mark.parametrize("marks", JULIAN + GREGORIAN)
@pytest.mark.parametrize("day", [date(1582, 10, 14), date(1582, 10, 15)])
def test_old_days_by_the_julian_calendar_are_refused_where_the_writer_says_so(
    read: Read, marks: dict[str, str], day: date
) -> None:
    table = pa.table({"x": pa.array([day, DAY], pa.date32())}).replace_schema_metadata(marks)
    if marks in JULIAN and day < date(1582, 10, 15):
        with pytest.raises(BadFile, match="column 'x' has days before 1582-10-15 in the Julian calendar"):
            read(table, ("x", "date"))
    else:
        assert read(table, ("x", "date")).record_count == 2


def test_foreign_field_ids_are_refused(read: Read) -> None:
    """Iceberg readers would go by the ids and read the wrong column."""
    x = pa.field("x", pa.int32(), metadata={"PARQUET:field_id": "2"})
    with pytest.raises(BadFile, match="carries field id 2 in the file, in the table it is 1"):
        read(pa.table([pa.array([1], pa.int32())], schema=pa.schema([x])), ("x", "int"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "0 bytes"),
        (b"PAR1", "4 bytes"),
        (b"this is text, not Parquet", "does not end as a Parquet file does"),
        (b"PAR1" + b"x" * 20 + (2**31 - 1).to_bytes(4, "little") + b"PAR1", "longer than the file"),
        (b"PAR1" + b"\xff" * 40 + (40).to_bytes(4, "little") + b"PAR1", "cannot be decoded"),
        (b"PAR1" + b"\x00" * 40 + (40).to_bytes(4, "little") + b"PAR1", "cannot be decoded"),
        (b"PARE" + b"\x00" * 40 + (40).to_bytes(4, "little") + b"PARE", "encrypted"),
    ],
)
def test_what_is_no_parquet_file_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "broken.parquet").write_bytes(content)
    with pytest.raises(BadFile, match=f"{tmp_path}/broken.parquet .*{message}|{message}"):
        Footers(Storage(), a_schema(("x", "int"))).read(f"{tmp_path}/broken.parquet")


def test_every_cut_and_every_changed_byte_of_a_footer_is_survived(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": pa.array([1, 2], pa.int32()), "s": ["a", "b"]}), tmp_path / "good.parquet")
    good = (tmp_path / "good.parquet").read_bytes()
    length = int.from_bytes(good[-8:-4], "little")
    footers = Footers(Storage(), a_schema(("x", "int"), ("s", "string")))
    for at in range(len(good) - 8 - length, len(good) - 8):
        broken = tmp_path / "broken.parquet"
        broken.write_bytes(good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1 :])
        try:
            footers.read(str(broken))
        except BadFile as error:
            assert "broken.parquet" in error.message  # noqa: PT017 - not every changed byte matters


def test_a_footer_longer_than_the_first_look_is_read_whole(read: Read) -> None:
    columns = [f"column_{n:04d}" for n in range(700)]
    stats = read(
        pa.table({name: pa.array([n], pa.int32()) for n, name in enumerate(columns)}), *((c, "int") for c in columns)
    )
    assert len(stats.value_counts) == 100  # facts of more columns than that cost more than they save
    assert bound(stats, "int", 100) == (99, 99)


def test_many_files_come_in_their_order_and_the_first_bad_one_ends_it(tmp_path: Path) -> None:
    names = [str(tmp_path / f"{n}.parquet") for n in range(200)]
    for n, name in enumerate(names):
        pq.write_table(pa.table({"x": pa.array([n], pa.int32())}), name)
    footers = Footers(Storage(), a_schema(("x", "int")))
    assert [stats.location for stats in footers.read_all(names)] == names
    with pytest.raises(NotFound, match=r"missing\.parquet"):
        list(footers.read_all([*names, str(tmp_path / "missing.parquet")]))


def test_formats_are_told_and_forgotten_while_files_are_read(tmp_path: Path) -> None:
    orc_names = [str(tmp_path / f"{n}.orc") for n in range(300)]
    orc.write_table(pa.table({"x": pa.array([1, None], pa.int32())}), orc_names[0])
    pq.write_table(pa.table({"x": pa.array([1], pa.int32())}), tmp_path / "a.parquet")
    for name in orc_names[1:]:
        shutil.copyfile(orc_names[0], name)
    formats: dict[str, FileFormat] = {}

    def locations() -> Iterator[str]:
        yield str(tmp_path / "a.parquet")
        for name in orc_names:
            formats[name] = FileFormat.ORC
            yield name

    known, read_count = 0, []
    for stats in Footers(Storage(), a_schema(("x", "int")), threads=1).read_all(locations(), formats):
        known = max(known, len(formats))
        formats.pop(stats.location, None)
        read_count.append((stats.format, stats.record_count))
    assert read_count == [(FileFormat.PARQUET, 1), *[(FileFormat.ORC, 2)] * 300]
    assert known < 300


def statistics(low: bytes, high: bytes) -> Statistics:
    collected = Statistics()
    collected.min_value, collected.max_value = low, high
    return collected


@given(st.lists(st.text(), min_size=1))
def test_cut_text_bounds_hold_every_value(values: list[str]) -> None:
    raw = sorted(value.encode() for value in values)
    reader = find_bounds("string", 6, millis=False)
    assert reader is not None
    lower, upper = reader.of([statistics(raw[0], raw[-1])])
    assert lower is not None
    assert lower <= raw[0]
    assert len(lower.decode()) <= BOUND_LENGTH
    assert upper is None or (upper >= raw[-1] and len(upper.decode()) <= BOUND_LENGTH)


@given(st.lists(st.binary(), min_size=1))
def test_cut_binary_bounds_hold_every_value(values: list[bytes]) -> None:
    raw = sorted(values)
    reader = find_bounds("binary", 6, millis=False)
    assert reader is not None
    lower, upper = reader.of([statistics(raw[0], raw[-1])])
    assert lower is not None
    assert lower <= raw[0]
    assert upper is None or (upper >= raw[-1] and len(upper) <= BOUND_LENGTH)


def test_not_a_number_is_no_bound_and_zero_has_both_signs() -> None:
    reader = find_bounds("double", 5, millis=False)
    assert reader is not None
    raw = {x: pa.array([x]).buffers()[1].to_pybytes()[:8] for x in (0.0, 1.0, math.nan)}
    assert reader.of([statistics(raw[1.0], raw[math.nan])]) == (None, None)
    lower, upper = reader.of([statistics(raw[0.0], raw[0.0])])
    assert (lower, upper) == (b"\0" * 7 + b"\x80", b"\0" * 8)


def test_old_unsigned_statistics_of_text_are_not_trusted() -> None:
    """Writers before 2018 compared bytes as signed: their order of non-ASCII text is wrong."""
    old = Statistics()
    old.min, old.max = b"\xc3\xa4", b"a"
    text, number = find_bounds("string", 6, millis=False), find_bounds("int", 1, millis=False)
    assert text is not None
    assert number is not None
    assert text.of([old]) == (None, None)
    old.min, old.max = b"\xff\xff\xff\xff", b"\x01\x00\x00\x00"
    assert number.of([old]) == (b"\xff\xff\xff\xff", b"\x01\x00\x00\x00")


@pytest.mark.parametrize("form", [*FileFormat])
def test_a_file_is_known_again_by_its_digest_and_told_from_others(tmp_path: Path, form: FileFormat) -> None:
    def written(name: str, *values: int) -> str:
        table = pa.table({"n": pa.array(values, pa.int64())})
        path = tmp_path / name
        if form is FileFormat.PARQUET:
            pq.write_table(table, path)
        elif form is FileFormat.ORC:
            orc.write_table(table, path)
        else:
            schema = {"type": "record", "name": "r", "fields": [{"name": "n", "type": ["null", "long"]}]}
            with path.open("wb") as file:
                fastavro.writer(file, schema, table.to_pylist())
        return path.as_uri()

    files = TableFiles(Storage(), Listings(), footer_threads=2)
    first, other = written("a", 1, 2, 3), written("b", 1, 3, 3)
    shutil.copy(tmp_path / "a", tmp_path / "moved")
    moved, gone = (tmp_path / "moved").as_uri(), (tmp_path / "gone").as_uri()
    digests = [Footers(Storage(), a_schema(("n", "long"))).read(at, form).digest for at in (first, other, moved)]
    assert digests[0] == digests[2] != digests[1]
    assert list(files.digests([first, other, moved, gone])) == [*digests, None]
