"""Looking things up in table metadata, including the oldest v1 files, which lack lists and refs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from catalog.errors import NotFound
from catalog.iceberg.json import Json
from catalog.iceberg.schema import schema_id

MAIN = "main"


def list_schemas(metadata: Json) -> list[Json]:
    """All schemas; the oldest tables have one, outside the list."""
    schemas: list[Json] | None = metadata.get("schemas")
    return [metadata["schema"]] if schemas is None else schemas


def current_schema(metadata: Json) -> Json:
    """The schema that the table is read and written with."""
    return schema_by_id(metadata, metadata.get("current-schema-id", 0))


def schema_by_id(metadata: Json, requested_id: int) -> Json:
    """One of the table's schemas; raise NotFound if the table has no schema with this id."""
    for schema in list_schemas(metadata):
        if schema_id(schema) == requested_id:
            return schema
    raise NotFound(f"table {metadata.get('table-uuid')} has no schema {requested_id}")


def field_by_name(schema: Json, name: str) -> Json | None:
    """The top-level column of exactly this name, or None."""
    fields: list[Json] = schema["fields"]
    return next((field for field in fields if field["name"] == name), None)


def current_snapshot_id(metadata: Json) -> int | None:
    """The id of the current snapshot; the formats write "none" as null, as -1 or not at all."""
    current: int | None = metadata.get("current-snapshot-id")
    return None if current is None or current < 0 else current


def current_snapshot(metadata: Json) -> Json | None:
    """The snapshot that a plain read returns, or None for a table without data."""
    current = current_snapshot_id(metadata)
    return None if current is None else snapshot_by_id(metadata, current)


def snapshot_by_id(metadata: Json, snapshot_id: int) -> Json | None:
    """The snapshot; None if it never existed or has expired."""
    snapshots: list[Json] = metadata.get("snapshots") or []
    # Requests are nearly always for new snapshots, which are at the end.
    return next((snapshot for snapshot in reversed(snapshots) if snapshot["snapshot-id"] == snapshot_id), None)


def unlisted_manifests(snapshot: Mapping[str, Any]) -> list[str]:
    """The manifests that a snapshot names itself, as the oldest v1 tables do; none where it has a manifest list."""
    named: list[str] = snapshot.get("manifests") or []
    return named if snapshot.get("manifest-list") is None else []


def sequence_number(snapshot: Json) -> int:
    """The snapshot's sequence number; 0 for those of format v1."""
    return int(snapshot.get("sequence-number") or 0)


def ref_of(metadata: Json, name: str) -> Json | None:
    """The branch or tag of this name, or None; where metadata is older than refs, main is the current snapshot."""
    refs: dict[str, Json] | None = metadata.get("refs")
    if refs is not None:
        return refs.get(name)
    current = current_snapshot_id(metadata)
    return {"type": "branch", "snapshot-id": current} if name == MAIN and current is not None else None


def ref_snapshot_id(metadata: Json, name: str) -> int | None:
    """The id of the snapshot that a branch or tag holds, or None when there is no such ref."""
    ref = ref_of(metadata, name)
    return None if ref is None else int(ref["snapshot-id"])
