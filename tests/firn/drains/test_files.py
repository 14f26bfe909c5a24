"""Data files and manifests of the light engine: partitions, order, statistics, and which tables it leaves to Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import FixedType, UUIDType

from firn.drains.append import Append, _assign_row_ids
from firn.drains.changes import OFFSET, PARTITION
from firn.drains.errors import NeedsSpark
from firn.drains.files import write_files
from firn.drains.layout import ChangeLayout, require_light
from firn.drains.order import keep_one
from tests.firn.test_logs import log
from tests.light_records import TYPES, make_layout, make_store

COLUMNS = ("id", "day", "name", "seen")


def spec_of(**transforms: tuple[int, Any]) -> PartitionSpec:
    """A spec of source ids and transforms by name."""
    fields = [
        PartitionField(source, 1000 + number, transform, name)
        for number, (name, (source, transform)) in enumerate(transforms.items())
    ]
    return PartitionSpec(*fields)


def test_each_partition_has_one_file_in_the_order_of_its_rows(tmp_path: Path) -> None:
    table = make_store(tmp_path, "id", "day", spec=spec_of(day=(2, IdentityTransform())))
    days = [date(2026, 1, 1), None, date(2026, 1, 2)]
    rows = pa.table(
        {"id": pa.array(range(9, -1, -1), pa.int64()), "day": pa.array([days[n % 3] for n in range(10)], pa.date32())}
    )
    files = write_files(table, rows.append_column("_op", pa.array(["U"] * 10)))
    assert sorted((str(file.partition[0]), file.record_count) for file in files) == [
        ("20454", 4),
        ("20455", 3),
        ("None", 3),
    ]
    for file in files:
        ids = pq.read_table(file.file_path.removeprefix("file://"), columns=["id"])["id"].to_pylist()
        assert ids == sorted(ids, reverse=True)
        assert file.value_counts[1] == file.record_count
    assert {"/day=2026-01-01/" in file.file_path or "/day=2026-01-02/" in file.file_path for file in files} == {
        True,
        False,
    }


def test_rows_lie_in_the_partitions_that_iceberg_computes(tmp_path: Path) -> None:
    transforms: dict[str, tuple[int, Any]] = {
        "by_day": (4, DayTransform()),
        "by_hour": (4, HourTransform()),  # a second field of one column
        "by_month": (2, MonthTransform()),
        "by_year": (2, YearTransform()),
        "by_id": (1, BucketTransform(4)),
        "by_name": (3, TruncateTransform(2)),
    }
    table = make_store(tmp_path, *COLUMNS, spec=spec_of(**transforms))
    day, seen = date(1969, 12, 31), datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    rows = pa.table(
        {
            "id": pa.array([1, 1], pa.int64()),
            "day": pa.array([day, day]),
            "name": pa.array(["äöü", "äöa"]),
            "seen": pa.array([seen, seen], pa.timestamp("us", tz="UTC")),
            "_op": pa.array(["U", "D"]),
        }
    )
    (file,) = write_files(table, rows)
    assert [file.partition[place] for place in range(6)] == [20455, 20455 * 24 + 3, -1, -1, 0, "äö"]
    Append(table, [file], table.spec().spec_id, {"firn.position": "a"}).commit()
    table = table.catalog.load_table(table.name())
    assert table.scan().to_arrow().select(["id", "name"]).to_pylist() == [
        {"id": 1, "name": "äöü"},
        {"id": 1, "name": "äöa"},
    ]
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary["firn.position"] == "a"
    assert (snapshot.summary["added-records"], snapshot.summary["total-data-files"]) == ("2", "1")


def test_an_append_without_files_keeps_the_rows_and_moves_on(tmp_path: Path) -> None:
    table = make_store(tmp_path, "id")
    for number in range(3):
        rows = pa.table({"id": pa.array([number], pa.int64()), "_op": pa.array(["U"])})
        files = write_files(table, rows if number != 1 else rows.slice(0, 0))
        Append(table, files, table.spec().spec_id, {}).commit()
        table = table.catalog.load_table(table.name())
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 2]
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary["total-records"] == "2"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"types": TYPES | {"n": UUIDType()}}, "column n has the type uuid"),
        ({"types": TYPES | {"n": FixedType(3)}}, "column n has the type fixed"),
        ({"spec": spec_of(gone=(1, VoidTransform()))}, "partitioned by void"),
        ({"write.format.default": "orc"}, "write.format.default is orc"),
        ({"write.location-provider.impl": "x.Y"}, "write.location-provider.impl is set"),
        ({"format": "new-json"}, "records of the format new-json"),
        ({"truncates": "empty", "format": "debezium-json"}, "only Spark empties a table"),
    ],
)
def test_tables_that_need_spark_say_why(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    of_log = {name: change.pop(name) for name in ("format", "truncates") if name in change}
    layout = ChangeLayout.of(make_store(tmp_path, "id", "n", **change))
    with pytest.raises(NeedsSpark, match=reason) as error:
        require_light(layout, log(**of_log))
    assert error.value.is_of_table


def test_a_table_without_a_key_and_one_whose_requests_are_signed_need_spark(tmp_path: Path) -> None:
    with pytest.raises(NeedsSpark, match="no primary key"):
        make_layout(tmp_path, "id", **{"firn.primary-key": ""})
    layout = make_layout(tmp_path, "id")
    require_light(layout, log())
    layout.table.config = {"s3.remote-signing-enabled": "true"}
    with pytest.raises(NeedsSpark, match="signs each request"):
        require_light(layout, log())


def test_a_commit_keeps_the_newest_change_of_a_key_and_the_oldest_insert(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "id": pa.array([1, 2, 1, 1], pa.int64()),
            "n": pa.array([7, 1, 9, 8], pa.int32()),
            "_op": pa.array(["I"] * 4),
            PARTITION: pa.array([1, 0, 0, 1], pa.int32()),
            OFFSET: pa.array([3, 0, 5, 4], pa.int64()),
        }
    )

    def keep(**properties: str) -> list[tuple[int, int]]:
        kept = keep_one(rows, make_layout(tmp_path, "id", "n", **properties))
        return sorted(zip(kept["id"].to_pylist(), kept["n"].to_pylist(), strict=True))

    assert keep() == [(1, 8), (2, 1)]
    assert keep(**{"firn.sequence-field": "n"}) == [(1, 9), (2, 1)]
    assert keep(**{"firn.insert-only": "true"}) == [(1, 9), (2, 1)]
    assert len(keep_one(rows.slice(0, 0), make_layout(tmp_path, "id", "n"))) == 0


def test_row_ids_go_to_manifests_that_have_none() -> None:
    assert _assign_row_ids([], 5) == 0
