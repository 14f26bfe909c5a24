"""Change data capture before it begins, over HTTP: topics, samples and plans, with clusters in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from server.service.services import Services
from tests.avro_envelopes import DAYS, AvroSource
from tests.cdc_envelopes import Record, debezium
from tests.databases import OpenDatabase
from tests.firn.cdc.test_config import read
from tests.schema_registry import Registry, running_registry
from tests.server.asgi import Client, client_of
from tests.server.default_settings import settings_in
from tests.server.kafka.fake import FakeClusters
from tests.server.lake import Lake, a_lake

AT, PLAN = "/api/v1/connections/main/topics", "/api/v1/catalogs/lake/cdc/plan"
BODY: dict[str, Any] = {
    "name": "shop",
    "format": "debezium-json",
    "connection": "main",
    "topics": ["shop.*"],
    "tables": [{"include": "shop.*", "table": "lake_shop.\\1"}],
}


@pytest.fixture
def clusters() -> FakeClusters:
    clusters = FakeClusters()
    for name in ("shop.orders", "shop.items", "other", "__consumer_offsets"):
        clusters.create(name, 2)
    return clusters


@pytest.fixture
def lake(opened_sqlite: OpenDatabase, tmp_path: Path) -> Lake:
    return a_lake(opened_sqlite.database, tmp_path)


@pytest.fixture
def http(lake: Lake, clusters: FakeClusters) -> Client:
    own: Services = lake.services
    services = replace(own, connections=replace(own.connections, clusters=clusters))
    http = client_of(services, settings_in(lake.warehouse.parent / "data"))
    http.post("/api/v1/connections", json={"name": "main", "brokers": ["kafka:9092"]})
    return http


def order(number: int, table: str = "orders") -> Record:
    row, source = {"id": number, "note": "x"}, {"db": "shop", "table": table}
    return debezium("c", after=row, key={"id": number}, source=source)


def test_topics_are_listed_and_searched(http: Client, clusters: FakeClusters) -> None:
    assert http.get(AT).json() == {"topics": ["other", "shop.items", "shop.orders"], "more": 0}
    assert http.get(AT, params={"search": "shop."}).json()["topics"] == ["shop.items", "shop.orders"]
    for number in range(600):
        clusters.create(f"many{number:03}")
    many = http.get(AT, params={"search": "many"}).json()
    assert (len(many["topics"]), many["more"]) == (500, 100)
    assert http.get("/api/v1/connections/none/topics").status_code == 404


def test_a_sample_is_read_in_the_format_that_fits(http: Client, clusters: FakeClusters) -> None:
    clusters.produce("shop.orders", order(1), (b"k", b"\xff no JSON"), (b"k", None), (b"k", b'{"a": "' + b"x" * 5000))
    sample = http.get(f"{AT}/shop.orders/sample").json()
    assert sample["format"] == "debezium-json"
    first, bad, nothing, large = sample["records"]
    assert (first["source"], first["op"], first["problem"]) == ("shop.orders", "U", None)
    assert (first["row"]["id"], first["row"]["note"]) == ("1", "x")
    assert (bad["value"], bad["problem"]) == ("\ufffd no JSON", "the value is not UTF-8")
    assert (nothing["kind"], nothing["row"], nothing["value"]) == ("nothing", None, None)
    assert (len(large["value"]), large["bytes"]) == (2000, 5008)
    wrong = http.get(f"{AT}/shop.orders/sample", params={"format": "maxwell-json"}).json()
    assert wrong["records"][0]["problem"] is not None
    assert http.get(f"{AT}/shop.orders/sample", params={"format": "csv"}).status_code == 400
    assert http.get(f"{AT}/nothing/sample").status_code == 404
    clusters.produce("other", (b"1", b"plain"))
    plain = http.get(f"{AT}/other/sample").json()
    assert (plain["format"], plain["records"][0]["value"], plain["records"][0]["problem"]) == (None, "plain", None)


@pytest.fixture
def registry(http: Client) -> Iterator[Registry]:
    """A registry that the connection `main` names."""
    with running_registry() as running:
        assert http.delete("/api/v1/connections/main").is_success
        body = {"name": "main", "brokers": ["kafka:9092"], "registry_url": running.url}
        assert http.post("/api/v1/connections", json=body).is_success
        yield running


def test_avro_is_read_by_the_schemas_of_the_registry(http: Client, clusters: FakeClusters, registry: Registry) -> None:
    source, unknown = AvroSource(registry), b"\x00\x00\x00\x00\x63x"
    types = {"id": "long", "day": DAYS, "text": "string"}
    change = source.write("c", types=types, after={"id": 1, "day": 20_000, "text": "x" * 5_000}, key={"id": 1})
    clusters.produce("shop.orders", change, (None, unknown))
    sample = http.get(f"{AT}/shop.orders/sample").json()
    assert sample["format"] == "debezium-avro"
    good, bad = sample["records"]
    assert (good["source"], good["op"], good["row"]["day"]) == ("shop.orders", "U", "2024-10-04")
    assert len(good["row"]["text"]) == 201
    assert bad["problem"] == "the schema registry has no Avro schema of this id"

    planned = http.post(PLAN, json={**BODY, "format": "debezium-avro"}).json()
    topic = planned["topics"][1]
    assert topic["bad"] == {"the schema registry has no Avro schema of this id": 1}
    (table,) = topic["tables"]
    assert (table["primary_key"], table["columns"]) == (["id"], {"id": "long", "day": "date", "text": "string"})
    assert "format: debezium-avro\nconnection: main\n" in planned["file"]


def test_a_look_asks_the_registry_for_few_schemas_and_names_it_if_it_fails(
    http: Client, clusters: FakeClusters, registry: Registry
) -> None:
    named = [(None, b"\x00" + number.to_bytes(4) + b"x") for number in range(5, 205)]
    clusters.produce("shop.orders", *named)
    body = {**BODY, "format": "debezium-avro", "topics": ["shop.orders"]}
    assert http.post(PLAN, json=body).json()["topics"][0]["records"] == 200
    assert 0 < len(registry.requests) <= 50
    registry.answers["/schemas/ids/5"] = (500, b"{}")
    for failed in (http.post(PLAN, json=body), http.get(f"{AT}/shop.orders/sample")):
        assert (failed.status_code, "schema registry" in failed.text) == (503, True)
    clusters.produce("shop.items", order(1, "items"), (b"\x00\x00\x00\x00\x05", None))
    assert http.get(f"{AT}/shop.items/sample").json()["format"] == "debezium-json", "JSON needs no registry"


def test_avro_needs_a_registry(http: Client, clusters: FakeClusters) -> None:
    clusters.produce("shop.orders", (None, b"\x00\x00\x00\x00\x05x"))
    assert http.get(f"{AT}/shop.orders/sample").json()["format"] is None
    refused = http.get(f"{AT}/shop.orders/sample", params={"format": "debezium-avro"})
    assert (refused.status_code, "has no schema registry" in refused.text) == (400, True)
    assert http.post(PLAN, json={**BODY, "format": "debezium-avro"}).status_code == 400


def test_huge_records_are_shown_in_part_and_not_decoded(http: Client, clusters: FakeClusters) -> None:
    huge = order(1)[1]
    assert huge is not None
    clusters.produce("shop.orders", order(1), (b"1", huge[:-1] + b" " * 1_000_000 + b"}"))
    record = http.get(f"{AT}/shop.orders/sample").json()["records"][1]
    assert (record["problem"], len(record["value"])) == ("the record is too large for a look at it", 2000)
    topic = http.post(PLAN, json=BODY).json()["topics"][1]
    assert topic["bad"] == {"the record is too large for a look at it": 1}


def test_a_plan_names_tables_columns_and_the_file(
    http: Client, lake: Lake, clusters: FakeClusters, tmp_path: Path
) -> None:
    clusters.produce("shop.orders", order(1), order(2), (b"k", b"no JSON"))
    clusters.produce("shop.items", order(1, "items"), debezium("c", after={"id": 1}, source={"db": "x", "table": "y"}))
    rule = {**BODY["tables"][0], "columns": {"amount": "decimal(9,2)"}}
    planned = http.post(PLAN, json={**BODY, "tables": [rule]}).json()
    items, orders = planned["topics"]
    assert (items["left_out"], orders["bad"]) == (["x.y"], {"the value is not a JSON object": 1})
    (table,) = orders["tables"]
    assert (table["table"], table["action"], table["primary_key"]) == ("lake_shop.orders", "create", ["id"])
    assert table["columns"]["amount"] == "decimal(9,2)"
    config = read(tmp_path, planned["file"])
    assert (config.connection, config.takes_topic("shop.orders"), config.takes_topic("xshop.orders")) == (
        "main",
        True,
        False,
    )
    routed = config.route("shop.orders")
    assert routed is not None
    assert routed[1] == "lake_shop.orders"

    log = {"firn.log.topic": "shop.orders", "firn.log.connection": "main", "firn.log.format": "debezium-json"}
    body = {"columns": [{"name": "id", "type": "long"}], "primary_key": ["id"]}
    http.post("/api/v1/catalogs/lake/tables", json={**body, "name": "lake_shop.orders", "properties": log})
    http.post("/api/v1/catalogs/lake/tables", json={"columns": body["columns"], "name": "lake_shop.items"})
    again = http.post(PLAN, json={**BODY, "tables": [rule]}).json()["topics"]
    assert "has no log" in again[0]["tables"][0]["problem"]
    assert (again[1]["tables"][0]["action"], again[1]["tables"][0]["columns"]["note"]) == ("change", "string")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "csv"}, "not one of"),
        ({"topics": ["*a*"]}, "more than one asterisk"),
        ({"tables": [{"include": "***", "table": "a.b"}]}, "more than 2 asterisks"),
        ({"tables": [{"include": "a*", "table": "a.\\2"}]}, "rule 1"),
        ({"tables": [{"include": "a*", "table": "a.\\"}]}, "rule 1"),
        ({"tables": [{"include": "a", "table": "a.b", "partial": True, "sequence_field": "s"}]}, "no sequence_field"),
        ({"tables": [{"include": "a\nb", "table": "a.b"}]}, "control characters"),
        ({"tables": [{"include": "a", "table": "a.b", "columns": {"a": "text"}}]}, "columns"),
        ({"tables": [{"include": "a" * 400, "table": "a.b"}]}, "include"),
        ({"tables": [{"include": "a", "table": "a.b"}] * 51}, "tables"),
        ({"connection": "none"}, "none"),
    ],
)
def test_a_request_that_is_no_file_is_refused(http: Client, change: dict[str, Any], message: str) -> None:
    refused = http.post(PLAN, json={**BODY, **change})
    assert (refused.status_code in (400, 404, 422), message in refused.text) == (True, True), refused.text


def test_patterns_are_no_regular_expressions(http: Client, clusters: FakeClusters) -> None:
    clusters.produce("shop.orders", order(1, "a" * 250))
    rules = [{"include": "(a|a)+$", "table": "x.y"}, {"include": "*a*b", "table": "x.y"}]
    topics = http.post(PLAN, json={**BODY, "tables": rules}).json()["topics"]
    assert topics[1]["left_out"] == [f"shop.{'a' * 250}"]
    clusters.produce("shop.orders", order(1, "b" * 400))
    bad = http.post(PLAN, json=BODY).json()["topics"][1]["bad"]
    assert bad == {"the name of the source's table is too long": 1}


def test_names_that_no_table_can_have_are_problems(http: Client, clusters: FakeClusters) -> None:
    clusters.produce("shop.orders", order(1), order(1, "bad\x00name"))
    tables = http.post(PLAN, json=BODY).json()["topics"][1]["tables"]
    assert [table["action"] for table in tables] == ["stop", "create"]
    assert json.dumps(tables[0]["problem"])
    only = http.post(PLAN, json={**BODY, "tables": [{"include": "shop.*", "table": "\\1"}]}).json()
    assert "no NAMESPACE.TABLE" in only["topics"][1]["tables"][0]["problem"]
