"""Jobs on quarantines: planned as for plain tables, under the settings of the keyed table."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from catalog.errors import Conflict, Invalid, LeaseLost
from catalog.jobs.job import Job, JobKind, JobStatus
from catalog.keyed.spec import LOG_WRITER
from catalog.names import TableName
from firn.protocol.tasks.files import RewriteTask
from firn.protocol.tasks.retention import ExpireTask
from server.service.planning.planner import find_planned_relation, load_facts
from server.service.streams.position_checks import list_position_problems
from tests.databases import OpenDatabase
from tests.factories import LAKE
from tests.server.lake import BASE, ORDERS, Lake, a_lake, altered, snapshot_ids
from tests.server.service.test_quarantines import QUARANTINE, bad_rows, register

MOVED = TableName(("db",), "moved")
SETTINGS = {
    "firn.expire.max-age": "0 s",
    "firn.expire.min-snapshots": "1",
    "firn.rewrite.target-file-size": "1 MiB",
    # Settings that name columns of the table, or delete rows, are not those of its quarantine.
    "firn.rewrite.strategy": "sort",
    "firn.rewrite.sort-order": "id",
    "firn.ttl.field": "at",
    "firn.ttl.max-age": "1 d",
    "firn.tags.schedule": "0 * * * *",
}


@pytest.fixture
def lake(opened: OpenDatabase, tmp_path: Path) -> Lake:
    lake = a_lake(opened.database, tmp_path)
    lake.create_keyed(ORDERS, **SETTINGS)
    return lake


def quarantine(lake: Lake, batches: int = 3) -> None:
    """Bad records of some batches; the position of the last one is the number of batches."""
    writer = register(lake)
    assert writer is not None
    for number in range(1, batches + 1):
        bad_rows(lake, writer, "none" if number == 1 else f"{number - 1} orders:0:9", f"{number} orders:0:9")


def active_jobs(lake: Lake) -> dict[TableName, Job]:
    with lake.services.database.reading() as uow:
        jobs = uow.jobs.with_status([status for status in JobStatus if status.is_active])
        return {job.table: job for job in jobs}


def test_snapshots_of_a_quarantine_expire_and_its_position_stays(lake: Lake) -> None:
    quarantine(lake)
    lake.services.planner_loop.run_once()
    assert active_jobs(lake)[QUARANTINE].kind is JobKind.EXPIRE
    leased_job = lake.services.jobs.take(lake.optimizer(), [JobKind.EXPIRE])
    assert leased_job is not None
    task = lake.services.tasks.build(leased_job.job)
    assert isinstance(task, ExpireTask)
    first, second, head = snapshot_ids(lake.metadata(QUARANTINE))
    assert [(table.parts, table.snapshot_ids) for table in task.tables] == [
        ([*QUARANTINE.as_namespace], [first, second])
    ]

    lake.services.jobs.begin_commit(leased_job.lease)
    gone = {"action": "remove-snapshots", "snapshot-ids": task.tables[0].snapshot_ids}
    with pytest.raises(LeaseLost, match="not valid for"):
        lake.commit(altered(BASE, gone), lease=leased_job.lease)
    lake.commit(altered(QUARANTINE, gone), lease=leased_job.lease)
    assert snapshot_ids(lake.metadata(QUARANTINE)) == [head]
    assert lake.services.writers.get(LAKE, QUARANTINE, LOG_WRITER).position == "3 orders:0:9"
    services = lake.services
    assert list_position_problems(services.database, services.metadata, LAKE, limit=10, cursor=None).items == []
    newer = register(lake)
    assert newer is not None
    bad_rows(lake, newer, "3 orders:0:9", "4 orders:0:9")


def test_a_quarantine_has_the_settings_of_its_table_as_far_as_they_are_of_files(lake: Lake) -> None:
    quarantine(lake)
    with lake.services.database.reading() as uow:
        relation = find_planned_relation(uow, LAKE, QUARANTINE)
        policy = load_facts(uow, relation).policy
    assert relation.name == QUARANTINE
    assert policy["firn.expire.min-snapshots"] == 1
    for of_columns in ("firn.ttl.max-age", "firn.tags.schedule", "firn.rewrite.sort-order"):
        assert policy.is_default(of_columns)
    task = lake.services.tasks.build_unqueued_task(LAKE, QUARANTINE, JobKind.REWRITE, {}).task
    assert isinstance(task, RewriteTask)
    assert (task.parts, task.strategy, task.target_file_size) == ([*QUARANTINE.as_namespace], "binpack", 2**20)
    for kind in (JobKind.MERGE, JobKind.TTL, JobKind.REMOVE_ORPHANS):
        with pytest.raises(Invalid, match="is a quarantine: it takes expire, rewrite, rewrite-deletes"):
            lake.services.planner.run_now(LAKE, QUARANTINE, kind, {})


def test_what_stops_jobs_of_a_table_stops_those_of_its_quarantine(lake: Lake) -> None:
    quarantine(lake)
    until = lake.services.planner.outlook(LAKE, QUARANTINE).now + timedelta(days=1)
    lake.services.blockers.block(LAKE, ORDERS, reason="audit", until=until)
    lake.services.planner_loop.run_once()
    assert active_jobs(lake) == {}
    with pytest.raises(Conflict, match="audit"):
        lake.services.planner.run_now(LAKE, QUARANTINE, JobKind.REWRITE, {})
    assert lake.services.blockers.unblock(LAKE, QUARANTINE) == 1
    lake.services.planner.run_now(LAKE, QUARANTINE, JobKind.REWRITE, {})
    lake.services.blockers.block(LAKE, QUARANTINE, reason="audit", until=until)
    assert lake.services.jobs.take(lake.optimizer(), lake.kinds) is None  # withdrawn, as a job of the table would be


def test_jobs_of_a_quarantine_go_where_its_table_goes(lake: Lake) -> None:
    quarantine(lake)
    job = lake.services.planner.run_now(LAKE, QUARANTINE, JobKind.REWRITE, {})
    lake.services.keyed.rename(LAKE, ORDERS, MOVED)
    moved = TableName(("db", "moved"), "quarantine")
    assert active_jobs(lake)[moved].id == job.id
    leased_job = lake.services.jobs.take(lake.optimizer(), lake.kinds)
    assert leased_job is not None
    with pytest.raises(Conflict, match="a rewrite job is running"):
        lake.services.keyed.rename(LAKE, MOVED, ORDERS)
    lake.services.drop(LAKE, MOVED)
    assert active_jobs(lake) == {}
    with pytest.raises(LeaseLost):
        lake.services.jobs.begin_commit(leased_job.lease)


def test_the_page_of_a_quarantine_says_what_may_be_done_with_it(lake: Lake) -> None:
    quarantine(lake)
    answer = lake.client.get("/api/v1/catalogs/lake/tables/db.orders.quarantine").json()
    assert (answer["name"], answer["kind"], answer["snapshots"]) == ("quarantine", "plain", 3)
    assert {"expire", "rewrite", "rewrite-manifests"} <= {*answer["allowed_actions"]}
    assert answer["unavailable_actions"].keys() >= {"drop", "rollback"}
    lake.services.planner_loop.run_once()
    listed = lake.client.get("/api/v1/catalogs/lake/tables").json()["items"]
    assert [row["name"] for row in listed] == ["orders"]
