"""Dry runs tell what is in the manifests: counted against files that the tests have written themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any

import pytest

from catalog.errors import Invalid
from catalog.files.data_file import DataFileEntry, FileStats
from catalog.files.manifest_entries import ManifestEntry, ManifestFile
from catalog.history.commit import TableCommit
from catalog.iceberg.json import Json
from catalog.jobs.job import AFTER_A_LOOK, JobKind
from catalog.locations.location_rule import FileRule
from catalog.maintenance import KINDS, dry_run
from catalog.names import TableName
from catalog.planning.dry_run_result import DryRunResult
from server.files.snapshots import write_snapshot
from server.files.storage import Storage
from tests.factories import LAKE
from tests.server.clocks import Clock
from tests.server.lake import CHANGE, ORDERS, PLAIN, Lake
from tests.server.service.dry_runs.day_tables import MIB, NOON, TODAY, WHOLE, _ids, a_file, make, write

OLD = {"firn.ttl.field": "day", "firn.ttl.max-age": "10 d"}


@pytest.fixture(autouse=True)
def noon(clock: Clock) -> None:
    """No day ends between the writing of rows and the dry run that tells their age."""
    clock.set(NOON)


def would(lake: Lake, kind: JobKind, name: TableName = PLAIN, **params: str) -> DryRunResult:
    return lake.services.dry_runs.run(LAKE, name, kind, params)


def touched(dry_run: DryRunResult) -> dict[str, tuple[int, int | None]]:
    return {affected.items: (affected.count, affected.bytes) for affected in dry_run.affected}


def test_a_rewrite_tells_the_small_files_of_each_partition(lake: Lake) -> None:
    make(lake)
    small = [a_file(TODAY) for _ in range(6)]
    write(lake, [*small, a_file(TODAY, size=200 * MIB), a_file(TODAY - 1), a_file(TODAY - 1)])
    dry_run = would(lake, JobKind.REWRITE, min_files="5")
    day = (date(1970, 1, 1) + timedelta(days=TODAY)).isoformat()
    assert touched(dry_run) == {
        "files to rewrite": (6, 6 * MIB),
        "files to leave": (3, 202 * MIB),
        "partitions": (1, None),
        f"day={day}": (6, 6 * MIB),
    }
    assert (dry_run.gain["files_before"], dry_run.gain["files_after"], dry_run.exact) == (9, 4, True)


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
    dry_run = would(lake, JobKind.EXPIRE)
    assert touched(dry_run)["snapshots"] == (2, None)
    assert touched(dry_run)["data and delete files"] == (2, MIB + 5)
    assert touched(dry_run)["manifest lists and statistics"] == (2, None)
    assert dry_run.exact
    tag = {"action": "set-snapshot-ref", "ref-name": "t", "type": "tag"}
    oldest = lake.metadata(PLAIN)["snapshots"][0]["snapshot-id"]
    lake.commit(TableCommit(name=PLAIN, updates=[{**tag, "snapshot-id": oldest}]))
    again = would(lake, JobKind.EXPIRE)
    assert touched(again)["snapshots"] == (1, None)
    assert touched(again)["data and delete files"] == (1, 5)


def test_an_expiry_says_when_no_file_would_be_deleted(lake: Lake) -> None:
    make(lake, **{"firn.expire.max-age": "0 s", "firn.expire.min-snapshots": "1", "gc.enabled": "false"})
    first = a_file(TODAY)
    write(lake, [first])
    write(lake, [], [first])
    dry_run = would(lake, JobKind.EXPIRE)
    assert touched(dry_run)["snapshots"] == (1, None)
    assert (touched(dry_run)["data and delete files"], dry_run.gain["freed_files"]) == ((0, 0), 0)
    assert any("gc.enabled" in note for note in dry_run.notes)


def test_old_rows_are_counted_by_partitions(lake: Lake) -> None:
    make(lake, **OLD)
    write(lake, [a_file(TODAY - 40, rows=7), a_file(TODAY - 11, rows=5), a_file(TODAY - 9), a_file(None)])
    dry_run = would(lake, JobKind.TTL)
    assert (dry_run.exact, touched(dry_run)["rows"][0]) == (True, 12)
    assert touched(dry_run)["files that go whole, unopened"] == (2, 2 * MIB)
    assert (dry_run.gain["files_before"], dry_run.gain["files_after"]) == (4, 2)


def test_old_rows_are_estimated_by_bounds(lake: Lake) -> None:
    make(lake, WHOLE, **OLD)
    spans = [(TODAY - 40, TODAY - 20), (TODAY - 14, TODAY - 5), (TODAY - 9, TODAY)]
    write(lake, [a_file(None, rows=100, bounds=span) for span in spans])
    dry_run = would(lake, JobKind.TTL)
    assert dry_run.exact is False
    assert touched(dry_run)["rows"][0] == 100 + 40
    assert touched(dry_run)["files that lose some rows"][0] == 1


def test_a_table_of_too_many_files_is_told_by_its_summary(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    make(lake, **OLD)
    write(lake, [a_file(TODAY), a_file(TODAY - 40)])
    monkeypatch.setattr(dry_run, "MAX_FILES", 1)
    for kind in (JobKind.REWRITE, JobKind.TTL):
        result = would(lake, kind)
        assert (result.exact, touched(result)["data files"]) == (False, (2, 2 * MIB))


def test_a_merge_tells_what_is_pending_and_where_it_goes(lake: Lake) -> None:
    lake.create_keyed()
    assert would(lake, JobKind.MERGE, ORDERS).action == "merge nothing: no change is pending"
    metadata = lake.metadata(CHANGE)
    entry = DataFileEntry(stats=FileStats(location="file:///c.parquet", size=50, record_count=3))
    snapshot_update = write_snapshot(
        Storage(), metadata, [entry], (), snapshot_id=next(_ids), now_ms=metadata["last-updated-ms"] + 1
    )
    lake.commit(
        TableCommit(name=CHANGE, requirements=snapshot_update.requirements(), updates=snapshot_update.updates())
    )
    dry_run = would(lake, JobKind.MERGE, ORDERS)
    assert dry_run.action.startswith("merge 3 pending rows of 1 commit into a base of 0 rows")
    assert touched(dry_run)["change files"] == (1, 50)


def test_tags_and_statistics_are_told_by_what_they_would_make(lake: Lake) -> None:
    make(lake, **{"firn.tags.schedule": "0 0 1 1 *", "firn.tags.max-age": "800 d"})
    write(lake, [a_file(TODAY)])
    tags = would(lake, JobKind.TAGS)
    assert (tags.action, len(tags.notes)) == ("make 0 tags and drop 0", 1)
    assert would(lake, JobKind.STATISTICS).notes[0] == "columns: id, day"


@dataclass(frozen=True)
class Listed:
    """One manifest with these files: of deletes too, which the server writes none of."""

    entries: Sequence[ManifestEntry]

    def confined(self, _rule: FileRule) -> Listed:
        return self

    def lines(self, _metadata: Json, _snapshot: Json) -> list[ManifestFile]:
        return [ManifestFile(location="m", length=MIB, files=len(self.entries), record={})]

    def files(self, _metadata: Json, _line: ManifestFile, *, bounds_of: int | None = None) -> Iterator[ManifestEntry]:
        assert bounds_of is None
        return iter(self.entries)

    def find_missing_column(self, _metadata: Json, _line: ManifestFile, _columns: Mapping[int, frozenset[int]]) -> None:
        return None


def listed(name: str, content: int = 0, *, size: int = 100 * MIB, rows: int = 100, **more: Any) -> ManifestEntry:
    entry_fields: dict[str, Any] = {"partition": (TODAY,), "spec_id": 0, "sequence_number": 1} | more
    return ManifestEntry(location=name, content=content, size=size, record_count=rows, **entry_fields)


def would_of(lake: Lake, kind: JobKind, files: Sequence[ManifestEntry], **params: Any) -> DryRunResult:
    """What is said of a table that has these files."""
    make(lake)
    write(lake, [a_file(TODAY)])
    return replace(lake.services.dry_runs, manifests=Listed(files)).run(LAKE, PLAIN, kind, params)


def test_every_kind_that_the_server_can_look_at_has_a_look_of_its_own() -> None:
    without = {kind.name for kind in KINDS if kind.dry_run is None}
    assert without == {JobKind.REMOVE_ORPHANS, JobKind.PIPELINE, *AFTER_A_LOOK}


def test_a_rewrite_of_everything_tells_of_every_file(lake: Lake) -> None:
    dry_run = would_of(lake, JobKind.REWRITE, [listed("a"), listed("b", size=500 * MIB)], everything=True)
    assert (dry_run.action, dry_run.exact) == ("pack 2 files of 2 into about 5", True)


def test_a_file_that_is_too_large_is_split(lake: Lake) -> None:
    assert would_of(lake, JobKind.REWRITE, [listed("a", size=500 * MIB)]).action == "pack 1 file of 1 into about 4"


def test_a_rewrite_tells_of_files_whose_rows_are_mostly_deleted(lake: Lake) -> None:
    files = [listed("half"), listed("hardly"), listed("whole")]
    vectors = [
        listed("v1", 1, size=50, rows=50, of="half", is_vector=True),
        listed("v2", 1, size=50, rows=1, of="hardly", is_vector=True),
    ]
    dry_run = would_of(lake, JobKind.REWRITE, [*files, *vectors])
    assert touched(dry_run)["files to rewrite"] == (1, 100 * MIB)
    assert dry_run.action == "pack 1 file of 3 into about 1"


def test_what_a_rewrite_leaves_to_its_run_is_no_exact_number(lake: Lake) -> None:
    files = [listed("a", size=MIB), listed("b", size=MIB), listed("d", 1, size=5)]
    dry_run = would_of(lake, JobKind.REWRITE, files, min_files="2", filter="id > 3")
    assert (dry_run.exact, touched(dry_run)["files to rewrite"][0]) == (False, 2)
    assert "rows where id > 3" in dry_run.notes[0]
    assert "deleted rows are not written again" in dry_run.notes[-1]
    applied = replace(lake.services.dry_runs, manifests=Listed(files)).run(
        LAKE, PLAIN, JobKind.REWRITE, {"min_files": "2", "apply_deletes": True}
    )
    assert "several data files" in applied.notes[-1]


def test_a_rewrite_says_when_it_is_more_than_one_job(lake: Lake) -> None:
    make(lake, **{"firn.rewrite.max-job-size": "3 MiB"})
    write(lake, [a_file(TODAY) for _ in range(6)])
    assert would(lake, JobKind.REWRITE).is_empty  # a group is of three files then, and a planned job takes five
    dry_run = would(lake, JobKind.REWRITE, min_files="2")
    assert (dry_run.exact, len(dry_run.notes), touched(dry_run)["partitions"][0]) == (False, 1, 2)
    assert "firn.rewrite.max-job-size" in dry_run.notes[0]
    assert would(lake, JobKind.REWRITE, everything="true").exact


def test_a_rewrite_is_refused_for_columns_that_are_not_there(lake: Lake) -> None:
    make(lake)
    write(lake, [a_file(TODAY), a_file(TODAY)])
    tried = lake.services.dry_runs.run
    with pytest.raises(Invalid, match="cannot sort by nonsense"):
        tried(LAKE, PLAIN, JobKind.REWRITE, {"strategy": "sort", "sort_order": ["id", "nonsense"]})
    with pytest.raises(Invalid, match="no sort order"):
        tried(LAKE, PLAIN, JobKind.REWRITE, {"strategy": "zorder"})
    dry_run = tried(LAKE, PLAIN, JobKind.REWRITE, {"strategy": "sort", "sort_order": ["id"], "min_files": "2"})
    assert dry_run.action.endswith(", sorted by id")


def test_delete_files_that_are_gone_or_can_be_packed_are_told_of(lake: Lake) -> None:
    files = [
        listed("a"),
        listed("v1", 1, size=50, of="a", is_vector=True),
        listed("v2", 1, size=60, of="gone", is_vector=True),
        *[listed(f"p{number}", 1, size=70) for number in range(3)],
        listed("alone", 1, size=80, partition=(TODAY - 1,)),
        listed("e", 2, size=90),
    ]
    dry_run = would_of(lake, JobKind.REWRITE_DELETES, files, min_files="2")
    assert dry_run.action == "drop 1 delete file of 7 and pack 3"
    assert touched(dry_run)["delete files of data files that are gone"] == (1, 60)
    assert touched(dry_run)["delete files to pack"] == (3, 210)
    assert touched(dry_run)["delete files to leave"][0] == 3
    assert dry_run.exact is False
    dry_run = replace(lake.services.dry_runs, manifests=Listed(files[:3])).run(LAKE, PLAIN, JobKind.REWRITE_DELETES, {})
    assert dry_run.exact


def test_manifests_are_counted_and_left_where_fewer_would_not_do(lake: Lake) -> None:
    make(lake)
    for _ in range(3):
        write(lake, [a_file(TODAY)])
    dry_run = would(lake, JobKind.REWRITE_MANIFESTS, max_count="1")
    assert dry_run.action == "write 3 manifests anew as about 1"
    assert would(lake, JobKind.REWRITE_MANIFESTS).action == "leave the manifests alone"


def change_files(lake: Lake, *sizes: int) -> None:
    for size in sizes:
        metadata = lake.metadata(CHANGE)
        entry = DataFileEntry(stats=FileStats(location=f"file:///{next(_ids)}.parquet", size=size, record_count=3))
        now_ms = metadata["last-updated-ms"] + 1
        snapshot_update = write_snapshot(Storage(), metadata, [entry], (), snapshot_id=next(_ids), now_ms=now_ms)
        lake.commit(
            TableCommit(name=CHANGE, requirements=snapshot_update.requirements(), updates=snapshot_update.updates())
        )


def test_a_compaction_tells_of_the_change_stores_files(lake: Lake) -> None:
    lake.create_keyed()
    change_files(lake, *[100 + number for number in range(12)], 60 * MIB)
    dry_run = would(lake, JobKind.COMPACT, ORDERS, min_files="2")
    assert (dry_run.action, dry_run.exact) == ("pack 12 change files of 13 into 1", True)
    assert touched(dry_run)["files to pack"] == (12, sum(range(100, 112)))
    assert (dry_run.gain["files_before"], dry_run.gain["files_after"]) == (13, 2)


def test_a_compaction_of_too_many_files_is_told_by_the_change_stores_summary(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.create_keyed()
    change_files(lake, 50, 60)
    monkeypatch.setattr(dry_run, "MAX_FILES", 1)
    assert touched(would(lake, JobKind.COMPACT, ORDERS))["data files"] == (2, 110)


@pytest.mark.parametrize(
    ("kind", "properties", "reason"),
    [
        (JobKind.TTL, {}, "firn.ttl.field is not set"),
        (JobKind.TTL, {**OLD, "firn.ttl.field": "id"}, "its type is long"),
        (JobKind.TAGS, {}, "firn.tags.schedule is not set"),
        (JobKind.STATISTICS, {"firn.statistics.columns": "ID"}, "no column ID"),
    ],
)
def test_a_job_that_would_only_fail_is_refused_with_the_reason(
    lake: Lake, kind: JobKind, properties: dict[str, Any], reason: str
) -> None:
    make(lake, **properties)
    for ask in (lake.services.dry_runs.run, lake.services.dry_runs.check):
        with pytest.raises(Invalid, match=reason):
            ask(LAKE, PLAIN, kind, {})
