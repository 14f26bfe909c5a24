"""`firn cdc …` against a real server, with a cluster of samples instead of a broker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import firn
from firn.cli import cdc
from firn.connections import SchemaRegistry
from firn.protocol.cdc.routing import CdcConfig
from tests.avro_envelopes import DAYS, AvroSource
from tests.cdc_envelopes import Record, debezium
from tests.command_line import Command
from tests.schema_registry import Registry, running_registry

FILE = """
name: shop
format: debezium-json
brokers: [127.0.0.1:1]
topics: captured.*
tables:
  - include: shop\\.(\\w+)
    table: captured.\\1
"""
ORDERS = [debezium("c", after={"id": 1, "note": "x"}, key={"id": 1}), (None, b"no json")]


@dataclass
class Cluster:
    """Topics with their samples."""

    topics: dict[str, list[Record]]

    def list_topics(self, config: CdcConfig) -> list[str]:
        return [name for name in self.topics if config.takes_topic(name)]

    def read_sample(self, topic: str, most: int) -> list[Record]:
        return self.topics[topic][:most]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sync.yaml"
    path.write_text(FILE)
    return path


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Record]]:
    cluster = Cluster({})
    monkeypatch.setattr(cdc, "open_cluster", lambda _config, _client: cluster)
    return cluster.topics


def test_a_file_is_validated_alone(run: Command, file: Path) -> None:
    assert run("cdc", "validate", str(file)).out == f"{file} is valid: debezium-json, 1 rule for tables\n"
    assert run("cdc", "validate", str(file), "--json").json == {"name": "shop", "format": "debezium-json", "rules": 1}
    file.write_text(FILE.replace("include", "includ"))
    refused = run("cdc", "validate", str(file))
    assert refused.code == 2
    assert "line 7" in refused.err


def test_a_plan_shows_what_a_run_would_do(
    run: Command, client: firn.Client, file: Path, topics: dict[str, list[Record]]
) -> None:
    nothing = run("cdc", "plan", str(file))
    assert nothing.out == "no topic matches\n"
    assert "127.0.0.1:1 has no topic whose whole name matches `topics` of the file: captured.*" in nothing.err
    topics |= {"captured.orders": ORDERS, "other": ORDERS}
    (planned,) = run("cdc", "plan", str(file), "--json").json
    assert planned["topic"] == "captured.orders"
    assert planned["bad"] == {"the value is not a JSON object": 1}
    assert planned["tables"][0]["columns"] == {"id": "long", "note": "string"}
    text = run("cdc", "plan", str(file)).out
    assert "create captured.orders from shop.orders" in text
    assert "1 bad record: the value" in text

    client.namespaces.create("captured")
    log = {
        "firn.log.topic": "captured.orders",
        "firn.log.brokers": "127.0.0.1:1",
        "firn.log.format": "debezium-json",
        "firn.log.source-tables": "shop.orders",
    }
    client.tables.create("captured.orders", [{"name": "id", "type": "long"}], primary_key=["id"], properties=log)
    assert "add note string" in run("cdc", "plan", str(file)).out
    (status,) = run("cdc", "status", str(file), "--json").json
    assert (status["table"], status["topic"]) == ("captured.orders", "captured.orders")
    assert "captured.orders" in run("cdc", "status", str(file)).out


def test_a_plan_with_a_problem_exits_with_1(run: Command, file: Path, topics: dict[str, list[Record]]) -> None:
    file.write_text(FILE.replace("table: captured", "table: unmade"))
    topics |= {"captured.a": ORDERS, "captured.b": ORDERS}
    planned = run("cdc", "plan", str(file))
    assert planned.code == 1
    assert "would share the table" in planned.out


@pytest.fixture
def registry(client: firn.Client) -> Iterator[Registry]:
    """A registry that the connection `captured` names."""
    with running_registry() as running:
        client.connections.create("captured", ["127.0.0.1:1"], registry=SchemaRegistry(running.url))
        yield running
        client.connections.drop("captured")


def test_avro_is_planned_by_the_schemas_of_the_registry(
    run: Command, file: Path, topics: dict[str, list[Record]], registry: Registry
) -> None:
    avro = FILE.replace("debezium-json", "debezium-avro")
    file.write_text(avro)
    refused = run("cdc", "validate", str(file))
    assert (refused.code, "needs a connection" in refused.err) == (2, True)
    file.write_text(avro.replace("brokers: [127.0.0.1:1]", "connection: captured"))
    assert "debezium-avro, 1 rule" in run("cdc", "validate", str(file)).out
    source = AvroSource(registry)
    good = source.write("c", types={"id": "long", "day": DAYS}, after={"id": 1, "day": 1}, key={"id": 1}, table="dated")
    topics["captured.dated"] = [good]
    planned = run("cdc", "plan", str(file), "--json")
    assert planned.code == 0, planned.err
    (topic,) = planned.json
    assert topic["tables"][0]["columns"] == {"id": "long", "day": "date"}
    assert topic["tables"][0]["primary_key"] == ["id"]

    topics["captured.dated"].append((None, b"\x00\x00\x00\x00\x63x"))
    unknown = run("cdc", "plan", str(file))
    assert (unknown.code, "topic captured.dated has records of schema 99" in unknown.out) == (1, True)
    assert "create captured.dated" in unknown.out
    file.write_text(f"{file.read_text()}\nunknown_schemas: quarantine\n")
    assert run("cdc", "plan", str(file)).code == 0
    registry.answers["/schemas/ids/99"] = (401, b"{}")
    failed = run("cdc", "plan", str(file))
    assert (failed.code != 0, "schema registry" in failed.err) == (True, True)
