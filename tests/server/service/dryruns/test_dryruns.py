"""Dry runs tell what is in the manifests: counted against files that the tests have written themselves."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from catalog.commit import Change
from catalog.datafile import DataFileEntry, FileStats
from catalog.errors import Invalid
from catalog.iceberg.json import Json
from catalog.job import JobKind
from catalog.names import TableName
from catalog.would import Would
from server.files.snapshots import write_snapshot
from server.files.storage import Storage
from server.service.dryruns import look
from server.service.tables import TableDefinition
from tests.factories import LAKE
from tests.server.lake import CHANGE, ORDERS, PLAIN, Lake

_ids = count(50_000)
MIB = 2**20
TODAY = (datetime.now(UTC).date() - date(1970, 1, 1)).days
FIELDS: Json = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "type": "long", "required": True},
        {"id": 2, "name": "day", "type": "date", "required": False},
    ],
}
BY_DAY: Json = {"spec-id": 0, "fields": [{"name": "day", "source-id": 2, "transform": "identity"}]}
WHOLE: Json = {"spec-id": 0, "fields": []}
OLD = {"firn.ttl.field": "day", "firn.ttl.max-age": "10 d"}


def make(lake: Lake, spec: Json | None = None, /, **properties: str) -> None:
    lake.services.tables.create(
        LAKE, TableDefinition(name=PLAIN, schema=FIELDS, partition_spec=spec or BY_DAY, properties=properties)
    )


def a_file(day: int | None, *, size: int = MIB, rows: int = 10, bounds: tuple[int, int] | None = None) -> DataFileEntry:
    packed = None if bounds is None else [struct.pack("<i", one) for one in bounds]
    stats = FileStats(
        location=f"file:///data/{next(_ids)}.parquet",
        size=size,
        record_count=rows,
        lower_bounds={} if packed is None else {2: packed[0]},
        upper_bounds={} if packed is None else {2: packed[1]},
    )
    return DataFileEntry(stats=stats, partition=() if bounds is not None else (day,))


def write(lake: Lake, added: Sequence[DataFileEntry], removed: Sequence[DataFileEntry] = ()) -> None:
    metadata = lake.metadata(PLAIN)
    gone = [one.stats.location for one in removed]
    now_ms = metadata["last-updated-ms"] + 1
    made = write_snapshot(Storage(), metadata, added, gone, snapshot_id=next(_ids), now_ms=now_ms)
    lake.commit(Change(name=PLAIN, requirements=made.requirements(), updates=made.updates()))


def would(lake: Lake, kind: JobKind, name: TableName = PLAIN, **params: str) -> Would:
    return lake.services.dry_runs.of(LAKE, name, kind, params)


def touched(found: Would) -> dict[str, tuple[int, int | None]]:
    return {one.what: (one.count, one.bytes) for one in found.touches}


def test_a_rewrite_tells_the_small_files_of_each_partition(lake: Lake) -> None:
    make(lake)
    small = [a_file(TODAY) for _ in range(6)]
    write(lake, [*small, a_file(TODAY, size=200 * MIB), a_file(TODAY - 1), a_file(TODAY - 1)])
    found = would(lake, JobKind.REWRITE, min_files="5")
    day = (date(1970, 1, 1) + timedelta(days=TODAY)).isoformat()
    assert touched(found) == {
        "files to rewrite": (6, 6 * MIB),
        "files to leave": (3, 202 * MIB),
        "partitions": (1, None),
        f"day={day}": (6, 6 * MIB),
    }
    assert (found.gain["files_before"], found.gain["files_after"], found.exact) == (9, 4, True)


@pytest.mark.parametrize(("least", "packed"), [("3", 3), ("20", 0), ("1", 3)])
def test_a_planned_rewrite_packs_as_few_files_as_make_it_due(lake: Lake, least: str, packed: int) -> None:
    """Five of a partition suffice; where the owner wants a rewrite of fewer, it would else find nothing to do."""
    make(lake, **{"firn.rewrite.min-files": least})
    write(lake, [a_file(TODAY) for _ in range(3)])
    assert touched(would(lake, JobKind.REWRITE))["files to rewrite"] == (packed, packed * MIB)


def test_an_expiry_counts_the_files_that_only_leaving_snapshots_need(lake: Lake) -> None:
    make(lake, **{"firn.expire.max-age": "0 s", "firn.expire.min-snapshots": "1"})
    first, second, kept = a_file(TODAY), a_file(TODAY, size=5), a_file(TODAY - 1)
    write(lake, [first, kept])
    write(lake, [second], [first])
    write(lake, [a_file(TODAY)], [second])
    found = would(lake, JobKind.EXPIRE)
    assert touched(found)["snapshots"] == (2, None)
    assert touched(found)["data and delete files"] == (2, MIB + 5)
    assert touched(found)["manifest lists and statistics"] == (2, None)
    assert found.exact
    tag = {"action": "set-snapshot-ref", "ref-name": "t", "type": "tag"}
    oldest = lake.metadata(PLAIN)["snapshots"][0]["snapshot-id"]
    lake.commit(Change(name=PLAIN, updates=[{**tag, "snapshot-id": oldest}]))
    again = would(lake, JobKind.EXPIRE)
    assert touched(again)["snapshots"] == (1, None)
    assert touched(again)["data and delete files"] == (1, 5)


def test_an_expiry_says_when_no_file_would_be_deleted(lake: Lake) -> None:
    make(lake, **{"firn.expire.max-age": "0 s", "firn.expire.min-snapshots": "1", "gc.enabled": "false"})
    first = a_file(TODAY)
    write(lake, [first])
    write(lake, [], [first])
    found = would(lake, JobKind.EXPIRE)
    assert touched(found)["snapshots"] == (1, None)
    assert (touched(found)["data and delete files"], found.gain["freed_files"]) == ((0, 0), 0)
    assert any("gc.enabled" in note for note in found.notes)


def test_old_rows_are_counted_by_partitions(lake: Lake) -> None:
    make(lake, **OLD)
    write(lake, [a_file(TODAY - 40, rows=7), a_file(TODAY - 11, rows=5), a_file(TODAY - 9), a_file(None)])
    found = would(lake, JobKind.TTL)
    assert (found.exact, touched(found)["rows"][0]) == (True, 12)
    assert touched(found)["files that go whole, unopened"] == (2, 2 * MIB)
    assert (found.gain["files_before"], found.gain["files_after"]) == (4, 2)


def test_old_rows_are_estimated_by_bounds(lake: Lake) -> None:
    make(lake, WHOLE, **OLD)
    spans = [(TODAY - 40, TODAY - 20), (TODAY - 14, TODAY - 5), (TODAY - 9, TODAY)]
    write(lake, [a_file(None, rows=100, bounds=span) for span in spans])
    found = would(lake, JobKind.TTL)
    assert found.exact is False
    assert touched(found)["rows"][0] == 100 + 40
    assert touched(found)["files that lose some rows"][0] == 1


def test_a_table_of_too_many_files_is_told_by_its_summary(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    make(lake, **OLD)
    write(lake, [a_file(TODAY), a_file(TODAY - 40)])
    monkeypatch.setattr(look, "MOST_FILES", 1)
    for kind in (JobKind.REWRITE, JobKind.TTL):
        found = would(lake, kind)
        assert (found.exact, touched(found)["data files"]) == (False, (2, 2 * MIB))


def test_a_merge_tells_what_is_pending_and_where_it_goes(lake: Lake) -> None:
    lake.create_keyed()
    assert would(lake, JobKind.MERGE, ORDERS).would == "merge nothing: no change is pending"
    metadata = lake.metadata(CHANGE)
    entry = DataFileEntry(stats=FileStats(location="file:///c.parquet", size=50, record_count=3))
    made = write_snapshot(
        Storage(), metadata, [entry], (), snapshot_id=next(_ids), now_ms=metadata["last-updated-ms"] + 1
    )
    lake.commit(Change(name=CHANGE, requirements=made.requirements(), updates=made.updates()))
    found = would(lake, JobKind.MERGE, ORDERS)
    assert found.would.startswith("merge 3 pending rows of 1 commit into a base of 0 rows")
    assert touched(found)["change files"] == (1, 50)


def test_tags_and_statistics_are_told_by_what_they_would_make(lake: Lake) -> None:
    make(lake, **{"firn.tags.schedule": "0 0 1 1 *", "firn.tags.max-age": "800 d"})
    write(lake, [a_file(TODAY)])
    tags = would(lake, JobKind.TAGS)
    assert (tags.would, len(tags.notes)) == ("make 0 tags and drop 0", 1)
    assert would(lake, JobKind.STATISTICS).notes[0] == "columns: id, day"


@pytest.mark.parametrize(
    ("kind", "properties", "why"),
    [
        (JobKind.TTL, {}, "firn.ttl.field is not set"),
        (JobKind.TTL, {**OLD, "firn.ttl.field": "id"}, "its type is long"),
        (JobKind.TAGS, {}, "firn.tags.schedule is not set"),
        (JobKind.STATISTICS, {"firn.statistics.columns": "ID"}, "no column ID"),
    ],
)
def test_a_job_that_would_only_fail_is_refused_with_the_reason(
    lake: Lake, kind: JobKind, properties: dict[str, Any], why: str
) -> None:
    make(lake, **properties)
    for ask in (lake.services.dry_runs.of, lake.services.dry_runs.check):
        with pytest.raises(Invalid, match=why):
            ask(LAKE, PLAIN, kind, {})
