"""Statistics of columns: added up from manifests that the tests have written, and how certain they are."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest

from catalog.files.column_statistics import read_distinct_values
from catalog.files.data_file import DataFileEntry, FileStats
from catalog.iceberg.json import Json
from firn.protocol.answers.columns import ColumnStatisticsOut, TableColumnsOut
from server.files.column_statistics import StoredColumnStatistics
from server.files.storage import Storage
from server.service.tables import column_statistics
from server.service.tables.tables import TableDefinition
from tests.factories import LAKE
from tests.server.lake import PLAIN, Lake
from tests.server.service.dry_runs.day_tables import BY_DAY, WHOLE, _ids, write

FIELDS: Json = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "type": "long", "required": True},
        {"id": 2, "name": "day", "type": "date", "required": False},
        {"id": 3, "name": "name", "type": "string", "required": False, "doc": "of a person"},
        {
            "id": 4,
            "name": "at",
            "type": {"type": "struct", "fields": [{"id": 5, "name": "x", "type": "double", "required": False}]},
            "required": False,
        },
    ],
}


def long(value: int) -> bytes:
    return struct.pack("<q", value)


def day(value: int) -> bytes:
    return struct.pack("<i", value)


def a_file(
    *, rows: int = 10, nulls: dict[int, int] | None = None, partition: int | None = None, **bounds: Any
) -> DataFileEntry:
    stats = FileStats(
        location=f"file:///data/{next(_ids)}.parquet",
        size=1000,
        record_count=rows,
        column_sizes={1: 40, 3: 100},
        value_counts=dict.fromkeys(nulls or {}, rows),
        null_counts=nulls or {},
        lower_bounds=bounds.get("lower", {}),
        upper_bounds=bounds.get("upper", {}),
    )
    return DataFileEntry(stats=stats, partition=() if partition is None else (partition,))


def make(lake: Lake, spec: Json = WHOLE) -> None:
    lake.services.tables.create(LAKE, TableDefinition(name=PLAIN, schema=FIELDS, partition_spec=spec))


def ask(lake: Lake, table: str = str(PLAIN)) -> TableColumnsOut:
    answer = lake.client.get(f"/api/v1/catalogs/lake/tables/{table}/columns")
    assert answer.status_code == 200, answer.text
    return TableColumnsOut.read(answer.json())


def column(table_columns: TableColumnsOut, name: str) -> ColumnStatisticsOut:
    return next(column for column in table_columns.columns if column.name == name)


def test_figures_are_added_up_over_files(lake: Lake) -> None:
    make(lake)
    first = a_file(nulls={1: 0, 3: 4}, lower={1: long(5), 3: b"b"}, upper={1: long(9), 3: b"\xc3\xa4\x1b"})
    second = a_file(nulls={1: 0, 3: 10}, lower={1: long(-2)}, upper={1: long(7)})
    write(lake, [first, second])
    columns_out = ask(lake)
    assert (columns_out.rows, columns_out.files, columns_out.files_read, columns_out.notes) == (20, 2, 2, [])
    ids, names, nested = (column(columns_out, name) for name in ("id", "name", "at.x"))
    assert (ids.nulls, ids.nulls_are, ids.lower, ids.upper, ids.range_is) == (0, "exact", "-2", "9", "exact")
    assert (ids.bytes, names.bytes) == (80, 200)
    assert (names.nulls, names.lower, names.upper, names.range_is) == (14, "b", "ä\ufffd", "bound"), "texts are cut"
    assert (names.comment, names.distinct, columns_out.columns[-1].name) == ("of a person", None, "at.x")
    assert (nested.nulls, nested.nulls_are, nested.lower, nested.range_is) == (None, "partial", None, "partial")


def test_a_file_without_counts_makes_figures_partial(lake: Lake) -> None:
    make(lake)
    write(lake, [a_file(nulls={1: 0}, lower={1: long(5)}, upper={1: long(9)}), a_file()])
    ids = column(ask(lake), "id")
    assert (ids.nulls, ids.counted_rows, ids.nulls_are, ids.range_is) == (0, 10, "partial", "partial")


def test_deletes_and_pending_changes_make_figures_bounds(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    make(lake)
    write(lake, [a_file(nulls={1: 0, 3: 4}, lower={1: long(5)}, upper={1: long(9)})])
    add_up = StoredColumnStatistics.add_up

    def with_deletes(self: StoredColumnStatistics, metadata: Json, counts: Any, **limits: Any) -> None:
        add_up(self, metadata, counts, **limits)
        counts.has_deletes = True

    monkeypatch.setattr(StoredColumnStatistics, "add_up", with_deletes)
    columns_out = ask(lake)
    ids, names = column(columns_out, "id"), column(columns_out, "name")
    assert (ids.range_is, names.nulls_are) == ("bound", "bound")
    assert "delete files hide rows" in columns_out.notes[0]


def test_a_state_is_counted_once_and_the_next_one_anew(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    make(lake)
    write(lake, [a_file(nulls={1: 0}, lower={1: long(1)}, upper={1: long(1)})])
    counted: list[object] = []
    add_up = StoredColumnStatistics.add_up

    def counting(self: StoredColumnStatistics, metadata: Json, counts: Any, **limits: Any) -> None:
        counted.append(counts)
        add_up(self, metadata, counts, **limits)

    monkeypatch.setattr(StoredColumnStatistics, "add_up", counting)
    assert column(ask(lake), "id").upper == column(ask(lake), "id").upper == "1"
    assert len(counted) == 1
    write(lake, [a_file(nulls={1: 0}, lower={1: long(2)}, upper={1: long(2)})])
    assert column(ask(lake), "id").upper == "2"
    assert len(counted) == 2


def test_of_very_many_files_a_part_is_read_and_partitions_of_all(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_statistics, "MOST_FILES", 1)
    make(lake, BY_DAY)
    for number in (1, 2, 3):
        bounds = {1: long(number), 2: day(number)}
        write(lake, [a_file(nulls={1: 0, 2: 0}, partition=number, lower=bounds, upper=bounds)])
    columns_out = ask(lake)
    assert (columns_out.files, columns_out.files_read) == (3, 1)
    ids, days = column(columns_out, "id"), column(columns_out, "day")
    assert (ids.range_is, ids.nulls_are, days.nulls_are) == ("partial", "partial", "partial")
    assert (days.lower, days.upper, days.range_is) == ("1970-01-02", "1970-01-04", "exact")
    assert columns_out.notes == [
        "1 of 3 files are counted, because the table has very many; ranges of partition columns include all files"
    ]


def test_an_empty_table_and_a_keyed_one_have_figures(lake: Lake) -> None:
    make(lake)
    assert (ask(lake).snapshot_id, ask(lake).rows, column(ask(lake), "id").nulls) == (None, 0, 0)
    lake.create_keyed()
    assert [column.name for column in ask(lake, "db.orders").columns][:1] == ["id"]
    assert lake.client.get("/api/v1/catalogs/lake/tables/db.nobody/columns").status_code == 404


def test_distinct_values_come_from_the_metadata_of_statistics_files(lake: Lake) -> None:
    def file(snapshot_id: int, field_id: int, ndv: object, *, sequence: int = 1, kind: str | None = None) -> Json:
        blob = {
            "type": kind or "apache-datasketches-theta-v1",
            "snapshot-id": snapshot_id,
            "sequence-number": sequence,
            "fields": [field_id],
            "properties": {"ndv": ndv},
        }
        return {"snapshot-id": snapshot_id, "blob-metadata": [blob]}

    files = [file(7, 1, "5", sequence=1), file(8, 1, "6", sequence=2), file(9, 1, "7", sequence=3)]
    odd = [file(9, 2, "many"), file(9, 3, None), file(9, 4, "-1"), file(9, 5, "9" * 30), file(9, 6, "1", kind="other")]
    metadata = {"statistics": [*files, *odd, {"snapshot-id": 9}]}
    columns_out = read_distinct_values(metadata, 7)
    assert {key: (values.estimate, values.snapshot_id) for key, values in columns_out.items()} == {1: (5, 7)}
    assert read_distinct_values(metadata, None)[1].estimate == 7
    assert read_distinct_values({}, 7) == {}


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("boolean", True, "true"),
        ("date", 2_000_000_000, "2000000000"),
        ("string", "a\nb\x00", "a\ufffdb\ufffd"),
        ("timestamp", 0, "1970-01-01T00:00:00"),
        ("double", 1.5, "1.5"),
        ("long", None, None),
    ],
)
def test_values_are_text_for_people(kind: str, value: Any, text: str | None) -> None:
    assert StoredColumnStatistics(Storage()).format_value(kind, value) == text


def test_bounds_of_before_a_promotion_are_read(lake: Lake) -> None:
    make(lake)
    write(lake, [a_file(nulls={1: 0}, lower={1: struct.pack("<i", 3)}, upper={1: struct.pack("<i", 4)})])
    ids = column(ask(lake), "id")
    assert (ids.lower, ids.upper, ids.range_is) == ("3", "4", "exact")


def test_files_that_do_not_tell_sizes_have_no_size_instead_of_none(lake: Lake) -> None:
    make(lake)
    without = a_file(nulls={1: 0})
    write(lake, [replace(without, stats=replace(without.stats, column_sizes={}))])
    columns_out = ask(lake)
    assert [found.bytes for found in columns_out.columns] == [None] * len(columns_out.columns)
    assert "the sizes of columns are unknown" in columns_out.notes[0]
    write(lake, [a_file(nulls={1: 0})])
    columns_out = ask(lake)
    assert (column(columns_out, "id").bytes, column(columns_out, "at.x").bytes, columns_out.notes) == (40, None, [])
