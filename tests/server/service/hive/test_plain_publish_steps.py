"""A table without a key is published: engines and Hive's writers change it meanwhile and later, and no row is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from catalog.errors import Conflict
from catalog.history.commit import TableCommit
from catalog.hive.publish_decisions import PublishKind
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_snapshot
from catalog.iceberg.table import current_schema
from catalog.jobs.job import JobKind
from catalog.ports.metastore import PartitionLocation
from firn.protocol.locations import normalize_location
from server.files.locations import local_path
from server.service.commit.commit_path import CommitRequest
from server.service.hive.results import PublishOutcome, SyncOutcome
from tests.factories import LAKE
from tests.server.service.hive.beside_hive import BesideHive, HiveFiles, uri
from tests.server.service.hive.downgraded_tables import appended, published
from tests.server.service.hive.published_tables import Leased, active, leased, note, overwritten, set_property
from tests.server.service.hive.synced_tables import relation_of, upgraded


def written(beside: BesideHive, table: HiveFiles) -> tuple[str, Leased]:
    """A row that was appended to p=x, and a publish whose optimizer has written it."""
    own = appended(beside, table, None, 5)
    return own, leased(beside, table, x=(1, 2, 5))


def accepted(beside: BesideHive, job: Leased) -> dict[str, int]:
    outcome = beside.published.accept(job.lease, job.location, rows=job.rows)
    beside.services.jobs.report(job.lease, outcome=None, error=None, result={})
    return {"switched": outcome.switched, "skipped": outcome.skipped, "remaining": outcome.remaining}


def failed(beside: BesideHive, job: Leased, reason: str) -> None:
    with pytest.raises(Conflict, match=reason):
        beside.published.accept(job.lease, job.location, rows=job.rows)
    beside.services.jobs.cancel(job.lease.job_id)


def within(table: HiveFiles, part: str) -> set[str]:
    """Hive's own files of a partition."""
    return {file for file in table.files() if f"/p={part}/" in file}


def test_engines_commit_at_any_moment_while_it_is_registered(beside: BesideHive) -> None:
    moments = 0
    while True:
        table = upgraded(beside)
        _, job = written(beside, table)
        beside.fuse.meanwhile(moments + 1, partial(appended, beside.restarted(), table, None, 9, part="y"))
        assert accepted(beside, job) == {"switched": 1, "skipped": 0, "remaining": 0}
        has_come, beside.fuse.others = beside.fuse.others is None, None
        live = beside.live(table)
        assert {f"{job.location}/p=x/a.parquet", *within(table, "y")} <= live
        assert len(live) == 2 + has_come
        if not has_come:
            break
        moments += 1
    assert moments >= 6  # around manifests, metadata, the transaction and the move


def test_what_is_only_added_to_a_partition_meanwhile_stays_and_is_published_next_time(beside: BesideHive) -> None:
    table = upgraded(beside)
    own, job = written(beside, table)
    other = appended(beside, table, None, 6)
    assert accepted(beside, job)["switched"] == 1
    assert beside.live(table) == {*within(table, "y"), f"{job.location}/p=x/a.parquet", other}
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED
    job = leased(beside, table, x=(1, 2, 5, 6))
    assert accepted(beside, job)["switched"] == 1
    assert beside.live(table) == {*within(table, "y"), f"{job.location}/p=x/a.parquet"}
    assert beside.publish_requests.publish(LAKE, table.name).outcome is PublishOutcome.UP_TO_DATE
    assert own not in beside.live(table)


def test_what_hive_makes_of_a_partition_leaves_rows_that_were_added_while_it_was_published(beside: BesideHive) -> None:
    table = upgraded(beside)
    _, job = written(beside, table)
    other = appended(beside, table, None, 6)
    accepted(beside, job)
    there = replace(table, elsewhere=Path(str(local_path(job.location))))
    overwritten(there)
    assert beside.sync(table).message == "partitions rewritten or moved: 1"
    assert set(map(normalize_location, beside.live(table))) == set(
        map(normalize_location, {*within(table, "y"), *there.files(), other})
    )


def test_a_partition_that_an_engine_changes_meanwhile_is_published_as_it_is_next_time(beside: BesideHive) -> None:
    table = upgraded(beside)
    where = beside.where(table, "x")
    own, job = written(beside, table)
    other = appended(beside, table, None, 6, instead_of={own})
    failed(beside, job, "has changed in Firn while")
    assert beside.live(table) == {*table.files(), other}
    assert beside.where(table, "x") == where


def added_to(table: HiveFiles) -> None:
    table.add("x", 6)


def dropped(table: HiveFiles) -> None:
    table.drop("x")


@pytest.mark.parametrize("act", [overwritten, dropped, added_to])
def test_what_hive_has_changed_meanwhile_is_synced_first(beside: BesideHive, act: Callable[[HiveFiles], None]) -> None:
    """Its files still are the table's own, so nothing of it is a conflict."""
    table = upgraded(beside)
    own, job = written(beside, table)
    act(table)
    failed(beside, job, "Hive has changed p=x meanwhile")
    outcome = beside.publish_requests.publish(LAKE, table.name)
    assert outcome.outcome is PublishOutcome.HELD_BACK
    assert [(held.filter, held.partitions, held.example) for held in outcome.held_back] == [
        ("changed-in-hive", 1, "p=x")
    ]
    assert not beside.sync(table).conflict
    assert beside.live(table) == {*table.files(), own}


@pytest.mark.parametrize("act", [overwritten, dropped, added_to])
def test_what_hive_does_to_a_published_partition_is_taken_over_and_rows_that_it_was_not_given_stay(
    beside: BesideHive, act: Callable[[HiveFiles], None]
) -> None:
    table = upgraded(beside)
    job = published(beside, table, x=(1, 2, 5))
    own = appended(beside, table, None, 7)
    there = replace(table, elsewhere=Path(str(local_path(job.location))))
    act(there)
    assert not beside.sync(table).conflict
    assert set(map(normalize_location, beside.live(table))) == set(
        map(normalize_location, {*within(table, "y"), *there.files(), own})
    )
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED


def test_a_late_row_is_here_at_once_and_in_hive_with_the_next_publish(beside: BesideHive) -> None:
    table = upgraded(beside)
    job = published(beside, table, x=(1, 2, 5))
    late = uri(table.add("x", 9))
    assert beside.sync(table).message == "partitions written to where they were before: 1"
    assert beside.live(table) == {*within(table, "y"), f"{job.location}/p=x/a.parquet", late}
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED
    again = leased(beside, table, x=(1, 2, 5, 9))
    assert accepted(beside, again)["switched"] == 1
    assert beside.live(table) == {*within(table, "y"), f"{again.location}/p=x/a.parquet"}
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED


def test_a_late_row_that_is_taken_away_again_is_gone_here_too(beside: BesideHive) -> None:
    table = upgraded(beside)
    job = published(beside, table, x=(1, 2, 5))
    own = within(table, "x")
    late = table.add("x", 9)
    beside.sync(table)
    late.unlink()
    assert beside.sync(table).message == "partitions lost files where they were before: 1"
    expected_files = {*within(table, "y"), f"{job.location}/p=x/a.parquet"}
    assert beside.live(table) == expected_files
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED
    for file in own:  # by whoever clears up where nobody reads
        Path(str(local_path(file))).unlink()
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED
    assert beside.live(table) == expected_files


def test_an_overwrite_that_did_not_know_of_a_publish_is_a_conflict_that_hive_may_win(beside: BesideHive) -> None:
    """Its writer has read other rows than it has replaced here: nothing is guessed."""
    table = upgraded(beside)
    where = beside.where(table, "x")
    job = published(beside, table, x=(1, 2, 5))
    overwritten(table)
    outcome = beside.sync(table)
    assert (outcome.conflict, beside.where(table, "x")) == (True, where)  # Hive's readers see what was written there
    assert f"{job.location}/p=x/a.parquet" in beside.live(table)
    assert beside.publish_requests.publish(LAKE, table.name).job is None
    set_property(beside, table, "firn.hive.overwrite-wins", "true")
    assert not beside.sync(table).conflict
    assert beside.live(table) == table.files()
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED


def test_a_metastore_that_is_pointed_back_takes_no_published_row_away(beside: BesideHive) -> None:
    """As Hive does it for an insert into a partition on another file system than its table."""
    table = upgraded(beside)
    old = beside.where(table, "x") or ""
    job = published(beside, table, x=(1, 2, 5))
    beside.metastore.move("db", table.short, PartitionLocation(values=("x",), location=f"{job.location}/p=x"), old, {})
    new = uri(table.add("x", 9))
    assert beside.sync(table).message == "partitions new files: 1"
    assert beside.live(table) == {*within(table, "y"), f"{job.location}/p=x/a.parquet", new}
    again = leased(beside, table, x=(1, 2, 5, 9))
    assert accepted(beside, again)["switched"] == 1
    assert beside.where(table, "x") == f"{again.location}/p=x"
    assert beside.live(table) == {*within(table, "y"), f"{again.location}/p=x/a.parquet"}


def altered(beside: BesideHive, table: HiveFiles, *, name: str = "n") -> None:
    """An engine adds a column."""
    metadata = beside.metadata(table)
    assert metadata is not None
    schema: dict[str, Any] = current_schema(metadata)
    added = {"id": metadata["last-column-id"] + 1, "name": name, "required": False, "type": "long"}
    updates: list[Json] = [
        {"action": "add-schema", "schema": schema | {"fields": [*schema["fields"], added]}},
        {"action": "set-current-schema", "schema-id": -1},
    ]
    change = TableCommit(name=beside.table_name(table), requirements=[], updates=updates)
    beside.services.committer.commit(CommitRequest(catalog=LAKE, changes=[change]))


def test_rows_are_read_with_the_columns_that_the_table_has(beside: BesideHive) -> None:
    """Read as of a snapshot, a table has the columns of that time: of files that came before them, values too."""
    table = upgraded(beside)
    own = appended(beside, table, None, 5)
    altered(beside, table)
    job = leased(beside, table, x=(1, 2, 5))
    metadata = beside.metadata(table)
    assert metadata is not None
    head = current_snapshot(metadata)
    assert head is not None
    assert head["schema-id"] == metadata["current-schema-id"]
    assert (
        beside.services.tasks.build(active(beside, relation_of(beside, table))).model_dump()["snapshot"]
        == head["snapshot-id"]
    )
    assert beside.live(table) == {*table.files(), own}
    assert [column.name for column in beside.metastore.table("db", table.short).columns] == ["id", "v", "n"]
    set_property(beside, table, "comment", "is nothing that rows are read by")
    altered(beside, table, name="m")
    failed(beside, job, "columns have changed")


def test_a_partition_that_hive_cannot_have_holds_up_no_other(beside: BesideHive) -> None:
    table = upgraded(beside)
    own = appended(beside, table, None, 8, part="")
    outcome = beside.publish_requests.publish(LAKE, table.name)
    assert [(held.filter, held.partitions, held.kind) for held in outcome.held_back] == [
        ("unnameable", 1, PublishKind.NEVER)
    ]
    assert outcome.message.startswith(
        "nothing to publish; 1 partition waits, because Hive cannot have these partition values"
    )
    _, job = written(beside, table)
    assert accepted(beside, job)["switched"] == 1
    assert own in beside.live(table)


def test_it_is_published_as_often_as_its_policy_says_when_it_has_changed(beside: BesideHive) -> None:
    table = upgraded(beside)
    appended(beside, table, None, 5)
    long_ago = datetime.now(UTC) - timedelta(minutes=11)
    assert beside.publishes.activate().planned == 0  # nobody has ever asked for it
    note(beside, table, published_at=datetime.now(UTC))
    assert beside.publishes.activate().planned == 0  # it was published a moment ago
    note(beside, table, published_at=long_ago)
    assert beside.publishes.activate().planned == 1
    job = active(beside, relation_of(beside, table))
    assert (job.kind, job.reason) == (JobKind.PUBLISH, "1 partition to publish")
    beside.services.jobs.cancel(job.id)
    accepted(beside, leased(beside, table, x=(1, 2, 5)))
    note(beside, table, published_at=long_ago)
    assert beside.publishes.activate().planned == 1  # it looks, and finds that Hive has all
    note(beside, table, published_at=long_ago)
    assert beside.publishes.activate().planned == 0
    table.add("y", 8)
    beside.sync(table)
    assert beside.publishes.activate().planned == 1
