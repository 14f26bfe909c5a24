"""A commit whose answer was lost is sent again after somebody has renamed its table: no answer may cost files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from catalog.history.commit import Outcome, TableCommit
from catalog.jobs.job import JobKind
from catalog.names import TableName
from tests.factories import LAKE
from tests.server.iceberg.mutations import DB
from tests.server.lake import (
    BASE,
    CHANGE,
    COLUMNS,
    ORDERS,
    PLAIN,
    Lake,
    altered,
    appended,
    merged,
    set_property,
    snapshot_ids,
)
from tests.server.service.images.keyed_lake import KeyedLake

MOVED = TableName(("db",), "moved")
STORE_PATH = "/iceberg/v1/lake/namespaces/db%1Forders/tables/change"
UNKNOWN = (500, "CommitStateUnknownException")
MISSING = (404, "NoSuchTableException")


@pytest.fixture
def orders(lake: Lake) -> Iterator[KeyedLake]:
    lake.create_keyed()
    lake.commit(altered(BASE, set_property("firn.read.max-wait", "60 s")))
    yield KeyedLake(lake)
    lake.services.images.stop()
    lake.services.image_writes.stop()


def send(lake: Lake, path: str, change: TableCommit, key: str | None = None) -> httpx.Response:
    body = {"requirements": list(change.requirements), "updates": list(change.updates)}
    return lake.client.post(path, json=body, headers={} if key is None else {"Idempotency-Key": key})


def outcome(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, "" if answer.is_success else answer.json()["error"]["type"]


def rename(lake: Lake, name: TableName) -> None:
    (lake.services.tables if name == PLAIN else lake.services.keyed).rename(LAKE, name, MOVED)


@pytest.mark.parametrize("key", [None, "0b7e9a52-5c58-4a4e-9d0c-6d1f4a3c2b11"], ids=["no key", "key"])
@pytest.mark.parametrize("is_reused", [False, True])
def test_a_repeated_commit_finds_its_renamed_table(lake: Lake, key: str | None, *, is_reused: bool) -> None:
    """It was told *no such table*: the client then deletes the files of the renamed table."""
    lake.create()
    change = appended(PLAIN, lake.metadata(PLAIN))
    path = f"{DB}/tables/plain"
    assert outcome(send(lake, path, change, key)) == (200, "")
    never = appended(PLAIN, lake.metadata(PLAIN))
    rename(lake, PLAIN)
    if is_reused:
        lake.create()
    again = send(lake, path, change, key)
    assert outcome(again) == (200, "")
    assert again.json()["metadata"]["table-uuid"] == lake.metadata(MOVED)["table-uuid"]
    assert len(snapshot_ids(lake.metadata(MOVED))) == 1
    assert outcome(send(lake, path, never)) == ((409, "CommitFailedException") if is_reused else MISSING)


@pytest.mark.parametrize("key", [None, "0b7e9a52-5c58-4a4e-9d0c-6d1f4a3c2b11"], ids=["no key", "key"])
@pytest.mark.parametrize("is_reused", [False, True])
def test_a_repeated_statement_finds_its_renamed_keyed_table(
    orders: KeyedLake, key: str | None, *, is_reused: bool
) -> None:
    lake, path = orders.lake, f"{DB}/tables/orders"
    sent, never = orders.plan_append((1, "a")).changes[0], orders.plan_append((2, "b")).changes[0]
    first = send(lake, path, sent, key)
    assert outcome(first) == (200, "")
    rename(lake, ORDERS)
    if is_reused:
        lake.create_keyed()
    again = send(lake, path, sent, key)
    assert outcome(again) == (200, "")
    assert again.json()["metadata"]["table-uuid"] == first.json()["metadata"]["table-uuid"]
    assert orders.read(lake.services.images.load(LAKE, MOVED)) == {1: "a"}
    assert outcome(send(lake, path, never)) == ((409, "CommitFailedException") if is_reused else MISSING)
    lake.services.drop(LAKE, MOVED)
    assert outcome(send(lake, path, sent, key)) == UNKNOWN


def test_a_repeated_append_to_a_store_finds_it_under_its_new_name(lake: Lake) -> None:
    lake.create_keyed()
    change = appended(CHANGE, lake.metadata(CHANGE))
    lake.commit(change)
    rename(lake, ORDERS)
    again = send(lake, STORE_PATH, change)
    assert outcome(again) == (200, "")
    assert again.json()["metadata"]["location"].endswith("/change")


def test_a_transaction_on_two_tables_finds_the_renamed_one(lake: Lake) -> None:
    other = TableName(("db",), "other")
    for name in (PLAIN, other):
        lake.create(name)
    changes = [appended(name, lake.metadata(name)) for name in (PLAIN, other)]
    lake.commit(*changes)
    rename(lake, PLAIN)
    assert [table.name for table in lake.commit(*changes)] == [MOVED, other]
    assert len(snapshot_ids(lake.metadata(other))) == 1


def test_a_repeated_statement_in_a_transaction_finds_its_renamed_table(orders: KeyedLake) -> None:
    lake, sent = orders.lake, orders.plan_append((1, "a"))
    orders.send(sent)
    rename(lake, ORDERS)
    lake.create_keyed()
    change = sent.changes[0]
    identifier = {"namespace": ["db"], "name": "orders"}
    body = {"identifier": identifier, "requirements": list(change.requirements), "updates": list(change.updates)}
    answer = lake.client.post("/iceberg/v1/lake/transactions/commit", json={"table-changes": [body]})
    assert answer.status_code == 204, answer.text


def test_a_repeated_creation_with_rows_finds_its_renamed_table(lake: Lake) -> None:
    staged = lake.client.post(f"{DB}/tables", json={"name": "plain", "schema": COLUMNS, "stage-create": True}).json()
    metadata = staged["metadata"]
    updates: list[Any] = [
        {"action": "assign-uuid", "uuid": metadata["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": metadata["schemas"][0]},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": metadata["partition-specs"][0]},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": metadata["sort-orders"][0]},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": metadata["location"]},
        *appended(PLAIN, metadata).updates,
    ]
    change = TableCommit(name=PLAIN, requirements=[{"type": "assert-create"}], updates=updates)
    path = f"{DB}/tables/plain"
    first = send(lake, path, change)
    assert outcome(first) == (200, ""), first.text
    rename(lake, PLAIN)
    again = send(lake, path, change)
    assert outcome(again) == (200, ""), again.text
    assert again.json()["metadata-location"] == first.json()["metadata-location"]


def test_a_merge_that_comes_again_after_its_job_and_a_rename_keeps_its_files(lake: Lake) -> None:
    lake.create_keyed()
    lake.append(CHANGE)
    lease, change = lake.lease(JobKind.MERGE), merged(lake)
    lake.commit(change, lease=lease)
    lake.services.jobs.report(lease, Outcome.COMMITTED, error=None, result={})
    rename(lake, ORDERS)
    (committed,) = lake.commit(change, lease=lease)
    assert str(committed.name) == "db.moved.base"


FORGET: dict[str, Callable[[Lake], object]] = {
    "dropped": lambda lake: lake.services.tables.drop(LAKE, MOVED),
    "unregistered": lambda lake: lake.services.tables.unregister(LAKE, MOVED),
}


@pytest.mark.parametrize("forget", FORGET.values(), ids=FORGET)
def test_a_repeated_commit_is_unknown_when_its_renamed_table_is_gone(
    lake: Lake, forget: Callable[[Lake], object]
) -> None:
    lake.create()
    change = appended(PLAIN, lake.metadata(PLAIN))
    lake.commit(change)
    rename(lake, PLAIN)
    forget(lake)
    assert outcome(send(lake, f"{DB}/tables/plain", change)) == UNKNOWN
