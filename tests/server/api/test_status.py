"""The overview of background work, lists of tables by how they stand, and their figures; on both databases."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from catalog.errors import NoSuchTable
from catalog.jobs.job import REQUESTED, JobKind, JobStatus
from catalog.names import TableName
from catalog.tables.table_status import TableStatus
from firn.protocol.leases import PROTOCOL
from tests.factories import LAKE, a_job
from tests.server.api.client import TABLES, Api, good
from tests.server.lake import PLAIN

SORTS = ("health", "size", "files", "pending", "last_commit")


def standing_tables(api: Api, *healths: int) -> list[str]:
    """Tables t0, t1, … that stand so; each is larger than the one before."""
    for number, health in enumerate(healths):
        api.lake.create(TableName(("db",), f"t{number}"))
        with api.lake.services.database.writing() as uow:
            relation = uow.relations.find(LAKE, TableName(("db",), f"t{number}"))
            assert relation is not None
            now = uow.now()
            counts: dict[str, Any] = dict.fromkeys(("bytes", "data_files", "pending_rows"), number // 2)
            when = now + timedelta(seconds=number // 2) if number > 1 else None
            table_status = TableStatus(relation_id=relation.id, catalog=LAKE, looked_at=now, health=health, **counts)
            uow.table_statuses.put(
                [TableStatus(**_fields(table_status) | {"last_commit_at": when, "reason": f"why {number}"})]
            )
    return [f"t{number}" for number in range(len(healths))]


def _fields(table_status: TableStatus) -> dict[str, Any]:
    return {name: getattr(table_status, name) for name in TableStatus.__slots__}


def page_of(api: Api, **params: Any) -> Any:
    return good(api.http.get(TABLES, params=params))


def listed(api: Api, **params: Any) -> list[str]:
    """All pages, one after another."""
    names: list[str] = []
    cursor = None
    while True:
        page = page_of(api, limit=2, **params, **({"cursor": cursor} if cursor else {}))
        names += [listed_table["name"] for listed_table in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            return names


@pytest.mark.parametrize("sort", SORTS)
def test_pages_in_every_order_hold_each_table_once_whatever_is_equal(api: Api, sort: str) -> None:
    names = standing_tables(api, 90, 90, 10, 10, 50, 50, 90)
    listing = listed(api, sort=sort)
    assert sorted(listing) == names
    values = {"t0": 90, "t1": 90, "t2": 10, "t3": 10, "t4": 50, "t5": 50, "t6": 90}
    keys = [values[name] if sort == "health" else -(int(name[1:]) // 2) for name in listing]
    assert keys == sorted(keys)


def test_tables_below_a_health_are_listed_by_name_or_worst_first(api: Api) -> None:
    standing_tables(api, 90, 10, 50, 30)
    assert listed(api, health_below=51) == ["t1", "t2", "t3"]
    assert listed(api, health_below=51, sort="health") == ["t1", "t3", "t2"]
    assert listed(api, health_below=51, sort="size", search="t3") == ["t3"]
    assert listed(api, sort="health", namespace="db", kind="keyed") == []


def test_a_row_says_how_its_table_stands(api: Api) -> None:
    api.lake.create()
    (row,) = page_of(api)["items"]
    assert (row["health"], row["reason"]) == (None, None)
    api.lake.services.planner_loop.run_once()
    (row,) = page_of(api)["items"]
    assert (row["health"], row["health_parts"], bool(row["reason"])) == (100, {}, True)


def test_a_dropped_table_is_on_no_list(api: Api) -> None:
    standing_tables(api, 10, 20)
    good(api.http.delete("/api/v1/catalogs/lake/tables/db.t0"))
    assert listed(api, sort="health") == ["t1"]
    assert [listed_table["table"] for listed_table in good(api.http.get("/api/v1/status"))["worst"]] == ["db.t1"]


@pytest.mark.parametrize(
    "params",
    [{"sort": "health", "cursor": "WyJ4IiwgIngiXQ"}, {"sort": "last_commit", "cursor": "WyIxIiwgIngiXQ"}],
    ids=["no number", "no moment"],
)
def test_a_cursor_of_another_list_is_refused(api: Api, params: dict[str, str]) -> None:
    answer = api.http.get(TABLES, params=params)
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, "invalid page cursor")


@pytest.mark.parametrize("params", [{"sort": "smell"}, {"health_below": "-1"}, {"health_below": "1000"}], ids=str)
def test_an_order_or_a_health_that_does_not_exist_is_refused(api: Api, params: dict[str, str]) -> None:
    assert 400 <= api.http.get(TABLES, params=params).status_code < 500


def assert_hours(hours: list[dict[str, Any]], now: datetime, ended: dict[datetime, tuple[int, int, int]]) -> None:
    """Whole hours in a row up to this one, each with what succeeded, failed and was freed in it."""
    begins = [datetime.fromisoformat(hour["begins"]) for hour in hours]
    first = (now - timedelta(hours=23)).replace(minute=0, second=0, microsecond=0)
    assert begins == [first + timedelta(hours=number) for number in range(24)]
    busy_hours = {begin: hour for begin, hour in zip(begins, hours, strict=True) if hour["succeeded"] or hour["failed"]}
    expected = {at.replace(minute=0, second=0, microsecond=0): counts for at, counts in ended.items()}
    assert {
        begin: (hour["succeeded"], hour["failed"], hour["bytes_freed"]) for begin, hour in busy_hours.items()
    } == expected


def test_the_overview_tells_what_waits_runs_and_was_done(api: Api) -> None:
    lake = api.lake
    lake.create()
    lake.create_keyed()
    good(api.http.post("/api/v1/groups", json={"name": "night"}))
    with lake.services.database.writing() as uow:
        now = uow.now()
        hour_ago, day_ago = now - timedelta(minutes=50), now - timedelta(hours=20)
        uow.jobs.add(a_job(group="night", created_at=hour_ago, deadline=hour_ago, kind=JobKind.REWRITE))
        uow.jobs.add(a_job(JobStatus.RUNNING))
        result = {"rewritten_bytes": 90, "packed_bytes": 10, "freed_bytes": 7}
        just_before = (now - timedelta(hours=5)).replace(minute=59, second=59, microsecond=900_000)
        for ended in (hour_ago, day_ago, just_before, now - timedelta(days=3)):
            uow.jobs.add(a_job(JobStatus.SUCCEEDED, ended_at=ended, result=result, kind=JobKind.EXPIRE))
        uow.jobs.add(a_job(JobStatus.FAILED, ended_at=hour_ago, result={"freed_bytes": "nonsense"}))
    overview = good(api.http.get("/api/v1/status"))
    (waiting,) = overview["queue"]
    assert (waiting["group"], waiting["kind"], waiting["jobs"]) == ("night", "rewrite", 1)
    assert 2_990 < waiting["oldest_seconds"] < 3_300
    groups = {group["name"]: group for group in overview["groups"]}
    assert {name: (group["running"], group["waiting"]) for name, group in groups.items()} == {
        "default": (1, 0),
        "night": (0, 1),
    }
    assert (overview["last_hour"]["jobs"], overview["last_hour"]["bytes_freed"]) == (2, 7)
    assert (overview["last_day"]["jobs"], overview["last_day"]["bytes_rewritten"]) == (4, 300)
    assert_hours(overview["hours"], now, {hour_ago: (1, 1, 7), day_ago: (1, 0, 7), just_before: (1, 0, 7)})
    assert [job["kind"] for job in overview["overdue"]] == ["rewrite"]
    assert overview["due_tables"] == 3  # a plain table, and the two stores of a keyed one


def test_slots_are_those_of_living_optimizers(api: Api) -> None:
    lake = api.lake
    lake.optimizer()
    assert good(api.http.get("/api/v1/status"))["groups"][0]["slots"] == 1
    with lake.services.database.writing() as uow:
        (optimizer,) = uow.optimizers.list()
        uow.optimizers.record_heartbeat(optimizer.id, uow.now() - timedelta(hours=1), {})
    assert good(api.http.get("/api/v1/status"))["groups"][0]["slots"] == 0


def test_the_queue_and_what_was_done_are_in_the_metrics(api: Api) -> None:
    with api.lake.services.database.writing() as uow:
        now = uow.now()
        uow.jobs.add(a_job(created_at=now - timedelta(minutes=10)))
        result = {"freed_bytes": 7}
        uow.jobs.add(a_job(JobStatus.SUCCEEDED, ended_at=now, result=result, kind=JobKind.EXPIRE))
    api.lake.create(PLAIN)
    text = api.http.get("/metrics").text
    (age,) = re.findall(r'^firn_queue_oldest_seconds\{group="default"\} (\S+)$', text, re.MULTILINE)
    assert 600 <= float(age) < 900
    assert 'firn_queue_jobs{group="default",kind="merge",priority="normal"} 1.0' in text
    assert 'firn_jobs_ended_last_hour{kind="expire",status="succeeded"} 1.0' in text
    assert 'firn_bytes_freed_last_hour{kind="expire",status="succeeded"} 7.0' in text
    assert "\nfirn_due_tables 1.0\n" in text


@pytest.mark.parametrize("state", ["scheduled for today", REQUESTED])
def test_what_a_schedule_wants_of_a_table_that_cannot_have_it_is_done_with_the_reason(api: Api, state: str) -> None:
    """Failed, it would be planned again every hour; whoever asked for it is told that it has failed."""
    api.lake.create(PLAIN, **{"firn.statistics.columns": "nowhere"})
    job = api.lake.services.planner.run_now(LAKE, PLAIN, JobKind.STATISTICS, {})
    with api.lake.services.database.writing() as uow:
        uow.jobs.put(replace(job, params={"state": state}))
    lease_request = {"optimizer_id": api.lake.optimizer(), "kinds": ["statistics"], "wait_seconds": 0}
    assert api.http.post("/api/v1/leases", json=lease_request).status_code == 204
    with api.lake.services.database.reading() as uow:
        job = uow.jobs.get(job.id)
    reason = "firn.statistics.columns: the table has no column nowhere"
    if state == REQUESTED:
        assert (job.status, job.error) == (JobStatus.FAILED, reason)
    else:
        assert (job.status, job.error, job.result) == (JobStatus.SUCCEEDED, None, {"refused": reason})


def test_a_job_whose_table_is_gone_has_failed_whoever_wanted_it(api: Api) -> None:
    api.lake.create(PLAIN)
    lease = api.lake.lease(JobKind.STATISTICS, PLAIN, committing=False)
    with api.lake.services.database.writing() as uow:
        uow.jobs.put(replace(uow.jobs.get(lease.job_id), params={"state": "scheduled for today"}))
    job = api.lake.services.jobs.refuse(lease, NoSuchTable("Table does not exist: db.plain"))
    assert (job.status, job.error) == (JobStatus.FAILED, "Table does not exist: db.plain")


def test_an_optimizer_may_be_larger_than_a_32_bit_number_says(api: Api) -> None:
    comes = {"host": "h", "pid": 1, "version": "0", "protocol": PROTOCOL}
    mine = api.http.post("/api/v1/optimizers", json=comes).json()["id"]
    memory = {"heap_used": 3 * 2**30, "heap_max": 48 * 2**30, "rss": 64 * 2**30}
    lease_request = {"optimizer_id": mine, "kinds": ["merge"], "wait_seconds": 0, "memory": memory}
    assert api.http.post("/api/v1/leases", json=lease_request).status_code == 204
    (shown,) = api.http.get("/api/v1/optimizers").json()
    assert shown["memory"] == memory
