"""Files that were moved or copied within a table are known again, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace

from catalog.hive.baseline import ChangeSignals, PartitionBaseline, WatchedDirectory, build_next_baseline
from catalog.hive.drift import Additions, Drift, DroppedPartition, NewPartition, Rebuild, classify_drift
from catalog.hive.listing import TICK_NS, ListedFile, Listing
from catalog.hive.moved_files import (
    Arrival,
    apply_moves,
    detect_moves,
    find_move_candidates,
    list_arrivals,
    select_digest_files,
)
from catalog.hive.publishing import mark_published

HOUR = 3600 * TICK_NS
NOW = 200 * TICK_NS
A = ListedFile("000000_0", 10, 100 * TICK_NS + 5, "1", digest=11)
B = ListedFile("000000_0", 20, 100 * TICK_NS, "2", digest=12)
RENAMED = ListedFile("000000_0_copy_1", A.size, A.mtime_ns, A.identity)


def make_baseline(*files: ListedFile, name: str = "p", published: int = 7) -> PartitionBaseline:
    return build_next_baseline(
        ChangeSignals(location=name), a_listing(*files, name=name), files, published_through=published
    )


def a_listing(*files: ListedFile, name: str = "p", at: int = NOW) -> Listing:
    return Listing(location=name, files=files, began_ns=at)


P, Q = make_baseline(A), make_baseline(B, name="q", published=9)


def looked(
    baselines: Mapping[str, PartitionBaseline], *there: Listing, gone: Collection[str] = ()
) -> dict[str, Drift | None]:
    """What becomes of partitions that are listed, or `gone`; others are not looked at."""
    drifts = {
        listing.location: classify_drift(
            baselines.get(listing.location), ChangeSignals(location=listing.location), listing
        )
        for listing in there
    }
    return drifts | {name: classify_drift(baselines[name], None, None) for name in gone}


def regrouped(
    drifts: Mapping[str, Drift | None],
    baselines: Mapping[str, PartitionBaseline],
    digests: Mapping[Arrival, int | None] | None = None,
    copying: Collection[str] = (),
) -> dict[str, Drift | None]:
    come = list_arrivals(drifts)
    may_be = find_move_candidates(come, drifts, baselines, copying)
    digest_files = select_digest_files(come, may_be)
    return apply_moves(drifts, detect_moves(come, may_be, {file: (digests or {})[file] for file in digest_files}), NOW)


def test_a_file_that_was_moved_under_another_name_is_no_addition() -> None:
    """As `LOAD DATA INPATH` renames it: taken for an added one, its rows would win over every change made here."""
    baselines = {"p": P, "q": Q}
    drifts = looked(baselines, a_listing(), a_listing(B, RENAMED, name="q"))
    assert isinstance(drifts["q"], Additions)
    come = regrouped(drifts, baselines)["q"]
    assert isinstance(come, Rebuild)
    assert [(file.path, file.knew) for file in come.baseline.files] == [("000000_0", None), ("000000_0_copy_1", 7)]
    assert come.baseline.lost_ns == NOW
    assert [(origin.location, origin.file) for origin in come.moved[RENAMED.path]] == [("p", A)]


def test_renames_of_whole_partitions_are_moves_too() -> None:
    """RENAME and EXCHANGE PARTITION; whether the old one was found dropped before or is now."""
    drifts = looked({"p": P}, a_listing(replace(A, digest=None), name="r"), gone=["p"])
    assert isinstance(drifts["p"], DroppedPartition)
    assert isinstance(drifts["r"], NewPartition)
    assert isinstance(regrouped(drifts, {"p": P})["r"], Rebuild)
    dropped = {"p": P.mark_dropped(NOW - 1)}
    later = regrouped(looked(dropped, a_listing(RENAMED, name="r")), dropped)["r"]
    assert isinstance(later, Rebuild)
    assert not later.moved, "what was decided when it went is not known any more"


def test_a_move_between_disks_is_known_by_what_the_file_holds() -> None:
    """It gets another inode; its time may be cut to a second."""
    copied = replace(RENAMED, identity="77", mtime_ns=100 * TICK_NS)
    baselines = {"p": P, "q": Q}
    drifts = looked(baselines, a_listing(), a_listing(B, copied, name="q"))
    at = "q", copied.path
    assert isinstance(regrouped(drifts, baselines, {at: A.digest})["q"], Rebuild)
    assert isinstance(regrouped(drifts, baselines, {at: 99})["q"], Additions)


def test_the_same_bytes_written_anew_are_an_addition() -> None:
    """Somebody has added these rows later than whatever was changed here before."""
    written = replace(RENAMED, mtime_ns=A.mtime_ns + TICK_NS, identity="77")
    baselines = {"p": P, "q": Q}
    drifts = looked(baselines, a_listing(), a_listing(B, written, name="q"))
    assert isinstance(regrouped(drifts, baselines, {("q", written.path): A.digest})["q"], Additions)


def test_object_stores_copy_what_they_move_so_times_say_nothing_there() -> None:
    moved = replace(RENAMED, mtime_ns=A.mtime_ns + TICK_NS, identity=None)
    baselines = {"p": P, "q": Q}
    drifts = looked(baselines, a_listing(), a_listing(B, moved, name="q"))
    at = "q", moved.path
    assert isinstance(regrouped(drifts, baselines, {at: A.digest}, copying=["q"])["q"], Rebuild)
    assert isinstance(regrouped(drifts, baselines, {at: 99}, copying=["q"])["q"], Additions)
    assert isinstance(regrouped(drifts, baselines, {at: None}, copying=["q"])["q"], Additions)


def test_a_file_that_was_moved_after_its_directory_was_listed_is_known_nevertheless() -> None:
    """Or where no signal tells of the directory that it has left, or whoever lists that has to wait."""
    baselines = {"p": P, "q": Q}
    drifts = looked(baselines, a_listing(A), a_listing(B, RENAMED, name="q"))
    drift = regrouped(drifts, baselines)["q"]
    assert isinstance(drift, Rebuild)
    assert not drift.moved, "it may be a copy: base's row is that of the other, which nobody reads again when it goes"
    unseen = regrouped(looked(baselines, a_listing(B, RENAMED, name="q")), baselines)["q"]
    assert isinstance(unseen, Rebuild)


def test_two_files_of_one_size_and_second_are_told_apart_by_what_they_hold() -> None:
    """As one job writes them into two partitions, seen by two syncs."""
    other = replace(RENAMED, identity="77")
    baselines = {"p": P, "q": Q}
    drifts = looked(baselines, a_listing(A), a_listing(B, other, name="q"))
    assert isinstance(regrouped(drifts, baselines, {("q", other.path): 99})["q"], Additions)


def test_files_that_were_taken_over_before_digests_were_kept_are_known_by_size_and_time() -> None:
    """A rebuild too much costs time, one too few a change. Where the file is still there nothing speaks for a move."""
    old = {"p": make_baseline(replace(A, digest=None, identity=None)), "q": Q}
    come = a_listing(B, replace(RENAMED, identity="9"), name="q")
    assert isinstance(regrouped(looked(old, a_listing(), come), old)["q"], Rebuild)
    assert isinstance(regrouped(looked(old, a_listing(A), come), old)["q"], Additions)


def test_a_file_that_a_directory_holds_which_was_left_is_known_and_what_it_contains() -> None:
    """The old rows of a published partition come into another one: what was published since is newer."""
    new = WatchedDirectory(location="new", files=(replace(B, digest=13),), published_through=12, since_ns=1)
    published = replace(P, publishing=new).finish_publish(ChangeSignals(location="new"), 2)
    baselines = {"p": published, "q": Q}
    drift = regrouped(looked(baselines, a_listing(B, RENAMED, name="q")), baselines)["q"]
    assert isinstance(drift, Rebuild)
    assert drift.files[-1].knew == 7


def test_a_file_that_was_moved_twice_contains_what_it_did_at_first() -> None:
    once = replace(A, knew=3)
    baselines = {"p": make_baseline(once), "q": Q}
    drift = regrouped(looked(baselines, a_listing(), a_listing(B, RENAMED, name="q")), baselines)["q"]
    assert isinstance(drift, Rebuild)
    assert drift.baseline.files[-1].knew == 3
    assert mark_published(drift.baseline, 9).files[-1].knew is None, "base stands on it as it is"


def test_what_a_partition_lost_first_is_not_forgotten_for_what_it_loses_then() -> None:
    """Two files are taken out of it one after the other, and the first comes back elsewhere."""
    both = make_baseline(A, replace(B, path="b"))
    first = classify_drift(both, ChangeSignals(location="p"), a_listing(replace(B, path="b")))
    assert isinstance(first, Rebuild)
    second = classify_drift(first.baseline, ChangeSignals(location="p"), a_listing(at=NOW + TICK_NS))
    assert isinstance(second, Rebuild)
    baselines = {"p": second.baseline, "q": Q}
    assert PartitionBaseline.from_json(json.loads(json.dumps(second.baseline.to_json()))) == second.baseline
    come = looked(baselines, a_listing(at=NOW + TICK_NS), a_listing(B, RENAMED, name="q"))
    assert isinstance(regrouped(come, baselines)["q"], Rebuild)
    kept = second.baseline.forget_old_losses(NOW + HOUR, overwrite_ns=HOUR)
    assert kept is not None
    assert [loss.at_ns for loss in kept.lost] == [NOW + TICK_NS]


def test_what_is_known_of_a_file_outlives_the_listings_that_say_nothing_of_it() -> None:
    known = replace(A, knew=3)
    baseline = make_baseline(known)
    drift = classify_drift(
        baseline, ChangeSignals(location="p"), a_listing(replace(A, digest=None), ListedFile("c", 5, 1))
    )
    assert isinstance(drift, Additions)
    (kept, _) = drift.baseline.files
    assert (kept.digest, kept.knew) == (A.digest, 3)
    stored = PartitionBaseline.from_json(json.loads(json.dumps(drift.baseline.to_json())))
    assert [(file.digest, file.knew) for file in stored.files] == [(A.digest, 3), (None, None)]
