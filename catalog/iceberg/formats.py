"""Differences of the format versions: completes old v1 files on reading, and writes the right fields."""

from __future__ import annotations

from catalog.errors import Invalid
from catalog.iceberg import partitioning, sorting
from catalog.iceberg.json import Json, child, children, integer, integer_or_none, read_object, text, text_map
from catalog.iceberg.reading import MAIN, current_schema, current_snapshot_id
from catalog.iceberg.schema import index, schema_id
from catalog.iceberg.snapshots import parse_snapshot
from catalog.iceberg.structure import FIRST_VERSION_WITH_ROW_LINEAGE, HIGHEST_VERSION


def complete_metadata(metadata: Json) -> Json:
    """The metadata with the lists and refs that the oldest v1 files lack."""
    missing: Json = {}
    if metadata.get("schemas") is None:
        schema = {**metadata["schema"], "schema-id": schema_id(metadata["schema"])}
        missing |= {"schemas": [schema], "current-schema-id": schema["schema-id"]}
    if metadata.get("partition-specs") is None:
        first = partitioning.FIRST_FIELD_ID
        fields = [{"field-id": first + at, **field} for at, field in enumerate(metadata["partition-spec"])]
        missing |= {"partition-specs": [{"spec-id": 0, "fields": fields}], "default-spec-id": 0}
    if metadata.get("last-partition-id") is None:
        specs = missing.get("partition-specs") or metadata["partition-specs"]
        missing["last-partition-id"] = max(partitioning.last_field_id(spec) for spec in specs)
    if metadata.get("sort-orders") is None:
        missing |= {"sort-orders": [sorting.UNSORTED], "default-sort-order-id": 0}
    if metadata.get("refs") is None:
        current = current_snapshot_id(metadata)
        missing["refs"] = {} if current is None else {MAIN: {"type": "branch", "snapshot-id": current}}
    return {**metadata, **missing} if missing else metadata


def checked(metadata: Json) -> Json:
    """Complete metadata of another program. Raises Invalid if it lacks fields that readers need."""
    where = "table metadata"
    if not 1 <= integer(metadata, "format-version", where) <= HIGHEST_VERSION:
        raise Invalid(f"format version {metadata['format-version']} is not supported")
    text(metadata, "table-uuid", where)
    text(metadata, "location", where)
    integer(metadata, "last-updated-ms", where)
    integer(metadata, "last-column-id", where)
    integer_or_none(metadata, "current-snapshot-id", where)
    if metadata.get("schemas") is None:
        child(metadata, "schema", where)
    if metadata.get("partition-specs") is None:
        children(metadata, "partition-spec", where)
    _check_snapshots(metadata)
    completed = complete_metadata(metadata)
    for schema in children(completed, "schemas", where):
        index(schema)
    if all(schema_id(schema) != completed.get("current-schema-id", 0) for schema in completed["schemas"]):
        raise Invalid(f"invalid {where}: it has no schema {completed.get('current-schema-id', 0)}")
    for spec in children(completed, "partition-specs", where):
        partitioning.last_field_id(spec)
    if all(partitioning.spec_id(spec) != completed.get("default-spec-id") for spec in completed["partition-specs"]):
        raise Invalid(f"invalid {where}: it has no partition spec {completed.get('default-spec-id')}")
    children(completed, "sort-orders", where)
    return completed


def _check_snapshots(metadata: Json) -> None:
    if metadata.get("snapshots") is not None:
        for snapshot in children(metadata, "snapshots", "table metadata"):
            parse_snapshot(snapshot)
    if metadata.get("refs") is not None:
        for name, ref in child(metadata, "refs", "table metadata").items():
            integer(read_object(ref, f"ref {name}"), "snapshot-id", f"ref {name}")
    if metadata.get("properties") is not None:
        text_map(metadata, "properties", "table metadata")


def format_metadata(metadata: Json) -> Json:
    """The metadata, a copy of our own, with exactly the fields that its format version asks for."""
    version = metadata["format-version"]
    metadata["current-snapshot-id"] = current_snapshot_id(metadata)
    if metadata["current-snapshot-id"] is None and version < FIRST_VERSION_WITH_ROW_LINEAGE:
        metadata["current-snapshot-id"] = -1
    if version == 1:
        metadata.pop("last-sequence-number", None)
        metadata["schema"] = current_schema(metadata)
        default = metadata["default-spec-id"]
        metadata["partition-spec"] = next(
            spec["fields"] for spec in metadata["partition-specs"] if spec["spec-id"] == default
        )
        return metadata
    metadata.setdefault("last-sequence-number", 0)
    metadata.pop("schema", None)
    metadata.pop("partition-spec", None)
    if metadata.get("table-uuid") is None:
        raise Invalid(f"a table in format v{version} needs a UUID", hint="send assign-uuid with the upgrade")
    if version >= FIRST_VERSION_WITH_ROW_LINEAGE:
        metadata.setdefault("next-row-id", 0)
    if not metadata.get("encryption-keys"):
        metadata.pop("encryption-keys", None)
    return metadata
