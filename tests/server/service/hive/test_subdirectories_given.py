"""Sub-directories and what Hive is given: published partitions, directories that they have left, downgrades."""

from __future__ import annotations

import pytest

from catalog.errors import LocationRefused
from firn.protocol.operations import OperationStatus
from server.service.hive.results import SyncOutcome
from tests.factories import LAKE
from tests.hive_tables import a_hive_partition, a_storage
from tests.server.service.hive.beside_hive import BesideHive, uri
from tests.server.service.hive.downgraded_tables import ended, exists, published
from tests.server.service.hive.links import drift_of
from tests.server.service.hive.nested_files import RULE, baseline_of, below, outcome, scheduled, settle, upgraded
from tests.server.service.hive.published_tables import leased, merged, set_property
from tests.server.service.hive.synced_tables import make_due, relation_of


def test_nothing_is_published_below_what_is_read(beside: BesideHive) -> None:
    table = upgraded(beside, "read", "id")
    beside.services.namespaces.change_catalog_properties(
        LAKE, updates={"firn.storage.allowed-locations": uri(table.path)}, removals=()
    )
    with pytest.raises(LocationRefused, match="it lies in a table's directory"):
        set_property(beside, table, "firn.hive.publish.location", f"{uri(table.path)}/p=x/published")


def test_a_published_partition_is_flat_and_what_late_writers_put_below_is_heard(beside: BesideHive) -> None:
    table = upgraded(beside, "read", "id")
    job = published(beside, table, x=(1, 2, 4, 5, 7))
    beside.services.jobs.reap()
    assert beside.where(table, "x") == f"{job.location}/p=x"
    assert baseline_of(beside, table).below == ()
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED
    settle(table)
    beside.sync(table)
    late = below(table, 8)
    make_due(beside, table)
    beside.syncs.activate()
    with beside.database.reading() as uow:
        active_job = uow.jobs.active_of(relation_of(beside, table).id)
        staged = uow.baselines.staged(active_job.id) if active_job else None
    assert staged is not None, "its directory's own time tells of it"
    assert [file["location"] for unit in staged.task["units"] for file in unit["files"]] == [uri(late)]


def test_a_partition_made_where_another_one_was_is_no_late_news_of_that(beside: BesideHive) -> None:
    table = upgraded(beside, "read", "id")
    published(beside, table, x=(1, 2, 4, 5, 7))
    late_file = below(table, 8, sub="mine")
    storage = a_storage(uri(late_file.parent), "id bigint; v string")
    beside.metastore.add_partition("db", table.short, a_hive_partition("mine", storage=storage))
    sync_outcome = beside.sync(table)
    assert sync_outcome.message == "partitions new: 1"


def test_ignoring_what_was_read_points_hive_back_nowhere(beside: BesideHive) -> None:
    """The directory that it has left shows fewer files by that rule: nobody has overwritten it."""
    table = upgraded(beside, "read", "id")
    job = published(beside, table, x=(1, 2, 4, 5, 7))
    set_property(beside, table, RULE, "ignore")
    table.add("x", 8)
    sync_outcome = beside.sync(table)
    assert sync_outcome.message == "partitions written to where they were before: 1"
    assert beside.where(table, "x") == f"{job.location}/p=x"


def test_hives_readers_lose_sight_of_nothing_that_may_count(beside: BesideHive) -> None:
    """A directory comes while a partition is published, and nobody has said whether its files count."""
    table = beside.hive_table()
    outcome(beside, table, None, "id")
    where = beside.where(table, "x")
    merged(beside, table, "x", 1, 2, 7)
    job = leased(beside, table, x=(1, 2, 7))
    below(table, 8)
    publish_outcome = beside.published.accept(job.lease, job.location, rows=job.rows)
    assert (publish_outcome.switched, publish_outcome.skipped) == (0, 1)
    assert beside.where(table, "x") == where
    beside.services.jobs.report(job.lease, outcome=None, error=None, result={})
    assert beside.sync(table).conflict
    waits = beside.publish_requests.publish(LAKE, table.name)
    assert (waits.job, waits.partitions_waiting) == (None, 1)
    assert "its changes in Hive are not synced" in waits.message


def test_a_directory_that_comes_where_a_partition_was_is_told(beside: BesideHive) -> None:
    table = beside.hive_table()
    outcome(beside, table, None, "id")
    published(beside, table, x=(1, 2, 7))
    settle(table)
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED
    below(table, 8)
    for _ in range(2):
        scheduled(beside, table)
        assert "it was at that directory before it was published" in (drift_of(beside, table) or "")
    set_property(beside, table, RULE, "read")
    assert beside.sync(table).message == "partitions written to where they were before: 1"


@pytest.mark.parametrize("key", [(), ("id",)])
@pytest.mark.parametrize("rule", ["read", "ignore"])
def test_a_table_is_given_back_by_the_same_rule(beside: BesideHive, rule: str, key: tuple[str, ...]) -> None:
    table = upgraded(beside, rule, *key)
    operation = ended(beside, beside.downgrades.start(LAKE, table.name))
    assert (operation.status, operation.error) == (OperationStatus.SUCCEEDED, None)
    assert not exists(beside, table)


def test_a_table_that_waits_for_a_word_is_not_given_back(beside: BesideHive) -> None:
    table = upgraded(beside, "read", "id")
    set_property(beside, table, RULE, "ignore")
    below(table, 6)
    operation = ended(beside, beside.downgrades.start(LAKE, table.name))
    assert operation.status is OperationStatus.FAILED
    assert "were read so far" in (operation.error or "")
    assert exists(beside, table)
