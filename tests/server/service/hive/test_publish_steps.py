"""A publish dies at each of its steps, or meets others; whoever comes next makes it good."""

from __future__ import annotations

import stat
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from catalog.errors import CommitUnknown, Conflict, Invalid, LocationRefused
from catalog.jobs.job import JobKind
from catalog.tables.relation import Relation
from server.files.locations import local_path
from server.service.hive.results import SyncOutcome
from tests.server.faults import Killed
from tests.server.service.hive.beside_hive import BesideHive, HiveFiles, uri
from tests.server.service.hive.published_tables import (
    Leased,
    active,
    dropped,
    leased,
    merged,
    note,
    overwritten,
    set_property,
    write,
)
from tests.server.service.hive.synced_tables import relation_of, upgraded


@pytest.mark.parametrize("key", [(), ("id",)])
def test_a_killed_publish_is_made_good(beside: BesideHive, key: tuple[str, ...]) -> None:
    """Whenever Hive sees a new directory, it has the permissions of the replaced one."""
    died, is_private = 0, not key
    while True:
        table = upgraded(beside, *key)
        if is_private:
            make_private(table)
        merged(beside, table, "x", 1, 7)
        merged(beside, table, "new", 8)
        job = leased(beside, table, x=(1, 7), new=(8,))
        beside.fuse.left = died + 1
        try:
            beside.published.accept(job.lease, job.location, rows=job.rows)
        except Killed:
            died += 1
            beside = beside.restarted()
            if is_private and beside.where(table, "x") == f"{job.location}/p=x":
                assert_private(job.location)
            beside.published.accept(job.lease, job.location, rows=job.rows)
        else:
            beside.fuse.left = None
            break
        assert_published(beside, table, job)
    assert died >= 10  # before and after: manifests, metadata, the transaction, two moves, the books
    assert_published(beside, table, job)
    if is_private:
        assert_private(job.location)


def make_private(table: HiveFiles) -> None:
    (table.path / "p=x").chmod(0o750)
    for path in (table.path / "p=x").iterdir():
        path.chmod(0o640)


def assert_private(location: str) -> None:
    path = Path(str(local_path(location))) / "p=x"
    assert [stat.S_IMODE(at.stat().st_mode) for at in (path, path / "a.parquet")] == [0o750, 0o640]
    assert [stat.S_IMODE(at.stat().st_mode) for at in (path.parent, path.parents[1])] == [0o711, 0o711]


def assert_published(beside: BesideHive, table: HiveFiles, job: Leased) -> None:
    beside.services.jobs.reap()
    assert beside.where(table, "x") == f"{job.location}/p=x"
    assert beside.where(table, "new") == f"{job.location}/p=new"
    hives = {file for file in table.files() if "p=y" in file}
    assert beside.live(table) == {*hives, f"{job.location}/p=x/a.parquet", f"{job.location}/p=new/a.parquet"}
    [partition] = beside.metastore.partitions("db", table.short, ["p=x"])
    assert (partition.parameters["numFiles"], partition.parameters["numRows"]) == ("1", "2")
    with beside.database.reading() as uow:
        events = uow.baselines.events(relation_of(beside, table).id, limit=9).items
    assert sorted((event.kind, event.partition, event.files, event.rows) for event in events) == [
        ("published", "p=new", 1, 1),
        ("published", "p=x", 1, 2),
    ]


def added_to(table: HiveFiles) -> None:
    table.add("x", 6)


@pytest.mark.parametrize("act", [overwritten, dropped, added_to])
def test_what_hive_has_changed_before_the_switch_stays_where_it_is(
    beside: BesideHive, act: Callable[[HiveFiles], None]
) -> None:
    table = upgraded(beside, "id")
    where = beside.where(table, "x")
    merged(beside, table, "x", 1, 7)
    job = leased(beside, table, x=(1, 7))
    act(table)
    outcome = beside.published.accept(job.lease, job.location, rows=job.rows)
    assert (outcome.switched, outcome.skipped, outcome.remaining) == (0, 1, 0)
    assert beside.where(table, "x") == (None if act is dropped else where)
    assert f"{job.location}/p=x/a.parquet" in beside.live(table)  # base has its rows until a sync looks


@pytest.mark.parametrize("key", [(), ("id",)])
def test_a_metastore_that_is_away_is_told_later(beside: BesideHive, key: tuple[str, ...]) -> None:
    table = upgraded(beside, *key)
    merged(beside, table, "x", 1, 7)
    job = leased(beside, table, x=(1, 7))
    beside.fuse.meanwhile(5, lambda: setattr(beside.metastore, "answers", False))
    outcome = beside.published.accept(job.lease, job.location, rows=job.rows)
    assert (outcome.switched, outcome.remaining) == (0, 1)
    beside.metastore.answers = True
    beside.services.jobs.report(job.lease, outcome=None, error=None, result={})
    assert beside.sync(table).message.startswith(("nothing changed", "partitions"))
    assert beside.where(table, "x") == f"{job.location}/p=x"


def test_what_was_not_asked_for_or_lies_elsewhere_is_not_registered(beside: BesideHive) -> None:
    table = upgraded(beside, "id")
    merged(beside, table, "x", 1, 7)
    job = leased(beside, table, x=(1, 7), y=(3,))
    with pytest.raises(Invalid, match="that its plan has not"):
        beside.published.accept(job.lease, job.location, rows=job.rows)
    with pytest.raises(Invalid, match="where the job has to write"):
        beside.published.accept(job.lease, beside.warehouse.as_uri(), rows=job.rows)


def test_rows_that_are_not_listed_or_were_not_read_are_never_lost(beside: BesideHive) -> None:
    table = upgraded(beside, "id")
    merged(beside, table, "x", 1, 7)
    job = leased(beside, table, x=(1, 7))
    with pytest.raises(Conflict, match="the job wrote 3 rows, but the files that the server lists hold 2"):
        beside.published.accept(job.lease, job.location, rows=3)
    write(f"{job.location}/p=x/a.parquet", 1)
    with pytest.raises(Conflict, match="1 rows were written for 2 rows of the table"):
        beside.published.accept(job.lease, job.location, rows=1)
    assert beside.where(table, "x") == f"file:{table.path}/p=x"


def test_a_base_that_has_moved_since_refuses(beside: BesideHive) -> None:
    table = upgraded(beside, "id")
    merged(beside, table, "x", 1, 7)
    job = leased(beside, table, x=(1, 7))
    merged(beside, table, "y", 3)
    with pytest.raises(Conflict, match="base has changed since"):
        beside.published.accept(job.lease, job.location, rows=job.rows)
    assert beside.where(table, "x") == f"file:{table.path}/p=x"


@pytest.mark.parametrize("key", [(), ("id",)])
def test_a_partition_without_rows_gets_an_empty_directory(beside: BesideHive, key: tuple[str, ...]) -> None:
    table = upgraded(beside, *key)
    merged(beside, table, "x")
    job = leased(beside, table)
    beside.published.accept(job.lease, job.location, rows=job.rows)
    assert (beside.where(table, "x") or "").endswith("/empty/p=x")
    assert beside.live(table) == {file for file in table.files() if "p=y" in file}


def test_a_table_is_published_as_often_as_its_policy_says(beside: BesideHive) -> None:
    table = upgraded(beside, "id")
    merged(beside, table, "x", 1, 7)
    relation = relation_of(beside, table)
    note(beside, table, published_through=-1)  # as if a merge had moved the watermark beyond it
    assert beside.publishes.activate().planned == 0  # nobody has ever asked for it
    note(beside, table, published_at=(datetime.now(UTC) - timedelta(minutes=9)))
    assert beside.publishes.activate().planned == 0  # it was published a moment ago
    note(beside, table, published_at=(datetime.now(UTC) - timedelta(minutes=11)))
    wait_for_merge(beside, relation)
    assert beside.publishes.activate().planned == 1
    assert active(beside, relation).kind is JobKind.PUBLISH  # what is pending is merged when its own policy says so
    beside.services.jobs.cancel(active(beside, relation).id)
    set_property(beside, table, "firn.hive.publish.interval", "never")
    assert beside.publishes.activate().planned == 0
    note(beside, table, published_at=None)
    wait_for_merge(beside, relation, commits=0)
    set_property(beside, table, "firn.hive.publish.interval", "10 min")
    assert beside.publishes.activate().planned == 1
    job = active(beside, relation)
    assert (job.kind, job.reason) == (JobKind.PUBLISH, "1 partition to publish")
    assert beside.publishes.activate().planned == 0  # it is under way
    beside.services.jobs.cancel(job.id)
    note(beside, table, published_at=datetime.now(UTC))
    assert beside.publishes.activate().planned == 0  # it was published a moment ago
    note(beside, table, published_at=(datetime.now(UTC) - timedelta(hours=1)))
    wait_for_merge(beside, relation)
    assert beside.publishes.activate().planned == 1
    assert active(beside, relation).kind is JobKind.MERGE  # only what is merged can be given to Hive


def wait_for_merge(beside: BesideHive, relation: Relation, *, commits: int = 1) -> None:
    """Let changes have been pending for an hour, or none."""
    with beside.database.writing() as uow:
        keyed, since = uow.keyed.lock(relation.id), uow.now() - timedelta(hours=1)
        uow.keyed.put(replace(keyed, pending_commits=commits, pending_since=since if commits else None))


def test_no_partition_is_published_into_a_table_s_own_location(beside: BesideHive) -> None:
    """What nothing refers to there is deleted one day, while Hive reads it."""
    table = upgraded(beside, "id")
    merged(beside, table, "x", 1, 7)
    metadata = beside.metadata(table)
    assert metadata is not None
    with pytest.raises(LocationRefused, match="it lies in a table's directory"):
        set_property(beside, table, "firn.hive.publish.location", f"{metadata['location']}/data")


@pytest.mark.parametrize("key", [(), ("id",)])
def test_a_user_who_empties_a_superseded_directory_removes_no_rows(beside: BesideHive, key: tuple[str, ...]) -> None:
    table = upgraded(beside, *key)
    merged(beside, table, "x", 1, 7)
    job = leased(beside, table, x=(1, 7))
    beside.published.accept(job.lease, job.location, rows=job.rows)
    beside.services.jobs.report(job.lease, outcome=None, error=None, result={})
    for path in (table.path / "p=x").iterdir():
        path.unlink()
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED
    assert beside.where(table, "x") == f"{job.location}/p=x"
    assert f"{job.location}/p=x/a.parquet" in beside.live(table)


def test_a_writer_into_a_partition_that_hive_has_dropped_since_is_heard(beside: BesideHive) -> None:
    table = upgraded(beside, "id")
    merged(beside, table, "x", 1, 7)
    job = leased(beside, table, x=(1, 7))
    beside.published.accept(job.lease, job.location, rows=job.rows)
    beside.services.jobs.report(job.lease, outcome=None, error=None, result={})
    beside.metastore.drop_partition("db", table.short, "p=x")
    overwritten(table)
    assert beside.sync(table).message.startswith("partitions dropped: 1")


@pytest.mark.parametrize("part", ["x", "new"])
def test_a_metastore_that_gives_no_answer_holds_up_no_sync_and_may_still_have_moved(
    beside: BesideHive, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    table = upgraded(beside, "id")
    merged(beside, table, part, 1, 7)
    job = leased(beside, table, **{part: (1, 7)})
    moves: list[tuple[Any, ...]] = []

    def unanswered(*args: Any, **_named: Any) -> None:
        moves.append(args)
        raise CommitUnknown("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(beside.metastore, "move", unanswered)
        assert beside.published.accept(job.lease, job.location, rows=job.rows).remaining == 1
        beside.services.jobs.report(job.lease, outcome=None, error=None, result={})
        assert beside.sync(table).outcome is SyncOutcome.UNCHANGED
    table.add("x", 9)
    beside.metastore.move(*moves[0])  # it arrives after all
    time.sleep(1.02 - time.time() % 1)  # until what was published is old enough to be believed
    outcome = beside.sync(table)
    assert beside.where(table, part) == f"{job.location}/p={part}"
    assert f"{job.location}/p={part}/a.parquet" in beside.live(table)
    assert outcome.job is not None
    with beside.database.reading() as uow:
        staged = uow.baselines.staged(outcome.job.id)
    assert staged is not None
    read = {file["location"] for unit in staged.task["units"] for file in unit["files"]}
    if part == "x":  # what came where it had been is heard, and what was published is known
        assert read == {file for file in table.files() if "p=x" in file} - {moves[0][3]} - first_of(table)
    else:
        assert f"{job.location}/p=new/a.parquet" in read


def first_of(table: HiveFiles) -> set[str]:
    """The file that a partition had when it was upgraded."""
    return {uri(min((table.path / "p=x").iterdir()))}


def test_a_metastore_that_refuses_a_move_holds_up_no_sync(beside: BesideHive, monkeypatch: pytest.MonkeyPatch) -> None:
    table = upgraded(beside, "id")
    where = beside.where(table, "x")
    merged(beside, table, "x", 1, 7)
    job = leased(beside, table, x=(1, 7))

    def refused(*_args: Any, **_named: Any) -> None:
        raise Invalid("not allowed")

    monkeypatch.setattr(beside.metastore, "move", refused)
    outcome = beside.published.accept(job.lease, job.location, rows=job.rows)
    assert (outcome.skipped, outcome.remaining) == (1, 0)
    beside.services.jobs.report(job.lease, outcome=None, error=None, result={})
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED
    assert beside.where(table, "x") == where
