"""Tails of real ORC files, written by PyArrow; what Spark and Hive write is read in tests/integration/hive."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from hashlib import shake_256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from catalog.files.data_file import FileFormat, FileStats
from server.files.digests import TAIL
from server.files.footers import BadFile, Footers
from server.files.layout import RowsAlone
from server.files.orc import OrcFooter, OrcStatistics, OrcType, decode_tail
from server.files.orc_files import OrcFiles
from server.files.storage import Storage
from tests.server.files.hive_schemas import a_schema, bound

Read = Callable[..., FileStats]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def reading(table: pa.Table, *columns: tuple[str, Any], **options: Any) -> FileStats:
        orc.write_table(table, tmp_path / "f.orc", **options)
        return Footers(Storage(), a_schema(*columns)).read(f"file:{tmp_path}/f.orc", FileFormat.ORC)

    return reading


@pytest.mark.parametrize("compression", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
def test_rows_and_nulls_are_counted_whatever_the_compression(read: Read, tmp_path: Path, compression: str) -> None:
    """The tail is longer than the first look at it, and in several chunks.

    Long names do that, which hardly compress: PyArrow's writer takes megabytes for each column, and keeps them.
    """
    names = [f"column_{n}_{shake_256(bytes([n])).hexdigest(500)}" for n in range(200)]
    table = pa.table({name: pa.array([n, None, -n], pa.int64()) for n, name in enumerate(names)})
    stats = read(table, *((name, "long") for name in names), compression=compression)
    assert OrcFiles.length((tmp_path / "f.orc").read_bytes()) > TAIL
    assert (stats.format, stats.record_count, stats.null_counts[7]) == (FileFormat.ORC, 3, 1)
    assert bound(stats, "long", 3) == (-2, 2)
    assert len(stats.value_counts) == 100


def test_columns_that_are_needed_are_counted_wherever_they_stand(tmp_path: Path) -> None:
    names = [f"c{n}" for n in range(150)]
    orc.write_table(pa.table({name: [1, None] for name in names}), tmp_path / "f.orc")
    footers = Footers(Storage(), a_schema(*((name, "long") for name in names)), nulls_of=[150])
    assert footers.read(f"{tmp_path}/f.orc", FileFormat.ORC).null_counts[150] == 1


@pytest.mark.parametrize(
    ("kind", "arrow", "values", "low", "high"),
    [
        ("int", pa.int32(), [3, -7, None], -7, 3),
        ("int", pa.int8(), [3, -7], -7, 3),
        ("long", pa.int32(), [3, -7], -7, 3),
        ("long", pa.int64(), [2**40, -(2**40)], -(2**40), 2**40),
        ("string", pa.string(), ["b", "ä" * 20, "a"], "a", "ä" * 15 + "å"),
        ("date", pa.date32(), [date(2024, 1, 5)], 19727, 19727),
    ],
)
def test_bounds_are_what_iceberg_expects(
    read: Read, kind: str, arrow: pa.DataType, values: list[Any], low: object, high: object
) -> None:
    stats = read(pa.table({"x": pa.array(values, arrow)}), ("x", kind))
    assert bound(stats, kind) == (low, high)
    assert (stats.value_counts[1], stats.null_counts[1]) == (len(values), values.count(None))


@pytest.mark.parametrize(
    ("kind", "arrow", "value"),
    [
        ("double", pa.float64(), 1.0),
        ("double", pa.float32(), 1.0),
        ("decimal(12, 2)", pa.decimal128(9, 2), Decimal("1.25")),
        ("timestamp", pa.timestamp("ns"), datetime(2024, 1, 1)),  # noqa: DTZ001 -- a wall clock's
        ("timestamptz", pa.timestamp("ns", "UTC"), datetime(2024, 1, 1, tzinfo=UTC)),
        ("boolean", pa.bool_(), True),
        ("binary", pa.binary(), b"x"),
    ],
)
def test_other_columns_have_counts_and_no_bounds(read: Read, kind: str, arrow: pa.DataType, value: object) -> None:
    stats = read(pa.table({"x": pa.array([value, None], arrow)}), ("x", kind))
    assert (stats.null_counts, stats.lower_bounds, stats.upper_bounds) == ({1: 1}, {}, {})


@pytest.mark.parametrize(
    ("kind", "arrow", "value", "message"),
    [
        ("int", pa.int64(), 1, "is a int in the table and a long in the file"),
        ("long", pa.int16(), 1, "is a long in the table and a smallint"),
        ("string", pa.int32(), 1, "is a string in the table"),
        ("decimal(9, 2)", pa.decimal128(9, 3), Decimal("1.000"), r"decimal\(9, 3\)"),
        ("timestamptz", pa.timestamp("ns"), datetime(2024, 1, 1), "a timestamp in the file"),  # noqa: DTZ001
        ("timestamp", pa.timestamp("ns", "UTC"), datetime(2024, 1, 1, tzinfo=UTC), "a timestamptz in the file"),
        ("int", pa.list_(pa.int32()), [1], "a list in the file"),
    ],
)
def test_columns_that_iceberg_would_not_read_are_named(
    read: Read, kind: str, arrow: pa.DataType, value: object, message: str
) -> None:
    with pytest.raises(BadFile, match=f"f.orc: column 'x' .*{message}") as refused:
        read(pa.table({"x": pa.array([value], arrow)}), ("x", kind))
    assert refused.value.hint


def test_every_spelling_is_told_at_every_depth(read: Read) -> None:
    struct = {"type": "struct", "fields": [{"id": 10, "name": "a", "required": False, "type": "int"}]}
    many = {"type": "list", "element-id": 11, "element": struct, "element-required": False}
    pairs = {"type": "map", "key-id": 12, "key": "string", "value-id": 13, "value": struct, "value-required": False}
    inner = pa.struct([("A", pa.int32())])
    kinds = {"userId": pa.int64(), "l": pa.list_(inner), "m": pa.map_(pa.string(), inner)}
    rows = {"userId": [1], "l": [[{"A": 1}]], "m": [[("k", {"A": 1})]]}
    stats = read(
        pa.table({name: pa.array(rows[name], kind) for name, kind in kinds.items()}),
        ("userid", "long"),
        ("l", many),
        ("m", pairs),
        ("new", "string"),
    )
    assert set(stats.aliases) == {(1, "userId"), (10, "A")}
    assert stats.null_counts == {1: 0}


def test_names_that_differ_in_case_only_cannot_be_told_apart(read: Read) -> None:
    with pytest.raises(BadFile, match="could be any of ID, id"):
        read(pa.table({"id": [1], "ID": [2]}), ("id", "long"))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["_col0", "_col1"], "have no names"),
        (["operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row"], "transactional"),
    ],
)
def test_columns_that_would_be_read_as_nulls_are_refused(read: Read, names: list[str], message: str) -> None:
    with pytest.raises(BadFile, match=message):
        read(pa.table({name: [1] for name in names}), ("id", "long"))


def a_footer(statistics: OrcStatistics, *, is_proleptic: bool = False, kind: int = 15) -> OrcFooter:
    row = OrcType(kind=12, children=(1,), names=("x",), precision=0, scale=0, has_field_id=False)
    column = OrcType(kind=kind, children=(), names=(), precision=0, scale=0, has_field_id=False)
    of_rows = OrcStatistics(values=1, numbers=None, texts=None, days=None, timestamps=None)
    return OrcFooter(1, (row, column), (3,), (of_rows, statistics), is_proleptic)


@pytest.mark.parametrize(("kind", "iceberg"), [(15, "date"), (9, "timestamp")])
def test_days_of_the_julian_calendar_are_refused(monkeypatch: pytest.MonkeyPatch, kind: int, iceberg: str) -> None:
    """Spark's and Hive's writers count so, and do not say it."""
    day = -141_428  # 1582-10-14, which nobody has lived
    old = OrcStatistics(values=1, numbers=None, texts=None, days=(day, 0), timestamps=(day * 86_400_000, 0))
    files = OrcFiles(a_schema(("x", iceberg)))
    for footer, fits in ((a_footer(old, kind=kind), False), (a_footer(old, kind=kind, is_proleptic=True), True)):
        monkeypatch.setattr("server.files.orc_files.decode_tail", lambda _, footer=footer: footer)
        if fits:
            assert files.stats("f", 1, b"").record_count == 1
            continue
        with pytest.raises(RowsAlone, match="'x' has days before 1582-10-15"):
            files.stats("f", 1, b"")


def test_a_file_without_statistics_claims_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    footer = a_footer(OrcStatistics(values=1, numbers=None, texts=None, days=None, timestamps=None))
    bare = OrcFooter(footer.rows, footer.types, footer.stripes, (), footer.is_proleptic)
    monkeypatch.setattr("server.files.orc_files.decode_tail", lambda _: bare)
    stats = OrcFiles(a_schema(("x", "date"))).stats("f", 1, b"")
    assert (stats.value_counts, stats.null_counts, stats.lower_bounds) == ({1: 1}, {}, {})


def test_the_bounds_of_padded_texts_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = OrcStatistics(values=1, numbers=None, texts=(b"a", b"b"), days=None, timestamps=None)
    for kind, bounds in ((16, {1: b"a"}), (17, {})):
        monkeypatch.setattr("server.files.orc_files.decode_tail", lambda _, kind=kind: a_footer(texts, kind=kind))
        assert OrcFiles(a_schema(("x", "string"))).stats("f", 1, b"").lower_bounds == bounds


@pytest.mark.parametrize("content", [b"", b"ORC", b"PAR1" * 20, b"x" * 300 + b"ORC\x03"])
def test_what_is_no_orc_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "broken").write_bytes(content)
    with pytest.raises(BadFile, match=f"{tmp_path}/broken is not a readable ORC file"):
        Footers(Storage(), a_schema(("x", "int"))).read(f"{tmp_path}/broken", FileFormat.ORC)


def test_every_cut_and_every_changed_byte_of_a_tail_is_survived(tmp_path: Path) -> None:
    table = pa.table({"x": pa.array([1, 2], pa.int32()), "s": ["a", "b"]})
    orc.write_table(table, tmp_path / "good", compression="uncompressed")
    good = (tmp_path / "good").read_bytes()
    broken = tmp_path / "broken"
    for at in range(len(good) // 2, len(good)):
        for content in (good[:at], good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1 :]):
            broken.write_bytes(content)
            try:
                Footers(Storage(), a_schema(("x", "int"), ("s", "string"))).read(str(broken), FileFormat.ORC)
            except BadFile as error:
                assert "broken" in error.message  # noqa: PT017 - not every changed byte matters


def test_pyarrow_finds_the_same_in_a_tail(tmp_path: Path) -> None:
    orc.write_table(pa.table({"x": range(100_000)}), tmp_path / "f", stripe_size=65_536)
    reference, own = orc.ORCFile(tmp_path / "f"), decode_tail((tmp_path / "f").read_bytes())
    assert (own.rows, len(own.stripes), own.types[0].names) == (
        reference.nrows,
        reference.nstripes,
        tuple(reference.schema.names),
    )
