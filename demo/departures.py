"""A day of flights as a stream.

Programs announce, correct and cancel flights in a topic of Kafka; a stream of Firn's brings the changes to a keyed
table while they come.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from demo.claims import DemoFailed, require
from demo.dataset import load
from demo.hive import DATABASE
from demo.steps import Steps
from firn.client import Client
from firn.protocol.answers.logs import LogOut

BOARD = f"{DATABASE}.departures"
TOPIC = "departures"
KEY = ("flight_date", "carrier", "flight")
SECONDS = 30.0
ERRORS_ONLY = 3
DRAIN_SECONDS = 300
WAVES = 3
"""The changes come in so many waves, so that the stream commits more than once."""
WAVE_SECONDS = 1.5

Row = dict[str, Any]


@dataclass(frozen=True)
class Change:
    """A record of the topic: the key of a flight, and its row; None deletes it."""

    key: Row
    row: Row | None


@dataclass
class Departures:
    """The stream's part of the demo, on a started Firn whose optimizer runs streams."""

    steps: Steps
    client: Client
    spark: SparkSession
    brokers: str

    def tell(self) -> None:
        """All of it."""
        day, version = self._prepare()
        changes = list(_changes_of(day))
        self._send(changes)
        self._wait_for_stream()
        self._compare(day, version, changes)

    def _prepare(self) -> tuple[date, int]:
        """Create topic and table; the next day that has not been sent yet, and the newest version of the table."""
        with self.steps.step(f"Create {BOARD} with a topic of Kafka as its log") as step:
            _create_topic(self.brokers)
            self.spark.sql(
                f"CREATE TABLE IF NOT EXISTS lake.{BOARD} (flight_date DATE, carrier STRING, flight INT, "
                "origin STRING, dest STRING, scheduled INT, delay INT, status STRING) USING iceberg TBLPROPERTIES ("
                f"'firn.primary-key' = '{','.join(KEY)}', 'firn.log.topic' = '{TOPIC}', "
                f"'firn.log.brokers' = '{self.brokers}', 'firn.log.format' = 'upsert-json')"
            )
            table = self.client.tables[f"lake.{BOARD}"]
            # A later run may have its broker on another port.
            settings = {"firn.log.brokers": self.brokers, "firn.log.max-lag": "2 s", "firn.read.max-wait": "60 s"}
            table.set_properties(settings)
            days = set(self.client.scan(f"lake.{BOARD}", columns=["flight_date"]).to_arrow()["flight_date"].to_pylist())
            day = max(days, default=date(2012, 12, 31)) + timedelta(days=1)
            step.result = f"key {', '.join(KEY)}"
            return day, table.show().version or 0

    def _send(self, changes: list[Change]) -> None:
        with self.steps.step("Send a day: flights announced, departed, cancelled") as step:
            # A retry without idempotence could put an older record behind a newer one.
            settings = {"bootstrap.servers": self.brokers, "enable.idempotence": True}
            producer = Producer({**settings, "log_level": ERRORS_ONLY})
            share = -(-len(changes) // WAVES)
            for wave in range(WAVES):
                for change in changes[wave * share : (wave + 1) * share]:
                    producer.produce(TOPIC, key=json.dumps(change.key), value=change.row and json.dumps(change.row))
                require(producer.flush(SECONDS) == 0, "Kafka did not take all records")
                time.sleep(WAVE_SECONDS)
            deletes = sum(change.row is None for change in changes)
            step.result = f"{len(changes):,} records, {deletes:,} of them cancel a flight"

    def _wait_for_stream(self) -> None:
        with self.steps.step("The optimizer's stream brings them to the table") as step:
            log = self._drained_log()
            step.result = f"position {log.position}: stored in the commits themselves, so no record comes twice"

    def _drained_log(self) -> LogOut:
        table, give_up = self.client.tables[f"lake.{BOARD}"], time.monotonic() + DRAIN_SECONDS
        while (log := table.log.show()).position is None or log.lag:
            if time.monotonic() > give_up:
                raise DemoFailed(f"{log.lag:,} records are not in the table after {DRAIN_SECONDS} s: firn stream list")
            time.sleep(0.3)
        return log

    def _compare(self, day: date, version: int, changes: list[Change]) -> None:
        expected = _fold(changes)
        with self.steps.step("Read that day, and what has changed") as step:
            rows = self.client.scan(f"lake.{BOARD}", filter=f"flight_date = '{day}'").to_arrow().to_pylist()
            require(_by_key(rows) == expected, "the table does not say what the records say")
            feed = self.client.tables[f"lake.{BOARD}"].changes(since=version)
            require(feed.num_rows == len(expected), f"the feed has {feed.num_rows:,} changes, not {len(expected):,}")
            step.result = f"{len(rows):,} flights of {day}, exactly as sent"


def _create_topic(brokers: str) -> None:
    admin = AdminClient({"bootstrap.servers": brokers, "log_level": ERRORS_ONLY})
    if TOPIC in admin.list_topics(timeout=SECONDS).topics:
        return
    try:
        admin.create_topics([NewTopic(TOPIC, num_partitions=2)])[TOPIC].result(SECONDS)
    except KafkaException as error:
        raise DemoFailed(f"Kafka did not create the topic {TOPIC}: {error}") from error


def _changes_of(day: date) -> Iterator[Change]:
    """A program announces all flights; then it sends the delays of those that left, and cancels the others."""
    flights = load("flights").to_pylist()
    of_day = [flight for flight in flights if (flight["month"], flight["day"]) == (day.month, day.day)]
    for flight in of_day:
        yield Change(_key(flight, day), _row(flight, day, None, "scheduled"))
    for flight in of_day:
        is_cancelled = flight["dep_time"] is None
        yield Change(_key(flight, day), None if is_cancelled else _row(flight, day, flight["dep_delay"], "departed"))


def _key(flight: Row, day: date) -> Row:
    return {"flight_date": day.isoformat(), "carrier": flight["carrier"], "flight": flight["flight"]}


def _row(flight: Row, day: date, delay: int | None, status: str) -> Row:
    of_flight = {"origin": flight["origin"], "dest": flight["dest"], "scheduled": flight["sched_dep_time"]}
    return {**_key(flight, day), **of_flight, "delay": delay, "status": status}


def _fold(changes: list[Change]) -> dict[tuple[Any, ...], Row]:
    """The rows that the changes leave, by key."""
    rows: dict[tuple[Any, ...], Row] = {}
    for change in changes:
        key = tuple(change.key.values())
        if change.row is None:
            rows.pop(key, None)
        else:
            rows[key] = change.row
    return rows


def _by_key(rows: list[Row]) -> dict[tuple[Any, ...], Row]:
    as_sent = [{**row, "flight_date": row["flight_date"].isoformat()} for row in rows]
    return {tuple(row[name] for name in KEY): row for row in as_sent}
