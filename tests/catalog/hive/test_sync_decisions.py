"""What a sync does with a partition follows from what Hive did to it, unless a filter holds it back."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from catalog.hive.baseline import ChangeSignals, PartitionBaseline, WatchedDirectory
from catalog.hive.decision import apply_filters, group_held
from catalog.hive.drift import Additions, DroppedPartition, NewPartition, Rebuild
from catalog.hive.listing import ListedFile
from catalog.hive.sync_decisions import (
    Changed,
    LateChange,
    News,
    SyncKind,
    build_known_filter,
    build_torn_filter,
    held,
    list_origins,
    waiting,
)

FILES = (ListedFile("a", 1, 1),)
BASELINE = PartitionBaseline(signals=ChangeSignals(location="file:/t/p=x"), files=FILES)
ADDED = Additions(files=FILES, baseline=BASELINE)
REBUILT = Rebuild(reason="r", files=FILES, added=(), removed=(), baseline=BASELINE, origins=frozenset({"p=o"}))
LATE = LateChange(
    name="p=x",
    files=FILES,
    directory=WatchedDirectory(location="file:/w", files=FILES, published_through=0, since_ns=0),
)


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (ADDED, SyncKind.ADD),
        (NewPartition(files=FILES, baseline=BASELINE), SyncKind.ADD),
        (REBUILT, SyncKind.REBUILD),
        (DroppedPartition(removed=FILES), SyncKind.DROP),
        (None, SyncKind.ADD),
    ],
)
def test_what_hive_did_says_what_a_sync_does(change: Changed | None, kind: SyncKind) -> None:
    assert News(change=change, late=(LATE,)).kind is kind


def test_the_first_filter_that_holds_a_partition_back_counts() -> None:
    filters = [
        build_known_filter("unreadable", SyncKind.HOLD, {"p=x": "a is damaged"}),
        build_known_filter("vanished", SyncKind.WAIT, {"p=x": "a is gone", "p=y": "b is gone", "p=z": "nobody asked"}),
    ]
    remaining, decisions = apply_filters(dict.fromkeys(("p=x", "p=y", "p=q"), News(change=ADDED)), filters)
    assert [*remaining] == ["p=q"]
    assert {name: (decision.kind, decision.held_by, decision.reason) for name, decision in decisions.items()} == {
        "p=x": (SyncKind.HOLD, "unreadable", "a is damaged"),
        "p=y": (SyncKind.WAIT, "vanished", "b is gone"),
    }


@pytest.mark.parametrize(
    ("torn", "held_back"),
    [(None, set()), ("p=o", {"p=r", "p=d"}), ("", {"p=r", "p=d"})],
)
def test_rebuilds_wait_while_files_that_they_need_are_gone_and_additions_do_not(
    torn: str | None, held_back: set[str]
) -> None:
    partitions = {
        "p=a": News(change=ADDED), "p=r": News(change=REBUILT), "p=d": News(change=DroppedPartition(removed=())),
        "p=l": News(late=(LATE,)),
    }  # fmt: skip
    searched = list[Mapping[str, News]]()

    def find(some: Mapping[str, News]) -> str | None:
        searched.append(some)
        return torn

    _, decisions = apply_filters(partitions, [build_torn_filter(find)])
    assert decisions.keys() == held_back
    assert searched == [partitions]
    apply_filters({"p=a": News(change=ADDED)}, [build_torn_filter(find)])
    assert len(searched) == 1, "without a rebuild base's files are not looked at"


def test_a_rebuild_names_the_partitions_that_it_has_files_of() -> None:
    assert list_origins({"p=x": News(change=REBUILT), "p=a": News(change=ADDED)}) == {"p=o"}


def test_what_is_held_back_is_told_by_filter_with_what_to_do() -> None:
    decisions = {
        "p=b": held("denied", "no", "grant it"),
        "p=a": held("denied", "no", "grant it"),
        "": waiting("young", "w"),
    }
    obstacles = [
        (obstacle.filter, obstacle.kind, obstacle.partitions, obstacle.example, obstacle.message)
        for obstacle in group_held(decisions)
    ]
    assert obstacles == [
        ("denied", "hold", 2, "p=a", "2 partitions wait, because no: grant it"),
        ("young", "wait", 1, "", "1 partition waits, because w"),
    ]
    assert decisions["p=a"].words == "no. grant it"
