"""The stores of a keyed table, and snapshots of them."""

from __future__ import annotations

from catalog.iceberg.json import Json
from catalog.iceberg.table import apply_updates, build_table, current_snapshot
from catalog.keyed.schema import build_base_schema
from catalog.keyed.spec import (
    KeySpec,
)

SPEC = KeySpec(primary_key=("id",), sequence_field="at")
COLUMNS: Json = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "at", "required": False, "type": "long"},
        {"id": 3, "name": "v", "required": False, "type": "string"},
    ],
}


def a_store(schema: Json) -> Json:
    properties = {"format-version": "3", "firn.primary-key": "id", "gc.enabled": "false"}
    return build_table(
        uuid="11111111-1111-4111-8111-111111111111",
        location="file:/t",
        schema=schema,
        partition_spec=None,
        sort_order=None,
        properties=properties,
        now_ms=1,
    )


def snapshot(of: Json, snapshot_id: int, operation: str = "append", **summary: str) -> list[Json]:
    head = current_snapshot(of)
    update: Json = {
        "snapshot-id": snapshot_id,
        "sequence-number": of["last-sequence-number"] + 1,
        "timestamp-ms": of["last-updated-ms"] + 1,
        "manifest-list": f"file:/t/{snapshot_id}.avro",
        "summary": {"operation": operation, **summary},
        "schema-id": of["current-schema-id"],
        "first-row-id": of["next-row-id"],
        "added-rows": 1,
    }
    if head is not None:
        update["parent-snapshot-id"] = head["snapshot-id"]
    ref = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id}
    return [{"action": "add-snapshot", "snapshot": update}, ref]


def after(metadata: Json, updates: list[Json]) -> Json:
    return apply_updates(metadata, updates, now_ms=metadata["last-updated-ms"] + 1, previous_location=None)


BASE = a_store(build_base_schema(COLUMNS, SPEC))
CHANGE = after(a_store(COLUMNS), snapshot(a_store(COLUMNS), 70))
