"""Trouble that a drain without Spark meets: large records, records of others, a broker that restarts, storage in S3."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

import firn
import firn.drains
from firn.embedded.kafka import EmbeddedKafka
from firn.embedded.ports import free_port
from firn.errors import FirnError
from tests.integration.streams.topics import SECONDS, Topic, create_topic
from tests.s3_fixtures import client_of_s3, s3_server
from tests.s3_gateway import Gateway, enforcing_s3
from tests.spark_fixtures import ServerProcess, server_process

pytestmark = pytest.mark.timeout(300)
COLUMNS = [{"name": "id", "type": "long"}, {"name": "note", "type": "string"}]
MIB = 2**20
ROLE = "arn:aws:iam::123456789012:role/lake"


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with server_process(tmp_path_factory.mktemp("trouble") / "data") as running:
        running.post("catalogs/lake/namespaces", {"name": "db"})
        yield running


@pytest.fixture
def client(process: ServerProcess) -> Iterator[firn.Client]:
    with firn.connect(process.url) as connected:
        yield connected


def create(client: firn.Client, topic: Topic, name: str, **properties: str) -> None:
    log = {"firn.log.topic": topic.name, "firn.log.brokers": topic.brokers, "firn.log.format": "firn-json"}
    client.tables.create(name, COLUMNS, primary_key=["id"], properties={**log, **properties})


def read(client: firn.Client, table: str) -> dict[int, Any]:
    return {row["id"]: row["note"] for row in client.scan(table).to_arrow().to_pylist()}


def count_changes(client: firn.Client, table: str) -> int:
    return int(client.scan(f"{table}.change").to_arrow().num_rows)


def test_records_of_ten_megabytes_come_whole_and_bound_their_commits(client: firn.Client, kafka: EmbeddedKafka) -> None:
    topic = create_topic(kafka.brokers, 1, **{"max.message.bytes": str(12 * MIB)})
    create(client, topic, "db.large")
    producer = Producer({"bootstrap.servers": kafka.brokers, "enable.idempotence": True, "message.max.bytes": 12 * MIB})
    notes = {number: str(number) * (10 * MIB) for number in range(3)}
    for number, note in notes.items():
        producer.produce(topic.name, value=json.dumps({"id": number, "note": note}))
    producer.produce(topic.name, value=b'"' + b"x" * (10 * MIB) + b'"')  # no object
    producer.produce(topic.name, value=b'{"id": 4, "note": "small"}')
    assert producer.flush(SECONDS) == 0
    drain = firn.drains.open_light_drain(client.tables["db.large"])
    drain.most_bytes = 15 * MIB
    assert drain.run().commits > 1
    assert read(client, "db.large") == {**notes, 4: "small"}
    (bad,) = client.tables["db.large"].log.quarantine.get(0, 3)
    assert "JSON object" in bad.reason
    assert client.tables["db.large"].log.show().lag == 0


def test_the_topic_of_another_table_is_noticed_before_it_fills_the_quarantine(
    client: firn.Client, kafka: EmbeddedKafka
) -> None:
    topic = create_topic(kafka.brokers, 2)
    topic.send((number, {"order": number, "text": "x"}) for number in range(1_200))
    create(client, topic, "db.foreign")
    findings = client.tables["db.foreign"].log.check().findings
    assert any(finding.severity == "failed" and "no changes of the table" in finding.message for finding in findings)
    with pytest.raises(FirnError, match="1,200"):
        client.tables["db.foreign"].drain()
    assert (read(client, "db.foreign"), count_changes(client, "db.foreign")) == ({}, 0)
    assert client.tables["db.foreign"].log.quarantine.list().total == 0
    assert client.tables["db.foreign"].log.show().position is None, "a topic that is corrected is read from its start"


def test_two_tables_read_one_topic_each_by_its_own_position(client: firn.Client, kafka: EmbeddedKafka) -> None:
    topic = create_topic(kafka.brokers, 2)
    create(client, topic, "db.first")
    create(client, topic, "db.second", **{"firn.log.deletes": "ignore"})
    topic.send([(number, {"id": number, "note": "a"}) for number in range(10)])
    assert client.tables["db.first"].drain().commits == 1
    topic.send([(3, {"id": 3, "_op": "D"})])
    for name in ("db.first", "db.second"):
        client.tables[name].drain()
    assert 3 not in read(client, "db.first")
    assert read(client, "db.second") == dict.fromkeys(range(10), "a")


def test_a_broker_that_restarts_in_the_middle_of_a_drain_costs_time_alone(
    client: firn.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The drain waits for the broker, or ends; the next one goes on. No record is lost, and none is there twice."""
    settings = {"auto.create.topics.enable": "false"}
    broker = EmbeddedKafka(tmp_path / "kafka", port=free_port(), heap_mib=256, settings=settings)
    with broker:
        topic = create_topic(broker.brokers, 2)
        create(client, topic, "db.restarted")
        topic.send((number % 50, {"id": number % 50, "note": str(number)}) for number in range(600))
        drain = firn.drains.open_light_drain(client.tables["db.restarted"])
        drain.most_bytes = 3_000
        append, commits, starting = drain.append, list[int](), list[threading.Thread]()

        def restart_after_the_second(*arguments: Any) -> None:
            append(*arguments)
            commits.append(1)
            if len(commits) == 2:
                broker.stop()
                starting.append(threading.Thread(target=broker.start))
                starting[0].start()

        monkeypatch.setattr(drain, "append", restart_after_the_second)
        try:
            drain.run()
        except FirnError as error:
            assert "Kafka" in error.message or "broker" in error.message  # noqa: PT017 -- it may also have waited
        starting[0].join(90)
        assert 0 < count_changes(client, "db.restarted") <= 600
        client.tables["db.restarted"].drain()
        assert client.tables["db.restarted"].log.show().lag == 0
        assert count_changes(client, "db.restarted") == 600
        assert read(client, "db.restarted") == {number: str(550 + number) for number in range(50)}


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    """An S3 that enforces the policies of sessions, with a bucket."""
    with s3_server(tmp_path / "s3.log") as moto, enforcing_s3(moto) as enforcing:
        client_of_s3(enforcing.url).create_bucket(Bucket="tables")
        yield enforcing


def test_a_drain_without_keys_of_its_own_writes_to_s3_with_vended_credentials(
    kafka: EmbeddedKafka, gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    own = {"s3.endpoint": gateway.url, "s3.region": "us-east-1"}
    own |= {"s3.access-key-id": "the-servers", "s3.secret-access-key": "own"}
    storage = {"endpoint": gateway.url, "region": "us-east-1", "path-style": "true", "role-arn": ROLE}
    properties = {f"firn.storage.s3.{key}": value for key, value in storage.items()}
    with (
        server_process(tmp_path / "data", FIRN_FILE_IO=json.dumps(own)) as server,
        firn.connect(server.url, catalog="vault") as client,
    ):
        catalog = {"name": "vault", "warehouse": "s3://tables/wh"}
        server.post("catalogs", {**catalog, "properties": {"firn.storage.vending": "sts", **properties}})
        client.namespaces.create("db")
        topic = create_topic(kafka.brokers, 2)
        create(client, topic, "db.vended")
        topic.send((number, {"id": number, "note": str(number)}) for number in range(100))
        topic.send([(7, {"id": "seven"})])  # the quarantine has a directory of its own
        drained = client.tables["db.vended"].drain()
        assert (drained.commits, client.tables["db.vended"].log.show().lag) == (1, 0)
        assert client.tables["db.vended"].log.quarantine.list().total == 1
        assert count_changes(client, "db.vended") == 100
        written = {key for key in gateway.written() if key.endswith(".parquet")}
        assert len(written) >= 2
        assert all("/vended" in key for key in written), written
        assert gateway.denied == []
