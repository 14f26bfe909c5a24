"""The metadata of a new keyed table's stores."""

from __future__ import annotations

from uuid import uuid4

from catalog.errors import Invalid
from catalog.iceberg.json import Json
from catalog.iceberg.table import (
    apply_updates,
    build_empty_table,
    build_table,
    current_schema,
)
from catalog.keyed.column_rules import check_rules
from catalog.keyed.partial import check_fits, wants_partial
from catalog.keyed.schema import build_base_schema, build_change_schema
from catalog.keyed.sequence_groups import check_groups
from catalog.keyed.spec import INSERT_ONLY, KeySpec
from server.service.tables.tables import TableDefinition

_STORE_PROPERTIES = {
    # Only Firn deletes files: an engine's expiry or purge would delete files that old versions and Hive still need.
    "gc.enabled": "false",
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
    # A quarter of its default: in files as small as a merge's, a column of many values never outgrows it and costs a
    # fifth of the write, for files that are no smaller. See decision 38, and for those of the change store too.
    "write.parquet.dict-size-bytes": "524288",
}
_CHANGE_PROPERTIES = {
    "gc.enabled": "false",
    "write.parquet.compression-codec": "zstd",
    "write.parquet.dict-size-bytes": "4096",
}


def build_base_metadata(definition: TableDefinition, spec: KeySpec, *, location: str, now_ms: int) -> Json:
    """Build the base store's metadata for a definition; format version 3 unless its properties say otherwise.

    Invalid or CommitRefused if the properties, key and partitions do not fit each other.
    """
    if definition.properties.get(INSERT_ONLY, "false") != str(spec.is_insert_only).lower():
        raise Invalid(f"{INSERT_ONLY} is set when a keyed table is created", hint="create the table, and then insert")
    properties = {"format-version": "3"} | _STORE_PROPERTIES | dict(definition.properties) | spec.to_properties()
    base = build_table(
        uuid=str(uuid4()),
        location=location,
        schema=build_base_schema(definition.schema, spec),
        partition_spec=definition.partition_spec,
        sort_order=definition.sort_order,
        properties=properties | {"gc.enabled": "false"},
        now_ms=now_ms,
    )
    partial = wants_partial(properties)
    if partial:
        check_fits(base, spec)
    check_rules(base, spec, partial=partial)
    check_groups(base, spec, partial=partial)
    return base


def build_change_metadata(base: Json, *, location: str, now_ms: int) -> Json:
    """Build the change store's metadata over a base: the same columns and partitions, format version 3 for row ids."""
    schema = build_change_schema(current_schema(base), partial=wants_partial(base["properties"]))
    spec = next(spec for spec in base["partition-specs"] if spec["spec-id"] == base["default-spec-id"])
    properties = {key: value for key, value in base["properties"].items() if key.startswith("firn.")}
    properties |= _CHANGE_PROPERTIES
    updates: list[Json] = [
        {"action": "upgrade-format-version", "format-version": 3},
        {"action": "add-schema", "schema": schema},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"fields": spec["fields"]}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-properties", "updates": properties},
    ]
    start = build_empty_table(uuid=str(uuid4()), location=location)
    return apply_updates(start, updates, now_ms=now_ms, previous_location=None)
