"""A sync of a plain table dies at each of its steps, or meets others; the next one makes it equal to Hive."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from catalog.errors import NotFound, Unavailable
from catalog.job import JobKind, JobStatus
from catalog.names import TableName
from catalog.planning import BACK_OFF
from server.service.hive.sync import SyncOutcome
from tests.factories import LAKE
from tests.server.faults import Killed
from tests.server.service.hive.beside_hive import BesideHive, HiveFiles


def sync(beside: BesideHive, table: HiveFiles) -> SyncOutcome:
    return beside.syncs.sync(LAKE, TableName(("db",), table.short), everything=True)


def upgraded(beside: BesideHive, *key: str) -> HiveFiles:
    table = beside.hive_table()
    beside.start(table, *key)
    beside.upgrades.activate()
    return table


def appended(table: HiveFiles) -> None:
    table.add("x", 4, 5)


def overwritten(table: HiveFiles) -> None:
    for path in (table.path / "p=x").iterdir():
        path.unlink()
    table.add("x", 6)


def replaced_under_its_name(table: HiveFiles) -> None:
    (path,) = (table.path / "p=x").iterdir()
    table.add("x", 7, 8, 9, file=path.name)


def dropped(table: HiveFiles) -> None:
    table.drop("x")


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
            outcome = sync(beside, table)
        except Killed:
            died += 1
            beside = beside.restarted()
            outcome = sync(beside, table)
        else:
            beside.fuse.left = None
            break
        assert beside.live(table) == table.files()
        assert sync(beside, table).did == "nothing changed"
    assert outcome.did.startswith("partitions")
    assert died >= 6  # before and after: manifests, metadata, the transaction


def test_two_syncs_at_once_take_a_file_over_once(beside: BesideHive) -> None:
    for moment in range(1, 6):
        table = upgraded(beside)
        appended(table)
        other = beside.restarted()
        passed = iter(range(moment))
        beside.fuse.at = lambda _moment, left=passed, n=moment, t=table: (  # type: ignore[method-assign]
            sync(other, t) if next(left, None) == n - 1 else None
        )
        sync(beside, table)
        beside.fuse.at = lambda _moment: None  # type: ignore[method-assign]
        assert beside.live(table) == table.files()
        metadata = beside.metadata(table)
        assert metadata is not None
        assert metadata["snapshots"][-1]["summary"]["total-records"] == "5"


def test_a_keyed_table_gets_one_job_for_what_two_syncs_saw(beside: BesideHive) -> None:
    table = upgraded(beside, "id")
    appended(table)
    first, second = sync(beside, table), sync(beside, table)
    assert first.job is not None
    assert first.job.kind is JobKind.SYNC
    assert (second.job, second.did) == (None, "waits: a sync job is pending")


def test_a_listing_that_another_sync_has_overtaken_is_not_taken_over(beside: BesideHive) -> None:
    """Older than the ground it would replace: files that were taken over would come again."""
    table = upgraded(beside, "id")
    appended(table)
    linked_before = beside.syncs
    first = sync(beside, table)
    assert first.job is not None
    with beside.database.writing() as uow:
        link, at = uow.grounds.link(first.job.relation_id) or ({}, None)
        assert at is not None
        uow.grounds.put_link(first.job.relation_id, {**link, "generation": 7}, at)
        uow.jobs.put(replace_status(uow.jobs.get(first.job.id)))
    second = linked_before.sync(LAKE, TableName(("db",), table.short))
    assert second.job is not None
    with beside.database.reading() as uow:
        staged = uow.grounds.staged(second.job.id)
    assert staged is not None
    assert staged["books"]["since"] == 7


def replace_status(job):  # type: ignore[no-untyped-def]
    from dataclasses import replace

    return replace(job, status=JobStatus.CANCELED)


def test_a_vanished_table_is_told_and_nothing_is_changed(beside: BesideHive) -> None:
    table = upgraded(beside)
    before = beside.live(table)
    beside.metastore.drop_table("db", table.short)
    outcome = sync(beside, table)
    assert outcome.conflict
    assert "is gone" in outcome.did
    assert beside.live(table) == before


def test_a_metastore_that_does_not_answer_holds_up_no_other_table(beside: BesideHive) -> None:
    table = upgraded(beside)
    beside.metastore.answers = False
    with pytest.raises(Unavailable):
        sync(beside, table)
    assert BACK_OFF  # the schedule goes on
    with beside.database.writing() as uow:
        relation = uow.relations.find(LAKE, TableName(("db",), table.short))
        assert relation is not None
        link, at = uow.grounds.link(relation.id) or ({}, None)
        assert at is not None
        uow.grounds.put_link(relation.id, link, at.replace(year=2020))
    assert beside.syncs.activate().unavailable == 1


def test_a_table_that_is_not_linked_cannot_be_synced(beside: BesideHive) -> None:
    table = beside.hive_table()
    with pytest.raises(NotFound):
        sync(beside, table)
