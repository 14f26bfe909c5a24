"""Two Firns on one metastore: what one publishes the other never undoes, whatever dies or meets on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from catalog.errors import AlreadyExists, CommitUnknown, Conflict, Invalid
from catalog.hive.publisher import PUBLISHER
from catalog.keyed.spec import KeySpec
from server.files.locations import local_path
from server.service.hive.publisher import PublisherMarks, PublisherMarksStatus
from server.service.hive.results import PublishOutcome
from server.store.session import Sessions, open_engine
from server.store.unit_of_work import SqlDatabase
from tests.factories import LAKE
from tests.server.faults import Killed
from tests.server.service.hive.beside_hive import (
    LONG_AGO_NS,
    BesideHive,
    HiveFiles,
    aged,
    beside_hive,
    killed_at_every_step,
)
from tests.server.service.hive.published_tables import leased, merged, overwritten
from tests.server.service.hive.synced_tables import relation_of, upgraded


@pytest.fixture
def other(beside: BesideHive, migrated_sqlite: Path, tmp_path: Path) -> BesideHive:
    """Another Firn, with a database and a warehouse of its own."""
    directory = tmp_path / "other"
    directory.mkdir()
    (directory / "firn.db").write_bytes(migrated_sqlite.read_bytes())
    engine = open_engine(f"sqlite:///{directory / 'firn.db'}")
    return beside_hive(SqlDatabase(Sessions(engine)), directory, of=beside)


def both(beside: BesideHive, other: BesideHive) -> HiveFiles:
    """A table that both have upgraded; in both a merge has put other rows into p=x."""
    table = upgraded(beside, "id")
    other.start(table, "id")
    other.upgrades.activate()
    merged(beside, table, "x", 1, 7)
    merged(other, table, "x", 1, 8)
    return table


def mark(beside: BesideHive, table: HiveFiles) -> str | None:
    return beside.metastore.table("db", table.short).parameters.get(PUBLISHER)


def test_an_upgrade_leaves_no_mark_and_the_first_publish_does(beside: BesideHive) -> None:
    table = upgraded(beside, "id")
    before = beside.metastore.table("db", table.short)
    assert beside.publish_requests.publish(LAKE, table.name).outcome is PublishOutcome.UP_TO_DATE
    assert beside.metastore.table("db", table.short) == before
    merged(beside, table, "x", 1, 7)
    leased(beside, table, x=(1, 7))
    relation = relation_of(beside, table)
    assert mark(beside, table) == f"{relation.id} lake.{table.name} in {beside.warehouse.as_uri()}"


def test_the_second_firn_is_refused_and_follows_what_the_first_publishes(beside: BesideHive, other: BesideHive) -> None:
    table = both(beside, other)
    job = leased(beside, table, x=(1, 7))
    beside.published.accept(job.lease, job.location, rows=job.rows)
    with pytest.raises(Conflict, match=rf"published by another table: lake\.{table.name} in file:") as refused:
        other.publish_requests.publish(LAKE, table.name)
    assert "UNSET TBLPROPERTIES ('firn.owner')" in (refused.value.hint or "")
    aged(Path(str(local_path(f"{job.location}/p=x/a.parquet"))), LONG_AGO_NS)
    assert other.sync(table).message == "partitions rewritten or moved: 1"
    assert beside.where(table, "x") == f"{job.location}/p=x"


def test_a_table_that_another_firn_publishes_is_not_upgraded(beside: BesideHive, other: BesideHive) -> None:
    table = upgraded(beside, "id")
    merged(beside, table, "x", 1, 7)
    leased(beside, table, x=(1, 7))
    spec = KeySpec(primary_key=("id",))
    with pytest.raises(AlreadyExists, match="published by another table"):
        other.operations.start(LAKE, table.name, spec, {})
    report = other.upgrades.checks.report(LAKE, table.name, ("id",))
    assert [check.code for check in report.checks if check.status == "blocked"] == ["upgraded_elsewhere"]
    # As the advice says, where the other is no more.
    beside.metastore.set_table_parameters("db", table.short, {}, remove=[PUBLISHER])
    other.operations.start(LAKE, table.name, spec, {})


def test_of_two_that_mark_a_table_at_once_one_switches(beside: BesideHive, other: BesideHive) -> None:
    """Both have seen no mark; the one that wrote first finds the other's when it comes to switch."""
    table = both(beside, other)
    mine = leased(beside, table, x=(1, 7))
    beside.metastore.set_table_parameters("db", table.short, {}, remove=[PUBLISHER])  # not there yet when it looked
    theirs = leased(other, table, x=(1, 8))
    outcome = beside.published.accept(mine.lease, mine.location, rows=mine.rows)
    assert (outcome.switched, outcome.skipped) == (0, 1)
    outcome = other.published.accept(theirs.lease, theirs.location, rows=theirs.rows)
    assert outcome.switched == 1
    assert beside.where(table, "x") == f"{theirs.location}/p=x"


def test_one_that_publishes_no_more_points_no_partition_back(beside: BesideHive, other: BesideHive) -> None:
    table = upgraded(beside, "id")
    merged(beside, table, "x", 1, 7)
    job = leased(beside, table, x=(1, 7))
    beside.published.accept(job.lease, job.location, rows=job.rows)
    beside.services.jobs.report(job.lease, outcome=None, error=None, result={})
    beside.metastore.set_table_parameters("db", table.short, {PUBLISHER: "3e0f7a52-7a0f-4b6f-9f0f-0123456789ab theirs"})
    overwritten(table)
    outcome = beside.sync(table)
    assert outcome.conflict
    assert "published by another table: theirs" in outcome.message
    assert beside.where(table, "x") == f"{job.location}/p=x"


@pytest.mark.parametrize("written", ["", "somebody"])
def test_a_mark_that_makes_no_sense_is_somebody_else_s(beside: BesideHive, written: str) -> None:
    table = upgraded(beside, "id")
    merged(beside, table, "x", 1, 7)
    beside.metastore.set_table_parameters("db", table.short, {PUBLISHER: written})
    with pytest.raises(Conflict, match="published by another table"):
        beside.publish_requests.publish(LAKE, table.name)
    assert mark(beside, table) == written


def test_a_server_that_dies_around_its_mark_publishes_with_the_next_try(beside: BesideHive) -> None:
    died: list[str] = []
    while {"before a mark", "after a mark", "before an unlock"} - {*died}:
        table = upgraded(beside, "id")
        merged(beside, table, "x", 1, 7)
        beside.fuse.left = len(died) + 1
        with pytest.raises(Killed) as killed:
            beside.publish_requests.publish(LAKE, table.name)
        died.append(str(killed.value))
        beside = beside.restarted()
        assert beside.publish_requests.publish(LAKE, table.name).waits or mark(beside, table) is not None


@pytest.mark.parametrize("has_landed", [True, False])
def test_a_mark_without_an_answer_is_asked_for_again(
    beside: BesideHive, monkeypatch: pytest.MonkeyPatch, *, has_landed: bool
) -> None:
    table = upgraded(beside, "id")
    merged(beside, table, "x", 1, 7)
    write = beside.metastore.set_table_parameters

    def unanswered(*args: Any, **named: Any) -> None:
        if has_landed:
            write(*args, **named)
        raise CommitUnknown("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(beside.metastore, "set_table_parameters", unanswered)
        outcome = beside.publish_requests.publish(LAKE, table.name)
    assert (outcome.job, outcome.message) == (None, "no answer")
    assert beside.publish_requests.publish(LAKE, table.name).job is not None
    assert mark(beside, table) is not None


def test_a_mark_that_is_refused_refuses_the_publish(beside: BesideHive, monkeypatch: pytest.MonkeyPatch) -> None:
    table = upgraded(beside, "id")
    merged(beside, table, "x", 1, 7)

    def refused(*_args: Any, **_named: Any) -> None:
        raise Invalid("not allowed")

    monkeypatch.setattr(beside.metastore, "set_table_parameters", refused)
    with pytest.raises(Invalid, match="not allowed"):
        beside.publish_requests.publish(LAKE, table.name)
    with beside.database.reading() as uow:
        assert uow.jobs.active_of(relation_of(beside, table).id) is None


def test_a_table_that_was_dropped_here_and_upgraded_again_takes_its_own_mark_over(beside: BesideHive) -> None:
    table = upgraded(beside, "id")
    merged(beside, table, "x", 1, 7)
    job = leased(beside, table, x=(1, 7))
    beside.published.accept(job.lease, job.location, rows=job.rows)
    beside.services.jobs.report(job.lease, outcome=None, error=None, result={})
    before = mark(beside, table)
    beside.services.drop(LAKE, beside.table_name(table))
    beside.start(table, "id")
    beside.upgrades.activate()
    merged(beside, table, "x", 1, 9)
    assert mark(beside, table) == before
    leased(beside, table, x=(1, 9))
    assert (mark(beside, table) or "").startswith(str(relation_of(beside, table).id))


def a_published_table(beside: BesideHive) -> HiveFiles:
    table = upgraded(beside, "id")
    merged(beside, table, "x", 1, 7)
    job = leased(beside, table, x=(1, 7))
    beside.published.accept(job.lease, job.location, rows=job.rows)
    beside.services.jobs.report(job.lease, outcome=None, error=None, result={})
    assert mark(beside, table) is not None
    return table


def marks(beside: BesideHive) -> PublisherMarks:
    return PublisherMarks(beside.syncs.database, beside.syncs.planner.repointer.owners)


def dropped(beside: BesideHive, table: HiveFiles) -> UUID:
    return beside.services.drop(LAKE, beside.table_name(table)).id


def test_a_table_that_is_dropped_here_loses_its_mark_once_the_metastore_answers(beside: BesideHive) -> None:
    table = a_published_table(beside)
    before = beside.metastore.table("db", table.short).parameters
    dropped(beside, table)
    beside.metastore.answers = False
    assert marks(beside).activate() == PublisherMarksStatus(unavailable=1)
    beside.metastore.answers = True
    assert mark(beside, table) is not None
    assert marks(beside).activate() == PublisherMarksStatus(taken_away=1)
    assert beside.metastore.table("db", table.short).parameters == {k: v for k, v in before.items() if k != PUBLISHER}
    beside.metastore.answers = False
    assert marks(beside).activate() == PublisherMarksStatus(), "it is not asked again"


def test_a_table_that_comes_back_is_marked_by_its_next_publish_and_loses_it_by_its_next_drop(
    beside: BesideHive,
) -> None:
    table = a_published_table(beside)
    written = mark(beside, table)
    entry = dropped(beside, table)
    marks(beside).activate()
    beside.services.undrops.undrop(LAKE, entry)
    merged(beside, table, "x", 1, 9)
    assert mark(beside, table) is None
    beside.services.jobs.cancel(leased(beside, table, x=(1, 9)).lease.job_id)
    assert mark(beside, table) == written
    dropped(beside, table)
    assert marks(beside).activate() == PublisherMarksStatus(taken_away=1)
    assert mark(beside, table) is None


def test_marks_of_others_and_of_tables_that_are_here_stay(beside: BesideHive, other: BesideHive) -> None:
    table = both(beside, other)
    leased(beside, table, x=(1, 7))
    assert marks(beside).activate() == PublisherMarksStatus()
    dropped(other, table)
    assert marks(other).activate() == PublisherMarksStatus()
    assert mark(beside, table) is not None


def test_a_server_that_dies_while_it_takes_a_mark_away_does_so_with_the_next_try(beside: BesideHive) -> None:
    def left(beside: BesideHive) -> HiveFiles:
        table = a_published_table(beside)
        dropped(beside, table)
        return table

    died = 0
    for restarted, table in killed_at_every_step(beside, left, lambda server, _: marks(server).activate()):
        died += 1
        assert mark(restarted, table) is None
    assert died == 8  # before and after: the lock, the mark, the unlocking, the note
