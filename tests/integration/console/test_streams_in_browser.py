"""Logs of tables in the console, with a real broker and without Spark: why drains stop, and resets of positions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from playwright.sync_api import expect

from firn.embedded.kafka import EmbeddedKafka
from firn.protocol.leases import PROTOCOL
from tests.browser import OpenPage, violations
from tests.integration.streams.topics import Topic, create_topic
from tests.spark_fixtures import ServerProcess, server_process

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    settings = {"auto.create.topics.enable": "false"}
    with EmbeddedKafka(tmp_path_factory.mktemp("kafka") / "data", port=0, heap_mib=256, settings=settings) as broker:
        yield broker


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with server_process(tmp_path_factory.mktemp("console-streams") / "data") as process:
        yield process


def drop_records(topic: Topic, before: int) -> None:
    """Drop the records of the first partition, as retention does."""
    admin = AdminClient({"bootstrap.servers": topic.brokers})
    answers = admin.delete_records([TopicPartition(topic.name, 0, before)])
    for answer in answers.values():
        answer.result(30)


def create_logged(server: ServerProcess, topic: Topic, name: str) -> str:
    """A keyed table whose log reads the topic; its address in the API."""
    log = {"firn.log.topic": topic.name, "firn.log.brokers": topic.brokers, "firn.log.format": "firn-json"}
    columns = [{"name": "id", "type": "long"}]
    body = {"name": name, "columns": columns, "primary_key": ["id"], "properties": log}
    server.post("catalogs/lake/tables", body)
    return f"catalogs/lake/tables/{name}"


def stop_stream(server: ServerProcess, reason: str) -> None:
    """Take the stream that waits and report that it has stopped, as an optimizer does."""
    about = {"host": "h", "pid": 1, "version": "0", "protocol": PROTOCOL, "group": "default"}
    optimizer = server.post("optimizers", about)["id"]
    lease = server.post("stream-leases", {"optimizer_id": optimizer, "wait_seconds": 0})["lease"]
    report = {"outcome": "stopped", "reason": reason}
    assert server.http.post(f"/api/v1/stream-leases/{lease}/report", json=report).is_success


def test_a_log_is_reset_where_its_stop_is_shown(
    server: ServerProcess, kafka: EmbeddedKafka, open_page: OpenPage
) -> None:
    topic = create_topic(kafka.brokers, 1, name="orders")
    at = create_logged(server, topic, "shop.orders")
    topic.send((number, {"id": number}) for number in range(9))
    server.post(f"{at}/log/reset", {"to": "orders:0:5"})
    stop_stream(server, "the topic has dropped records")
    drop_records(topic, 7)
    page = open_page(f"{server.url}/streams")
    page.get_by_role("button", name="reset shop.orders").click()
    expect(page.get_by_role("dialog")).to_contain_text("From orders:0:5 to orders:0:7.")
    page.goto(f"{server.url}/c/lake/tables/shop.orders")
    expect(page.get_by_text("Drains stop")).to_be_visible()
    page.get_by_role("button", name="Reset…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("From orders:0:5 to orders:0:7.")
    expect(dialog).to_contain_text("up to 2 records are left out: they stay missing in the table")
    assert violations(page) == []
    dialog.get_by_text("Offsets").click()
    expect(dialog.get_by_role("button", name="Reset it")).to_have_attribute("aria-disabled", "true")
    dialog.get_by_label("the next offset of each partition").fill("orders:0:3")
    dialog.get_by_role("button", name="Preview").click()
    expect(dialog.get_by_role("alert")).to_contain_text("partition 0 of topic orders has no offset 3 to read from")
    dialog.get_by_text("Newest record").click()
    expect(dialog.get_by_role("table", name="steps")).to_contain_text("4")
    server.post(f"{at}/log/reset", {"to": "orders:0:8"})  # somebody else was faster
    dialog.get_by_role("button", name="Reset it").click()
    expect(dialog.get_by_role("alert")).to_contain_text("is at 'orders:0:8' now")
    expect(dialog).to_contain_text("From orders:0:8 to orders:0:9.")
    dialog.get_by_role("button", name="Reset it").click()
    expect(dialog).to_be_hidden()
    expect(page.get_by_text("no record waits")).to_be_visible()
    assert server.get(f"{at}/log")["position"] == "orders:0:9"
