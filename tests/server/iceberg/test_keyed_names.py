"""A keyed table's name on the routes of the catalog: it is a table, and never a view."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catalog.ports.store import Database
from tests.factories import LAKE
from tests.server.lake import ORDERS, a_lake
from tests.server.service.images.keyed_lake import KeyedLake

DB = "/iceberg/v1/lake/namespaces/db"
STORES = "/iceberg/v1/lake/namespaces/db%1Forders"


@pytest.fixture
def orders(opened_sqlite: Any, tmp_path: Path) -> Iterator[KeyedLake]:
    database: Database = opened_sqlite.database
    lake = a_lake(database, tmp_path)
    lake.create_keyed(ORDERS, **{"firn.read.max-wait": "60 s"})
    yield KeyedLake(lake)
    lake.services.images.stop()


def test_it_is_a_table_and_no_view(orders: KeyedLake) -> None:
    client = orders.lake.client
    listed = {kind: client.get(f"{DB}/{kind}").json()["identifiers"] for kind in ("tables", "views")}
    assert listed == {"tables": [{"namespace": ["db"], "name": "orders"}], "views": []}
    statuses = {kind: client.request("HEAD", f"{DB}/{kind}/orders").status_code for kind in ("tables", "views")}
    assert statuses == {"tables": 204, "views": 404}
    refused = client.get(f"{DB}/views/orders")
    assert (refused.status_code, refused.json()["error"]["type"]) == (404, "NoSuchViewException")
    assert client.get(f"{STORES}/views/merged").json()["metadata"]["current-version-id"] >= 1
    assert client.delete(f"{DB}/views/orders").status_code == 404


def test_no_view_takes_its_name(orders: KeyedLake) -> None:
    client = orders.lake.client
    version = client.get(f"{STORES}/views/merged").json()["metadata"]
    body = {
        "name": "orders",
        "schema": version["schemas"][0],
        "view-version": version["versions"][0],
        "properties": {},
    }
    assert client.post(f"{DB}/views", json=body).status_code == 409
    assert client.post(f"{DB}/views", json={**body, "name": "other"}).status_code == 200


def test_a_drop_takes_the_stores_along_and_undrop_brings_the_merged_rows_back(orders: KeyedLake) -> None:
    client = orders.lake.client
    orders.insert((1, "a"), (2, "b"))
    orders.upsert((2, "c"))
    assert client.delete(f"{DB}/tables/orders").status_code == 204
    names = (f"{DB}/tables/orders", f"{STORES}/tables/base", f"{STORES}/tables/change", f"{STORES}/views/merged")
    assert [client.request("HEAD", name).status_code for name in names] == [404] * 4
    (dropped,) = orders.lake.services.undrops.list(LAKE, limit=2).items
    orders.lake.services.undrops.undrop(LAKE, dropped.id)
    assert [client.request("HEAD", name).status_code for name in names] == [204] * 4
    assert orders.read() == {1: "a", 2: "c"}
