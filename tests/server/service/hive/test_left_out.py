"""A publish job leaves partitions out whose format cannot hold their rows: the rest is published, they wait."""

from __future__ import annotations

import pytest

from catalog.errors import Conflict, Invalid
from tests.factories import LAKE
from tests.server.service.hive.beside_hive import BesideHive
from tests.server.service.hive.published_tables import leased, merged
from tests.server.service.hive.synced_tables import upgraded


@pytest.mark.parametrize("key", [(), ("id",)])
def test_what_a_job_leaves_out_stays_as_it_was_and_is_asked_for_again(beside: BesideHive, key: tuple[str, ...]) -> None:
    table = upgraded(beside, *key)
    merged(beside, table, "x", 1, 7)
    kept = merged(beside, table, "y", 3, 9)
    job = leased(beside, table, x=(1, 7), y=(3,))
    with pytest.raises(Invalid, match="partition p=z is not in the plan of job"):
        beside.published.accept(job.lease, job.location, rows=2, unrepresentable=["p=z"])
    if not key:
        merged(beside, table, "new", 8)  # what comes to other partitions changes nothing
    publish_outcome = beside.published.accept(job.lease, job.location, rows=2, unrepresentable=["p=y"])
    assert (publish_outcome.partitions, publish_outcome.rows, publish_outcome.switched) == (1, 2, 1)
    assert {f"{job.location}/p=x/a.parquet", kept} <= beside.live(table)
    assert beside.where(table, "y") == f"file:{table.path}/p=y"
    beside.services.jobs.report(job.lease, outcome=None, error=None, result={})
    outcome = beside.publish_requests.publish(LAKE, table.name)
    assert outcome.message == ("1 partition to publish" if key else "2 partitions to publish")


def test_a_plain_partition_that_is_left_out_and_changed_meanwhile_has_all_planned_anew(beside: BesideHive) -> None:
    table = upgraded(beside)
    merged(beside, table, "x", 1, 7)
    merged(beside, table, "y", 3, 9)
    job = leased(beside, table, x=(1, 7))
    merged(beside, table, "y", 3)
    with pytest.raises(Conflict, match="has changed in Firn while"):
        beside.published.accept(job.lease, job.location, rows=2, unrepresentable=["p=y"])
