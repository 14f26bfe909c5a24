"""The health score: the whole table, from its statistics."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.files.file_layout import FileLayout, Packing
from catalog.maintenance.health import POINTS, HealthLoss, compute_health
from catalog.planning import TableFacts
from catalog.policy.policy import merge_layers
from catalog.tables.relation import TableStats
from firn.protocol.health import HealthPart
from tests.catalog.planning.tables import KEYED, plain, tables
from tests.factories import NOW, a_keyed_table


def lost(facts: TableFacts, **more: Any) -> dict[HealthPart, HealthLoss]:
    """The parts that take points."""
    return {
        health_part.part: health_part
        for health_part in compute_health(facts, NOW, **more).parts
        if health_part.points_lost
    }


def pending(**counts: Any) -> TableFacts:
    return TableFacts(
        policy=merge_layers([]),
        stats=TableStats(relation_id=KEYED.base_id),
        keyed=a_keyed_table(**{"pending_commits": 1, "pending_since": NOW, **counts}),
        change=TableStats(relation_id=KEYED.change_id),
    )


@pytest.mark.parametrize("facts", [plain(snapshot_id=None), pending(pending_commits=0)])
def test_an_empty_table_has_nothing_to_do(facts: TableFacts) -> None:
    assert compute_health(facts, NOW).score == 100


def test_all_points_together_are_a_hundred() -> None:
    assert sum(POINTS.values()) == 100
    assert set(POINTS) == set(HealthPart)


def test_a_table_of_well_sized_files_is_as_healthy_as_can_be() -> None:
    assert compute_health(plain(data_files=10_000, bytes=10**12, records=10**9, manifests=1), NOW).score == 100


def test_small_files_weigh_by_their_share_of_the_whole_table() -> None:
    """Twenty that are due for a rewrite are nothing beside ten thousand that are not."""
    few, many = plain(data_files=10_000, small_files=20), plain(data_files=20, small_files=20)
    assert compute_health(few, NOW).score == 100
    assert lost(many)[HealthPart.SMALL_FILES] == HealthLoss(
        part=HealthPart.SMALL_FILES,
        points_lost=15.0,
        max_points=30,
        detail="20 of 20 files small, 20 can be packed (a rewrite is due at 20)",
    )
    assert lost(plain(data_files=90, small_files=90))[HealthPart.SMALL_FILES].points_lost == 30


def test_deletes_weigh_by_the_rows_that_they_take_away() -> None:
    vectors: dict[str, Any] = {"format_version": 3, "data_files": 10, "delete_files": 10, "records": 100}
    assert lost(plain(position_deletes=20, **vectors))[HealthPart.DELETES].points_lost == 12.5
    assert lost(plain(position_deletes=40, **vectors))[HealthPart.DELETES].points_lost == 25
    assert (
        lost(plain(position_deletes=40, **vectors))[HealthPart.DELETES].detail == "40% of rows deleted, 10 delete files"
    )


def test_delete_files_weigh_by_their_number_where_readers_open_them_all() -> None:
    files: dict[str, Any] = {"data_files": 10, "delete_files": 20, "records": 10**6, "position_deletes": 20}
    assert lost(plain(format_version=2, **files))[HealthPart.DELETES].points_lost == 25
    assert HealthPart.DELETES not in lost(plain(format_version=3, **files))


def test_pending_changes_weigh_half_when_a_merge_is_due() -> None:
    assert lost(pending(pending_commits=20))[HealthPart.PENDING].points_lost == 10
    assert lost(pending(pending_commits=40))[HealthPart.PENDING].points_lost == 20
    assert lost(pending(pending_rows=250_000))[HealthPart.PENDING].points_lost == 5


def test_pending_changes_are_measured_by_the_trigger_that_the_owner_wrote() -> None:
    facts = replace(
        pending(pending_commits=20), policy=merge_layers([("table", {"firn.merge.trigger": "commits >= 80"})])
    )
    assert lost(facts)[HealthPart.PENDING].points_lost == 2.5


def test_snapshots_weigh_when_they_may_go_and_have_not() -> None:
    kept: dict[str, Any] = {"snapshots": 5000, "oldest_superseded_at": NOW - timedelta(days=5)}
    assert HealthPart.SNAPSHOTS not in lost(plain(**kept))
    overdue = lost(plain(**kept | {"oldest_superseded_at": NOW - timedelta(days=10)}))[HealthPart.SNAPSHOTS]
    assert (overdue.points_lost, overdue.detail) == (5.0, "5,000 snapshots, the oldest superseded 10 d ago")


def test_manifests_weigh_only_where_they_are_counted() -> None:
    assert lost(plain(manifests=101))[HealthPart.MANIFESTS].points_lost == 2.5
    assert HealthPart.MANIFESTS not in lost(plain(manifests=None))


def test_skew_is_a_part_only_where_it_was_measured() -> None:
    assert HealthPart.SKEW not in {health_part.part for health_part in compute_health(plain(), NOW).parts}
    assert lost(plain(), skew=4.0)[HealthPart.SKEW].points_lost == 5
    assert not lost(plain(), skew=1.0)


def more_small(layout: FileLayout, by: int) -> FileLayout:
    """So many small files more, in partitions that are packed into as many as before."""

    def more(packing: Packing) -> Packing:
        return replace(packing, files=packing.files + by, packable_files=packing.packable_files + by)

    return replace(
        layout,
        data_files=layout.data_files + by,
        small_files=layout.small_files + by,
        planned=more(layout.planned),
        requested=more(layout.requested),
    )


def worse(facts: TableFacts, name: str, by: int) -> TableFacts:
    stats, keyed = facts.stats, facts.keyed
    if name.startswith("pending"):
        assert keyed is not None
        more: dict[str, Any] = {name: getattr(keyed, name) + by, "pending_since": keyed.pending_since or NOW}
        return replace(facts, keyed=replace(keyed, **more))
    if name == "small_files":
        return replace(facts, layout=None if facts.layout is None else more_small(facts.layout, by))
    counted: dict[str, Any] = {name: (getattr(stats, name) or 0) + by}
    return replace(facts, stats=replace(stats, **counted))


OF_FILES = ["small_files", "position_deletes", "equality_deletes", "delete_files", "manifests"]
PENDING = ["pending_rows", "pending_bytes", "pending_commits"]


@settings(max_examples=150)
@given(facts=tables(), by=st.integers(1, 10**6), data=st.data())
def test_nothing_that_gets_worse_ever_raises_the_score(facts: TableFacts, by: int, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(OF_FILES if facts.keyed is None else [*OF_FILES, *PENDING]))
    before = compute_health(facts, NOW)
    after = compute_health(worse(facts, name, by), NOW)
    assert 0 <= after.score <= before.score <= 100


@given(facts=tables(), hours=st.integers(0, 1000))
def test_waiting_never_raises_the_score(facts: TableFacts, hours: int) -> None:
    assert compute_health(facts, NOW + timedelta(hours=hours)).score <= compute_health(facts, NOW).score
