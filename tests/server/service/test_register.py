"""Taking over tables by metadata that others have written, and keys as they are declared."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from catalog.errors import Invalid
from catalog.iceberg.json import Json
from catalog.keyed.spec import KeyScope
from server.api.tables import ColumnIn, TableIn, create_table
from tests.factories import LAKE
from tests.server.lake import ORDERS, PLAIN, Lake

OLDEST: Json = {
    "format-version": 1,
    "table-uuid": "11111111-1111-4111-8111-111111111111",
    "location": "file:/t",
    "last-updated-ms": 1,
    "last-column-id": 1,
    "schema": {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]},
    "partition-spec": [],
    "properties": {},
    "current-snapshot-id": -1,
    "snapshots": [],
}


def registered(lake: Lake, path: Path, data: bytes) -> Json:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    lake.services.tables.register(LAKE, PLAIN, path.as_uri())
    return lake.metadata(PLAIN)


def test_a_table_of_the_oldest_kind_is_taken_over(lake: Lake) -> None:
    oldest = OLDEST | {"location": f"{lake.warehouse.as_uri()}/t"}
    assert registered(lake, lake.warehouse / "t" / "m.json", gzip.compress(json.dumps(oldest).encode())) == oldest


@pytest.mark.parametrize(
    "changes",
    [
        {"format-version": 9},
        {"table-uuid": 5},
        {"location": None},
        {"schema": None},
        {"schemas": [{"type": "struct"}], "current-schema-id": 0},
        {"schemas": [], "current-schema-id": 0},
        {"partition-specs": [5]},
        {"snapshots": [{"snapshot-id": "x"}]},
        {"refs": {"main": []}},
        {"properties": {"a": 1}},
    ],
)
def test_what_is_no_table_metadata_is_refused_with_the_reason(lake: Lake, changes: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match="is not table metadata: "):
        registered(lake, lake.warehouse / "t" / "m.json", json.dumps(OLDEST | changes).encode())


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"\x1f\x8bnot gzip", gzip.compress(b"{}" * 99)[:-9]],
    ids=["nothing", "a list", "no gzip", "cut gzip"],
)
def test_what_is_no_document_is_refused(lake: Lake, data: bytes) -> None:
    with pytest.raises(Invalid, match="is not Iceberg metadata"):
        registered(lake, lake.warehouse / "t" / "m.json", data)


def test_a_key_is_declared_by_properties_as_well(lake: Lake) -> None:
    """The scope was put down to global, and a key in the properties made a plain table that only said it had one."""
    columns = [ColumnIn(name="id", type="long"), ColumnIn(name="day", type="date")]
    properties = {"firn.key.scope": "partition", "firn.primary-key": "id"}
    create_table(lake.services, LAKE, TableIn(name="db.orders", columns=columns, properties=properties))
    assert lake.keyed(ORDERS).spec.scope is KeyScope.PARTITION
    with pytest.raises(Invalid, match="different column names"):
        create_table(lake.services, LAKE, TableIn(name="db.twice", columns=columns, primary_key=["id", "id"]))
