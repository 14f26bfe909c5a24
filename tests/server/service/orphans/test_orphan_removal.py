"""Orphans are set aside, come back when asked to, and go in the end; what anything needs is never touched."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from catalog.errors import Conflict, NotFound
from catalog.names import TableName
from catalog.removal.orphan_removal import KeepReason, SeenFile
from firn.protocol.orphans import BatchState
from server.files.quarantine import QuarantineFiles
from server.service.locations.ownership import SHARED
from tests.server.lake import PLAIN, Lake, altered, set_property
from tests.server.service import sharing
from tests.server.service.dropping import path_of
from tests.server.service.orphans.removing import (
    OLD,
    age,
    aside,
    batches,
    begun,
    everything,
    fill_with_old_files,
    find_published_location,
    names,
    overdue,
    proposed,
    refer_to,
    relation_id,
    removed,
    stray,
)

OTHER = TableName(("db",), "other")


def test_what_nothing_refers_to_is_set_aside_and_nothing_else(lake: Lake) -> None:
    needed = fill_with_old_files(lake)
    orphan = stray(lake, "data/orphan.parquet")
    judged = removed(lake)
    assert names(judged) == {"orphan.parquet"}
    assert judged.kept == {KeepReason.NEEDED: len(needed)}
    assert set(everything(lake)) == needed
    assert aside(lake) == {b"rows of data/orphan.parquet"}
    (batch,) = batches(lake)
    assert (batch.state, batch.files, batch.bytes) == (BatchState.ASIDE, 1, len(b"rows of data/orphan.parquet"))
    (line,) = lake.services.orphans.quarantine.load_report(batch)
    assert path_of(line.file.location) == orphan


def test_an_orphan_stays_in_quarantine_for_its_time_and_is_then_deleted(lake: Lake) -> None:
    fill_with_old_files(lake)
    stray(lake, "data/orphan.parquet")
    removed(lake)
    removed(lake)
    assert aside(lake) == {b"rows of data/orphan.parquet"}
    done = overdue(lake)
    assert (done.deleted_files, aside(lake)) == (1, set())
    (batch,) = batches(lake)
    assert (batch.state, batch.files) == (BatchState.DELETED, 1)
    assert overdue(lake).deleted_files == 0


def test_a_dry_run_moves_nothing(lake: Lake) -> None:
    fill_with_old_files(lake)
    orphan = stray(lake, "data/orphan.parquet")
    judged = removed(lake, dry_run=True)
    assert [(file.location, file.bytes) for file in judged.quarantined] == [(orphan.as_uri(), orphan.stat().st_size)]
    assert (orphan.exists(), list(batches(lake)), aside(lake)) == (True, [], set())


def test_what_is_put_back_is_as_it_was_and_is_not_taken_again(lake: Lake) -> None:
    fill_with_old_files(lake)
    orphan, other = stray(lake, "data/one.parquet"), stray(lake, "data/day=1/other.parquet")
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in (orphan, other)}
    removed(lake)
    assert not orphan.exists()
    relation = relation_id(lake)
    assert lake.services.orphans.quarantine.restore(relation, paths=[f"file:{orphan}"]) == [f"file://{orphan}"]
    assert (orphan.exists(), other.exists()) == (True, False)
    assert lake.services.orphans.quarantine.restore(relation) == [f"file://{other}"]
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in (orphan, other)} == before
    assert removed(lake).kept[KeepReason.PUT_BACK] == 2
    assert overdue(lake).deleted_files == 0
    assert orphan.exists()


def test_putting_back_never_replaces_a_file(lake: Lake) -> None:
    fill_with_old_files(lake)
    orphan = stray(lake, "data/orphan.parquet")
    removed(lake)
    orphan.write_bytes(b"a new one")
    assert lake.services.orphans.quarantine.restore(relation_id(lake)) == []
    assert (orphan.read_bytes(), aside(lake)) == (b"a new one", {b"rows of data/orphan.parquet"})


@pytest.mark.parametrize("moves", [True, False], ids=["aside", "noted"])
def test_a_batch_whose_report_is_gone_is_lost_and_the_next_jobs_go_on(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, *, moves: bool
) -> None:
    """Somebody has emptied the quarantine for its space."""
    fill_with_old_files(lake)
    if not moves:
        monkeypatch.setattr(type(lake.services.orphans.files), "can_move", lambda *_: False)
    first = stray(lake, "data/first.parquet")
    removed(lake)
    shutil.rmtree(lake.warehouse / "_firn_quarantine")
    second = stray(lake, "data/second.parquet")
    assert names(removed(lake)) == {second.name} | (set() if moves else {first.name})
    assert lake.services.orphans.quarantine.restore(relation_id(lake), paths=[first.as_uri()]) == (
        [] if moves else [first.as_uri()]
    )
    done = overdue(lake)
    assert done.deleted_files == 1
    assert sorted(batch.state for batch in batches(lake)) == [BatchState.DELETED, BatchState.LOST]
    assert first.exists() == (not moves)


# Named after what went wrong elsewhere.


def test_shared_location_another_tables_files_are_not_taken_for_orphans(lake: Lake) -> None:
    """Two tables at one place, both in the database: each one's files look like orphans to the other."""
    fill_with_old_files(lake)
    stray(lake, "data/orphan.parquet")
    lease = begun(lake)
    sharing.registered_twice(lake, find_published_location(lake))
    before = everything(lake)
    for act in (lambda: proposed(lake, lease, before), lambda: lake.services.orphans.end_overdue(lease)):
        with pytest.raises(Conflict, match=SHARED):
            act()
    assert everything(lake) == before


@pytest.mark.parametrize("uuid", ["9c12d441-03fe-4693-9a96-a0705ddf69c1", None], ids=["another", "none"])
@pytest.mark.parametrize("where", ["metadata/00007-x.metadata.json", "data/t2/metadata/v1.metadata.json"])
def test_shared_location_a_table_that_the_catalog_does_not_know_is_seen_by_its_metadata(
    lake: Lake, uuid: str | None, where: str
) -> None:
    fill_with_old_files(lake)
    stray(lake, "data/orphan.parquet")
    foreign = stray(lake, where)
    foreign.write_bytes(b'{"format-version": 2, "table-uuid": "%s"}' % uuid.encode() if uuid else b"not json")
    before = everything(lake)
    lease = begun(lake)
    with pytest.raises(Conflict, match="metadata of another table" if uuid else "cannot be read"):
        lake.services.orphans.take(lease, [path.as_uri() for path in before], [foreign.as_uri()])
    assert everything(lake) == before


def test_unknown_modification_time_means_keep(lake: Lake) -> None:
    fill_with_old_files(lake)
    orphan = stray(lake, "data/orphan.parquet")
    os.utime(orphan, (0, 0))
    assert removed(lake).kept[KeepReason.AGE_UNKNOWN] == 1
    assert orphan.exists()


def test_a_young_file_is_somebodys_work(lake: Lake) -> None:
    fill_with_old_files(lake)
    young = [
        stray(lake, "data/now.parquet", seconds=0),
        stray(lake, "data/almost.parquet", seconds=71 * 3600),
        stray(lake, "data/future.parquet", seconds=-OLD),
    ]
    assert removed(lake).kept[KeepReason.YOUNG] == 3
    assert all(path.exists() for path in young)


def test_a_longer_age_that_the_owner_wants_holds(lake: Lake) -> None:
    fill_with_old_files(lake)
    lake.commit(altered(PLAIN, set_property("firn.orphans.min-age", "30 d")))
    age(everything(lake))
    orphan = stray(lake, "data/orphan.parquet")
    assert removed(lake).kept[KeepReason.YOUNG] > 0
    assert orphan.exists()


class SkewedFiles:
    """A store whose clock is wrong."""

    def __init__(self, real: object, by: timedelta) -> None:
        self.real, self.by = real, by

    def __getattr__(self, name: str) -> object:
        return getattr(self.real, name)

    def clock(self, directory: str) -> datetime | None:
        _ = directory
        return datetime.now(UTC) + self.by


@pytest.mark.parametrize("by", [timedelta(days=-8), timedelta(days=8)])
def test_clock_skew_makes_files_younger_and_never_older(lake: Lake, by: timedelta) -> None:
    fill_with_old_files(lake)
    old, older = stray(lake, "data/old.parquet"), stray(lake, "data/older.parquet", seconds=2 * OLD)
    two_days = stray(lake, "data/two_days.parquet", seconds=2 * 86_400)
    orphans = lake.services.orphans
    files = SkewedFiles(orphans.files, by)
    skewed = replace(orphans, files=files)  # type: ignore[arg-type]
    lease = begun(lake)
    judged = proposed(lake, lease, [old, older, two_days], skewed)
    behind = by < timedelta()
    assert names(judged) == ({"older.parquet"} if behind else {"old.parquet", "older.parquet"})


def test_a_store_that_does_not_say_what_time_it_is_loses_nothing(lake: Lake) -> None:
    fill_with_old_files(lake)
    orphan = stray(lake, "data/orphan.parquet")
    orphans = lake.services.orphans
    files = SkewedFiles(orphans.files, timedelta())
    files.clock = lambda directory: None  # type: ignore[method-assign]
    timeless = replace(orphans, files=files)  # type: ignore[arg-type]
    with pytest.raises(Conflict, match="does not say how old"):
        proposed(lake, begun(lake), [orphan], timeless)
    assert orphan.exists()


class RepeatingFiles:
    """A client that gets no answer to a rename and asks again: the name node misses the file that it has moved."""

    def __init__(self, real: QuarantineFiles) -> None:
        self.real = real

    def __getattr__(self, name: str) -> object:
        return getattr(self.real, name)

    def move(self, location: str, to: str) -> None:
        self.real.move(location, to)
        raise NotFound(f"{location} does not exist")


def test_a_file_whose_move_got_no_answer_is_recorded_and_goes_back(lake: Lake) -> None:
    fill_with_old_files(lake)
    orphan = stray(lake, "data/orphan.parquet")
    orphans = lake.services.orphans
    quarantine = replace(orphans.quarantine, files=RepeatingFiles(orphans.quarantine.files))  # type: ignore[arg-type]
    judged = proposed(lake, begun(lake), [orphan], replace(orphans, quarantine=quarantine))
    assert names(judged) == {"orphan.parquet"}
    assert not orphan.exists()
    (batch,) = batches(lake)
    assert batch.files == 1
    assert quarantine.restore(relation_id(lake)) == [f"file://{orphan}"]
    assert orphan.exists()


SPELLINGS = [
    lambda path: f"file:{path}",
    lambda path: f"file://localhost{path}",
    lambda path: str(path).replace("/data/", "//data//"),
    lambda path: f"s3a://bucket{path}",
    lambda path: f"hdfs://namenode:8020{path}",
    lambda path: path.as_uri().replace("/data/", "/./data/x/../"),
    lambda path: path.as_uri().replace(".parquet", "%2Eparquet"),
    lambda path: path.as_uri().upper().replace("FILE:", "file:"),
]


@pytest.mark.parametrize("spelled", SPELLINGS)
def test_scheme_mismatch_a_needed_file_is_known_under_every_spelling(
    lake: Lake, spelled: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Metadata that names files in another way than the listing made everything look like an orphan."""
    needed = fill_with_old_files(lake)
    orphans = lake.services.orphans
    real = orphans.named.named
    monkeypatch.setattr(orphans.named, "named", lambda path: [spelled(path_of(file)) for file in real(path)])  # type: ignore[operator]
    assert removed(lake).quarantined == []
    assert set(everything(lake)) == needed


def test_the_same_file_proposed_under_another_scheme_is_not_at_the_tables_place(lake: Lake) -> None:
    fill_with_old_files(lake)
    orphan = stray(lake, "data/orphan.parquet")
    judged = proposed(lake, begun(lake), [f"file:{orphan.parent}/../../../x", str(orphan.parent), f"{orphan}x"])
    assert (judged.quarantined, orphan.exists()) == ([], True)


def test_files_of_another_table_are_not_at_this_tables_place(lake: Lake) -> None:
    fill_with_old_files(lake)
    fill_with_old_files(lake, OTHER)
    theirs = stray(lake, "data/orphan.parquet", OTHER)
    beside = path_of(find_published_location(lake) + "-sibling/data/x.parquet")
    beside.parent.mkdir(parents=True)
    beside.write_bytes(b"x")
    age([beside])
    judged = proposed(lake, begun(lake), [*everything(lake, OTHER), beside])
    assert (judged.quarantined, theirs.exists(), beside.exists()) == ([], True, True)
    assert set(judged.kept) == {KeepReason.ELSEWHERE}


def test_a_linked_directory_does_not_lead_out_of_the_place(lake: Lake, tmp_path: Path) -> None:
    fill_with_old_files(lake)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "theirs.parquet").write_bytes(b"x")
    age([outside / "theirs.parquet"])
    link = path_of(find_published_location(lake)) / "data" / "link"
    link.symlink_to(outside)
    judged = proposed(lake, begun(lake), [link / "theirs.parquet"])
    assert (judged.kept, (outside / "theirs.parquet").exists()) == ({KeepReason.ELSEWHERE: 1}, True)


# Stores that cannot rename.


@pytest.fixture
def object_store(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """As if files could only be copied."""
    monkeypatch.setattr(lake.services.orphans.files, "can_move", lambda _from, _other: False)
    return lake


def test_where_nothing_can_be_renamed_orphans_are_noted_first_and_deleted_later(object_store: Lake) -> None:
    lake = object_store
    fill_with_old_files(lake)
    orphan = stray(lake, "data/orphan.parquet")
    assert names(removed(lake)) == {"orphan.parquet"}
    assert orphan.exists()
    assert removed(lake).kept[KeepReason.NOTED] == 1
    assert len(batches(lake)) == 1
    assert overdue(lake).deleted_files == 1
    assert not orphan.exists()


def test_what_was_noted_and_has_changed_or_is_needed_since_stays(object_store: Lake) -> None:
    lake = object_store
    fill_with_old_files(lake)
    orphans = [stray(lake, f"data/{name}.parquet") for name in ("changed", "needed", "asked", "gone")]
    changed, needed, restored, gone = orphans
    removed(lake)
    changed.write_bytes(b"another file of this name")
    age([changed])
    refer_to(lake, needed)
    lake.services.orphans.quarantine.restore(relation_id(lake), paths=[str(restored)])
    assert overdue(lake).deleted_files == 1
    assert [path.exists() for path in orphans] == [True, True, True, False]
    assert gone.exists() is False


def test_a_seen_file_is_the_same_by_size_and_time() -> None:
    file = SeenFile("a", 1, datetime(2026, 1, 1, tzinfo=UTC))
    assert file.same_as(SeenFile("b", 1, file.modified_at))
    assert not file.same_as(SeenFile("a", 2, file.modified_at))
    assert not file.same_as(SeenFile("a", 1, datetime(2026, 1, 2, tzinfo=UTC)))
