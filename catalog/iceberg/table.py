"""Table metadata: made for a new table, changed by a commit's updates, cut down for a reader.

The rules are those of the Iceberg REST specification as its Java reference implementation applies them.  Where this
code is stricter or kinder than that, the function concerned says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from catalog.errors import Invalid
from catalog.iceberg import partitioning, snapshots, sorting, structure
from catalog.iceberg.draft import apply_each, parse_location, remove_properties, set_location, set_properties
from catalog.iceberg.formats import complete_metadata, format_metadata
from catalog.iceberg.json import Json, drop_nulls, read_object
from catalog.iceberg.projection import keep_refs_only, pin_snapshot
from catalog.iceberg.reading import (
    current_schema,
    current_snapshot,
    current_snapshot_id,
    field_by_name,
    ref_snapshot_id,
    schema_by_id,
    sequence_number,
    snapshot_by_id,
)
from catalog.iceberg.requirements import check_requirements
from catalog.iceberg.schema import SchemaIndex, assign_fresh_ids, check_schema
from catalog.iceberg.structure import FIRST_VERSION_WITH_ROW_LINEAGE, HIGHEST_VERSION, TableDraft

__all__ = [
    "apply_updates",
    "build_empty_table",
    "build_table",
    "check_requirements",
    "current_schema",
    "current_snapshot",
    "current_snapshot_id",
    "field_by_name",
    "keep_refs_only",
    "pin_snapshot",
    "ref_snapshot_id",
    "schema_by_id",
    "sequence_number",
    "snapshot_by_id",
]

DEFAULT_FORMAT_VERSION = 2
RESERVED_PROPERTIES = frozenset(
    {
        "format-version",
        "uuid",
        "snapshot-count",
        "current-snapshot-summary",
        "current-snapshot-id",
        "current-snapshot-timestamp-ms",
        "current-schema",
        "default-partition-spec",
        "default-sort-order",
    }
)
"""Properties that steer a request and are never stored."""
_NEW_TABLE_PROPERTIES = {"write.parquet.compression-codec": "zstd"}
_COUNT_PROPERTIES = tuple(
    f"commit.retry.{name}" for name in ("num-retries", "min-wait-ms", "max-wait-ms", "total-timeout-ms")
)
_METRICS_PREFIX = "write.metadata.metrics.column."
_LOG_LENGTH_PROPERTY = "write.metadata.previous-versions-max"
_LOG_LENGTH = 100


def build_table(
    *,
    uuid: str,
    location: str,
    schema: Json,
    partition_spec: Json | None,
    sort_order: Json | None,
    properties: Mapping[str, str],
    now_ms: int,
) -> Json:
    """Metadata of a table without data, its columns and partition fields numbered anew.

    The property `format-version` chooses the format (2 unless given); like the other reserved ones it is not stored.
    """
    version = _format_version(properties)
    schema, partition_spec, sort_order = map(drop_nulls, (schema, partition_spec, sort_order))
    fresh_schema, ids = assign_fresh_ids(schema, schema_id=0)
    fields = check_schema(fresh_schema, version)
    spec = partitioning.assign_spec_ids(partition_spec, ids)
    partitioning.check_spec(spec, fields, format_version=version)
    order = sorting.assign_sort_ids(sort_order, ids)
    sorting.check_order(order, fields)
    _check_new_properties(properties, fields, version)
    stored = {key: value for key, value in properties.items() if key not in RESERVED_PROPERTIES}
    metadata: Json = {
        **build_empty_table(uuid=uuid, location=location),
        "format-version": version,
        "last-updated-ms": now_ms,
        "last-column-id": len(ids),
        "schemas": [fresh_schema],
        "partition-specs": [spec],
        "last-partition-id": partitioning.last_field_id(spec),
        "sort-orders": [order],
        "default-sort-order-id": sorting.order_id(order),
        "properties": {**_NEW_TABLE_PROPERTIES, **stored},
    }
    return format_metadata(metadata)


def build_empty_table(*, uuid: str, location: str) -> Json:
    """What the commit of a create transaction starts from: a table without even a schema.

    Apply its updates to this; they bring everything, may replace id and location, and may choose any format version.
    It is not metadata that readers accept before that.
    """
    return {
        "format-version": DEFAULT_FORMAT_VERSION,
        "table-uuid": uuid,
        "location": parse_location(location),
        "last-sequence-number": 0,
        "last-updated-ms": 0,
        "last-column-id": 0,
        "current-schema-id": 0,
        "schemas": [],
        "default-spec-id": 0,
        "partition-specs": [],
        "last-partition-id": 0,
        "default-sort-order-id": 0,
        "sort-orders": [],
        "properties": {},
        "current-snapshot-id": None,
        "refs": {},
        "snapshots": [],
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": [],
        "metadata-log": [],
    }


def _format_version(properties: Mapping[str, str]) -> int:
    value = properties.get("format-version", str(DEFAULT_FORMAT_VERSION))
    if value not in map(str, range(1, HIGHEST_VERSION + 1)):
        raise Invalid(f"Unsupported format version: v{value} (supported: v1 to v{HIGHEST_VERSION})")
    return int(value)


def _check_new_properties(properties: Mapping[str, str], fields: SchemaIndex, version: int) -> None:
    """Refuse on creation what would make every later commit or write fail."""
    for name in _COUNT_PROPERTIES:
        value = properties.get(name)
        if value is not None and not (value.isascii() and value.isdigit()):
            raise Invalid(f"table property {name} must be a non-negative integer, not {value!r}")
    for name in properties:
        column = name.removeprefix(_METRICS_PREFIX)
        if column != name and column not in fields.by_name:
            raise Invalid(f"table property {name} names the column {column!r}, which the schema does not have")
    encryption = {"encryption.key-id", "encryption.data-key-length"} & properties.keys()
    if encryption and version < FIRST_VERSION_WITH_ROW_LINEAGE:
        raise Invalid(f"table properties {', '.join(sorted(encryption))} are not supported until v3")


def apply_updates(metadata: Json, updates: Sequence[Json], *, now_ms: int, previous_location: str | None) -> Json:
    """New metadata with the updates applied in their order; `metadata` itself when they change nothing.

    The input is never written; what did not change is shared with it.  `previous_location` is the file that holds
    `metadata`, for the metadata log; None for a table that is being created.

    Invalid when an update makes no sense for this table; RequirementFailed when it made sense before a commit that
    the client has not seen, so that reading again and retrying helps.
    """
    draft = TableDraft(base=complete_metadata(metadata), now_ms=now_ms, named_refs=_named_refs(updates))
    apply_each(draft, updates, TABLE_UPDATES, kind="table")
    if not draft.changed and not draft.is_new:
        return metadata
    if draft.layout_changed or draft.is_new:
        structure.check_layout(draft)
    snapshots.settle_snapshot_log(draft)
    if previous_location is not None:
        _log_previous(draft, previous_location)
    draft.set("last-updated-ms", _update_time(draft))
    return format_metadata(draft.fields)


def _named_refs(updates: Sequence[Json]) -> frozenset[str]:
    names = [read_object(update, "update").get("ref-name") for update in updates]
    return frozenset(name for name in names if isinstance(name, str))


TABLE_UPDATES: Mapping[str, Callable[[TableDraft, Json], None]] = {
    "assign-uuid": structure.assign_uuid,
    "upgrade-format-version": structure.upgrade_format_version,
    "add-schema": structure.add_table_schema,
    "set-current-schema": structure.set_current_schema,
    "remove-schemas": structure.remove_schemas,
    "add-spec": structure.add_spec,
    "set-default-spec": structure.set_default_spec,
    "remove-partition-specs": structure.remove_specs,
    "add-sort-order": structure.add_sort_order,
    "set-default-sort-order": structure.set_default_sort_order,
    "add-snapshot": snapshots.add_snapshot,
    "remove-snapshots": snapshots.remove_snapshots,
    "set-snapshot-ref": snapshots.set_snapshot_ref,
    "remove-snapshot-ref": snapshots.remove_snapshot_ref,
    "set-statistics": snapshots.set_statistics,
    "remove-statistics": snapshots.remove_statistics,
    "set-partition-statistics": snapshots.set_partition_statistics,
    "remove-partition-statistics": snapshots.remove_partition_statistics,
    "add-encryption-key": snapshots.add_encryption_key,
    "remove-encryption-key": snapshots.remove_encryption_key,
    "set-location": set_location,
    "set-properties": set_properties,
    "remove-properties": remove_properties,
}


def _log_previous(draft: TableDraft, previous_location: str) -> None:
    value = (draft.fields.get("properties") or {}).get(_LOG_LENGTH_PROPERTY, str(_LOG_LENGTH))
    try:
        length = max(1, int(value))
    except ValueError as error:
        raise Invalid(f"table property {_LOG_LENGTH_PROPERTY} must be an integer, not {value!r}") from error
    entry = {"timestamp-ms": draft.base["last-updated-ms"], "metadata-file": previous_location}
    draft.set("metadata-log", [*draft.items("metadata-log"), entry][-length:])


def _update_time(draft: TableDraft) -> int:
    """Now, unless this clock is so far behind those that wrote the logs that readers would refuse the metadata."""
    logged = [entry["timestamp-ms"] for entry in draft.items("snapshot-log")[-1:]]
    newest: int = max([draft.base["last-updated-ms"], *logged])
    return max(draft.now_ms, newest - snapshots.CLOCK_TOLERANCE_MS)
