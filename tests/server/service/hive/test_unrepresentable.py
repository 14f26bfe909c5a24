"""A partition that a job left out, as Avro cannot hold its values, is not written again until something has changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from catalog.errors import Conflict
from server.service.hive.link_state import load_link
from tests.factories import LAKE
from tests.hive_tables import a_hive_partition, a_storage
from tests.server.faults import Killed
from tests.server.service.hive.altered_columns import added, alter_here, hive_has
from tests.server.service.hive.beside_hive import BesideHive, HiveFiles, uri
from tests.server.service.hive.published_tables import Leased, leased, merged
from tests.server.service.hive.synced_tables import relation_of

WHY = "2 rows have a value in at that is finer than a millisecond"
WAITS = f"nothing to publish; 1 partition waits, because Hive would read otherwise from Avro: {WHY}"


def planned(beside: BesideHive, table: HiveFiles) -> set[str]:
    """What a publish would write now; its job is given up."""
    outcome = beside.publish_requests.publish(LAKE, table.name)
    if outcome.job is None:
        assert outcome.message.startswith(WAITS), outcome.message
        assert (outcome.partitions_waiting, WHY in (outcome.never or "")) == (1, True)
        return set()
    with beside.database.reading() as uow:
        staged = uow.baselines.staged(outcome.job.id)
    beside.services.jobs.cancel(outcome.job.id)
    assert staged is not None
    return {partition["name"] for partition in staged.task["partitions"]}


def noted(beside: BesideHive, table: HiveFiles) -> set[str]:
    with beside.database.reading() as uow:
        return set(load_link(uow, relation_of(beside, table).id).unrepresentable)


def unrepresentable(beside: BesideHive, job: Leased) -> None:
    beside.published.accept(job.lease, job.location, rows=job.rows, unrepresentable=["p=avro"], reason=WHY)


def ended(beside: BesideHive, job: Leased) -> None:
    beside.services.jobs.report(job.lease, outcome=None, error=None, result={"waits": "p=avro cannot"})


@pytest.fixture(params=[(), ("id",)])
def waiting(beside: BesideHive, mixed: HiveFiles, request: pytest.FixtureRequest) -> HiveFiles:
    """Its partition in Avro was left out by a job that had nothing else to write."""
    beside.start(mixed, *request.param)
    beside.upgrades.activate()
    merged(beside, mixed, "avro", 5, 7)
    job = leased(beside, mixed)
    unrepresentable(beside, job)
    ended(beside, job)
    return mixed


def test_a_job_that_has_left_out_all_is_not_made_again(beside: BesideHive, waiting: HiveFiles) -> None:
    where, live = beside.where(waiting, "avro"), beside.live(waiting)
    assert planned(beside, waiting) == set()
    assert (beside.where(waiting, "avro"), beside.live(waiting)) == (where, live)
    with beside.database.reading() as uow:
        request = load_link(uow, relation_of(beside, waiting).id).publish_request
    assert request is not None
    assert request.message.startswith(WAITS)
    with pytest.raises(Conflict, match=WHY):
        beside.downgrades.start(LAKE, waiting.name)
    assert WHY in (beside.downgrades.preview(LAKE, waiting.name).blocked or "")
    merged(beside, waiting, "x", 1, 9)
    assert planned(beside, waiting) == {"p=x"}


def rewritten(beside: BesideHive, table: HiveFiles) -> None:
    merged(beside, table, "avro", 5, 7, 8)


def with_a_column(beside: BesideHive, table: HiveFiles) -> None:
    alter_here(beside, table, added("more", "long"))


def with_another_type(beside: BesideHive, table: HiveFiles) -> None:
    hive_has(beside, table, "id bigint; v varchar(20)")


def in_parquet(beside: BesideHive, table: HiveFiles) -> None:
    beside.metastore.add_partition("db", table.short, a_hive_partition("avro", storage=a_storage(
        uri(table.path / "p=avro"), "id bigint; v string"
    )))  # fmt: skip


@pytest.mark.parametrize("changed", [rewritten, with_a_column, with_another_type, in_parquet])
def test_it_is_tried_again_once_something_about_it_has_changed(
    beside: BesideHive, waiting: HiveFiles, changed: Callable[[BesideHive, HiveFiles], None]
) -> None:
    changed(beside, waiting)
    assert planned(beside, waiting) == {"p=avro"}


def test_what_is_noted_goes_with_the_partition(beside: BesideHive, waiting: HiveFiles) -> None:
    assert noted(beside, waiting) == {"p=avro"}
    merged(beside, waiting, "avro", 5, 7, 8)
    planned(beside, waiting)
    assert noted(beside, waiting) == set()


def test_a_job_that_dies_has_noted_it_with_its_commit_or_not_at_all(beside: BesideHive, mixed: HiveFiles) -> None:
    beside.start(mixed, "id")
    beside.upgrades.activate()
    merged(beside, mixed, "avro", 5, 7)
    died = 0
    while True:
        merged(beside, mixed, "x", 1, 9, 10 + died)
        job = leased(beside, mixed, x=(1, 9, 10 + died))
        beside.fuse.left = died + 1
        try:
            unrepresentable(beside, job)
        except Killed:
            died += 1
            beside = beside.restarted()
            unrepresentable(beside, job)
            ended(beside, job)
            assert noted(beside, mixed) == {"p=avro"}
            merged(beside, mixed, "avro", 5, 7, 20 + died)
        else:
            beside.fuse.left = None
            break
    ended(beside, job)
    assert died >= 5
    assert planned(beside, mixed) == set()
