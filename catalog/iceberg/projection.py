"""Table metadata cut down for a reader: without old snapshots, or pinned to one of them."""

from __future__ import annotations

from catalog.errors import NotFound
from catalog.iceberg import partitioning, sorting
from catalog.iceberg.formats import complete_metadata, format_metadata
from catalog.iceberg.json import Json
from catalog.iceberg.reading import MAIN, schema_by_id, snapshot_by_id
from catalog.iceberg.schema import SchemaIndex, index


def keep_refs_only(metadata: Json) -> Json:
    """The metadata with only the snapshots that a branch or tag holds; history is loaded when it is needed."""
    held = {ref["snapshot-id"] for ref in complete_metadata(metadata)["refs"].values()}
    return {**metadata, "snapshots": [s for s in metadata.get("snapshots") or [] if s["snapshot-id"] in held]}


def pin_snapshot(metadata: Json, snapshot_id: int | None, *, schema_id: int) -> Json:
    """The table as if `snapshot_id` were its whole history, read under one of its schemas; None is an empty table.

    Equal arguments describe equal data for ever, so nothing in it tells when the table last changed.
    NotFound when the table has no such snapshot or schema, as after expiry.
    """
    metadata = complete_metadata(metadata)
    schema = schema_by_id(metadata, schema_id)
    snapshot = None if snapshot_id is None else snapshot_by_id(metadata, snapshot_id)
    if snapshot is None and snapshot_id is not None:
        raise NotFound(f"table {metadata.get('table-uuid')} has no snapshot {snapshot_id}: it may have been expired")
    only = {snapshot_id: snapshot} if snapshot else {}
    changed_at = snapshot["timestamp-ms"] if snapshot else 0
    return format_metadata(
        {
            **metadata,
            "last-updated-ms": changed_at,
            "current-schema-id": schema_id,
            **_defaults_for(metadata, index(schema)),
            "current-snapshot-id": snapshot_id,
            "snapshots": list(only.values()),
            "refs": {MAIN: {"type": "branch", "snapshot-id": snapshot_id}} if snapshot else {},
            "snapshot-log": [{"timestamp-ms": changed_at, "snapshot-id": snapshot_id}] if snapshot else [],
            "metadata-log": [],
            "statistics": _files_of(metadata, "statistics", snapshot_id),
            "partition-statistics": _files_of(metadata, "partition-statistics", snapshot_id),
        }
    )


def _defaults_for(metadata: Json, fields: SchemaIndex) -> Json:
    """Default spec and sort order that readers can bind to this schema, the table's own wherever they can."""
    specs = [spec for spec in metadata["partition-specs"] if partitioning.bindable(spec, fields)]
    orders = [order for order in metadata["sort-orders"] if sorting.bindable(order, fields)]
    return {
        "default-spec-id": _chosen([spec["spec-id"] for spec in specs], metadata["default-spec-id"]),
        "default-sort-order-id": _chosen([order["order-id"] for order in orders], metadata["default-sort-order-id"]),
    }


def _chosen(ids: list[int], preferred: int) -> int:
    return preferred if preferred in ids else max(ids, default=preferred)


def _files_of(metadata: Json, key: str, snapshot_id: int | None) -> list[Json]:
    return [file for file in metadata.get(key) or [] if file["snapshot-id"] == snapshot_id]
