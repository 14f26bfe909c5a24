"""Logs of tables over HTTP, with clusters in memory."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from catalog.errors import Invalid, WriterFenced
from catalog.history.commit import TableCommit
from catalog.ports.images import SentRows
from firn.protocol.streams import StreamKind, StreamStatus
from server.service.services import Services
from tests.databases import OpenDatabase
from tests.schema_registry import Registry, encode, nullable, record, running_registry
from tests.server.asgi import Client, client_of
from tests.server.default_settings import settings_in
from tests.server.kafka.fake import FakeClusters
from tests.server.lake import CHANGE, ORDERS, Lake, a_lake, appended

AT = "/api/v1/catalogs/lake/tables"
LOG = {"firn.log.topic": "orders", "firn.log.brokers": "kafka:9092", "firn.log.format": "firn-json"}
COLUMNS = [{"name": "id", "type": "long"}, {"name": "note", "type": "string"}]


@pytest.fixture
def clusters() -> FakeClusters:
    clusters = FakeClusters()
    clusters.create("orders", 2, retention_ms=3_600_000)
    return clusters


@pytest.fixture
def lake(opened_sqlite: OpenDatabase, tmp_path: Path) -> Lake:
    return a_lake(opened_sqlite.database, tmp_path)


@pytest.fixture
def http(lake: Lake, clusters: FakeClusters) -> Client:
    own: Services = lake.services
    connections = replace(own.connections, clusters=clusters)
    schemas = replace(own.log_schemas, connections=connections)
    stores = replace(own.log_stores, connections=connections, schemas=schemas)
    services = replace(own, connections=connections, log_stores=stores, log_schemas=schemas)
    return client_of(services, settings_in(lake.warehouse.parent / "data"))


def create(http: Client, name: str = "db.orders", **properties: str) -> Any:
    body = {"name": name, "columns": COLUMNS, "primary_key": ["id"], "properties": {**LOG, **properties}}
    return http.post(AT, json=body)


def drain(lake: Lake, http: Client, start: str, end: str, **more: str) -> None:
    """A commit of the log's writer, as a drain sends it."""
    lake.commit(appended(CHANGE, lake.metadata(CHANGE), summary=register(http, start, end, **more)))


def register(http: Client, start: str, end: str, **more: str) -> dict[str, str]:
    """The summary of a drain's commit."""
    epoch = http.post(f"{AT}/db.orders/writers/log").json()["epoch"]
    return {
        "firn.writer-id": "log",
        "firn.writer-epoch": str(epoch),
        "firn.position-from": start,
        "firn.position": end,
        **more,
    }


def commit_nothing(lake: Lake, snapshot_id: int, summary: dict[str, str]) -> None:
    """A commit without rows whose manifest list is in storage, so that the server can append to it."""
    metadata = lake.metadata(CHANGE)
    snapshot_update = lake.services.image_writes.files.append(
        metadata, SentRows(upserts=()), snapshot_id=snapshot_id, now_ms=metadata["last-updated-ms"] + 1, summary=summary
    )
    lake.commit(
        TableCommit(name=CHANGE, requirements=snapshot_update.requirements(), updates=snapshot_update.updates())
    )


def test_a_log_shows_its_position_its_end_and_its_lag(http: Client, lake: Lake, clusters: FakeClusters) -> None:
    assert create(http).is_success
    clusters.produce("orders", (b"1", b'{"id": 1}'), (b"2", b'{"id": 2, "note": "x", "more": 1}'))
    log = http.get(f"{AT}/db.orders/log").json()
    assert (log["topic"], log["position"], log["lag"], log["problem"]) == ("orders", None, 2, None)
    assert (log["start"], log["end"], log["brokers"]) == ({"0": 0, "1": 0}, {"0": 2, "1": 0}, ["kafka:9092"])
    drain(lake, http, "none", "orders:0:2,1:0", **{"firn.log-topic-id": "id of orders"})
    log = http.get(f"{AT}/db.orders/log").json()
    assert (log["position"], log["lag"]) == ("orders:0:2,1:0", 0)
    lake.append(CHANGE)
    summary = lake.metadata(CHANGE)["snapshots"][-1]["summary"]
    assert (summary["firn.log-position"], summary["firn.log-topic-id"]) == ("orders:0:2,1:0", "id of orders")
    pin = http.get(f"{AT}/db.orders/log/pin").json()
    head = lake.metadata(CHANGE)["current-snapshot-id"]
    assert (pin["position"], pin["change"], pin["partial"]) == ("orders:0:2,1:0", f"change_at_{head}_0", False)
    assert all(f"`{pin[view]}`" in pin["sql"] for view in ("base_view", "change_view"))

    clusters.create("orders", 2, id="another")
    clusters.produce("orders", *[(b"1", b"{}")] * 5)
    problem = http.get(f"{AT}/db.orders/log").json()["problem"]
    assert problem["kind"] == "topic-replaced"
    with pytest.raises(Invalid, match="and ends at 0"):
        drain(lake, http, "orders:0:2,1:0", "orders:0:0,1:0")
    drain(lake, http, "orders:0:2,1:0", "orders:0:0,1:0", **{"firn.log-skip": "true", "firn.log-topic-id": "another"})
    log = http.get(f"{AT}/db.orders/log").json()
    assert (log["position"], log["lag"], log["problem"]) == ("orders:0:0,1:0", 5, None)


def test_a_skip_names_what_is_lost_before_it_goes_on(http: Client, lake: Lake, clusters: FakeClusters) -> None:
    create(http)
    at = f"{AT}/db.orders/log/skip"
    fine = http.post(at, params={"dry_run": True})
    assert (fine.status_code, "nothing to skip" in fine.text) == (409, True)
    first = register(http, "none", "orders:0:2,1:0", **{"firn.log-topic-id": "id of orders"})
    commit_nothing(lake, 1, first)
    clusters.produce("orders", *[(b"1", b"{}")] * 9)
    clusters.drop_before("orders", 7)
    epoch = http.get(f"{AT}/db.orders/writers/log").json()["epoch"]
    planned = http.post(at, params={"dry_run": True}).json()
    assert (planned["dry_run"], planned["start"], planned["position"]) == (True, "orders:0:2,1:0", "orders:0:7,1:0")
    assert (planned["problem"]["kind"], planned["problem"]["lost"]) == ("records-gone", 5)
    log = http.get(f"{AT}/db.orders/log").json()
    assert (log["position"], log["skip_to"]) == (planned["start"], planned["position"])
    assert http.get(f"{AT}/db.orders/writers/log").json()["epoch"] == epoch, "a dry run ends no drain"
    clusters.drop_before("orders", 8)
    moved = http.post(at, json={"to": planned["position"]})
    assert (moved.status_code, "would now go on from orders:0:8,1:0" in moved.text) == (409, True)
    with lake.services.database.writing() as uow:
        stream = uow.streams.find(lake.keyed().relation_id, StreamKind.DRAIN)
        assert stream is not None
        uow.streams.put(replace(stream, status=StreamStatus.STOPPED))
    done = http.post(at, json={"to": "orders:0:8,1:0"}).json()
    assert (done["dry_run"], done["problem"]["lost"]) == (False, 6)
    assert [stream["status"] for stream in http.get("/api/v1/streams").json()["items"]] == ["waiting"]
    log = http.get(f"{AT}/db.orders/log").json()
    assert (log["position"], log["lag"], log["problem"]) == ("orders:0:8,1:0", 1, None)
    assert log["committed_at"] is not None
    summary = lake.metadata(CHANGE)["snapshots"][-1]["summary"]
    assert (summary["operation"], summary["firn.log-skip"]) == ("append", "true")
    late = {**first, "firn.position-from": "orders:0:8,1:0", "firn.position": "orders:0:9,1:0"}
    with pytest.raises(WriterFenced):  # a drain that ran meanwhile
        commit_nothing(lake, 2, late)


def test_a_reset_says_what_is_left_out_and_what_comes_again(http: Client, lake: Lake, clusters: FakeClusters) -> None:
    create(http)
    at, dry = f"{AT}/db.orders/log/reset", {"dry_run": True}
    clusters.produce("orders", *[(b"1", b"{}")] * 9)
    first = register(http, "none", "orders:0:5,1:0", **{"firn.log-topic-id": "id of orders"})
    commit_nothing(lake, 1, first)
    epoch = http.get(f"{AT}/db.orders/writers/log").json()["epoch"]
    forward = http.post(at, params=dry, json={"to": "latest"}).json()
    assert (forward["start"], forward["position"]) == ("orders:0:5,1:0", "orders:0:9,1:0")
    assert forward["partitions"][0] == {"partition": 0, "start": 5, "position": 9, "left_out": 4, "repeated": 0}
    assert forward["warnings"] == ["up to 4 records are left out: they stay missing in the table"]
    back = http.post(at, params=dry, json={"to": "orders:0:2,1:0"}).json()
    assert (back["dry_run"], back["partitions"][0]["repeated"]) == (True, 3)
    assert back["warnings"][0] == "up to 3 records are brought again"
    assert "without a sequence field" in back["warnings"][1]
    assert http.get(f"{AT}/db.orders/writers/log").json()["epoch"] == epoch, "a dry run ends no drain"

    with lake.services.database.writing() as uow:
        stream = uow.streams.find(lake.keyed().relation_id, StreamKind.DRAIN)
        assert stream is not None
        uow.streams.put(replace(stream, status=StreamStatus.STOPPED))
    moved = http.post(at, json={"to": "orders:0:2,1:0", "start": "orders:0:4,1:0"})
    assert (moved.status_code, "is at 'orders:0:5,1:0' now" in moved.text) == (409, True)
    done = http.post(at, json={"to": back["position"], "start": back["start"]}).json()
    assert (done["dry_run"], done["position"]) == (False, "orders:0:2,1:0")
    log = http.get(f"{AT}/db.orders/log").json()
    assert (log["position"], log["lag"], log["problem"]) == ("orders:0:2,1:0", 7, None)
    assert [stream["status"] for stream in http.get("/api/v1/streams").json()["items"]] == ["waiting"]
    late = {**first, "firn.position-from": "orders:0:2,1:0", "firn.position": "orders:0:9,1:0"}
    with pytest.raises(WriterFenced):  # a drain that ran meanwhile
        commit_nothing(lake, 2, late)
    again = http.post(at, json={"to": "orders:0:2,1:0"})
    assert (again.status_code, "already" in again.text) == (409, True)


def test_a_reset_to_a_time_and_after_the_topic_was_created_again(
    http: Client, lake: Lake, clusters: FakeClusters
) -> None:
    create(http)
    clusters.produce("orders", *[(b"1", b"{}")] * 3)
    record = http.get(f"{AT}/db.orders/log/check").json()["sample"][1]
    at = f"{AT}/db.orders/log/reset"
    assert http.post(at, json={"to": record["timestamp"]}).json()["position"] == "orders:0:1,1:0"
    clusters.create("orders", 2, id="another")
    clusters.produce("orders", *[(b"1", b"{}")] * 5)
    reset = http.post(at, json={"to": "latest"}).json()
    assert (reset["start"], reset["position"]) == ("orders:0:1,1:0", "orders:0:5,1:0")
    assert reset["partitions"][0]["start"] is None
    assert reset["warnings"] == [
        "records of the old topic after 'orders:0:1,1:0' are lost",
        "up to 5 records are left out: they stay missing in the table",
    ]
    log = http.get(f"{AT}/db.orders/log").json()
    assert (log["position"], log["problem"]) == ("orders:0:5,1:0", None)


def test_a_log_starts_with_the_first_records_since_a_time(http: Client, lake: Lake, clusters: FakeClusters) -> None:
    create(http, "db.plain")
    clusters.produce("orders", *[(b"1", b"{}")] * 3)
    record = http.get(f"{AT}/db.plain/log/check").json()["sample"][1]
    assert create(http, **{"firn.log.start": record["timestamp"]}).is_success
    log = http.get(f"{AT}/db.orders/log").json()
    assert (log["skip_to"], log["lag"], log["starts_latest"]) == ("orders:0:1,1:0", 2, False)
    clusters.drop_before("orders", 2)
    assert http.get(f"{AT}/db.orders/log").json()["skip_to"] == "orders:0:2,1:0"
    drain(lake, http, "none", "orders:0:3,1:0", **{"firn.log-topic-id": "id of orders"})
    assert http.get(f"{AT}/db.orders/log").json()["lag"] == 0, "the property is about the first drain only"


def test_a_log_that_starts_in_the_future_waits(http: Client, clusters: FakeClusters) -> None:
    clusters.produce("orders", *[(b"1", b"{}")] * 3)
    assert create(http, **{"firn.log.start": "2199-01-01T00:00:00+01:00"}).is_success
    log = http.get(f"{AT}/db.orders/log").json()
    assert (log["skip_to"], log["lag"], log["starts_latest"]) == ("orders:0:3,1:0", 0, False)


@pytest.mark.parametrize(
    ("to", "message"),
    [
        ("orders:0:1", "lacks [1]"),
        ("orders:0:1,1:0,2:0", "names [2]"),
        ("orders:0:1,1:9", "partition 1 of topic orders has no offset 9"),
        ("others:0:1,1:0", "reads topic orders"),
        ("newest", "is no target of a reset"),
        ("2026-11-21T09:30:00", "is no target of a reset"),
        ("9" * 40_000, "is no target of a reset"),
        ("orders:0:01,1:0", "without leading zeros"),
    ],
)
def test_a_bad_target_of_a_reset_is_refused(http: Client, clusters: FakeClusters, to: str, message: str) -> None:
    create(http)
    clusters.produce("orders", (b"1", b"{}"), (b"1", b"{}"))
    refused = http.post(f"{AT}/db.orders/log/reset", json={"to": to})
    assert (refused.status_code, message in refused.text) == (400, True), refused.text


def test_a_drain_that_registers_between_registration_and_commit_of_a_reset_is_fenced_in_the_next_try(
    http: Client, lake: Lake, clusters: FakeClusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(http)
    clusters.produce("orders", *[(b"1", b"{}")] * 3)
    describe, raced = clusters.describe, list[int]()

    def register_meanwhile(*arguments: Any) -> Any:
        if len(raced) == 1:  # the second look follows the registration
            http.post(f"{AT}/db.orders/writers/log")
        raced.append(1)
        return describe(*arguments)

    monkeypatch.setattr(clusters, "describe", register_meanwhile)
    assert http.post(f"{AT}/db.orders/log/reset", json={"to": "latest"}).json()["position"] == "orders:0:3,1:0"
    assert len(raced) == 3


def test_a_check_finds_problems_before_the_first_drain(http: Client, clusters: FakeClusters) -> None:
    create(http)
    empty = http.get(f"{AT}/db.orders/log/check").json()
    assert [finding["severity"] for finding in empty["findings"]] == ["ok", "ok", "warning"]
    clusters.produce("orders", (b"1", b'{"id": 1, "more": 2}'), (b"2", b'{"id": "x"}'))
    check = http.get(f"{AT}/db.orders/log/check").json()
    assert [(finding["severity"]) for finding in check["findings"]] == ["ok", "ok", "failed", "warning"]
    assert "1 of the 2 newest records" in check["findings"][2]["message"]
    assert [record["problem"] for record in check["sample"]] == [None, 'id is "x", which is no long']
    clusters.create("orders", 2, retention_ms=60_000, is_compacted=True)
    warnings = [finding["severity"] for finding in http.get(f"{AT}/db.orders/log/check").json()["findings"]]
    assert warnings == ["ok", "warning", "warning", "warning"]
    clusters.topics.clear()
    gone = http.get(f"{AT}/db.orders/log/check").json()
    assert [finding["severity"] for finding in gone["findings"]] == ["failed"]


def test_a_log_by_a_connection(http: Client, clusters: FakeClusters) -> None:
    properties = {key: text for key, text in LOG.items() if key != "firn.log.brokers"}
    body = {"name": "db.orders", "columns": COLUMNS, "primary_key": ["id"]}
    assert http.post(AT, json={**body, "properties": {**properties, "firn.log.connection": "main"}}).is_success
    missing = http.get(f"{AT}/db.orders/log")
    assert (missing.status_code, "connection 'main' does not exist" in missing.text) == (404, True)
    http.post("/api/v1/connections", json={"name": "main", "brokers": ["kafka:9092"]})
    shown = http.get(f"{AT}/db.orders/log").json()
    assert (shown["connection"], shown["brokers"], shown["end"]) == ("main", ["kafka:9092"], {"0": 0, "1": 0})
    clusters.up = frozenset()
    assert http.get(f"{AT}/db.orders/log").status_code == 503


def test_a_log_whose_brokers_move_goes_on_from_its_position(http: Client, lake: Lake, clusters: FakeClusters) -> None:
    create(http)
    clusters.produce("orders", *[(b"1", b'{"id": 1}')] * 3)
    drain(lake, http, "none", "orders:0:2,1:0")
    clusters.up = frozenset({"moved:9092"})
    gone = http.get(f"{AT}/db.orders/log")
    assert (gone.status_code, "kafka:9092" in gone.text) == (503, True)
    moved = http.request("PATCH", f"{AT}/db.orders/properties", json={"set": {"firn.log.brokers": "moved:9092"}})
    assert moved.is_success, moved.text
    log = http.get(f"{AT}/db.orders/log").json()
    assert (log["brokers"], log["position"], log["lag"]) == (["moved:9092"], "orders:0:2,1:0", 1)


def create_avro(http: Client, registry: Registry | None, format: str = "avro") -> None:
    """The table `db.orders` with a log of Avro records."""
    more = {} if registry is None else {"registry_url": registry.url}
    http.post("/api/v1/connections", json={"name": "main", "brokers": ["kafka:9092"], **more})
    properties = {"firn.log.topic": "orders", "firn.log.format": format, "firn.log.connection": "main"}
    body = {"name": "db.orders", "columns": COLUMNS, "primary_key": ["id"], "properties": properties}
    assert http.post(AT, json=body).is_success


def test_a_check_decodes_avro_by_the_schemas_of_the_registry(http: Client, clusters: FakeClusters) -> None:
    schema, at = record("Order", id="long", note=nullable("string")), f"{AT}/db.orders/log"
    with running_registry() as registry:
        create_avro(http, registry)
        number = registry.register("orders-value", schema)
        good = encode(number, schema, {"id": 1, "note": "x"})
        clusters.produce("orders", (None, good), (None, encode(7, schema, {"id": 2})), (None, b'{"id": 3}'))
        sample = http.get(f"{at}/check").json()["sample"]
        assert sample[0]["row"] == {"id": 1, "note": "x"}
        assert [entry["problem"] for entry in sample[1:]] == [
            "the schema registry has no Avro schema of this id",
            "the value does not begin with the id of a schema",
        ]
        assert http.get(f"{at}/schemas/{number}").json() == {"id": number, "texts": [json.dumps(schema)]}
        assert http.get(f"{at}/schemas/7").status_code == 404
        assert http.get(f"{at}/schemas/-1").status_code == 422
        clusters.produce("orders", (None, encode(8, schema, {"id": 2})))
    findings = http.get(f"{at}/check").json()["findings"]
    assert [(finding["severity"], "does not answer" in finding["message"]) for finding in findings] == [
        ("failed", True)
    ]
    assert http.get(f"{at}/schemas/8").status_code == 503


def test_a_check_decodes_envelopes_of_debezium_in_avro(http: Client, clusters: FakeClusters) -> None:
    row = {**record("Value", id="long", note=nullable("string")), "namespace": "shop.orders"}
    source = record("Source", connector="string", db="string", table="string")
    schema = record("Envelope", before=nullable(row), after=nullable("shop.orders.Value"), source=source, op="string")
    with running_registry() as registry:
        create_avro(http, registry, "debezium-avro")
        number = registry.register("orders-value", schema)
        about = {"connector": "mysql", "db": "shop", "table": "orders"}
        change = {"before": None, "after": {"id": 1, "note": "x"}, "source": about, "op": "c"}
        clusters.produce("orders", (None, encode(number, schema, change)), (None, b'{"op": "c"}'))
        sample = http.get(f"{AT}/db.orders/log/check").json()["sample"]
    assert (sample[0]["op"], sample[0]["row"]) == ("U", {"id": 1, "note": "x"})
    assert sample[1]["problem"] == "the value does not begin with the id of a schema"


def test_a_connection_without_a_registry_has_no_schemas(http: Client, clusters: FakeClusters) -> None:
    create_avro(http, None)
    clusters.produce("orders", (None, b"\x00\x00\x00\x00\x01"))
    refused = http.get(f"{AT}/db.orders/log/schemas/1")
    assert (refused.status_code, "has no schema registry" in refused.text) == (400, True)
    findings = http.get(f"{AT}/db.orders/log/check").json()["findings"]
    assert "has no schema registry" in findings[0]["message"]


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"firn.log.format": "debezium-avro"}, "firn.log.format=debezium-avro needs firn.log.connection"),
        ({"firn.log.format": "avro"}, "firn.log.format=avro needs firn.log.connection"),
        ({"firn.log.brokers": "169.254.169.254:80"}, "is no address of another server"),
        ({"firn.log.brokers": "kafka:9092 x"}, "is no address of a broker"),
        ({"firn.log.connection": "main"}, "needs either"),
        ({"firn.log.sasl": "x"}, "unknown property"),
        ({"firn.log.every-change": "maybe"}, "neither true nor false"),
    ],
)
def test_bad_properties_are_refused_at_creation(http: Client, properties: dict[str, str], message: str) -> None:
    refused = create(http, **properties)
    assert (refused.status_code, message in refused.text) == (400, True), refused.text
    engine = {
        "name": "orders",
        "schema": {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": True}]},
        "properties": {"firn.primary-key": "id", **LOG, **properties},
    }
    sent = http.post("/iceberg/v1/lake/namespaces/db/tables", json=engine)
    assert (sent.status_code, message in sent.text) == (400, True), sent.text


def test_tables_without_a_log(http: Client, lake: Lake) -> None:
    lake.create_keyed()
    refused = http.get(f"{AT}/{ORDERS}/log")
    assert (refused.status_code, "has no log" in refused.text) == (404, True)
    plain = http.post(AT, json={"name": "db.plain2", "columns": COLUMNS, "properties": LOG})
    assert (plain.status_code, "for keyed tables only" in plain.text) == (400, True)


def test_where_keys_may_move_a_commit_has_one_change_of_a_key(http: Client, lake: Lake) -> None:
    create(http)
    assert http.get(f"{AT}/db.orders/log").json()["one_change_per_key"] is False
    for name, partition, expected in (("by_note", "note", True), ("by_id", "id", False)):
        body = {"name": f"db.{name}", "columns": COLUMNS, "primary_key": ["id"], "partition_by": [partition]}
        created = http.post(AT, json={**body, "properties": LOG})
        assert created.is_success, created.text
        assert http.get(f"{AT}/db.{name}/log").json()["one_change_per_key"] is expected
    patched = http.request("PATCH", f"{AT}/db.orders/properties", json={"set": {"firn.log.every-change": "false"}})
    assert patched.is_success, patched.text
    assert http.get(f"{AT}/db.orders/log").json()["one_change_per_key"] is True
    fixed = http.request("PATCH", f"{AT}/db.orders/properties", json={"set": {"firn.log.topic": "other"}})
    assert (fixed.status_code, "fixed when it is created" in fixed.text) == (409, True)


def test_where_a_column_has_a_rule_each_change_of_a_key_counts(http: Client, clusters: FakeClusters) -> None:
    ruled = {**LOG, "firn.log.every-change": "false", "firn.partial": "true", "firn.column.note.rule": "first"}
    body = {"name": "db.ruled", "columns": COLUMNS, "primary_key": ["id"], "properties": ruled}
    created = http.post(AT, json=body)
    assert created.is_success, created.text
    assert http.get(f"{AT}/db.ruled/log").json()["one_change_per_key"] is False


def test_every_change_is_refused_where_keys_may_move(http: Client) -> None:
    """Two files of one commit have no order, so the older change of a key could win."""
    wanted = {**LOG, "firn.log.every-change": "true"}
    body = {"name": "db.orders", "columns": COLUMNS, "primary_key": ["id"], "properties": wanted}
    refused = http.post(AT, json={**body, "partition_by": ["note"]})
    assert refused.status_code == 400
    assert "needs partitions by columns of the primary key" in refused.json()["error"]["message"]
    assert http.post(AT, json={**body, "partition_by": ["bucket(4, id)"]}).status_code == 201
