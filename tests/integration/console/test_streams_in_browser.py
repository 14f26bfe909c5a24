"""Streams in the console, with a real broker and without Spark: stops and resets of logs, change data capture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from playwright.sync_api import Page, expect

from firn.cdc.config import read_config
from firn.embedded.kafka import EmbeddedKafka
from firn.protocol.leases import PROTOCOL
from tests.browser import OpenPage, violations
from tests.cdc_envelopes import debezium
from tests.integration.streams.topics import Topic, create_topic
from tests.spark_fixtures import ServerProcess, server_process

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


WHY_SPARK = "column <b>at</b> is a time"


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
    engine = {"engine": "spark", "engine_reason": WHY_SPARK}
    assert server.http.put(f"/api/v1/stream-leases/{lease}", json=engine).is_success
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
    expect(page.get_by_title(WHY_SPARK)).to_have_text("Spark")
    page.get_by_role("button", name="reset shop.orders").click()
    expect(page.get_by_role("dialog")).to_contain_text("From orders:0:5 to orders:0:7.")
    page.goto(f"{server.url}/c/lake/tables/shop.orders")
    expect(page.get_by_text(f"drains in Spark: {WHY_SPARK}")).to_be_visible()
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


def test_the_schema_says_what_the_values_of_a_column_become(server: ServerProcess, open_page: OpenPage) -> None:
    """Rules and groups by column where changes may set some columns only; no such column elsewhere."""
    columns = [{"name": name, "type": "long"} for name in ("id", "visits", "<i>city</i>", "moved", "note")]
    properties = {
        "firn.partial": "true",
        "firn.column.visits.rule": "sum",
        "firn.group.to.columns": "<i>city</i>",
        "firn.group.to.sequence-field": "moved",
    }
    body = {"name": "shop.parts", "columns": columns, "primary_key": ["id"], "properties": properties}
    server.post("catalogs/lake/tables", body)
    once = {"name": "shop.once", "columns": columns, "primary_key": ["id"], "properties": {"firn.insert-only": "true"}}
    server.post("catalogs/lake/tables", once)
    page = open_page(f"{server.url}/c/lake/tables/shop.parts?tab=schema")
    expect(page.get_by_text("changes may set some columns only")).to_be_visible()
    schema = page.get_by_role("table", name="schema")
    for row, becomes in {
        "id": "key",
        "visits": "sum",
        "<i>city</i>": "newest by moved (group to)",
        "moved": "orders group to",
        "note": "last value set",
    }.items():
        expect(schema.get_by_role("row").filter(has=page.get_by_text(row, exact=True))).to_contain_text(becomes)
    assert violations(page) == []
    page.goto(f"{server.url}/c/lake/tables/shop.once?tab=schema")
    expect(page.get_by_text("the first row of a key wins")).to_be_visible()
    expect(page.get_by_role("columnheader", name="Type")).to_be_visible()
    expect(page.get_by_role("columnheader", name="Value of a row")).to_have_count(0)


def _choose_topics(page: Page) -> None:
    page.get_by_role("link", name="Set up change data capture").click()
    page.get_by_role("combobox", name="Connection").click()
    page.get_by_role("option", name="main").click()
    expect(page.get_by_role("group", name="topics", exact=True)).to_contain_text("cdc.shop.orders")
    page.get_by_label("search topics, or a pattern").fill("cdc.*")
    page.get_by_role("button", name="Add pattern").click()
    expect(page.get_by_role("group", name="chosen topics")).to_contain_text("cdc.*")
    page.mouse.move(0, 0)  # away from the button, whose tooltip is no part of the page
    assert violations(page) == []
    page.get_by_role("button", name="Continue").click()


def test_a_sync_file_is_made_from_topics_and_validated(
    server: ServerProcess, kafka: EmbeddedKafka, open_page: OpenPage, tmp_path: Path
) -> None:
    server.post("connections", {"name": "main", "brokers": [kafka.brokers]})
    send_orders(create_topic(kafka.brokers, 1, name="cdc.shop.orders"))
    page = open_page(f"{server.url}/streams")
    _choose_topics(page)
    expect(page.get_by_role("table", name="sample")).to_contain_text("note=<b>x</b>")
    expect(page.get_by_role("table", name="sample")).to_contain_text("the value is not a JSON object")
    expect(page.get_by_role("combobox", name="Format")).to_have_value("debezium-json")
    assert violations(page) == []
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_label("Tables of the source of rule 1")).to_have_value("shop.*")
    page.get_by_label("Table of the lake of rule 1").fill(r"captured.\1")
    assert violations(page) == []
    page.get_by_role("button", name="Continue").click()
    kind = page.get_by_role("combobox", name="type of at in captured.orders")
    expect(kind).to_have_value("string")
    kind.fill("timestamp")
    kind.press("Tab")
    assert violations(page) == []
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("table", name="plan")).to_contain_text("at timestamp")
    expect(page.get_by_text("1: the value is not a JSON object")).to_be_visible()
    assert violations(page) == []
    with page.expect_download() as download:
        page.get_by_role("link", name="Download sync.yaml").click()
    download.value.save_as(tmp_path / "sync.yaml")
    config = read_config(tmp_path / "sync.yaml")
    assert (config.connection, config.format, config.takes_topic("cdc.shop.orders")) == ("main", "debezium-json", True)
    assert config.tables[0].columns == {"at": "timestamp"}
    expect(page.get_by_label("commands", exact=True)).to_contain_text(f"firn cdc run sync.yaml --server {server.url}")


def send_orders(topic: Topic) -> None:
    """Records of Debezium without a schema part, and one that is none."""
    producer = Producer({"bootstrap.servers": topic.brokers, "enable.idempotence": True})
    for number in range(3):
        row = {"id": number, "note": "<b>x</b>", "at": "2026-11-26T10:00:00Z"}
        key, value = debezium("c", after=row, key={"id": number}, source={"db": "shop", "table": "orders"})
        producer.produce(topic.name, key=key, value=value)
    producer.produce(topic.name, key=b"k", value=b"no record of Debezium")
    assert producer.flush(30) == 0


def test_a_table_gets_its_log_in_the_dialog_that_creates_it(
    server: ServerProcess, kafka: EmbeddedKafka, open_page: OpenPage
) -> None:
    server.post("connections", {"name": "logs", "brokers": [kafka.brokers]})
    send_orders(create_topic(kafka.brokers, 1, name="log.orders"))
    page = open_page(f"{server.url}/c/lake/tables")
    page.get_by_role("button", name="Create table").first.click()
    page.get_by_label("Name", exact=True).fill("web.logged")
    page.get_by_label("name of column 2").fill("note")
    create = page.get_by_role("button", name="Create keyed table")
    _choose_log_by_keyboard(page)
    expect(create).to_have_attribute("aria-disabled", "true")
    topic, check = page.get_by_role("combobox", name="Topic"), page.get_by_role("status", name="check of the log")
    topic.fill("log/orders")
    expect(page.get_by_text("A topic has 1 to 249 letters")).to_be_visible()
    topic.fill("log.order")
    expect(check).to_contain_text("shows no topic log.order")
    topic.fill("log.orders")
    expect(check).to_contain_text("Topic log.orders is there")
    page.get_by_role("combobox", name="Format").click()
    page.get_by_role("option", name="debezium-avro", exact=True).click()
    expect(check).to_contain_text("logs has no schema registry")
    page.get_by_role("combobox", name="Format").click()
    page.get_by_role("option", name="debezium-json", exact=True).click()
    expect(check).to_contain_text("1 of 4 records do not fit the format: the value is not a JSON object")
    command = page.get_by_label("the same in a terminal", exact=True)
    expect(command).to_contain_text("--property firn.log.topic=log.orders --property firn.log.connection=logs")
    assert violations(page) == []
    create.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("web.logged")
    log = server.get("catalogs/lake/tables/web.logged/log")
    assert (log["topic"], log["connection"], log["format"]) == ("log.orders", "logs", "debezium-json")


def _choose_log_by_keyboard(page: Page) -> None:
    page.get_by_label("Take changes from a topic of Kafka").focus()
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    connection = page.get_by_role("combobox", name="Connection")
    expect(connection).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("option", name="logs")).to_be_visible()
    for _ in page.get_by_role("option").all():
        if page.get_by_role("option", name="logs").get_attribute("data-combobox-selected") is None:
            page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(connection).to_have_value("logs")
    page.keyboard.press("Tab")
    expect(page.get_by_role("combobox", name="Topic")).to_be_focused()
