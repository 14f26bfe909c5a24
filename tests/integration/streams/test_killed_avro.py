"""kill -9 of a drain of Avro records and of `firn cdc` with Debezium in Avro: the next one brings each record once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

import firn
from firn.connections import SchemaRegistry
from firn.errors import NotFound
from tests.avro_envelopes import AvroSource
from tests.integration.streams.mortal import run_cdc
from tests.integration.streams.test_cdc_avro import FILE, TYPES, order
from tests.integration.streams.test_cdc_run import problems, send
from tests.integration.streams.topics import SECONDS, Topic
from tests.schema_registry import Registry, encode, record, running_registry
from tests.spark_fixtures import RunningServer, interpret_queries

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
NewTopic = Callable[..., Topic]
RECORDS, BATCH = 60, 20
COLUMNS = [{"name": "id", "type": "long"}, {"name": "n", "type": "long"}]
DRAIN_DEATHS = [("after LightDrain.add_columns 2", 20), ("after LightDrain.append 2", 40)]
"""When the process dies, and how many records the table has by then."""
CDC_DEATHS = [("after CdcRun._change 1", 5, 4), ("after LogDrain.append 2", 12, 4)]
"""When the process dies, and how many records the old and the new table have by then. The new one comes first."""
if "SOAK_SECONDS" in os.environ:
    DRAIN_DEATHS += [
        ("after LightDrain.read 1", 0),
        ("before LightDrain.append 2", 20),
        ("after LightDrain.write 3", 40),
    ]
    CDC_DEATHS += [
        ("after CdcRun._observe 1", 5, 0),
        ("after CdcRun._create 1", 5, 0),
        ("before LogDrain.append 1", 5, 0),
        ("after LogDrain.append 1", 5, 4),
    ]


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running_registry(("reader", "secret")) as running:
        yield running


def connect_registry(server: RunningServer, topic: Topic, registry: Registry) -> str:
    """A connection of this test to the broker and its registry; its name."""
    name = f"k{topic.name}"
    schemas = SchemaRegistry(registry.url, "reader", "secret")
    firn.connect(server.url).connections.create(name, [topic.brokers], registry=schemas)
    return name


def die(server: RunningServer, moment: str, subject: str, directory: Path) -> None:
    """Let a process work on a table or on the file of `firn cdc`, until it is killed at the moment."""
    run = [sys.executable, "-m", "tests.integration.streams.mortal", server.url, moment, subject]
    log = directory / "mortal.log"
    with log.open("w", encoding="utf-8") as output:
        environment = {**os.environ, **interpret_queries(directory)}
        died = subprocess.run(run, env=environment, stdout=output, stderr=output, check=False, timeout=600)
    assert died.returncode == -signal.SIGKILL, log.read_text(encoding="utf-8")[-2000:]


@pytest.mark.parametrize(("moment", "written"), DRAIN_DEATHS)
def test_the_next_drain_of_avro_goes_on_from_the_tables_position(
    server: RunningServer, new_topic: NewTopic, registry: Registry, tmp_path: Path, moment: str, written: int
) -> None:
    topic, client = new_topic(1), firn.connect(server.url)
    old, new = record("Order", id="long", n="long"), record("Order", id="long", n="long", late="string")
    numbers = [registry.register("v", schema) for schema in (old, new)]
    log = {"firn.log.topic": topic.name, "firn.log.connection": connect_registry(server, topic, registry)}
    more = {"firn.log.format": "avro", "firn.log.max-batch-rows": str(BATCH)}
    name = f"killed{topic.name}"
    client.tables.create(f"db.{name}", COLUMNS, primary_key=["id"], properties=log | more)
    producer = Producer({"bootstrap.servers": topic.brokers, "enable.idempotence": True})
    for key in range(RECORDS):
        row = {"id": key, "n": key}
        is_late = key >= BATCH  # from the second batch on, records have a column that the table lacks
        value = encode(numbers[1], new, {**row, "late": f"l{key}"}) if is_late else encode(numbers[0], old, row)
        producer.produce(topic.name, key=str(key), value=value)
    assert producer.flush(SECONDS) == 0

    die(server, moment, name, tmp_path)
    assert server.rows(f"SELECT count(*) FROM lake.db.{name}.change") == [(written,)]
    client.tables[f"db.{name}"].drain()
    counts = server.rows(f"SELECT count(*), count(DISTINCT id), sum(n), count(late) FROM lake.db.{name}.change")
    assert counts == [(RECORDS, RECORDS, sum(range(RECORDS)), RECORDS - BATCH)]


@pytest.mark.parametrize(("moment", "orders", "lines"), CDC_DEATHS)
def test_the_next_round_of_cdc_brings_each_record_once(
    server: RunningServer,
    new_topic: NewTopic,
    registry: Registry,
    tmp_path: Path,
    moment: str,
    orders: int,
    lines: int,
) -> None:
    topic, source, client = new_topic(1), AvroSource(registry), firn.connect(server.url)
    namespace, file = connect_registry(server, topic, registry), tmp_path / "sync.yaml"
    file.write_text(FILE.format(connection=namespace, topic=topic.name, namespace=namespace, more="", rule=""))
    send(topic, [order(source, "c", key, note="old") for key in range(5)])
    assert problems(run_cdc(client, file, server.spark)) == []
    wider, line = {**TYPES, "late": "long"}, {"order_id": "long", "no": "int"}
    send(topic, [order(source, "u", key % 5, wider, note="new", late=key) for key in range(7)])
    keys = [{"order_id": number, "no": 1} for number in range(4)]
    send(topic, [source.write("c", types=line, after=key, key=key, table="lines") for key in keys])

    def count(table: str) -> int:
        try:
            client.tables[f"{namespace}.{table}"].show()
        except NotFound:
            return 0
        return int(server.rows(f"SELECT count(*) FROM lake.{namespace}.{table}.change")[0][0])

    die(server, moment, str(file), tmp_path)
    assert (count("orders"), count("lines")) == (orders, lines)
    assert problems(run_cdc(client, file, server.spark)) == []
    assert (count("orders"), count("lines")) == (12, 4)
    late = server.rows(f"SELECT late FROM lake.{namespace}.orders.change WHERE note = 'new'")
    assert sorted(late) == [(number,) for number in range(7)]
