"""Repeated keys: counted when somebody asks, shown with the table, made one row each by one commit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from catalog.errors import CommitRefused
from catalog.history.commit import Outcome, TableCommit
from catalog.jobs.job import JobKind
from catalog.jobs.leases import Lease
from tests.server.api.client import Api
from tests.server.lake import BASE, CHANGE, PLAIN, Lake, appended, snapshot_of

COUNT = {"kind": "keys"}
RESOLVE = {"kind": "keys", "options": {"resolve": True}}
FOUND = {
    "keys": 1,
    "surplus_rows": 2,
    "sample": [{"key": {"id": "7"}, "rows": 3, "files": ["file:/a.parquet"], "more_files": 1}],
}


def keeping(column: str) -> dict[str, Any]:
    """The request that keeps the row with the highest value of a column."""
    return {"kind": "keys", "options": {"resolve": True, "keep_highest": column}}


@pytest.fixture
def orders(api: Api) -> Api:
    api.lake.create_keyed()
    return api


def lease(lake: Lake, *, committing: bool = False) -> Lease:
    """The job that somebody has asked for, leased."""
    leased_job = lake.services.jobs.take(lake.optimizer(), [JobKind.KEYS])
    assert leased_job is not None
    if committing:
        lake.services.jobs.begin_commit(leased_job.lease)
    return leased_job.lease


def counted(api: Api, counts: dict[str, Any]) -> str:
    """Count keys now, and find this; the snapshot that was counted."""
    api.post("db.orders/jobs", COUNT)
    mine = lease(api.lake)
    snapshot_id = str(api.lake.services.tasks.build(api.lake.job(mine)).model_dump()["snapshot_id"])
    api.lake.services.jobs.report(mine, None, error=None, result={"snapshot_id": snapshot_id, **counts})
    return snapshot_id


def resolved(lake: Lake, base: int | None = None, **more: str) -> TableCommit:
    """The commit that takes rows away, as the optimizer signs it."""
    before = lake.metadata(BASE)
    summary = {"firn.resolved-base": str(base or before["current-snapshot-id"]), **more}
    return appended(BASE, before, operation="delete", rows=0, summary=summary)


def test_a_count_is_shown_with_the_table_until_base_has_moved_on(orders: Api) -> None:
    orders.lake.append(BASE)
    assert orders.get("db.orders")["keys"] is None
    first = counted(orders, FOUND)
    shown = orders.get("db.orders")["keys"]
    assert (shown["snapshot_id"], shown["moved"], shown["removed_rows"]) == (first, False, 0)
    assert {name: shown[name] for name in FOUND} == FOUND
    orders.lake.append(CHANGE)
    assert orders.get("db.orders")["keys"]["moved"] is False
    orders.lake.append(BASE)
    assert orders.get("db.orders")["keys"]["moved"] is True
    second = counted(orders, {"keys": 0, "surplus_rows": 0, "sample": []})
    shown = orders.get("db.orders")["keys"]
    assert (shown["snapshot_id"], shown["moved"], shown["keys"], shown["sample"]) == (second, False, 0, [])


def test_a_count_that_failed_leaves_what_was_known(orders: Api) -> None:
    orders.lake.append(BASE)
    counted(orders, FOUND)
    orders.post("db.orders/jobs", COUNT)
    orders.lake.services.jobs.report(lease(orders.lake), Outcome.REFUSED, error="a file is gone", result={})
    assert orders.get("db.orders")["keys"]["keys"] == 1


def test_an_optimizer_may_tell_anything(orders: Api) -> None:
    orders.lake.append(BASE)
    counted(orders, {"keys": "many", "surplus_rows": True, "sample": [{"key": 7}, {"key": {"id": None}, "files": [1]}]})
    shown = orders.get("db.orders")["keys"]
    sample = [{"key": {"id": "None"}, "rows": 0, "files": ["1"], "more_files": 0}]
    assert (shown["keys"], shown["surplus_rows"], shown["sample"]) == (0, 0, sample)


def test_a_dry_run_counts_nothing_and_says_what_would_be_read(orders: Api) -> None:
    orders.lake.append(BASE, rows=10)
    assert orders.post("db.orders/jobs", COUNT, dry_run=True)["action"] == "count the keys of 10 rows"
    would = orders.post("db.orders/jobs", RESOLVE, dry_run=True)
    assert (would["action"].endswith("keep one row of each that occurs more than once"), would["exact"]) == (
        True,
        False,
    )


@pytest.mark.parametrize(
    ("table", "options", "reason"),
    [
        ("db.plain", {}, "is a plain table"),
        ("db.orders", {"resolve": True, "keep_highest": "nowhere"}, "no column nowhere"),
        ("db.orders", {"keep_highest": "note"}, "resolve is not set"),
    ],
)
def test_what_would_only_fail_is_refused(orders: Api, table: str, options: Any, reason: str) -> None:
    orders.lake.create(PLAIN)
    status, message, _ = orders.refused("POST", f"{table}/jobs", {"kind": "keys", "options": options})
    assert (status, reason in message) == (400, True)


def test_rows_leave_base_in_one_commit_whatever_is_pending(orders: Api) -> None:
    """A change replaces its key however many rows it has, so the order of this and a merge makes no difference."""
    lake = orders.lake
    lake.append(BASE)
    lake.append(CHANGE, rows=3)
    orders.post("db.orders/jobs", keeping("note"))
    mine = lease(lake, committing=True)
    change = resolved(lake)
    lake.commit(change, lease=mine)
    assert (lake.keyed().pending_rows, lake.keyed().watermark) == (3, 0)
    lake.services.jobs.report(mine, Outcome.COMMITTED, error=None, result=FOUND | {"removed_rows": 2})
    shown = orders.get("db.orders")["keys"]
    assert (shown["keys"], shown["removed_rows"], shown["moved"]) == (0, 2, False)
    assert shown["snapshot_id"] == str(snapshot_of(change))


def test_a_job_that_died_after_its_commit_has_made_keys_unique(orders: Api) -> None:
    lake = orders.lake
    lake.append(BASE)
    orders.post("db.orders/jobs", RESOLVE)
    mine = lease(lake, committing=True)
    change = resolved(lake)
    lake.commit(change, lease=mine)
    with lake.services.database.writing() as uow:
        uow.jobs.put(replace(uow.jobs.get(mine.job_id), lease_until=uow.now()))
    lake.services.jobs.reap()
    shown = orders.get("db.orders")["keys"]
    assert (shown["keys"], shown["snapshot_id"], shown["moved"]) == (0, str(snapshot_of(change)), False)


def test_a_base_that_has_moved_since_its_keys_were_counted_refuses_the_commit(orders: Api) -> None:
    """The row that was to stay may be gone, or another one may have come."""
    lake = orders.lake
    first = lake.append(BASE)
    orders.post("db.orders/jobs", RESOLVE)
    mine = lease(lake, committing=True)
    lake.append(BASE)
    for signed in (resolved(lake, first), resolved(lake, 1)):
        with pytest.raises(CommitRefused, match="has changed since its keys were counted"):
            lake.commit(signed, lease=mine)


def test_only_such_a_job_removes_rows_while_changes_are_pending(orders: Api) -> None:
    orders.lake.append(BASE)
    orders.lake.append(CHANGE)
    with pytest.raises(CommitRefused, match="merge first"):
        orders.lake.commit(resolved(orders.lake))


def test_a_job_that_counts_brings_no_row(orders: Api) -> None:
    lake = orders.lake
    head = lake.append(BASE)
    orders.post("db.orders/jobs", COUNT)
    mine = lease(lake, committing=True)
    signed = {"firn.resolved-base": str(head)}
    with pytest.raises(CommitRefused, match="does not append"):
        lake.commit(appended(BASE, lake.metadata(BASE), summary=signed), lease=mine)
