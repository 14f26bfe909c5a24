"""A sync of a plain table dies at each of its steps, or meets others; the next one makes it equal to Hive."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from uuid import uuid4

import pytest

from catalog.errors import Conflict, NotFound, RequirementFailed, Unavailable
from catalog.hive.link import Drift, DriftKind
from catalog.jobs.blocker import Blocker, BlockerId
from catalog.jobs.job import JobKind, JobStatus
from catalog.tables.relation import MetastoreDown, Relation
from server.files.listing import Listings
from server.service.hive.link_state import advance, load_link
from server.service.hive.results import SyncOutcome, SyncResult
from server.service.hive.sync_planner import SyncPlanner
from tests.factories import LAKE
from tests.hive_tables import a_hive_partition, a_storage, columns
from tests.server.faults import Killed
from tests.server.service.hive.beside_hive import LONG_AGO_NS, BesideHive, HiveFiles, aged, checkpoint_of, uri
from tests.server.service.hive.synced_tables import (
    appended,
    dropped,
    make_due,
    overwritten,
    relation_of,
    taken_over,
    upgraded,
)


def replaced_under_its_name(table: HiveFiles) -> None:
    (path,) = (table.path / "p=x").iterdir()
    table.add("x", 7, 8, 9, file=path.name)


def everything_at_once(table: HiveFiles) -> None:
    overwritten(table)
    table.drop("y")
    table.add("z", 10)


ACTIONS = [appended, overwritten, replaced_under_its_name, dropped, everything_at_once]


@pytest.mark.parametrize("act", ACTIONS)
def test_a_killed_sync_is_made_good_by_the_next(beside: BesideHive, act: Callable[[HiveFiles], None]) -> None:
    died = 0
    while True:
        table = upgraded(beside)
        act(table)
        beside.fuse.left = died + 1
        try:
            outcome = beside.sync(table)
        except Killed:
            died += 1
            beside = beside.restarted()
            outcome = beside.sync(table)
        else:
            beside.fuse.left = None
            break
        assert beside.live(table) == table.files()
        assert beside.sync(table).outcome is SyncOutcome.UNCHANGED
    assert outcome.message.startswith("partitions")
    assert died >= 6  # before and after: manifests, metadata, the transaction


def test_two_syncs_at_once_take_a_file_over_once(beside: BesideHive) -> None:
    for moment in range(1, 6):
        table = upgraded(beside)
        appended(table)
        beside.fuse.meanwhile(moment, partial(beside.restarted().sync, table))
        beside.sync(table)
        assert beside.live(table) == table.files()
        metadata = beside.metadata(table)
        assert metadata is not None
        assert metadata["snapshots"][-1]["summary"]["total-records"] == "5"


def test_a_keyed_table_gets_one_job_for_what_two_syncs_saw(beside: BesideHive) -> None:
    table = upgraded(beside, "id")
    appended(table)
    first, second = beside.sync(table), beside.sync(table)
    assert first.job is not None
    assert first.job.kind is JobKind.SYNC
    assert (second.job, second.message) == (None, "a sync job is pending")


def test_a_listing_that_another_sync_has_overtaken_is_not_taken_over(beside: BesideHive) -> None:
    """It is older than the baseline that it would replace: files that were taken over would come again."""
    table = upgraded(beside, "id")
    appended(table)
    relation_id = relation_of(beside, table).id
    linked = [outcome for outcome in [beside.sync(table)] if outcome.job is not None]
    with beside.database.writing() as uow:
        staged = uow.baselines.staged(linked[0].job.id) if linked[0].job else None
        assert staged is not None
        advance(uow, relation_id, checkpoint_of(staged))
        with pytest.raises(RequirementFailed, match="another sync"):
            advance(uow, relation_id, checkpoint_of(staged))


def test_a_vanished_table_is_told_and_nothing_is_changed(beside: BesideHive) -> None:
    table = upgraded(beside)
    before = beside.live(table)
    beside.metastore.drop_table("db", table.short)
    outcome = beside.sync(table)
    assert outcome.conflict
    assert "is gone" in outcome.message
    assert beside.live(table) == before


def test_a_metastore_that_does_not_answer_holds_up_no_other_table(beside: BesideHive) -> None:
    table = upgraded(beside)
    beside.metastore.answers = False
    with pytest.raises(Unavailable):
        beside.sync(table)
    make_due(beside, table)
    assert beside.syncs.activate().unavailable == 1


def test_a_metastore_that_does_not_answer_is_told_until_it_does(beside: BesideHive) -> None:
    def away() -> MetastoreDown | None:
        return beside.services.namespaces.catalog(LAKE).metastore_down

    assert beside.syncs.planner.index.activate().unavailable == ()
    assert away() is None
    beside.metastore.answers = False
    for _ in range(2):
        assert beside.syncs.planner.index.activate().unavailable == ("lake: the metastore does not answer",)
    assert (outage := away()) is not None
    assert outage.reason == "the metastore does not answer"
    beside.metastore.answers = True
    beside.syncs.planner.index.activate()
    assert away() is None


def test_a_table_that_breaks_the_sync_is_told_and_holds_up_no_other(
    beside: BesideHive, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, other = sorted((upgraded(beside), upgraded(beside)), key=lambda table: table.name)
    for table in (broken, other):
        appended(table)
        make_due(beside, table)
    whole = SyncPlanner.sync

    def fails(planner: SyncPlanner, relation: Relation, *, everything: bool) -> SyncResult:
        if relation.name == beside.table_name(broken):
            raise KeyError("nobody has thought of it")
        return whole(planner, relation, everything=everything)

    monkeypatch.setattr(SyncPlanner, "sync", fails)
    with pytest.raises(ExceptionGroup, match=broken.name):
        beside.syncs.activate()
    assert beside.live(other) == other.files()
    assert beside.live(broken) != broken.files()


def test_a_directory_that_cannot_be_looked_at_is_unavailable(beside: BesideHive) -> None:
    table = upgraded(beside)
    aside = table.path / "p=x"
    aside.rename(table.path / "elsewhere")
    aside.symlink_to(aside)
    make_due(beside, table)
    assert beside.syncs.activate().unavailable == 1
    with pytest.raises(Unavailable, match="p=x"):
        beside.sync(table)


def test_the_schedule_syncs_what_is_due(beside: BesideHive) -> None:
    table = upgraded(beside)
    appended(table)
    assert beside.syncs.activate().tables_checked == 0
    make_due(beside, table)
    assert beside.syncs.activate().changed == 1
    assert beside.live(table) == table.files()


def test_a_table_that_is_not_linked_cannot_be_synced(beside: BesideHive) -> None:
    table = beside.hive_table()
    with pytest.raises(NotFound, match="the Hive table is not upgraded") as refused:
        beside.sync(table)
    assert "firn hive upgrade" in (refused.value.hint or "")


def test_a_blocked_keyed_table_gets_no_sync_job_and_the_schedule_says_why(beside: BesideHive) -> None:
    table = upgraded(beside, "id")
    appended(table)
    relation = relation_of(beside, table)
    with beside.database.writing() as uow:
        now = uow.now()
        until = now + timedelta(hours=1)
        blocker = Blocker(id=BlockerId(uuid4()), relation_id=relation.id, reason="a load", created_at=now, until=until)
        uow.blockers.add(blocker)
    with pytest.raises(Conflict, match="a load"):
        beside.sync(table)
    make_due(beside, table)
    assert beside.syncs.activate().changed == 0
    with beside.database.writing() as uow:
        drift = load_link(uow, relation.id).drift
        assert drift == Drift(kind=DriftKind.SYNC, message=f"the table is {blocker}")
        uow.blockers.remove(relation.id)
    assert beside.sync(table).job is not None


def test_the_schedule_backs_off_from_a_table_whose_syncs_fail_and_says_so(beside: BesideHive) -> None:
    table = upgraded(beside, "id")
    appended(table)
    job = beside.sync(table).job
    assert job is not None
    with beside.database.writing() as uow:
        uow.jobs.put(replace(job, status=JobStatus.FAILED, ended_at=uow.now(), error="a row has no key"))
    make_due(beside, table)
    assert beside.syncs.activate().changed == 0
    with beside.database.reading() as uow:
        drift = load_link(uow, job.relation_id).drift
    assert drift == Drift(kind=DriftKind.SYNC, message="sync has failed once: a row has no key")
    assert beside.sync(table).job is not None  # asked for, it is tried at once


@pytest.mark.parametrize("key", [(), ("id",)])
def test_a_directory_that_is_gone_has_changed_though_the_metastore_says_nothing(
    beside: BesideHive, key: tuple[str, ...]
) -> None:
    """As Spark leaves it behind an overwrite by no rows, and whoever removes it by hand."""
    table = beside.hive_table()
    for part in table.path.iterdir():
        aged(part, LONG_AGO_NS)
    beside.start(table, *key)
    beside.upgrades.activate()
    assert beside.syncs.planner.sync_hive_table(LAKE, table.name).outcome is SyncOutcome.UNCHANGED
    shutil.rmtree(table.path / "p=x")
    assert beside.syncs.planner.sync_hive_table(LAKE, table.name).message == "partitions rewritten or moved: 1"
    if not key:
        assert beside.live(table) == {*table.files()}
        assert beside.syncs.planner.sync_hive_table(LAKE, table.name).outcome is SyncOutcome.UNCHANGED


def test_after_a_failed_job_every_directory_is_listed_for_no_signal_may_tell_what_it_missed(
    beside: BesideHive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where directories have no times, files go unseen until a sweep, and rebuilds of others cannot read base."""
    monkeypatch.setattr(Listings, "modified_ns", lambda *_: None)
    table = beside.hive_table()
    beside.start(table, "id")
    beside.upgrades.activate()
    shutil.rmtree(table.path / "p=x")
    assert beside.syncs.planner.sync_hive_table(LAKE, table.name).outcome is SyncOutcome.UNCHANGED
    table.drop("y")
    job = beside.syncs.planner.sync_hive_table(LAKE, table.name).job
    assert job is not None
    assert job.reason == "partitions dropped: 1"
    with beside.database.writing() as uow:
        uow.jobs.put(replace(job, status=JobStatus.FAILED, ended_at=uow.now(), error="a file is gone"))
    assert (
        beside.syncs.planner.sync_hive_table(LAKE, table.name).message == "partitions rewritten or moved: 1, dropped: 1"
    )


def test_an_overwrite_that_is_seen_in_two_halves_is_a_rebuild_twice(beside: BesideHive) -> None:
    """The second half as upserts would win over every change made here before it came."""
    table = upgraded(beside, "id")
    for path in (table.path / "p=x").iterdir():
        path.unlink()
    first = taken_over(beside, table)
    table.add("x", 1)
    second = taken_over(beside, table)
    assert [first["mode"], second["mode"]] == ["rebuild", "rebuild"]
    assert [file["added"] for unit in second["units"] for file in unit["files"]] == [True]


def test_a_renamed_partition_is_rebuilt_and_brings_no_upserts(beside: BesideHive) -> None:
    table = upgraded(beside, "id")
    (table.path / "p=x").rename(table.path / "p=z")
    beside.metastore.drop_partition("db", table.short, "p=x")
    storage = a_storage(uri(table.path / "p=z"), "id bigint; v string")
    beside.metastore.add_partition("db", table.short, a_hive_partition("z", storage=storage))
    task = taken_over(beside, table)
    assert task["mode"] == "rebuild"
    assert sorted((unit["values"], len(unit["files"])) for unit in task["units"]) == [(["x"], 0), (["z"], 1)]
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED


def test_a_sync_of_the_schema_alone_looks_at_no_file(beside: BesideHive) -> None:
    table = upgraded(beside)
    before = beside.live(table)
    appended(table)
    there = beside.metastore.table("db", table.short)
    wider = replace(there.storage, columns=(*there.columns, *columns("n int")))
    beside.metastore.add_table(replace(there, storage=wider))
    assert beside.syncs.planner.sync_hive_table(LAKE, table.name, only_schema=True).message == "added column n int"
    assert not beside.syncs.planner.sync_hive_table(LAKE, table.name, only_schema=True).changed
    assert beside.live(table) == before
    assert beside.sync(table).message == "partitions new files: 1"


@pytest.mark.parametrize("key", [(), ("id",)])
def test_files_that_are_too_young_to_be_believed_are_said_to_wait(beside: BesideHive, key: tuple[str, ...]) -> None:
    """Whoever asks for all that Hive has would take the answer that nothing has changed for true."""
    table = upgraded(beside, *key)
    young = table.add("x", 4)
    ahead = time.time_ns() + 3600 * 10**9
    aged(young, ahead)
    outcome = beside.sync(table)
    assert (outcome.waits, outcome.changed) == (True, False)
    assert outcome.message == "1 files are too new: a replacement could look the same"
    aged(young, LONG_AGO_NS)
    assert beside.sync(table).changed
