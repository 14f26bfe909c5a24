"""Tables, snapshots and updates for the tests of the metadata builder: valid unless a test says otherwise."""

from __future__ import annotations

from catalog.iceberg.json import Json
from catalog.iceberg.table import apply_updates, build_table

UUID = "6f1c2d8e-52f4-4b57-9b38-0c8a1e9d7a10"
OTHER_UUID = "c0ffee00-52f4-4b57-9b38-0c8a1e9d7a10"
LOCATION = "file:/warehouse/db/orders"
CREATED_MS = 1_700_000_000_000
NOW_MS = CREATED_MS + 500_000


def hyphened(keywords: dict[str, object]) -> Json:
    """Python's keywords in the spelling of the specification: `added_rows` is `added-rows`."""
    return {key.replace("_", "-"): value for key, value in keywords.items()}


def column(field_id: int, name: str, kind: str | Json = "long", *, required: bool = False, **more: object) -> Json:
    return {"id": field_id, "name": name, "type": kind, "required": required, **hyphened(more)}


def schema(*fields: Json, schema_id: int = 0, **more: object) -> Json:
    return {"type": "struct", "schema-id": schema_id, "fields": list(fields), **hyphened(more)}


ORDERS = schema(column(1, "id", required=True), column(2, "day", "date"), column(3, "note", "string"))


def part(source: int, transform: str, name: str, field_id: int | None = None) -> Json:
    field: Json = {"source-id": source, "transform": transform, "name": name}
    return field if field_id is None else {**field, "field-id": field_id}


def spec(*fields: Json, spec_id: int = 0) -> Json:
    return {"spec-id": spec_id, "fields": list(fields)}


def sort(source: int, transform: str = "identity", direction: str = "asc", nulls: str = "nulls-first") -> Json:
    return {"source-id": source, "transform": transform, "direction": direction, "null-order": nulls}


def order(*fields: Json, order_id: int = 1) -> Json:
    return {"order-id": order_id, "fields": list(fields)}


def a_table(
    version: int = 2,
    *,
    columns: Json = ORDERS,
    partition_spec: Json | None = None,
    sort_order: Json | None = None,
    properties: dict[str, str] | None = None,
) -> Json:
    return build_table(
        uuid=UUID,
        location=LOCATION,
        schema=columns,
        partition_spec=partition_spec,
        sort_order=sort_order,
        properties={"format-version": str(version), **(properties or {})},
        now_ms=CREATED_MS,
    )


def snapshot(snapshot_id: int, *, parent: int | None = None, sequence: int | None = None, **more: object) -> Json:
    """A snapshot whose sequence number is its id; give `first_row` for v3."""
    update: Json = {
        "snapshot-id": snapshot_id,
        "sequence-number": snapshot_id if sequence is None else sequence,
        "timestamp-ms": CREATED_MS + snapshot_id * 1000,
        "manifest-list": f"{LOCATION}/metadata/snap-{snapshot_id}.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
        **hyphened(more),
    }
    return update if parent is None else {**update, "parent-snapshot-id": parent}


def add(snapshot_json: Json) -> Json:
    return {"action": "add-snapshot", "snapshot": snapshot_json}


def move(snapshot_id: int, ref: str = "main", kind: str = "branch", **more: object) -> Json:
    update: Json = {"action": "set-snapshot-ref", "ref-name": ref, "type": kind, "snapshot-id": snapshot_id}
    return {**update, **hyphened(more)}


def remove(*snapshot_ids: int) -> Json:
    return {"action": "remove-snapshots", "snapshot-ids": list(snapshot_ids)}


def applied(metadata: Json, *updates: Json, now_ms: int = NOW_MS, previous: str | None = None) -> Json:
    return apply_updates(metadata, updates, now_ms=now_ms, previous_location=previous)


def with_history(metadata: Json, length: int) -> Json:
    """The table after `length` appends to main, snapshots 1 to `length`; ten rows each in v3."""
    for number in range(1, length + 1):
        parent = number - 1 or None
        sequence = 0 if metadata["format-version"] == 1 else number
        rows = {"first_row_id": (number - 1) * 10, "added_rows": 10} if metadata["format-version"] >= 3 else {}
        snapshot_json = snapshot(number, parent=parent, sequence=sequence, **rows)
        metadata = applied(metadata, add(snapshot_json), move(number), now_ms=snapshot_json["timestamp-ms"])
    return metadata
