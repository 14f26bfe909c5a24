"""Records of a quarantine over HTTP: reasons by count, the newest records, and one record as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

import firn
from catalog.keyed.spec import LOG_WRITER
from firn.errors import Invalid, NotFound
from firn.protocol.answers.quarantine import RecordHeader
from tests.databases import ON_SQLITE
from tests.factories import LAKE
from tests.server.lake import ORDERS, Lake
from tests.server.service.images.keyed_lake import KeyedLake
from tests.server.service.images.test_client_scan import connected

pytestmark = ON_SQLITE
NOW = datetime(2026, 11, 27, 1, 2, 3, tzinfo=UTC)
FITS = "the value does not fit the column"
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def orders(lake: Lake) -> Iterator[KeyedLake]:
    """A keyed table whose log had no bad record so far."""
    lake.create_keyed()
    yield KeyedLake(lake)
    lake.services.changed_rows.stop()


def bad(offset: int, reason: str, column: str | None, value: bytes | None, **more: Any) -> dict[str, Any]:
    own = {"topic": "t", "topic_id": "a", "partition": 0, "offset": offset, "timestamp": NOW, "key": b"k"}
    at = NOW + timedelta(seconds=offset)
    return {**own, "value": value, "headers": [], "reason": reason, "column": column, "at": at, **more}


def quarantine(orders: KeyedLake, client: firn.Client, *records: dict[str, Any]) -> None:
    """Write bad records, as a drain does."""
    services = orders.lake.services
    epoch = services.writers.register(LAKE, ORDERS, LOG_WRITER).epoch
    writer = services.quarantines.register(LAKE, ORDERS, epoch=epoch, create=True)
    assert writer is not None
    uri = f"{client.transport.url.removesuffix('/api/v1')}/iceberg"
    table = load_catalog("lake", type="rest", uri=uri, warehouse="lake").load_table(("db", "orders", "quarantine"))
    summary = {
        "firn.writer-id": writer.name,
        "firn.writer-epoch": str(writer.epoch),
        "firn.position-from": writer.position,
        "firn.position": f"{records[0]['offset'] + 1} t:0:{records[-1]['offset']}",
    }
    rows = pa.Table.from_pylist(list(records), schema=table.schema().as_arrow())
    table.append(rows, snapshot_properties=summary)


def test_reasons_are_counted_and_a_record_is_shown_as_a_whole(orders: KeyedLake) -> None:
    with connected(orders) as client:
        log = client.tables["db.orders"].log.quarantine
        empty = log.list()
        assert (empty.snapshot_id, empty.total, empty.reasons, empty.records) == (None, 0, [], [])
        with pytest.raises(NotFound, match="no record at offset 1 of partition 0"):
            log.get(0, 1)
        headers = [{"key": "source", "value": b"\xff"}]
        quarantine(
            orders,
            client,
            bad(1, FITS, "n", HOSTILE.encode()),
            bad(2, "the value is not a JSON object", None, b"\xff\x00", headers=headers),
            bad(3, FITS, "n", None, key=None),
        )
        listed = log.list(limit=2)
        assert [(group.reason, group.column, group.records) for group in listed.reasons] == [
            (FITS, "n", 2),
            ("the value is not a JSON object", None, 1),
        ]
        assert (listed.total, [record.offset for record in listed.records]) == (3, [3, 2]), "the newest come first"
        assert listed.records[0].value is None
        assert listed.snapshot_id == log.show().snapshot_id
        (record,) = log.get(0, 1)
        assert (record.key, record.value, record.reason, record.timestamp) == ("k", HOSTILE, FITS, NOW)
        (record,) = log.get(0, 2)
        assert (record.value, record.headers, record.cut) == ("0xff00", [RecordHeader(name="source", value="0xff")], [])
        (record,) = log.get(0, 3)
        assert (record.key, record.value) == (None, None)
        quarantine(orders, client, bad(3, FITS, "n", b"x" * 300_000, topic_id="b"))
        newer, older = log.get(0, 3)
        assert (newer.topic_id, len(newer.value or ""), newer.cut, older.topic_id) == ("b", 200_000, ["value"], "a")


def test_a_large_quarantine_is_refused(orders: KeyedLake) -> None:
    own = orders.lake.services.changed_rows
    with connected(orders, changed_rows=replace(own, most_bytes=100)) as client:
        quarantine(orders, client, bad(1, FITS, "n", b"{}"))
        with pytest.raises(Invalid, match="too large to be shown") as refused:
            client.tables["db.orders"].log.quarantine.list()
        assert "firn quarantine list db.orders" in (refused.value.hint or "")
