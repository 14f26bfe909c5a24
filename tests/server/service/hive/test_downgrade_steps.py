"""A table is given back to Hive: it dies at each of its steps, or meets others, and no row is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from catalog.errors import CommitRefused, Conflict, NoSuchTable, NotFound, Protected
from catalog.hive.baseline import PartitionBaseline
from catalog.hive.publisher import PUBLISHER
from catalog.jobs.blocker import Blocker
from catalog.jobs.job import JobKind
from catalog.jobs.operation import Operation
from catalog.keyed.spec import CHANGE, LOG_WRITER
from catalog.names import TableName
from firn.protocol.operations import DowngradePhase, OperationStatus
from server.files.locations import local_path
from server.service.commit.commit_path import CommitRequest
from server.service.commit.commit_target import get_table, load_metadata
from tests.factories import LAKE
from tests.server.faults import Killed
from tests.server.lake import appended as build_append
from tests.server.service.hive.beside_hive import BesideHive, HiveFiles
from tests.server.service.hive.downgraded_tables import appended, appended_change, ended, exists, published
from tests.server.service.hive.published_tables import active, leased, merged, set_property
from tests.server.service.hive.synced_tables import relation_of, upgraded


def content(table: HiveFiles) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in table.path.rglob("*.parquet")}


@pytest.mark.parametrize("key", [(), ("id",)])
def test_a_table_that_hive_has_whole_is_given_back_as_it_was(beside: BesideHive, key: tuple[str, ...]) -> None:
    table = beside.hive_table()
    before, hive_table = content(table), beside.metastore.table("db", table.short)
    beside.start(table, *key)
    beside.upgrades.activate()
    operation = ended(beside, beside.downgrades.start(LAKE, table.name))
    assert (operation.status, operation.error) == (OperationStatus.SUCCEEDED, None)
    assert operation.result["partitions"] == 2
    assert operation.result["published"] == 0
    assert not exists(beside, table)
    assert (content(table), beside.metastore.table("db", table.short)) == (before, hive_table)
    beside.start(table, *key)
    beside.upgrades.activate()
    assert beside.live(table) == table.files()  # and back again


@pytest.mark.parametrize("key", [(), ("id",)])
def test_what_differs_is_published_first(beside: BesideHive, key: tuple[str, ...]) -> None:
    table = upgraded(beside, *key)
    before = content(table)
    merged(beside, table, "x", 1, 7)
    operation = beside.downgrades.start(LAKE, table.name, wait_for_writers=False)
    beside.downgrades.activate()
    assert active(beside, relation_of(beside, table)).kind is JobKind.PUBLISH
    assert beside.operation(operation).phase == DowngradePhase.PUBLISHING
    beside.downgrades.activate()
    waiting = beside.operation(operation)
    assert (waiting.phase, waiting.message) == (DowngradePhase.PUBLISHING, "a publish job is pending")
    beside.services.jobs.cancel(active(beside, relation_of(beside, table)).id)
    failed = ended(beside, operation)
    assert failed.status is OperationStatus.FAILED
    assert failed.error == "its publish job was canceled"

    job = published(beside, table, x=(1, 7))
    done = ended(beside, beside.downgrades.start(LAKE, table.name, wait_for_writers=False))
    assert done.status is OperationStatus.SUCCEEDED
    assert done.result["published"] == 1
    assert beside.where(table, "x") == f"{job.location}/p=x"
    assert Path(str(local_path(f"{job.location}/p=x/a.parquet"))).exists()
    assert content(table) == before
    assert PUBLISHER not in beside.metastore.table("db", table.short).parameters
    assert not exists(beside, table)


def test_pending_changes_are_merged_first(beside: BesideHive) -> None:
    table = upgraded(beside, "id")
    appended_change(beside, table)
    beside.downgrades.start(LAKE, table.name)
    beside.downgrades.activate()
    assert active(beside, relation_of(beside, table)).kind is JobKind.MERGE


def test_directories_that_were_left_are_watched_to_the_end(beside: BesideHive) -> None:
    """A writer that began before the publish puts rows where Hive does not look any more."""
    table = upgraded(beside, "id")
    before = beside.where(table, "x")
    published(beside, table, x=(1, 7))
    preview = beside.downgrades.preview(LAKE, table.name)
    assert (preview.directories_in_grace, preview.grace_seconds) == (1, 86_400)
    [directory] = preview.directories
    assert (directory.partition, directory.location, directory.until) == ("p=x", before, preview.ends_after)
    assert preview.wait == "a Hive job that started before the last publish may still write to p=x"
    assert (preview.writers, preview.likely_author) == ((), "the Hive table's owner is ann")
    operation = beside.downgrades.start(LAKE, table.name)
    with beside.metastore.others_lock("db", table.short, "p=x"):
        waiting = ended(beside, operation)
        [writer] = beside.downgrades.preview(LAKE, table.name).writers
    assert (writer.partition, writer.holder) == ("p=x", "hive@elsewhere")
    assert waiting.message.endswith("may still write to p=x; hive@elsewhere writes now")
    assert waiting.status is OperationStatus.RUNNING
    assert waiting.phase == DowngradePhase.GRACE_PERIOD
    assert waiting.message.startswith("Hive is up to date; Firn watches 1 superseded directory until 20")
    table.add("x", 9)
    looked_again(beside, operation)
    assert active(beside, relation_of(beside, table)).kind is JobKind.SYNC
    assert exists(beside, table)


def test_a_preview_says_how_long_a_downgrade_takes_and_why(beside: BesideHive) -> None:
    same, changed = upgraded(beside), upgraded(beside, "id")
    appended_change(beside, changed)
    nothing = beside.downgrades.preview(LAKE, same.name)
    assert (nothing.ends_after, nothing.wait, nothing.directories) == (None, "", ())
    preview = beside.downgrades.preview(LAKE, changed.name)
    with beside.database.reading() as uow:
        seconds = (preview.ends_after - uow.now()).total_seconds() if preview.ends_after else 0
    assert preview.grace_seconds - 60 < seconds <= preview.grace_seconds
    assert preview.wait.startswith("the publish replaces directories of Hive")
    beside.metastore.locks.are_had = False
    assert beside.downgrades.preview(LAKE, changed.name).writers == ()


def test_a_watch_ends(beside: BesideHive) -> None:
    table = upgraded(beside, "id")
    published(beside, table, x=(1, 7))
    operation = beside.downgrades.start(LAKE, table.name)
    ended(beside, operation)
    relation = relation_of(beside, table)
    with beside.database.writing() as uow:  # a day later
        for name, stored in uow.baselines.of(relation.id).items():
            baseline = PartitionBaseline.from_json(stored)
            old = tuple(replace(watch, since_ns=watch.since_ns - 86_401 * 10**9) for watch in baseline.watched)
            uow.baselines.put(relation.id, {name: replace(baseline, watched=old).to_json()})
    looked_again(beside, operation)
    assert beside.operation(operation).status is OperationStatus.SUCCEEDED


def looked_again(beside: BesideHive, operation: Operation) -> None:
    """As soon as its next look is due."""
    with beside.database.writing() as uow:
        current = uow.operations.lock(operation.id)
        uow.operations.put(replace(current, journal={**current.journal, "next_at": current.created_at.isoformat()}))
    beside.downgrades.activate()


@pytest.mark.parametrize(("key", "store"), [((), None), (("id",), CHANGE)])
def test_a_table_that_is_given_back_takes_no_changes_until_that_is_canceled(
    beside: BesideHive, key: tuple[str, ...], store: str | None
) -> None:
    table = upgraded(beside, *key)
    operation = beside.downgrades.start(LAKE, table.name)
    with pytest.raises(CommitRefused, match="a downgrade gives the table back to Hive"):
        appended(beside, table, store, 5)
    assert beside.blocked(table, JobKind.MERGE) is None
    assert isinstance(beside.blocked(table, JobKind.COMPACT), Blocker)
    beside.operations.cancel(operation.id)
    assert ended(beside, operation).status is OperationStatus.CANCELED
    appended(beside, table, store, 5)
    assert beside.blocked(table, JobKind.COMPACT) is None


def test_a_drain_of_a_table_that_is_given_back_is_refused_and_goes_on_if_that_is_canceled(beside: BesideHive) -> None:
    table = upgraded(beside, "id")
    name = beside.table_name(table)
    store = TableName(name.as_namespace, CHANGE)
    epoch = beside.services.writers.register(LAKE, name, LOG_WRITER).epoch

    def drain(start: str, end: str) -> None:
        with beside.database.reading() as uow:
            metadata = load_metadata(beside.services.metadata, get_table(uow, LAKE, store))
        step = {"firn.writer-id": LOG_WRITER, "firn.writer-epoch": str(epoch)}
        summary = {**step, "firn.position-from": start, "firn.position": end}
        commit = build_append(store, metadata, rows=0, summary=summary)
        beside.services.committer.commit(CommitRequest(catalog=LAKE, changes=[commit]))

    drain("none", "orders:0:3")
    operation = beside.downgrades.start(LAKE, table.name)
    with pytest.raises(CommitRefused, match="a downgrade gives the table back to Hive"):
        drain("orders:0:3", "orders:0:5")
    assert beside.services.writers.get(LAKE, name, LOG_WRITER).position == "orders:0:3"
    beside.operations.cancel(operation.id)
    assert ended(beside, operation).status is OperationStatus.CANCELED
    drain("orders:0:3", "orders:0:5")  # the same copy, from the position that the table has
    assert beside.services.writers.get(LAKE, name, LOG_WRITER).position == "orders:0:5"


def test_a_drain_of_a_table_that_hive_has_again_finds_no_table(beside: BesideHive) -> None:
    table = upgraded(beside, "id")
    name = beside.table_name(table)
    beside.services.writers.register(LAKE, name, LOG_WRITER)
    done = ended(beside, beside.downgrades.start(LAKE, table.name, wait_for_writers=False))
    assert done.status is OperationStatus.SUCCEEDED
    with pytest.raises(NotFound, match="does not exist"):
        beside.services.writers.register(LAKE, name, LOG_WRITER)
    with pytest.raises(NotFound, match="does not exist"):
        beside.services.log_columns.add(LAKE, name, {"more": "long"})


def test_hive_side_changes_are_taken_over_on_the_way(beside: BesideHive) -> None:
    table = upgraded(beside)
    operation = beside.downgrades.start(LAKE, table.name)
    table.add("x", 9)
    assert ended(beside, operation).status is OperationStatus.SUCCEEDED


def test_rows_that_only_a_plain_table_has_are_published_before_it_is_let_go_of(beside: BesideHive) -> None:
    table = upgraded(beside)
    appended(beside, table, None, 5)
    operation = beside.downgrades.start(LAKE, table.name, wait_for_writers=False)
    beside.downgrades.activate()
    beside.services.jobs.cancel(active(beside, relation_of(beside, table)).id)
    assert ended(beside, operation).error == "its publish job was canceled"
    [file] = [path for path in table.files() if "/p=x/" in path]
    job = leased(beside, table, x=(1, 2, 5))
    beside.published.accept(job.lease, job.location, rows=job.rows)
    beside.services.jobs.report(job.lease, outcome=None, error=None, result={})
    done = ended(beside, beside.downgrades.start(LAKE, table.name, wait_for_writers=False))
    assert (done.status, done.result["published"]) == (OperationStatus.SUCCEEDED, 1)
    assert beside.where(table, "x") == f"{job.location}/p=x"
    assert file in table.files()


def test_changes_that_come_at_any_moment_of_the_last_step_are_not_dropped(beside: BesideHive) -> None:
    """A commit that was judged before the downgrade began may land at any time."""
    moments = 0
    while True:
        table = upgraded(beside, "id")
        operation, others = beside.downgrades.start(LAKE, table.name), beside.restarted()
        come = partial(appended, others, table, CHANGE, 1, follows_hive=True)
        beside.fuse.meanwhile(moments + 1, come)
        try:
            beside.downgrades.activate()
        except ExceptionGroup as group:  # the table was dropped before it came
            [error] = group.exceptions
            assert isinstance(error, NoSuchTable)
        has_come, beside.fuse.others = beside.fuse.others is None, None
        if not has_come or not exists(beside, table):
            break
        moments += 1
        beside.downgrades.activate()
        assert active(beside, relation_of(beside, table)).kind is JobKind.MERGE
        beside.operations.cancel(operation.id)
        beside.downgrades.activate()
    assert moments >= 2


def test_rows_that_hive_can_never_have_end_it(beside: BesideHive) -> None:
    """Or the table would take no changes, and wait, for ever."""
    table = upgraded(beside)
    appended(beside, table, None, 5, part="")
    with pytest.raises(Conflict, match="because Hive cannot have these partition values"):
        beside.downgrades.start(LAKE, table.name, wait_for_writers=False)
    appended(beside, table, None, 6)


@pytest.mark.parametrize("key", [(), ("id",)])
def test_a_killed_downgrade_goes_on(beside: BesideHive, key: tuple[str, ...]) -> None:
    died = 0
    while True:
        table = upgraded(beside, *key)
        published(beside, table, x=(1, 7))
        operation = beside.downgrades.start(LAKE, table.name, wait_for_writers=False)
        beside.fuse.left = died + 1
        try:
            beside.downgrades.activate()
        except Killed:
            died += 1
            beside = beside.restarted()
        else:
            beside.fuse.left = None
            break
        assert ended(beside, operation).status is OperationStatus.SUCCEEDED
        assert PUBLISHER not in beside.metastore.table("db", table.short).parameters
        assert not exists(beside, table)
    assert died >= 6  # the mark is taken away before the table is let go of


def test_what_cannot_be_given_back_is_refused_at_once(beside: BesideHive) -> None:
    table = beside.hive_table()
    with pytest.raises(NotFound, match="the Hive table is not upgraded"):
        beside.downgrades.start(LAKE, table.name)
    beside.start(table, "id")
    with pytest.raises(NotFound, match="the Hive table is not upgraded"):
        beside.downgrades.start(LAKE, table.name)
    beside.upgrades.activate()
    set_property(beside, table, "firn.protected", "true")
    with pytest.raises(Protected):
        beside.downgrades.start(LAKE, table.name)
    set_property(beside, table, "firn.protected", "false")
    beside.downgrades.start(LAKE, table.name)
    with pytest.raises(Conflict, match="another downgrade"):
        beside.downgrades.start(LAKE, table.name)


def gone(table: HiveFiles) -> None:
    table.beside.metastore.drop_table("db", table.short)


def repartitioned(table: HiveFiles) -> None:
    beside = table.beside
    old = beside.metastore.table("db", table.short)
    beside.metastore.drop_table("db", table.short)
    beside.metastore.add_table(replace(old, partition_columns=()))


@pytest.mark.parametrize("act", [gone, repartitioned])
def test_a_hive_table_that_is_another_one_now_gets_nothing(
    beside: BesideHive, act: Callable[[HiveFiles], None]
) -> None:
    table = upgraded(beside, "id")
    operation = beside.downgrades.start(LAKE, table.name)
    act(table)
    failed = ended(beside, operation)
    assert failed.status is OperationStatus.FAILED
    assert "needs a decision" in (failed.error or "")
    assert exists(beside, table)
    appended_change(beside, table)
