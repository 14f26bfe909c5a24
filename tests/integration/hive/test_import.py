"""Iceberg tables that a real metastore keeps for other engines come here; its others are named, and left alone."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import pytest

from firn.embedded.metastore import EmbeddedMetastore
from tests.hive_lake import Side

pytestmark = [pytest.mark.hive, pytest.mark.spark]

ICE = "spark.sql.catalog.ice"


@dataclass(frozen=True)
class Shop:
    """A metastore's database `shop`, and both sides of it."""

    side: Side
    metastore_uri: str


@pytest.fixture(scope="module")
def shop(side: Side, metastore: EmbeddedMetastore) -> Shop:
    """A database with an Iceberg table that Spark keeps in the metastore, and one of Hive's own."""
    settings = {
        ICE: "org.apache.iceberg.spark.SparkCatalog",
        f"{ICE}.type": "hive",
        f"{ICE}.uri": metastore.uri,
        # The embedded metastore has no tables for locks, and nobody else commits here.
        f"{ICE}.hadoop.iceberg.engine.hive.lock-enabled": "false",
    }
    side.hive.sql(
        *(f"SET `{key}`=`{value}`" for key, value in settings.items()),
        f"CREATE DATABASE shop COMMENT 'what is sold' LOCATION '{side.directory.as_uri()}/shop'",
        "CREATE TABLE ice.shop.orders (id BIGINT, day STRING) USING iceberg PARTITIONED BY (day)",
        "INSERT INTO ice.shop.orders VALUES (1, 'mo'), (2, 'tu')",
        "DELETE FROM ice.shop.orders WHERE id = 1",
        "CREATE TABLE shop.raw (id BIGINT) STORED AS PARQUET",
    )
    return Shop(side, metastore.uri)


def imported(shop: Shop, **options: Any) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The result of a whole import of the database, and its entries by name."""
    body = {"source": "hive", "address": shop.metastore_uri, "into": "moved", "include": ["shop.*"], **options}
    body["allow_locations"] = [shop.side.directory.as_uri()]
    started = shop.side.server.post("catalogs/lake/imports", body)
    deadline = time.monotonic() + 120
    while (operation := shop.side.server.get(f"operations/{started['id']}"))["status"] == "running":
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert operation["status"] == "succeeded", operation
    listed = shop.side.server.get(f"catalogs/lake/imports/{started['id']}/entries")["items"]
    return operation["result"], {relation["name"]: relation for relation in listed if relation["kind"] != "namespace"}


def test_iceberg_tables_of_a_metastore_come_as_they_are_and_follow_it(shop: Shop) -> None:
    result, entries = imported(shop, dry_run=True)
    assert {name: entry["state"] for name, entry in entries.items()} == {"moved.shop.orders": "ready"}
    (note,) = result["notes"]
    assert note.startswith(
        "1 Hive table is no Iceberg: shop.raw. `firn hive upgrade` takes over those in Parquet, ORC and Avro"
    )

    _, entries = imported(shop)
    assert entries["moved.shop.orders"]["state"] == "registered"
    assert shop.side.hive.sql("SELECT id, day FROM lake.moved.shop.orders") == [(2, "tu")]
    described = shop.side.server.get("catalogs/lake/namespaces?parent=moved")["items"]
    assert [(database["name"], database["properties"]["comment"]) for database in described] == [
        ("moved.shop", "what is sold")
    ]

    shop.side.hive.sql("INSERT INTO ice.shop.orders VALUES (3, 'we')")
    assert imported(shop)[1]["moved.shop.orders"]["state"] == "there"
    assert imported(shop, refresh=True)[1]["moved.shop.orders"]["state"] == "refreshed"
    assert shop.side.hive.sql("SELECT id, day FROM lake.moved.shop.orders") == [(2, "tu"), (3, "we")]
    assert shop.side.hive.sql("SELECT count(*) FROM ice.shop.orders") == [(2,)]
