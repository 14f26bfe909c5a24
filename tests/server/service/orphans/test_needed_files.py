"""Files that something needs are no orphans: of branches, statistics, other tables, Hive, and commits meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalog.errors import Conflict
from catalog.iceberg.json import Json
from catalog.jobs.job import JobKind
from catalog.names import TableName
from server.service.locations.ownership import SHARED
from server.service.orphans.quarantine import Quarantine
from tests.factories import LAKE
from tests.server.lake import BASE, CHANGE, ORDERS, PLAIN, Lake, altered
from tests.server.older_tables import before_the_location_rule
from tests.server.service import sharing
from tests.server.service.dropping import append_files, path_of
from tests.server.service.orphans.removing import (
    age,
    aside,
    batches,
    begun,
    ended,
    everything,
    fill_with_old_files,
    find_published_location,
    overdue,
    proposed,
    refer_to,
    removed,
    stray,
)

OTHER = TableName(("db",), "other")


def _statistics(lake: Lake, snapshot_id: int, path: Path, kind: str) -> Json:
    statistics_entry = {"snapshot-id": snapshot_id, "statistics-path": path.as_uri(), "file-size-in-bytes": 1}
    if kind == "partition-statistics":
        return {"action": "set-partition-statistics", "partition-statistics": statistics_entry}
    more = {"file-footer-size-in-bytes": 1, "blob-metadata": []}
    return {"action": "set-statistics", "snapshot-id": snapshot_id, "statistics": statistics_entry | more}


@pytest.mark.parametrize("kind", ["statistics", "partition-statistics"])
def test_statistics_files_are_needed(lake: Lake, kind: str) -> None:
    fill_with_old_files(lake)
    path = stray(lake, "metadata/some.stats")
    lake.commit(altered(PLAIN, _statistics(lake, lake.metadata(PLAIN)["current-snapshot-id"], path, kind)))
    assert removed(lake).quarantined == []
    assert path.exists()


def _on_a_branch(lake: Lake) -> list[Path]:
    before = lake.metadata(PLAIN)
    paths = append_files(lake)
    after = lake.metadata(PLAIN)
    branch = {"type": "branch", "ref-name": "audit", "snapshot-id": after["current-snapshot-id"]}
    lake.commit(altered(PLAIN, {"action": "set-snapshot-ref", **branch}))
    lake.commit(altered(PLAIN, _main_to(before["current-snapshot-id"])))
    return paths


def _main_to(snapshot_id: int) -> Json:
    return {"action": "set-snapshot-ref", "type": "branch", "ref-name": "main", "snapshot-id": snapshot_id}


def _staged(lake: Lake) -> list[Path]:
    """As write-audit-publish leaves it: a snapshot that no ref holds."""
    before = lake.metadata(PLAIN)["current-snapshot-id"]
    paths = append_files(lake)
    lake.commit(altered(PLAIN, _main_to(before)))
    return paths


def _in_an_older_metadata_file(lake: Lake) -> list[Path]:
    """A snapshot that has left the metadata, which an older file of the log still names."""
    before = lake.metadata(PLAIN)["current-snapshot-id"]
    paths = append_files(lake)
    gone = lake.metadata(PLAIN)["current-snapshot-id"]
    lake.commit(altered(PLAIN, _main_to(before)))
    lake.commit(altered(PLAIN, {"action": "remove-snapshots", "snapshot-ids": [gone]}))
    return paths


@pytest.mark.parametrize("make_files", [_on_a_branch, _staged, _in_an_older_metadata_file])
def test_branches_and_staged_snapshots_need_their_files(lake: Lake, make_files: object) -> None:
    fill_with_old_files(lake)
    paths = make_files(lake)  # type: ignore[operator]
    needed = set(everything(lake))
    age(needed)
    assert removed(lake).quarantined == []
    assert set(everything(lake)) == needed
    assert set(paths) <= needed


def test_another_snapshot_is_read_for_the_second_scan_commits_meanwhile_are_seen(lake: Lake) -> None:
    """The table moves on between what the judgement read and the moment of the move, and names an old file."""
    fill_with_old_files(lake)
    orphan = stray(lake, "data/orphan.parquet")
    lease = begun(lake)
    lake.database.meanwhile = [lambda: refer_to(lake, orphan)]  # before the batch's first transaction
    proposed(lake, lease, [orphan])
    assert (orphan.exists(), aside(lake), list(batches(lake))) == (True, set(), [])


def test_a_commit_that_names_an_old_file_just_after_it_was_moved_brings_it_back(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_with_old_files(lake)
    orphan = stray(lake, "data/orphan.parquet")
    lease = begun(lake)
    real = lake.services.orphans.quarantine.take

    def slow(*args: object, **more: object) -> None:
        real(*args, **more)  # type: ignore[arg-type]
        assert not orphan.exists()
        refer_to(lake, orphan)

    monkeypatch.setattr(Quarantine, "take", lambda _self, *slow_args, **more: slow(*slow_args, **more))
    assert proposed(lake, lease, [orphan]).quarantined == []
    assert orphan.exists()
    ended(lake, lease)
    monkeypatch.undo()
    assert overdue(lake).deleted_files == 0
    assert orphan.exists()


def test_a_commit_that_names_a_file_in_quarantine_gets_it_back_with_the_next_job(lake: Lake) -> None:
    fill_with_old_files(lake)
    orphan, other = stray(lake, "data/one.parquet"), stray(lake, "data/other.parquet")
    removed(lake)
    refer_to(lake, orphan)
    assert removed(lake).quarantined == []
    assert orphan.exists()
    assert overdue(lake).deleted_files == 1
    assert (orphan.exists(), other.exists(), aside(lake)) == (True, False, set())


def test_a_file_written_and_committed_during_the_listing_is_no_orphan(lake: Lake) -> None:
    """Listed before its commit, judged after it: the metadata is read when the listing has come in."""
    fill_with_old_files(lake)
    lease = begun(lake)
    path = stray(lake, "data/new.parquet")
    listed = everything(lake)
    refer_to(lake, path)
    assert path in listed
    assert proposed(lake, lease, listed).quarantined == []
    assert path.exists()


def test_a_dropped_table_that_can_be_undropped_keeps_its_files_under_the_same_warehouse(lake: Lake) -> None:
    fill_with_old_files(lake)
    inner = f"{find_published_location(lake)}/data/inner"
    with before_the_location_rule():
        sharing.filled(lake, OTHER, inner)
    age(everything(lake, OTHER))
    stray(lake, "data/orphan.parquet")
    lake.services.drop(LAKE, OTHER)
    before = everything(lake)
    lake.services.planner.run_now(LAKE, PLAIN, JobKind.REMOVE_ORPHANS, {})
    leased_job = lake.services.jobs.take(lake.optimizer(), lake.kinds)
    assert leased_job is not None
    with pytest.raises(Conflict, match=SHARED):
        lake.services.tasks.build(leased_job.job)
    with pytest.raises(Conflict, match=SHARED):
        proposed(lake, leased_job.lease, before)
    assert everything(lake) == before


def test_hives_files_under_a_linked_table_are_hives(lake: Lake) -> None:
    fill_with_old_files(lake)
    sharing.a_hive_table(lake, find_published_location(lake))
    hives = stray(lake, "data/000000_0")
    with pytest.raises(Conflict, match=SHARED):
        proposed(lake, begun(lake), [hives])
    assert hives.exists()


def test_pending_changes_and_both_stores_of_a_keyed_table_are_needed(lake: Lake) -> None:
    lake.create_keyed()
    append_files(lake, CHANGE)
    orphans = [stray(lake, "data/orphan.parquet", store) for store in (BASE, CHANGE)]
    needed = {path for store in (BASE, CHANGE) for path in everything(lake, store)} - set(orphans)
    age(needed)
    lease = begun(lake, ORDERS)
    judged = proposed(lake, lease, [*needed, *orphans])
    assert sorted(path_of(file.location) for file in judged.quarantined) == sorted(orphans)
    assert all(path.exists() for path in needed)


def test_an_unreadable_manifest_list_means_that_nothing_is_known(lake: Lake) -> None:
    fill_with_old_files(lake)
    orphan = stray(lake, "data/orphan.parquet")
    lake.append(PLAIN)  # names a manifest list that does not exist
    with pytest.raises(Conflict, match="which does not exist"):
        proposed(lake, begun(lake), [orphan])
    assert orphan.exists()


def test_the_version_hint_of_other_engines_stays(lake: Lake) -> None:
    fill_with_old_files(lake)
    hint = stray(lake, "metadata/version-hint.text")
    assert removed(lake).quarantined == []
    assert hint.exists()
