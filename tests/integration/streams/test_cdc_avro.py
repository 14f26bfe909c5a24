"""`firn cdc` with Debezium's envelopes in Avro, on a real broker, with a registry that may fail."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import firn
from firn.cdc.cluster import open_cluster
from firn.cdc.config import read_config
from firn.connections import SchemaRegistry
from firn.spark.cdc_run import CdcRun
from tests.avro_envelopes import AMOUNT, DAYS, MICROS, AvroSource
from tests.cdc_envelopes import Record
from tests.integration.streams.test_cdc_run import NewTopic, merged, problems, send
from tests.integration.streams.topics import Topic
from tests.schema_registry import Registry, running_registry
from tests.spark_fixtures import RunningServer

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
FILE = """
name: avro
format: debezium-avro
connection: {connection}
topics: {topic}
{more}
tables:
  - include: shop\\.(\\w+)
    table: {namespace}.\\1
{rule}
"""
TYPES: Mapping[str, Any] = {"id": "long", "note": "string"}
UNKNOWN = struct.pack(">bi", 0, 99) + b"\x06"
NO_SCHEMA = "the schema registry has no Avro schema of this id"


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running_registry(("reader", "secret")) as running:
        yield running


def open_run(
    server: RunningServer, registry: Registry, topic: Topic, tmp_path: Path, *, more: str = "", rule: str = ""
) -> CdcRun:
    """A run over one topic, whose tables lie in a namespace of the connection's name."""
    client, name = firn.connect(server.url), f"c{topic.name.replace('-', '_')}"
    if name not in [connection.name for connection in client.connections.list()]:
        client.connections.create(name, [topic.brokers], registry=SchemaRegistry(registry.url, "reader", "secret"))
    path = tmp_path / "sync.yaml"
    path.write_text(FILE.format(connection=name, topic=topic.name, namespace=name, more=more, rule=rule))
    config = read_config(path)
    cluster = open_cluster(config, client)
    return CdcRun(config=config, client=client, cluster=cluster, spark=server.spark, say=lambda _line: None)


def order(source: AvroSource, op: str, key: int, types: Mapping[str, Any] = TYPES, **row: Any) -> Record:
    after = None if op == "d" else {"id": key, **row}
    return source.write(op, types=types, after=after, key={"id": key})


def test_tables_columns_keys_and_types_come_from_the_schemas(
    server: RunningServer, new_topic: NewTopic, registry: Registry, tmp_path: Path
) -> None:
    topic, source = new_topic(1), AvroSource(registry)
    run = open_run(server, registry, topic, tmp_path)
    table, lines = f"{run.config.connection}.orders", {"order_id": "long", "no": "int", "day": DAYS}
    first = [order(source, "r", 1, note="a"), order(source, "c", 2, note="b"), order(source, "u", 1, note="c")]
    line = source.write(
        "c", types=lines, after={"order_id": 7, "no": 1, "day": 20_000}, key={"order_id": 7, "no": 1}, table="lines"
    )
    send(topic, [*first, order(source, "d", 2), (first[1][0], None), (b"\x00\x00\x00\x00\x63x", None), line])
    assert problems(run.run_once()) == []
    assert merged(server, table, "id, note") == [(1, "c")]
    client = firn.connect(server.url)
    keys = {name: client.tables[f"{run.config.connection}.{name}"].show().primary_key for name in ("orders", "lines")}
    assert keys == {"orders": ["id"], "lines": ["order_id", "no"]}
    assert merged(server, f"{run.config.connection}.lines", "order_id, no, CAST(day AS STRING)") == [
        (7, 1, "2024-10-04")
    ]

    # New columns with types of the connector, and a change of the key.
    wider = {**TYPES, "amount": AMOUNT, "at": MICROS}
    row = {"note": "c", "amount": b"\x04\xd2", "at": 1_732_636_800_123_456}
    moved = source.write("u", types=wider, before={"id": 1, **row}, after={"id": 3, **row}, key={"id": 3})
    send(topic, [order(source, "u", 1, wider, **row), moved])
    assert problems(run.run_once()) == []
    columns = "id, note, CAST(amount AS STRING), CAST(at AS STRING)"
    expected = [(3, "c", "12.34", "2024-11-26 16:00:00.123456")]
    assert merged(server, table, columns) == expected

    # The table is the checkpoint: another process brings nothing twice.
    counts = server.rows(f"SELECT count(*) FROM lake.{table}.change")
    again = open_run(server, registry, topic, tmp_path)
    assert problems(again.run_once()) == []
    assert server.rows(f"SELECT count(*) FROM lake.{table}.change") == counts
    assert merged(server, table, columns) == expected


def test_values_that_the_source_has_not_sent_stay(
    server: RunningServer, new_topic: NewTopic, registry: Registry, tmp_path: Path
) -> None:
    topic, source = new_topic(1), AvroSource(registry)
    run = open_run(server, registry, topic, tmp_path, rule="    partial: true")
    types = {**TYPES, "data": "bytes"}
    send(topic, [order(source, "c", key, types, note=f"long {key}", data=b"\xff") for key in (1, 2)])
    unsent = "__debezium_unavailable_value"
    send(topic, [order(source, "u", 1, types, note=unsent, data=b"\x01")])
    send(topic, [order(source, "u", 2, types, note="new", data=unsent.encode())])
    assert problems(run.run_once()) == []
    assert merged(server, f"{run.config.connection}.orders", "id, note, hex(data)") == [
        (1, "long 1", "01"),
        (2, "new", "FF"),
    ]


def test_a_truncate_empties_its_table_between_the_records_around_it(
    server: RunningServer, new_topic: NewTopic, registry: Registry, tmp_path: Path
) -> None:
    topic, source = new_topic(1), AvroSource(registry)
    run = open_run(server, registry, topic, tmp_path, more="truncates: empty")
    truncate, other = source.write("t", types=TYPES), source.write("t", types=TYPES, db="elsewhere")
    send(topic, [order(source, "c", 1, note="t"), order(source, "c", 2, note="\x02t"), other, truncate])
    send(topic, [order(source, "c", 3, note="\x02t"), order(source, "c", 1, note="after")])
    assert problems(run.run_once()) == []
    table = f"{run.config.connection}.orders"
    assert merged(server, table, "id, note") == [(1, "after"), (3, "\x02t")]
    deletes = server.rows(f"SELECT id FROM lake.{table}.change WHERE _op = 'D'")
    assert sorted(deletes) == [(1,), (2,)]
    assert [progress.commits for progress in run.run_once() if progress.table == table] == [0]


def test_an_unknown_schema_stops_its_topic_until_the_registry_has_it(
    server: RunningServer, new_topic: NewTopic, registry: Registry, tmp_path: Path
) -> None:
    topic, source = new_topic(1), AvroSource(registry)
    run = open_run(server, registry, topic, tmp_path)
    table = f"{run.config.connection}.orders"
    send(topic, [order(source, "c", 1, note="a")])
    assert problems(run.run_once()) == []
    late = {**TYPES, "late": "long"}
    kept = len(registry.schemas)
    later = order(source, "c", 2, late, note="b", late=5)
    registered = registry.schemas[kept:]
    del registry.schemas[kept:]  # the registry that the server asks lags behind the producer's
    send(topic, [later, order(source, "c", 3, note="c")])
    for _ in range(2):
        (problem,) = problems(run.run_once())
        assert "has records of schema" in problem
        assert "no Avro schema of this id" in problem
        assert merged(server, table, "id, note") == [(1, "a")]
    registry.schemas += registered
    assert problems(open_run(server, registry, topic, tmp_path).run_once()) == []
    assert merged(server, table, "id, note, late") == [(1, "a", None), (2, "b", 5), (3, "c", None)]
    assert server.rows(f"SELECT count(*) FROM lake.{table}.change") == [(3,)]


def test_a_registry_that_does_not_answer_stops_its_topics_and_loses_nothing(
    server: RunningServer, new_topic: NewTopic, registry: Registry, tmp_path: Path
) -> None:
    topic, source = new_topic(1), AvroSource(registry)
    run = open_run(server, registry, topic, tmp_path)
    send(topic, [order(source, "c", 1, note="a")])
    paths = [f"/schemas/ids/{number}" for number in range(1, len(registry.schemas) + 1)]
    registry.answers |= dict.fromkeys(paths, (503, b"{}"))
    (problem,) = problems(run.run_once())
    assert f"the schema registry {registry.url} answers with status 503" in problem
    for answer in ((401, b"{}"), (200, b"[" * 100_000), (200, b'{"schema": 1}'), (302, b"http://169.254.169.254/")):
        registry.answers |= dict.fromkeys(paths, answer)
        (problem,) = problems(run.run_once())
        assert "schema registry" in problem
    registry.answers.clear()
    assert problems(run.run_once()) == []
    assert merged(server, f"{run.config.connection}.orders", "id, note") == [(1, "a")]


def test_hostile_records_go_to_the_quarantine_and_the_others_to_the_table(
    server: RunningServer, new_topic: NewTopic, registry: Registry, tmp_path: Path
) -> None:
    topic, source = new_topic(1), AvroSource(registry)
    run = open_run(server, registry, topic, tmp_path, more="unknown_schemas: quarantine")
    within = registry.register(
        "evil", {"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]}
    )
    good = order(source, "c", 1, note="a")
    assert good[1] is not None
    hostile: list[Record] = [
        (None, UNKNOWN),
        (None, b"{}"),
        (None, b""),
        (None, good[1][:-3]),
        (None, good[1] + b"x"),
        (None, struct.pack(">bi", 0, within) + b"\x02" * 10_000),
    ]
    send(topic, [good, *hostile, order(source, "c", 2, note="b")])
    assert problems(run.run_once()) == []
    table = f"{run.config.connection}.orders"
    assert merged(server, table, "id, note") == [(1, "a"), (2, "b")]
    reasons = dict(server.rows(f"SELECT offset, reason FROM lake.{table}.quarantine"))
    assert sorted(reasons) == [1, 2, 3, 4, 5, 6]
    assert (reasons[1], reasons[6]) == (NO_SCHEMA, "the schema contains itself")


def test_a_connection_without_registry_is_one_clear_problem(
    server: RunningServer, new_topic: NewTopic, registry: Registry, tmp_path: Path
) -> None:
    topic, source = new_topic(1), AvroSource(registry)
    firn.connect(server.url).connections.create(f"c{topic.name.replace('-', '_')}", [topic.brokers])
    run = open_run(server, registry, topic, tmp_path)
    send(topic, [order(source, "c", 1, note="a")])
    (problem,) = problems(run.run_once())
    assert "has no schema registry" in problem
