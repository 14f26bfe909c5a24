"""The commit path on the stores of a keyed table: watermark, pending changes, versions, schemas, leases."""

from __future__ import annotations

import pytest

from catalog.errors import CommitRefused, DuplicateBatch, LeaseLost, NoSuchTable
from catalog.iceberg.json import Json
from catalog.jobs.job import JobKind
from catalog.names import TableName
from tests.factories import LAKE
from tests.server.lake import (
    BASE,
    CHANGE,
    ORDERS,
    PLAIN,
    Lake,
    altered,
    appended,
    merged,
    set_property,
    snapshot_ids,
    snapshot_of,
    void,
)


@pytest.fixture
def orders(lake: Lake) -> Lake:
    lake.create_keyed()
    return lake


def watermarks(lake: Lake) -> list[str | None]:
    return [snapshot["summary"].get("firn.merged-through") for snapshot in lake.metadata(BASE)["snapshots"]]


def counted(lake: Lake) -> tuple[int, int, int]:
    """Watermark, pending commits, pending rows."""
    keyed = lake.keyed()
    return keyed.watermark, keyed.pending_commits, keyed.pending_rows


def test_every_base_snapshot_is_stamped_and_changes_are_counted(orders: Lake) -> None:
    orders.append(BASE)
    orders.append(CHANGE, rows=3)
    orders.append(CHANGE, rows=4)
    assert counted(orders) == (0, 2, 7)
    orders.commit(merged(orders), lease=orders.lease(JobKind.MERGE))
    assert counted(orders) == (2, 0, 0)
    orders.append(CHANGE, rows=5)
    orders.append(BASE)
    assert counted(orders) == (2, 1, 5)
    assert watermarks(orders) == ["0", "2", "2"]


def test_each_commit_offers_readers_a_new_pair_of_heads(orders: Lake) -> None:
    change = orders.append(CHANGE)
    base = orders.append(BASE)
    with orders.services.database.reading() as uow:
        versions = uow.keyed.versions(orders.keyed().relation_id, limit=9)
    assert [(version.base_snapshot_id, version.change_snapshot_id) for version in versions] == [
        (base, change),
        (None, change),
    ]


def test_a_change_appended_while_a_merge_commits_stays_pending(orders: Lake) -> None:
    orders.append(CHANGE, rows=3)
    lease = orders.lease(JobKind.MERGE)
    merge = merged(orders)
    orders.database.meanwhile.append(lambda: void(orders.elsewhere.append(CHANGE, rows=4)))
    orders.commit(merge, lease=lease)
    assert counted(orders) == (1, 1, 4)
    assert snapshot_ids(orders.metadata(BASE)) == [snapshot_of(merge)]


def test_a_merge_over_a_base_that_has_moved_is_refused(orders: Lake) -> None:
    """Whole-table validation: a key that arrived elsewhere meanwhile would be there twice."""
    orders.append(CHANGE)
    lease = orders.lease(JobKind.MERGE)
    merge = merged(orders)
    orders.append(BASE)
    files = orders.metadata_files()
    with pytest.raises(CommitRefused, match="not the head"):
        orders.commit(merge, lease=lease)
    assert orders.metadata_files() == files


@pytest.mark.parametrize(
    ("summary", "reason"),
    [
        ({"firn.merged-from": "7"}, "the merge began at watermark 7"),
        ({"firn.merged-through": "9"}, "not the sequence number"),
        ({"firn.merged-through": "x"}, "is not a sequence number"),
        ({"firn.merged-change": "42"}, "not the sequence number"),
        ({"firn.merged-base": "42"}, "has changed"),
    ],
)
def test_a_merge_that_says_something_untrue_is_refused(orders: Lake, summary: dict[str, str], reason: str) -> None:
    orders.append(CHANGE)
    with pytest.raises(CommitRefused, match=reason):
        orders.commit(merged(orders, **summary), lease=orders.lease(JobKind.MERGE))
    assert counted(orders) == (0, 1, 10)


def test_the_watermark_moves_under_a_merges_lease_only(orders: Lake) -> None:
    orders.append(CHANGE)
    with pytest.raises(CommitRefused, match="only a merge job"):
        orders.commit(merged(orders))
    with pytest.raises(CommitRefused, match="a rewrite job does not overwrite"):
        orders.commit(merged(orders), lease=orders.lease(JobKind.REWRITE))


def test_rows_are_not_removed_from_base_while_changes_are_pending(orders: Lake) -> None:
    orders.append(BASE)
    orders.append(CHANGE)
    with pytest.raises(CommitRefused, match="merge first"):
        orders.append(BASE, operation="overwrite")
    orders.commit(merged(orders), lease=orders.lease(JobKind.MERGE))
    orders.append(BASE, operation="overwrite")


def test_a_batch_of_changes_is_taken_once(orders: Lake) -> None:
    signed = {"firn.writer-id": "w", "firn.batch-id": "1"}
    orders.append(CHANGE, summary=signed)
    with pytest.raises(DuplicateBatch):
        orders.append(CHANGE, summary=signed)
    assert counted(orders) == (0, 1, 10)


@pytest.mark.parametrize("store", [BASE, CHANGE])
@pytest.mark.parametrize("key", ["gc.enabled", "firn.primary-key", "firn.key.scope"])
def test_what_the_stores_stand_on_cannot_be_changed(orders: Lake, store: TableName, key: str) -> None:
    for update in (set_property(key, "true"), {"action": "remove-properties", "removals": [key]}):
        with pytest.raises(CommitRefused, match="fixed"):
            orders.commit(altered(store, update))
    assert orders.metadata(store)["properties"]["gc.enabled"] == "false"


def schema_update(schema: Json, *more: Json) -> list[Json]:
    fresh = {key: value for key, value in schema.items() if key != "schema-id"}
    fresh["fields"] = [*schema["fields"], *more]
    return [{"action": "add-schema", "schema": fresh}, {"action": "set-current-schema", "schema-id": -1}]


@pytest.mark.parametrize("store", [BASE, CHANGE], ids=str)
def test_a_column_added_to_either_store_is_added_to_both_under_one_id(orders: Lake, store: TableName) -> None:
    schema = current(orders.metadata(store))
    last = orders.metadata(store)["last-column-id"]
    orders.commit(
        altered(store, *schema_update(schema, {"id": last + 1, "name": "more", "type": "int", "required": False}))
    )
    base, change = current(orders.metadata(BASE)), current(orders.metadata(CHANGE))
    ids = [{field["name"]: field["id"] for field in metadata["fields"]} for metadata in (base, change)]
    assert ids[0] == {"id": 1, "note": 2, "more": 3}
    assert {name: ids[1][name] for name in ids[0]} == ids[0]
    assert {"_op", "_source"} == ids[1].keys() - ids[0].keys()


def current(metadata: Json) -> Json:
    schema: Json = next(s for s in metadata["schemas"] if s["schema-id"] == metadata["current-schema-id"])
    return schema


def test_a_key_column_cannot_be_dropped(orders: Lake) -> None:
    schema = current(orders.metadata(BASE))
    dropped = {**schema, "fields": [field for field in schema["fields"] if field["name"] != "id"]}
    files = orders.metadata_files()
    with pytest.raises(CommitRefused, match="primary key"):
        orders.commit(altered(BASE, *schema_update(dropped)))
    assert orders.metadata_files() == files


# --- leases ----------------------------------------------------------------------------------------------------------


def test_a_repeated_commit_of_an_ended_lease_is_answered(orders: Lake) -> None:
    """A 403 would make Spark delete files that the table refers to."""
    orders.append(CHANGE)
    lease, merge = orders.lease(JobKind.MERGE), merged(orders)
    orders.commit(merge, lease=lease)
    orders.services.jobs.report(lease, None, error=None, result={})
    orders.append(CHANGE)
    orders.commit(merge, lease=lease)
    assert snapshot_ids(orders.metadata(BASE)) == [snapshot_of(merge)]


def test_a_commit_of_an_ended_lease_is_refused(orders: Lake) -> None:
    orders.append(CHANGE)
    lease = orders.lease(JobKind.MERGE)
    orders.services.jobs.cancel(lease.job_id)
    files = orders.metadata_files()
    with pytest.raises(LeaseLost, match="canceled"):
        orders.commit(merged(orders), lease=lease)
    assert orders.metadata_files() == files


def test_a_lease_that_ends_while_the_commit_is_judged_is_refused_in_its_transaction(orders: Lake) -> None:
    orders.append(CHANGE)
    lease, files = orders.lease(JobKind.MERGE), orders.metadata_files()
    merge = merged(orders)
    orders.database.meanwhile.append(lambda: void(orders.services.jobs.cancel(lease.job_id)))
    with pytest.raises(LeaseLost):
        orders.commit(merge, lease=lease)
    assert (orders.metadata_files(), counted(orders)) == (files, (0, 1, 10))


def test_a_job_says_that_it_commits_before_it_does(orders: Lake) -> None:
    orders.append(CHANGE)
    lease = orders.lease(JobKind.MERGE, committing=False)
    with pytest.raises(LeaseLost, match="has not announced its commit"):
        orders.commit(merged(orders), lease=lease)


def test_a_lease_commits_once_to_each_store(orders: Lake) -> None:
    orders.append(CHANGE)
    lease = orders.lease(JobKind.MERGE)
    orders.commit(merged(orders), lease=lease)
    with pytest.raises(LeaseLost, match="already: snapshot"):
        orders.commit(merged(orders), lease=lease)
    clean = appended(CHANGE, orders.metadata(CHANGE), rows=0, operation="delete", summary={"total-records": "0"})
    orders.commit(clean, lease=lease)
    assert orders.job(lease).committed_by == lease.token


def test_a_commit_without_a_snapshot_is_known_by_its_lease_and_its_content(orders: Lake) -> None:
    """The same request is answered; another one under the same lease must not be taken for it."""
    old = [orders.append(BASE) for _ in range(3)][:2]
    lease = orders.lease(JobKind.EXPIRE)
    first, other = (altered(BASE, {"action": "remove-snapshots", "snapshot-ids": [snapshot_id]}) for snapshot_id in old)
    orders.commit(first, lease=lease)
    orders.commit(first, lease=lease)
    with pytest.raises(LeaseLost):
        orders.commit(other, lease=lease)
    assert old[0] not in snapshot_ids(orders.metadata(BASE))
    assert old[1] in snapshot_ids(orders.metadata(BASE))


def test_snapshots_of_a_store_are_expired_by_a_job_only(orders: Lake) -> None:
    old = orders.append(BASE)
    orders.append(BASE)
    with pytest.raises(CommitRefused, match="only Firn expires snapshots"):
        orders.commit(altered(BASE, {"action": "remove-snapshots", "snapshot-ids": [old]}))


def test_a_lease_is_good_for_its_own_table_only(lake: Lake) -> None:
    lake.create_keyed()
    lake.create()
    lake.append(CHANGE)
    lease = lake.lease(JobKind.MERGE)
    plain = lake.metadata(PLAIN)
    with pytest.raises(LeaseLost, match="not valid for"):
        lake.commit(appended(PLAIN, plain), lease=lease)


def test_a_keyed_table_is_dropped_whole(orders: Lake) -> None:
    orders.services.keyed.drop(LAKE, ORDERS)
    with orders.services.database.reading() as uow:
        assert [uow.relations.find(LAKE, name) for name in (ORDERS, BASE, CHANGE)] == [None] * 3


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (PLAIN, "keyed table db.plain does not exist"),
        (TableName(("db",), "nothing"), "keyed table db.nothing does not exist"),
        (CHANGE, "db.orders.change is a store of the keyed table db.orders"),
    ],
)
def test_what_is_no_keyed_table_is_not_found_as_one(orders: Lake, name: TableName, reason: str) -> None:
    orders.create(PLAIN)
    with pytest.raises(NoSuchTable, match=reason):
        orders.services.keyed.pin(LAKE, name)
