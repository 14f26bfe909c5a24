"""Each rule of Hive sync, by the history that loses or resurrects rows without it."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import pytest

from catalog.hive.baseline import (
    ChangeSignals,
    PartitionBaseline,
    WatchedDirectory,
    build_first_baseline,
    build_next_baseline,
    find_listing_reason,
)
from catalog.hive.drift import (
    Additions,
    DroppedPartition,
    Held,
    LateChanges,
    NewPartition,
    Postponed,
    Rebuild,
    Unchanged,
    classify_drift,
    detect_late_changes,
)
from catalog.hive.listing import TICK_NS, ListedFile, Listing, Subdirectories, Subdirectory, is_hidden

A = ListedFile("a", 10, 100 * TICK_NS, "1")
B = ListedFile("b", 20, 100 * TICK_NS, "2")
C = ListedFile("c", 30, 150 * TICK_NS, "3")
NOW = 220 * TICK_NS
HIVE = ChangeSignals(location="hive", ddl_time=50, statistics=("2", "30"))


def a_listing(*files: ListedFile, at: int = NOW, location: str = "hive", unique: bool = False) -> Listing:
    return Listing(location=location, files=files, began_ns=at, unique_identities=unique)


def make_baseline(*files: ListedFile, published: int = 7) -> PartitionBaseline:
    return build_next_baseline(HIVE, a_listing(*files), files, published_through=published)


BASELINE = make_baseline(A, B)


def test_nothing_moved() -> None:
    assert classify_drift(BASELINE, HIVE, a_listing(A, B)) == Unchanged(baseline=BASELINE)


def test_hive_adds_a_file() -> None:
    new = ListedFile("c", 5, 150 * TICK_NS)
    drift = classify_drift(BASELINE, HIVE, a_listing(A, B, new))
    assert isinstance(drift, Additions)
    assert drift.files == (new,)
    assert drift.baseline.files == (A, B, new)
    assert drift.baseline.settled


def test_hive_overwrites_under_the_same_name_size_and_second() -> None:
    """`000000_0` is listed, then replaced by a file that looks the same: the first must not be believed."""
    young = ListedFile("000000_0", 5, NOW + 1)
    waiting = classify_drift(BASELINE, HIVE, a_listing(A, B, young, at=NOW + 2))
    assert isinstance(waiting, Unchanged)
    assert waiting.baseline.files == (A, B)
    assert find_listing_reason(waiting.baseline, HIVE) == "its last listing was not settled"
    later = classify_drift(waiting.baseline, HIVE, a_listing(A, B, young, at=NOW + TICK_NS))
    assert isinstance(later, Additions)
    assert later.files == (young,)


def test_additions_wait_for_no_other_additions() -> None:
    settled, young = ListedFile("c", 5, 150 * TICK_NS), ListedFile("d", 5, NOW)
    drift = classify_drift(BASELINE, HIVE, a_listing(A, B, settled, young))
    assert isinstance(drift, Additions)
    assert drift.files == (settled,)
    assert drift.baseline.files == (A, B, settled)
    assert not drift.baseline.settled


def test_vanished_files_beside_an_unbelieved_one_are_postponed() -> None:
    """An overwrite half seen would take the old rows away and not bring the new ones."""
    drift = classify_drift(BASELINE, HIVE, a_listing(A, ListedFile("c", 5, NOW)))
    assert isinstance(drift, Postponed)
    assert "vanished" in drift.reason


def test_a_relocation_with_an_unbelieved_file_is_postponed() -> None:
    moved = ChangeSignals(location="elsewhere")
    assert isinstance(
        classify_drift(BASELINE, moved, a_listing(ListedFile("e", 5, NOW), location="elsewhere")), Postponed
    )


def test_an_etag_is_believed_at_once_an_inode_is_not() -> None:
    """Inodes are given again as soon as their file is gone; ETags and file ids are not."""
    young = ListedFile("c", 5, NOW, "id")
    assert isinstance(classify_drift(BASELINE, HIVE, a_listing(A, B, young, unique=True)), Additions)
    assert isinstance(classify_drift(BASELINE, HIVE, a_listing(A, B, young)), Unchanged)


def test_a_file_replaced_by_one_of_another_identity_is_a_rebuild() -> None:
    other = ListedFile("a", A.size, A.mtime_ns, "9")
    drift = classify_drift(BASELINE, HIVE, a_listing(other, B))
    assert isinstance(drift, Rebuild)
    assert (drift.added, drift.removed, drift.files) == ((other,), (A,), (other, B))
    assert drift.reason == "1 files were replaced"


def test_a_storage_without_identities_compares_what_it_has() -> None:
    assert isinstance(classify_drift(BASELINE, HIVE, a_listing(ListedFile("a", 10, A.mtime_ns), B)), Unchanged)


def test_a_removed_file_is_a_rebuild_that_keeps_what_hive_was_given() -> None:
    drift = classify_drift(BASELINE, HIVE, a_listing(A))
    assert isinstance(drift, Rebuild)
    assert (drift.files, drift.removed, drift.reason) == ((A,), (B,), "1 files vanished")
    assert drift.baseline.published_through == BASELINE.published_through


def test_an_overwrite_is_a_rebuild_in_one_commit() -> None:
    new = ListedFile("000000_0", 5, 150 * TICK_NS)
    drift = classify_drift(BASELINE, HIVE, a_listing(new))
    assert isinstance(drift, Rebuild)
    assert (drift.files, drift.removed) == ((new,), (A, B))


def test_a_relocation_is_a_rebuild_of_other_files_of_the_same_names() -> None:
    moved = ChangeSignals(location="elsewhere")
    drift = classify_drift(BASELINE, moved, a_listing(A, B, location="elsewhere"))
    assert isinstance(drift, Rebuild)
    assert (drift.added, drift.removed) == ((A, B), (A, B))
    assert drift.reason == "moved from hive to elsewhere"
    assert drift.baseline.location == "elsewhere"


def test_the_drop_of_a_partition_takes_its_ground_s_files_away() -> None:
    assert classify_drift(BASELINE, None, None) == DroppedPartition(removed=(A, B))
    assert classify_drift(None, None, None) is None


def test_a_new_partition_is_taken_when_it_is_settled() -> None:
    drift = classify_drift(None, HIVE, a_listing(A))
    assert isinstance(drift, NewPartition)
    assert drift.baseline.published_through == 0
    assert isinstance(classify_drift(None, HIVE, a_listing(A, ListedFile("c", 5, NOW))), Postponed)


def test_a_late_hive_writer_that_points_hms_back_finds_what_was_known_of_that_directory() -> None:
    """Not a relocation: only what came there since is news, and what Hive knew of changes there counts again."""
    new = WatchedDirectory(location="new", files=(C,), published_through=9, since_ns=1)
    published = replace(BASELINE, publishing=new).finish_publish(ChangeSignals(location="new"), 2)
    assert (published.location, published.files, published.published_through) == ("new", (C,), 9)
    assert [watch.location for watch in published.watched] == ["hive"]
    back = published.return_to("hive", 3)
    assert (back.location, back.files, back.published_through) == ("hive", (A, B), 7)
    assert [(watch.location, watch.published_through) for watch in back.watched] == [("new", 9)]
    assert published.return_to("elsewhere", 3) == published
    drift = classify_drift(back, HIVE, a_listing(A, B, C))
    assert isinstance(drift, Additions)
    assert drift.files == (C,)
    assert drift.baseline.watched == back.watched
    assert PartitionBaseline.from_json(json.loads(json.dumps(back.to_json()))) == back


def test_what_comes_to_a_directory_that_was_left_is_news_and_overwrites_what_goes() -> None:
    watched = WatchedDirectory(location="hive", files=(A,), published_through=0, since_ns=1)
    assert detect_late_changes(watched, a_listing(A)) == LateChanges(
        come=(), gone=(), is_overwritten=False, directory=watched
    )
    young = ListedFile("d", 5, NOW)
    news = detect_late_changes(watched, a_listing(A, B, young))
    assert (news.come, news.is_overwritten) == ((B,), False)
    assert (news.directory.files, news.directory.directory_mtime_ns) == ((A, B), None)
    news = detect_late_changes(watched, a_listing(B))
    assert (news.come, news.is_overwritten, news.directory.files) == ((B,), True, (B,))
    replaced = ListedFile(A.path, A.size, A.mtime_ns + TICK_NS)
    assert detect_late_changes(watched, a_listing(replaced)).is_overwritten


def test_files_that_only_go_from_where_nobody_reads_are_no_news() -> None:
    """Somebody has cleared up: pointed back there, Hive would show nothing."""
    watched = WatchedDirectory(location="hive", files=(A, B), published_through=0, since_ns=1)
    assert detect_late_changes(watched, a_listing()) == LateChanges(
        come=(), gone=(A, B), is_overwritten=False, directory=watched
    )
    assert detect_late_changes(watched, a_listing(C)).is_overwritten  # unless that was the first half of an overwrite


def test_a_listing_of_another_directory_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="not of hive"):
        classify_drift(BASELINE, HIVE, a_listing(A, location="elsewhere"))
    with pytest.raises(ValueError, match="not of hive"):
        classify_drift(BASELINE, HIVE, None)


def test_every_signal_alone_asks_for_a_listing() -> None:
    directory = build_next_baseline(
        HIVE, Listing(location="hive", files=(A,), began_ns=NOW, directory_mtime_ns=5), (A,), published_through=0
    )
    assert find_listing_reason(directory, HIVE, 5) is None
    assert find_listing_reason(directory, HIVE, None) is None
    assert find_listing_reason(None, HIVE) == "new"
    assert (
        find_listing_reason(directory, ChangeSignals(location="x", ddl_time=50, statistics=("2", "30")))
        == "its location moved"
    )
    assert (
        find_listing_reason(directory, ChangeSignals(location="hive", ddl_time=51, statistics=("2", "30")))
        == "Hive changed it"
    )
    assert (
        find_listing_reason(directory, ChangeSignals(location="hive", ddl_time=50, statistics=("3", "30")))
        == "its statistics changed"
    )
    assert find_listing_reason(directory, HIVE, 6) == "its directory changed"


def test_a_ddl_time_in_the_listing_s_own_second_proves_nothing() -> None:
    """A second change in that second would leave the time as it is."""
    now = ChangeSignals(location="hive", ddl_time=NOW // TICK_NS)
    assert not build_next_baseline(now, a_listing(A), (A,), published_through=0).settled
    earlier = ChangeSignals(location="hive", ddl_time=NOW // TICK_NS - 1)
    assert build_next_baseline(earlier, a_listing(A), (A,), published_through=0).settled


def test_a_directory_changed_in_the_listing_s_own_second_is_listed_again() -> None:
    listing = Listing(location="hive", files=(A,), began_ns=NOW, directory_mtime_ns=NOW + 1)
    assert not build_next_baseline(HIVE, listing, (A,), published_through=0).settled


def test_an_upgrade_waits_until_every_file_is_settled() -> None:
    assert build_first_baseline(HIVE, a_listing(A, ListedFile("c", 5, NOW))) is None
    baseline = build_first_baseline(HIVE, a_listing(B, A))
    assert baseline is not None
    assert baseline.files == (A, B)


def test_a_ground_survives_the_database() -> None:
    assert PartitionBaseline.from_json(BASELINE.to_json()) == BASELINE


@pytest.mark.parametrize(
    "name", ["_SUCCESS", "_temporary", ".hive-staging_hive_1", ".a.crc", "_metadata", "x._COPYING_"]
)
def test_unfinished_work_is_hidden(name: str) -> None:
    assert is_hidden(name)
    assert not is_hidden("000000_0")


HOUR = 3600 * TICK_NS


def test_the_second_half_of_an_overwrite_is_no_addition() -> None:
    """Spark's static overwrite deletes first and writes for minutes: rows of its end would beat newer changes."""
    emptied = classify_drift(BASELINE, HIVE, a_listing())
    assert isinstance(emptied, Rebuild)
    new = ListedFile("c", 5, 250 * TICK_NS)
    refilled = classify_drift(
        emptied.baseline.forget_old_losses(300 * TICK_NS, overwrite_ns=HOUR), HIVE, a_listing(new, at=300 * TICK_NS)
    )
    assert isinstance(refilled, Rebuild)
    assert (refilled.files, refilled.added, refilled.removed) == ((new,), (new,), ())
    late = NOW + HOUR
    added = classify_drift(emptied.baseline.forget_old_losses(late, overwrite_ns=HOUR), HIVE, a_listing(new, at=late))
    assert isinstance(added, Additions)
    assert added.baseline.lost_ns is None


def test_a_partition_that_was_dropped_and_comes_back_brings_no_new_rows() -> None:
    """DROP and ADD, MSCK after a restore, a mount that was away."""
    tombstone = BASELINE.mark_dropped(NOW)
    assert PartitionBaseline.from_json(tombstone.to_json()) == tombstone
    assert classify_drift(tombstone, None, None) is None
    back = classify_drift(tombstone, HIVE, a_listing(A, B, at=NOW + TICK_NS))
    assert isinstance(back, Rebuild)
    assert (back.files, back.removed) == ((A, B), ())
    assert not back.baseline.is_dropped
    young = ListedFile("c", 5, NOW + 2 * TICK_NS)
    assert isinstance(classify_drift(tombstone, HIVE, a_listing(A, young, at=NOW + 2 * TICK_NS)), Postponed)
    assert tombstone.forget_old_losses(NOW + HOUR, overwrite_ns=HOUR) is None


def test_files_below_new_directories_hold_the_partition_back() -> None:
    below = replace(a_listing(), subdirectories=("HIVE_UNION_SUBDIR_1",))
    assert isinstance(classify_drift(BASELINE, HIVE, below), Held)
    assert isinstance(classify_drift(None, HIVE, below), Held)
    known = replace(BASELINE, subdirectories=("HIVE_UNION_SUBDIR_1",))
    assert isinstance(classify_drift(known, HIVE, below), Rebuild)
    moved = replace(HIVE, location="there")
    assert isinstance(classify_drift(known, moved, replace(below, location="there")), Held), "those are others"


DEEP = ListedFile("sub/a", 10, 100 * TICK_NS, "9")


def deeply(*files: ListedFile, mtime_ns: int = 100 * TICK_NS) -> Listing:
    return replace(a_listing(*files), below=(Subdirectory("sub", mtime_ns),))


def test_files_below_are_like_all_others_where_they_are_read() -> None:
    read = partial(classify_drift, subdirectories=Subdirectories.READ)
    baseline = build_next_baseline(HIVE, deeply(A, DEEP), [A, DEEP], published_through=7)
    assert read(baseline, HIVE, deeply(A, DEEP)) == Unchanged(baseline=baseline)
    added = read(baseline, HIVE, deeply(A, DEEP, ListedFile("sub/c", 5, 150 * TICK_NS)))
    assert isinstance(added, Additions)
    assert isinstance(read(baseline, HIVE, deeply(A)), Rebuild)
    assert PartitionBaseline.from_json(json.loads(json.dumps(baseline.to_json()))) == baseline
    assert baseline.settled
    assert not build_next_baseline(HIVE, deeply(A, mtime_ns=NOW), [A], published_through=7).settled


def test_files_that_were_ignored_so_far_are_no_news_once_they_are_read() -> None:
    """As upserts they would win over what was changed here since they were passed over."""
    baseline = replace(make_baseline(A), subdirectories=("sub",))
    drift = classify_drift(baseline, HIVE, deeply(A, DEEP), subdirectories=Subdirectories.READ)
    assert isinstance(drift, Rebuild)
    assert (drift.files, drift.added, drift.removed) == ((A, DEEP), (DEEP,), ())
    assert (drift.baseline.subdirectories, drift.baseline.below, drift.baseline.lost_ns) == (
        (),
        (Subdirectory("sub", 100 * TICK_NS),),
        None,
    )


def test_files_that_were_read_so_far_go_only_when_that_is_asked_for() -> None:
    baseline = build_next_baseline(HIVE, deeply(A, DEEP), [A, DEEP], published_through=7)
    flat = replace(a_listing(A), subdirectories=("sub",))
    ignored = partial(classify_drift, baseline, HIVE, subdirectories=Subdirectories.IGNORE)
    held = ignored(flat)
    assert isinstance(held, Held)
    assert "1 files in its sub-directories, for example sub/a, were read so far" in held.reason
    assert isinstance(classify_drift(baseline, HIVE, flat), Held), "nobody has said that they are to be ignored"
    change = ignored(flat, may_leave=True)
    assert isinstance(change, Rebuild)
    assert change.removed == (DEEP,)
    assert (change.baseline.subdirectories, change.baseline.below) == (("sub",), ())
    gone = ignored(a_listing(A))  # with the directory: Hive has removed them
    assert isinstance(gone, Rebuild)
