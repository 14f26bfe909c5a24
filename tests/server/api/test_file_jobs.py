"""Jobs that change files, asked for by the management API."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from catalog.iceberg.json import Json
from catalog.jobs.job import Job, JobId, JobKind
from catalog.maintenance.rewrite import REWRITE
from catalog.names import TableName
from catalog.planning import Due
from tests.catalog.planning.tables import plain
from tests.factories import LAKE, NOW
from tests.server.api.client import Api, good
from tests.server.lake import ORDERS, PLAIN

STORES = [["db", "orders", "base"], ["db", "orders", "change"]]


def request_job(api: Api, table: TableName, kind: str, body: Any = None) -> tuple[Job, Json]:
    """The job that comes of it, and what its optimizer would be told."""
    answer = api.post(f"{table}/jobs", {"kind": kind, "options": body or {}})
    services = api.lake.services
    with services.database.reading() as uow:
        job = uow.jobs.get(JobId(UUID(answer["id"])))
    return job, services.tasks.build(job).model_dump(mode="json")


def test_a_rewrite_is_as_the_policy_says_and_takes_what_there_is(api: Api) -> None:
    api.lake.create(PLAIN, **{"firn.rewrite.strategy": "sort", "firn.rewrite.sort-order": "note, id"})
    job, task = request_job(api, PLAIN, "rewrite")
    assert (job.kind, task["strategy"], task["sort_order"]) == (JobKind.REWRITE, "sort", ["note", "id"])
    assert (task["min_files"], task["filter"], task["everything"]) == (2, None, False)
    assert (task["max_job_bytes"], task["max_delete_ratio"]) == (10 * 2**30, 0.2)


def test_what_is_asked_of_one_rewrite_wins_over_the_policy(api: Api) -> None:
    api.lake.create(PLAIN, **{"firn.rewrite.filter": "id > 1"})
    body = {"strategy": "zorder", "sort_order": ["id", "note"], "where": "note = 'x'", "everything": True}
    _, task = request_job(api, PLAIN, "rewrite", body)
    chosen = (task["strategy"], task["sort_order"], task["filter"], task["everything"])
    assert chosen == ("zorder", ["id", "note"], "note = 'x'", True)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"sort_order": ["id"]}, "the strategy does not sort"),
        ({"strategy": "binpack", "sort_order": ["id"]}, "the strategy does not sort"),
        ({"where": "  "}, "the condition is empty"),
    ],
)
def test_a_rewrite_that_makes_no_sense_is_refused(api: Api, body: Any, reason: str) -> None:
    api.lake.create(PLAIN)
    status, message, hint = api.refused("POST", "db.plain/jobs", {"kind": "rewrite", "options": body})
    assert status == 400
    assert reason in message
    assert hint


def test_keyed_tables_have_their_stores_packed(api: Api) -> None:
    api.lake.create_keyed(ORDERS)
    tasks = {}
    for kind in ("rewrite", "compact", "rewrite-deletes", "rewrite-manifests"):
        job, tasks[kind] = request_job(api, ORDERS, kind)
        good(api.http.post(f"/api/v1/jobs/{job.id}/cancel"))
    assert (tasks["rewrite"]["parts"], tasks["rewrite-deletes"]["parts"]) == (STORES[0], STORES[0])
    assert (tasks["compact"]["parts"], tasks["compact"]["pack_merged"]) == (STORES[1], False)
    assert (tasks["rewrite-manifests"]["tables"], tasks["rewrite-manifests"]["max_count"]) == (STORES, 1)
    assert (tasks["compact"]["min_files"], tasks["rewrite-deletes"]["min_files"]) == (2, 2)


def test_a_plain_table_has_no_change_store(api: Api) -> None:
    api.lake.create(PLAIN)
    status, message, _ = api.refused("POST", "db.plain/jobs", {"kind": "compact"})
    assert status == 400
    assert "not compact" in message
    assert request_job(api, PLAIN, "rewrite-manifests")[1]["tables"] == [["db", "plain"]]


def test_planned_jobs_wait_for_as_many_files_as_the_policy_says(api: Api) -> None:
    sequence = {"firn.sequence-field": "note", "firn.compact.min-files": "7", "firn.deletes.min-files": "8"}
    api.lake.create_keyed(ORDERS, **sequence, **{"firn.manifests.max-count": "9"})
    tasks = {}
    for kind in (JobKind.COMPACT, JobKind.REWRITE_DELETES, JobKind.REWRITE_MANIFESTS):
        lease = api.lake.lease(kind, committing=False)
        tasks[kind] = api.lake.services.tasks.build(api.lake.job(lease)).model_dump(mode="json")
        api.lake.services.jobs.cancel(lease.job_id)
    assert (tasks[JobKind.COMPACT]["min_files"], tasks[JobKind.COMPACT]["pack_merged"]) == (7, True)
    assert tasks[JobKind.REWRITE_DELETES]["min_files"] == 8
    assert tasks[JobKind.REWRITE_MANIFESTS]["max_count"] == 9


def test_a_rewrite_planned_because_of_deletes_takes_all_files_that_have_some(api: Api) -> None:
    api.lake.create()
    tasks = api.lake.services.tasks
    assert REWRITE.trigger is not None
    planned = REWRITE.trigger(plain(data_files=9, delete_files=10, equality_deletes=10, records=10**6), (), NOW)
    assert isinstance(planned, Due)
    assert (
        tasks.build_unqueued_task(LAKE, PLAIN, JobKind.REWRITE, planned.params).task.model_dump()["apply_deletes"]
        is True
    )
    assert tasks.build_unqueued_task(LAKE, PLAIN, JobKind.REWRITE, {}).task.model_dump()["apply_deletes"] is False
