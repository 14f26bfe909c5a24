"""A link, a checkpoint and a plan come back from their stored form as they were."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from catalog.hive.baseline import ChangeSignals, PartitionBaseline
from catalog.hive.change_sources import ChangeSources
from catalog.hive.checkpoint import Checkpoint, PublishPlan, SyncPlan, plan_from_json
from catalog.hive.events import HiveEvent, HiveEventKind
from catalog.hive.link import (
    MAX_UNREPRESENTABLE,
    ColumnDifference,
    Drift,
    DriftKind,
    HiveLink,
    UnrepresentableNote,
)
from catalog.hive.listing import ListedFile
from catalog.hive.publish_request import PublishRequest, PublishStep
from catalog.hive.superseded_directories import SupersededTotals
from catalog.jobs.job import JobId
from tests.hive_tables import a_hive_table, columns

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
NEW = HiveLink.of_table(a_hive_table(), NOW)
DRIFT = Drift(kind=DriftKind.PARTITIONS, message="p=x is not taken over", likely_author="ann")
FULL = HiveLink(
    columns=columns("id bigint; v int"),
    partition_columns=columns("p string"),
    synced_at=NOW,
    swept_at=LATER,
    former_columns={"old": {"field": {"id": 3}}},
    column_differences=(
        ColumnDifference(
            column="v", what="it changed", is_conflict=True, is_only_here=False, hive="v int", here=None, since=NOW
        ),
    ),
    read_again=("p=x",),
    held_partitions=("p=y",),
    ddl_time=1,
    created=2,
    generation=3,
    published_through=4,
    published_at=NOW,
    published_snapshot_id=5,
    lock_warning="it has no locks",
    publish_request=PublishRequest(
        at=NOW,
        step=PublishStep.PUBLISHING,
        message="it runs",
        held_back="1 waits",
        through=6,
        merged=7,
        job=JobId(UUID(int=8)),
    ),
    drift=DRIFT,
    drift_since=NOW,
    sources=ChangeSources(live=frozenset({"a"}), dead=frozenset({"b"})),
    superseded=SupersededTotals(directories=9, bytes=10),
    unrepresentable={"p=a": UnrepresentableNote("digest", "microseconds")},
    released_after_drop=NOW,
)
BASELINE = PartitionBaseline(
    signals=ChangeSignals(location="file:/t/p=x"), files=(ListedFile("f", 1, 2, "inode", 3, 4),)
)
CHECKPOINT = Checkpoint(
    since=3,
    generation=4,
    baselines={"p=x": BASELINE, "p=y": BASELINE},
    removed=("p=z",),
    appended=("p=x",),
    drift=DRIFT,
    ddl_time=11,
    held_partitions=("p=q",),
    read_again=("p=r",),
    superseded=SupersededTotals(directories=1, bytes=2),
    sources=ChangeSources(live=frozenset({"c"})),
    is_to_compare=True,
    is_complete=False,
    is_sweep=True,
    events=(HiveEvent(kind=HiveEventKind.NEW, partition="p=x", files=1),),
)
PUBLISH = PublishPlan(
    task={"partitions": []}, head=1, sequence=2, schema_id=3, through=4, same=("p=s",), tried={"p=a": "d"}, files="f"
)


@pytest.mark.parametrize("link", [NEW, FULL])
def test_a_link_comes_back_as_it_was(link: HiveLink) -> None:
    assert HiveLink.from_json(json.loads(json.dumps(link.to_json())), link.synced_at) == link


def test_the_full_link_has_every_field() -> None:
    assert [field.name for field in fields(HiveLink) if getattr(FULL, field.name) == getattr(NEW, field.name)] == [
        "synced_at"
    ]


@pytest.mark.parametrize("plan", [SyncPlan(checkpoint=CHECKPOINT, task={"mode": "upsert"}), PUBLISH])
def test_a_plan_comes_back_as_it_was(plan: SyncPlan | PublishPlan) -> None:
    assert plan_from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_a_checkpoint_of_everything_counts_as_a_sync_and_one_that_left_something_does_not() -> None:
    part = CHECKPOINT.apply_to(FULL, LATER)
    assert (part.generation, part.synced_at, part.swept_at) == (4, NOW, LATER)
    assert (part.published_snapshot_id, part.sources, part.superseded) == (
        None,
        CHECKPOINT.sources,
        CHECKPOINT.superseded,
    )
    last = LATER + timedelta(hours=1)
    whole = replace(CHECKPOINT, is_complete=True, sources=None, superseded=None, is_to_compare=False).apply_to(
        FULL, last
    )
    assert (whole.synced_at, whole.swept_at) == (last, last)
    assert (whole.published_snapshot_id, whole.sources, whole.superseded) == (5, FULL.sources, FULL.superseded)
    assert whole.publish_request == FULL.publish_request, "what others have noted meanwhile stays"


def test_rows_that_were_appended_are_noted_on_their_partitions_alone() -> None:
    appended = CHECKPOINT.next_baselines(appended_through=7)
    assert (appended["p=x"].appended_through, appended["p=y"].appended_through) == (7, 0)
    assert CHECKPOINT.next_baselines() == CHECKPOINT.baselines


def test_since_when_something_differs_stays_while_the_words_change() -> None:
    other = replace(DRIFT, message="something else")
    link = NEW.with_drift(DRIFT, NOW).with_drift(other, LATER)
    assert (link.drift, link.drift_since) == (other, NOW)
    settled = link.with_drift(None, LATER)
    assert (settled.drift, settled.drift_since) == (None, None)
    assert NEW.with_unsynced_drift(DRIFT, LATER).synced_at == LATER


def test_a_publish_that_moves_a_partition_makes_others_look_again() -> None:
    assert NEW.with_publish(9, LATER, is_moved=False).generation == NEW.generation
    moved = NEW.with_publish(9, LATER, is_moved=True)
    assert (moved.generation, moved.published_through, moved.published_at) == (NEW.generation + 1, 9, LATER)


def test_only_so_many_partitions_are_noted_and_the_first_ones_stay() -> None:
    notes = {f"p={number}": UnrepresentableNote("d", "w") for number in range(MAX_UNREPRESENTABLE + 1)}
    link = NEW.with_unrepresentable(notes).with_unrepresentable({"p=0": UnrepresentableNote("e", "w")})
    assert len(link.unrepresentable) == MAX_UNREPRESENTABLE
    assert link.unrepresentable["p=0"].tried == "e"
    assert "p=0" not in link.without_unrepresentable(["p=0"]).unrepresentable
