"""Keyed tables whose rows have a date."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from optimizer.worker import Worker
from tests.integration.keyed.appends import Store
from tests.keyed_tables import KeyedTable
from tests.spark_fixtures import RunningServer

TODAY = datetime.now(UTC).date()
COLUMNS = "id BIGINT, day DATE, at TIMESTAMP, v STRING"
TEN_DAYS = {"firn.ttl.max-age": "10 d"}


def a_table(server: RunningServer, worker: Worker, partition: str = "", **properties: str) -> KeyedTable:
    return KeyedTable(server, worker, COLUMNS, partition, **{**TEN_DAYS, **properties})


def keyed(server: RunningServer, worker: Worker, partition: str = "", **properties: str) -> KeyedTable:
    return a_table(server, worker, partition, **{"firn.primary-key": "id", "firn.ttl.field": "day", **properties})


def row(key: int, days: int | None, value: str = "v") -> tuple[Any, ...]:
    """A row that is so many days old."""
    if days is None:
        return key, None, None, value
    noon = datetime(TODAY.year, TODAY.month, TODAY.day, 12, tzinfo=UTC) - timedelta(days=days)
    return key, noon.date(), noon, value


def ids(table: KeyedTable, part: str = "") -> list[int]:
    return sorted(key for (key,) in table.server.rows(f"SELECT id FROM {table.name}{part}"))


def append_an_hour_ago(store: Store) -> None:
    commit = store.prepared([{"id": 1, "v": "a"}])
    commit["updates"][0]["snapshot"]["timestamp-ms"] -= 3_600_000
    answer = store.send(commit)
    assert answer.is_success, answer.text
