"""Each rule of Hive sync, by the history that loses or resurrects rows without it."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import pytest

from catalog.hive.drift import (
    Additions,
    Dropped,
    Held,
    LateNews,
    New,
    Postponed,
    Rebuild,
    Unchanged,
    drift,
    late_news,
)
from catalog.hive.ground import (
    TICK_NS,
    Below,
    Directory,
    Ground,
    ListedFile,
    Listing,
    Signals,
    Subdirectories,
    first_ground,
    ground_after,
    is_hidden,
    why_list,
)

A = ListedFile("a", 10, 100 * TICK_NS, "1")
B = ListedFile("b", 20, 100 * TICK_NS, "2")
C = ListedFile("c", 30, 150 * TICK_NS, "3")
NOW = 220 * TICK_NS
HIVE = Signals(location="hive", ddl_time=50, statistics=("2", "30"))


def a_listing(*files: ListedFile, at: int = NOW, location: str = "hive", unique: bool = False) -> Listing:
    return Listing(location=location, files=files, began_ns=at, unique_identities=unique)


def a_ground(*files: ListedFile, published: int = 7) -> Ground:
    return ground_after(HIVE, a_listing(*files), files, published_through=published)


GROUND = a_ground(A, B)


def test_nothing_moved() -> None:
    assert drift(GROUND, HIVE, a_listing(A, B)) == Unchanged(ground=GROUND)


def test_hive_adds_a_file() -> None:
    new = ListedFile("c", 5, 150 * TICK_NS)
    found = drift(GROUND, HIVE, a_listing(A, B, new))
    assert isinstance(found, Additions)
    assert found.files == (new,)
    assert found.ground.files == (A, B, new)
    assert found.ground.settled


def test_hive_overwrites_under_the_same_name_size_and_second() -> None:
    """`000000_0` is listed, then replaced by a file that looks the same: the first must not be believed."""
    young = ListedFile("000000_0", 5, NOW + 1)
    waiting = drift(GROUND, HIVE, a_listing(A, B, young, at=NOW + 2))
    assert isinstance(waiting, Unchanged)
    assert waiting.ground.files == (A, B)
    assert why_list(waiting.ground, HIVE) == "its last listing was not settled"
    later = drift(waiting.ground, HIVE, a_listing(A, B, young, at=NOW + TICK_NS))
    assert isinstance(later, Additions)
    assert later.files == (young,)


def test_additions_wait_for_no_other_additions() -> None:
    settled, young = ListedFile("c", 5, 150 * TICK_NS), ListedFile("d", 5, NOW)
    found = drift(GROUND, HIVE, a_listing(A, B, settled, young))
    assert isinstance(found, Additions)
    assert found.files == (settled,)
    assert found.ground.files == (A, B, settled)
    assert not found.ground.settled


def test_vanished_files_beside_an_unbelieved_one_are_postponed() -> None:
    """An overwrite half seen would take the old rows away and not bring the new ones."""
    found = drift(GROUND, HIVE, a_listing(A, ListedFile("c", 5, NOW)))
    assert isinstance(found, Postponed)
    assert "vanished" in found.reason


def test_a_relocation_with_an_unbelieved_file_is_postponed() -> None:
    moved = Signals(location="elsewhere")
    assert isinstance(drift(GROUND, moved, a_listing(ListedFile("e", 5, NOW), location="elsewhere")), Postponed)


def test_an_etag_is_believed_at_once_an_inode_is_not() -> None:
    """Inodes are given again as soon as their file is gone; ETags and file ids are not."""
    young = ListedFile("c", 5, NOW, "id")
    assert isinstance(drift(GROUND, HIVE, a_listing(A, B, young, unique=True)), Additions)
    assert isinstance(drift(GROUND, HIVE, a_listing(A, B, young)), Unchanged)


def test_a_file_replaced_by_one_of_another_identity_is_a_rebuild() -> None:
    other = ListedFile("a", A.size, A.mtime_ns, "9")
    found = drift(GROUND, HIVE, a_listing(other, B))
    assert isinstance(found, Rebuild)
    assert (found.added, found.removed, found.files) == ((other,), (A,), (other, B))
    assert found.reason == "1 files were replaced"


def test_a_storage_without_identities_compares_what_it_has() -> None:
    assert isinstance(drift(GROUND, HIVE, a_listing(ListedFile("a", 10, A.mtime_ns), B)), Unchanged)


def test_a_removed_file_is_a_rebuild_that_keeps_what_hive_was_given() -> None:
    found = drift(GROUND, HIVE, a_listing(A))
    assert isinstance(found, Rebuild)
    assert (found.files, found.removed, found.reason) == ((A,), (B,), "1 files vanished")
    assert found.ground.published_through == GROUND.published_through


def test_an_overwrite_is_a_rebuild_in_one_commit() -> None:
    new = ListedFile("000000_0", 5, 150 * TICK_NS)
    found = drift(GROUND, HIVE, a_listing(new))
    assert isinstance(found, Rebuild)
    assert (found.files, found.removed) == ((new,), (A, B))


def test_a_relocation_is_a_rebuild_of_other_files_of_the_same_names() -> None:
    moved = Signals(location="elsewhere")
    found = drift(GROUND, moved, a_listing(A, B, location="elsewhere"))
    assert isinstance(found, Rebuild)
    assert (found.added, found.removed) == ((A, B), (A, B))
    assert found.reason == "moved from hive to elsewhere"
    assert found.ground.location == "elsewhere"


def test_the_drop_of_a_partition_takes_its_ground_s_files_away() -> None:
    assert drift(GROUND, None, None) == Dropped(removed=(A, B))
    assert drift(None, None, None) is None


def test_a_new_partition_is_taken_when_it_is_settled() -> None:
    found = drift(None, HIVE, a_listing(A))
    assert isinstance(found, New)
    assert found.ground.published_through == 0
    assert isinstance(drift(None, HIVE, a_listing(A, ListedFile("c", 5, NOW))), Postponed)


def test_a_late_hive_writer_that_points_hms_back_finds_what_was_known_of_that_directory() -> None:
    """Not a relocation: only what came there since is news, and what Hive knew of changes there counts again."""
    new = Directory(location="new", files=(C,), published_through=9, since_ns=1)
    published = replace(GROUND, publishing=new).switched(Signals(location="new"), 2)
    assert (published.location, published.files, published.published_through) == ("new", (C,), 9)
    assert [one.location for one in published.watched] == ["hive"]
    back = published.back_at("hive", 3)
    assert (back.location, back.files, back.published_through) == ("hive", (A, B), 7)
    assert [(one.location, one.published_through) for one in back.watched] == [("new", 9)]
    assert published.back_at("elsewhere", 3) == published
    found = drift(back, HIVE, a_listing(A, B, C))
    assert isinstance(found, Additions)
    assert found.files == (C,)
    assert found.ground.watched == back.watched
    assert Ground.from_json(json.loads(json.dumps(back.to_json()))) == back


def test_what_comes_to_a_directory_that_was_left_is_news_and_overwrites_what_goes() -> None:
    left = Directory(location="hive", files=(A,), published_through=0, since_ns=1)
    assert late_news(left, a_listing(A)) == LateNews(come=(), gone=(), is_overwritten=False, directory=left)
    young = ListedFile("d", 5, NOW)
    news = late_news(left, a_listing(A, B, young))
    assert (news.come, news.is_overwritten) == ((B,), False)
    assert (news.directory.files, news.directory.directory_mtime_ns) == ((A, B), None)
    news = late_news(left, a_listing(B))
    assert (news.come, news.is_overwritten, news.directory.files) == ((B,), True, (B,))
    replaced = ListedFile(A.path, A.size, A.mtime_ns + TICK_NS)
    assert late_news(left, a_listing(replaced)).is_overwritten


def test_files_that_only_go_from_where_nobody_reads_are_no_news() -> None:
    """Somebody has cleared up: pointed back there, Hive would show nothing."""
    left = Directory(location="hive", files=(A, B), published_through=0, since_ns=1)
    assert late_news(left, a_listing()) == LateNews(come=(), gone=(A, B), is_overwritten=False, directory=left)
    assert late_news(left, a_listing(C)).is_overwritten  # unless that was the first half of an overwrite


def test_a_listing_of_another_directory_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="not of hive"):
        drift(GROUND, HIVE, a_listing(A, location="elsewhere"))
    with pytest.raises(ValueError, match="not of hive"):
        drift(GROUND, HIVE, None)


def test_every_signal_alone_asks_for_a_listing() -> None:
    directory = ground_after(
        HIVE, Listing(location="hive", files=(A,), began_ns=NOW, directory_mtime_ns=5), (A,), published_through=0
    )
    assert why_list(directory, HIVE, 5) is None
    assert why_list(directory, HIVE, None) is None
    assert why_list(None, HIVE) == "new"
    assert why_list(directory, Signals(location="x", ddl_time=50, statistics=("2", "30"))) == "its location moved"
    assert why_list(directory, Signals(location="hive", ddl_time=51, statistics=("2", "30"))) == "Hive changed it"
    assert (
        why_list(directory, Signals(location="hive", ddl_time=50, statistics=("3", "30"))) == "its statistics changed"
    )
    assert why_list(directory, HIVE, 6) == "its directory changed"


def test_a_ddl_time_in_the_listing_s_own_second_proves_nothing() -> None:
    """A second change in that second would leave the time as it is."""
    now = Signals(location="hive", ddl_time=NOW // TICK_NS)
    assert not ground_after(now, a_listing(A), (A,), published_through=0).settled
    earlier = Signals(location="hive", ddl_time=NOW // TICK_NS - 1)
    assert ground_after(earlier, a_listing(A), (A,), published_through=0).settled


def test_a_directory_changed_in_the_listing_s_own_second_is_listed_again() -> None:
    listing = Listing(location="hive", files=(A,), began_ns=NOW, directory_mtime_ns=NOW + 1)
    assert not ground_after(HIVE, listing, (A,), published_through=0).settled


def test_an_upgrade_waits_until_every_file_is_settled() -> None:
    assert first_ground(HIVE, a_listing(A, ListedFile("c", 5, NOW))) is None
    ground = first_ground(HIVE, a_listing(B, A))
    assert ground is not None
    assert ground.files == (A, B)


def test_a_ground_survives_the_database() -> None:
    assert Ground.from_json(GROUND.to_json()) == GROUND


@pytest.mark.parametrize(
    "name", ["_SUCCESS", "_temporary", ".hive-staging_hive_1", ".a.crc", "_metadata", "x._COPYING_"]
)
def test_unfinished_work_is_hidden(name: str) -> None:
    assert is_hidden(name)
    assert not is_hidden("000000_0")


HOUR = 3600 * TICK_NS


def test_the_second_half_of_an_overwrite_is_no_addition() -> None:
    """Spark's static overwrite deletes first and writes for minutes: rows of its end would beat newer changes."""
    emptied = drift(GROUND, HIVE, a_listing())
    assert isinstance(emptied, Rebuild)
    new = ListedFile("c", 5, 250 * TICK_NS)
    refilled = drift(emptied.ground.at(300 * TICK_NS, overwrite_ns=HOUR), HIVE, a_listing(new, at=300 * TICK_NS))
    assert isinstance(refilled, Rebuild)
    assert (refilled.files, refilled.added, refilled.removed) == ((new,), (new,), ())
    late = NOW + HOUR
    added = drift(emptied.ground.at(late, overwrite_ns=HOUR), HIVE, a_listing(new, at=late))
    assert isinstance(added, Additions)
    assert added.ground.lost_ns is None


def test_a_partition_that_was_dropped_and_comes_back_brings_no_new_rows() -> None:
    """DROP and ADD, MSCK after a restore, a mount that was away."""
    tombstone = GROUND.dropped(NOW)
    assert Ground.from_json(tombstone.to_json()) == tombstone
    assert drift(tombstone, None, None) is None
    back = drift(tombstone, HIVE, a_listing(A, B, at=NOW + TICK_NS))
    assert isinstance(back, Rebuild)
    assert (back.files, back.removed) == ((A, B), ())
    assert not back.ground.is_dropped
    young = ListedFile("c", 5, NOW + 2 * TICK_NS)
    assert isinstance(drift(tombstone, HIVE, a_listing(A, young, at=NOW + 2 * TICK_NS)), Postponed)
    assert tombstone.at(NOW + HOUR, overwrite_ns=HOUR) is None


def test_files_below_new_directories_hold_the_partition_back() -> None:
    below = replace(a_listing(), subdirectories=("HIVE_UNION_SUBDIR_1",))
    assert isinstance(drift(GROUND, HIVE, below), Held)
    assert isinstance(drift(None, HIVE, below), Held)
    known = replace(GROUND, subdirectories=("HIVE_UNION_SUBDIR_1",))
    assert isinstance(drift(known, HIVE, below), Rebuild)
    moved = replace(HIVE, location="there")
    assert isinstance(drift(known, moved, replace(below, location="there")), Held), "those are others"


DEEP = ListedFile("sub/a", 10, 100 * TICK_NS, "9")


def deeply(*files: ListedFile, mtime_ns: int = 100 * TICK_NS) -> Listing:
    return replace(a_listing(*files), below=(Below("sub", mtime_ns),))


def test_files_below_are_like_all_others_where_they_are_read() -> None:
    read = partial(drift, subdirectories=Subdirectories.READ)
    ground = ground_after(HIVE, deeply(A, DEEP), [A, DEEP], published_through=7)
    assert read(ground, HIVE, deeply(A, DEEP)) == Unchanged(ground=ground)
    added = read(ground, HIVE, deeply(A, DEEP, ListedFile("sub/c", 5, 150 * TICK_NS)))
    assert isinstance(added, Additions)
    assert isinstance(read(ground, HIVE, deeply(A)), Rebuild)
    assert Ground.from_json(json.loads(json.dumps(ground.to_json()))) == ground
    assert ground.settled
    assert not ground_after(HIVE, deeply(A, mtime_ns=NOW), [A], published_through=7).settled


def test_files_that_were_ignored_so_far_are_no_news_once_they_are_read() -> None:
    """As upserts they would win over what was changed here since they were passed over."""
    ground = replace(a_ground(A), subdirectories=("sub",))
    found = drift(ground, HIVE, deeply(A, DEEP), subdirectories=Subdirectories.READ)
    assert isinstance(found, Rebuild)
    assert (found.files, found.added, found.removed) == ((A, DEEP), (DEEP,), ())
    assert (found.ground.subdirectories, found.ground.below, found.ground.lost_ns) == (
        (),
        (Below("sub", 100 * TICK_NS),),
        None,
    )


def test_files_that_were_read_so_far_go_only_when_that_is_asked_for() -> None:
    ground = ground_after(HIVE, deeply(A, DEEP), [A, DEEP], published_through=7)
    flat = replace(a_listing(A), subdirectories=("sub",))
    ignored = partial(drift, ground, HIVE, subdirectories=Subdirectories.IGNORE)
    held = ignored(flat)
    assert isinstance(held, Held)
    assert "1 files in its sub-directories were read so far, for example sub/a" in held.reason
    assert isinstance(drift(ground, HIVE, flat), Held), "nobody has said that they are to be ignored"
    left = ignored(flat, may_leave=True)
    assert isinstance(left, Rebuild)
    assert left.removed == (DEEP,)
    assert (left.ground.subdirectories, left.ground.below) == (("sub",), ())
    gone = ignored(a_listing(A))  # with the directory: Hive has removed them
    assert isinstance(gone, Rebuild)
