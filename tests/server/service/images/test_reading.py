"""A keyed table is read as an ordinary table: what a reader sees, and when (docs/protocols.md#images)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from catalog.errors import Invalid, NoSuchTable
from catalog.iceberg.json import Json
from catalog.keyed.image import IMAGE_SNAPSHOT
from catalog.names import TableName
from tests.databases import ON_SQLITE
from tests.factories import LAKE
from tests.server.clocks import HOUR, Clock
from tests.server.lake import BASE, ORDERS, PLAIN, altered, set_property
from tests.server.service.images.keyed_lake import KeyedLake

pytestmark = ON_SQLITE


def test_an_empty_table_has_no_snapshot(orders: KeyedLake) -> None:
    assert orders.read() == {}
    assert orders.served()["snapshots"] == []


def test_without_changes_it_is_base(orders: KeyedLake) -> None:
    orders.insert((1, "a"), (2, "b"))
    assert orders.read() == {1: "a", 2: "b"}
    assert not [name for name in orders.files() if name.endswith(".parquet")]


def test_changes_are_merged(orders: KeyedLake) -> None:
    orders.insert((1, "a"), (2, "b"), (3, "c"))
    orders.upsert((2, "B"), (4, "D"))
    orders.delete(3)
    assert orders.read() == {1: "a", 2: "B", 4: "D"}


def test_a_reader_sees_every_commit_before_its_request(orders: KeyedLake) -> None:
    for key in range(6):
        orders.upsert((key, f"n{key}"))
        assert orders.read() == {done: f"n{done}" for done in range(key + 1)}


def test_the_same_pair_is_built_once(orders: KeyedLake) -> None:
    orders.upsert((1, "a"))
    first, again = orders.load(), orders.load()
    assert first.metadata_location == again.metadata_location
    assert len(orders.builds()) == 1


def test_it_has_an_identity_of_its_own_and_the_columns_of_base(orders: KeyedLake) -> None:
    orders.insert((1, "a"))
    served, base = orders.served(), orders.lake.metadata(BASE)
    with orders.lake.services.database.reading() as uow:
        relation = uow.relations.find(LAKE, ORDERS)
    assert relation is not None
    assert served["table-uuid"] == str(relation.id) != base["table-uuid"]
    assert served["location"] == relation.location
    assert served["format-version"] == 2 < base["format-version"]
    assert [f["name"] for f in served["schemas"][-1]["fields"]] == ["id", "note"]


def test_other_columns_make_another_image(orders: KeyedLake) -> None:
    orders.upsert((1, "a"))
    before = orders.load()
    orders.lake.commit(altered(BASE, set_property("comment", "new")))
    after = orders.load()
    assert before.metadata_location != after.metadata_location
    assert orders.served()["properties"]["comment"] == "new"


def test_the_format_version_is_a_policy_and_the_table_says_why_it_is_3(orders: KeyedLake) -> None:
    def explain() -> str | None:
        reason: str | None = orders.lake.client.get("/api/v1/catalogs/lake/tables/db.orders").json()["read_in_v3"]
        return reason

    orders.insert((1, "a"))
    orders.upsert((1, "b"))
    assert explain() is None
    orders.lake.commit(altered(BASE, set_property("firn.read.format-version", "3")))
    assert (orders.served()["format-version"], explain()) == (3, "firn.read.format-version is 3")
    assert orders.read() == {1: "b"}


def test_earlier_images_are_listed_for_time_travel(orders: KeyedLake) -> None:
    states: list[tuple[int, dict[int, str | None]]] = []
    for key in range(12):
        orders.upsert((key, "x"))
        states.append((orders.served()["current-snapshot-id"], orders.read()))
    served = orders.served()
    listed = [snapshot["snapshot-id"] for snapshot in served["snapshots"]]
    assert listed == [snapshot_id for snapshot_id, _ in states[-10:]]
    assert _parents(served) == [None, *listed[:-1]]
    for snapshot_id, rows in states[-10:]:
        assert orders.read(snapshot_id=snapshot_id) == rows


def test_images_of_a_clock_that_was_set_back_are_listed_and_come_first(orders: KeyedLake, clock: Clock) -> None:
    shown = []
    for key, wrong in enumerate((timedelta(), -HOUR, -HOUR, -2 * HOUR)):
        clock.wrong = wrong
        orders.upsert((key, "a"))
        served = orders.served()
        shown.append(served["current-snapshot-id"])
        assert [snapshot["snapshot-id"] for snapshot in served["snapshots"]] == shown
        assert orders.builds()[0].snapshot_id == shown[-1]


def test_new_changes_add_layers_until_there_are_four(orders: KeyedLake) -> None:
    orders.insert((0, "base"))
    layers = []
    for key in range(1, 7):
        orders.upsert((0, f"v{key}"), (key, "x"))
        assert orders.read()[0] == f"v{key}"
        layers.append(len(orders.builds()[0].layers))
    assert layers == [1, 2, 3, 4, 1, 2]


def test_an_incremental_scan_that_the_server_plans_is_refused(orders: KeyedLake) -> None:
    """Engines that plan it themselves find no appends, and so no rows."""
    scans, snapshot_ids = orders.lake.services.scans, []
    for key in range(2):
        orders.upsert((key, "a"))
        snapshot_ids.append(orders.served()["current-snapshot-id"])
    between = {"start-snapshot-id": snapshot_ids[0], "end-snapshot-id": snapshot_ids[1]}
    with pytest.raises(Invalid, match=r"db\.orders is a keyed table"):
        scans.plan(LAKE, ORDERS, between)
    assert len(scans.plan(LAKE, ORDERS, {"snapshot-id": snapshot_ids[1]}).files) == 2


@pytest.mark.parametrize("name", [PLAIN, BASE])
def test_only_keyed_tables_have_images(orders: KeyedLake, name: object) -> None:
    with pytest.raises(NoSuchTable):
        orders.lake.services.images.load(LAKE, name)  # type: ignore[arg-type]


def _parents(metadata: Json) -> list[int | None]:
    return [snapshot.get("parent-snapshot-id") for snapshot in metadata["snapshots"]]


def test_a_pinned_image_stays_as_it_is(orders: KeyedLake) -> None:
    orders.upsert((1, "a"))
    snapshot = orders.served()["properties"][IMAGE_SNAPSHOT]
    pinned = TableName(BASE.namespace, f"merged_at_{snapshot}")
    orders.upsert((1, "b"))
    assert orders.read() == {1: "b"}
    assert orders.read(orders.lake.services.images.load_pinned(LAKE, pinned)) == {1: "a"}
    path = f"/iceberg/v1/lake/namespaces/db%1Forders/tables/{pinned.name}"
    assert orders.lake.client.get(path).json()["metadata"]["current-snapshot-id"] == int(snapshot)
    refused = orders.lake.client.post(path, json={"requirements": [], "updates": [set_property("a", "b")]})
    assert (refused.status_code, refused.json()["error"]["type"]) == (400, "IllegalArgumentException")


@pytest.mark.parametrize("snapshot", ["0", "9" * 19, "9" * 400])
def test_an_image_that_is_not_kept_is_no_table(orders: KeyedLake, snapshot: str) -> None:
    path = f"/iceberg/v1/lake/namespaces/db%1Forders/tables/merged_at_{snapshot}"
    assert orders.lake.client.get(path).status_code == 404


def test_a_layer_opens_no_manifest_of_the_changes_below(orders: KeyedLake) -> None:
    """Otherwise each of many small commits would take longer than the one before."""
    orders.insert((1, "a"))
    orders.upsert((1, "b"))
    orders.load()
    files = Path(orders.lake.warehouse).rglob("change/metadata/*.avro")
    (manifest,) = [path for path in files if not path.name.startswith("snap-")]
    manifest.unlink()
    orders.upsert((2, "c"))
    assert orders.read(orders.load()) == {1: "b", 2: "c"}
