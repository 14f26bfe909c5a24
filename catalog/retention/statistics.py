"""Statistics: the columns whose distinct values are counted, and whether the head has them already."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.errors import Invalid
from catalog.files.column_statistics import SKETCH
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema, current_snapshot, current_snapshot_id, schema_by_id
from firn.protocol.tasks.retention import StatisticsTask

_UNFIT = frozenset({"unknown", "variant", "geometry", "geography"})


def choose_statistics_columns(metadata: Json, wanted: Sequence[str] | None, *, all_without: bool) -> list[str]:
    """The columns to count, in the table's order; Invalid for one that is missing or has nested parts.

    Without `wanted`, all primitive columns if `all_without` is set, and Invalid otherwise.
    """
    types = {field["name"]: field["type"] for field in current_schema(metadata)["fields"]}
    if not wanted:
        if not all_without:
            raise Invalid("no column is counted: firn.statistics.columns is not set", hint="name columns, by commas")
        return [name for name, kind in types.items() if _is_fit(kind)]
    for name in wanted:
        if name not in types:
            raise Invalid(f"firn.statistics.columns: the table has no column {name}", hint="case matters")
        if not _is_fit(types[name]):
            raise Invalid(f"firn.statistics.columns: {name} has no single values to count")
    return [name for name in types if name in wanted]


def build_statistics_task(parts: Sequence[str], metadata: Json, columns: Sequence[str]) -> StatisticsTask:
    """The task of a count, without columns that the head's statistics have, and without columns newer than the head.

    It names columns as in the head's own schema, because Iceberg reads the head with that schema.
    """
    counted, names_in_head = list_counted_columns(metadata), _names_in_head(metadata)
    ids = {field["name"]: field["id"] for field in current_schema(metadata)["fields"]}
    present = [name for name in columns if ids[name] in names_in_head]
    missing = [name for name in present if name not in counted]
    return StatisticsTask(
        parts=list(parts),
        snapshot_id=current_snapshot_id(metadata),
        # A snapshot has one statistics file. A new one replaces the old one and must hold all columns.
        columns=[names_in_head[ids[name]] for name in present] if missing else [],
    )


def list_counted_columns(metadata: Json) -> list[str]:
    """The columns whose distinct values the head's statistics hold."""
    head = current_snapshot_id(metadata)
    names = {field["id"]: field["name"] for field in current_schema(metadata)["fields"]}
    return [
        names[field_id]
        for file in metadata.get("statistics") or ()
        if file["snapshot-id"] == head
        for blob in file.get("blob-metadata") or ()
        if blob.get("type") == SKETCH
        for field_id in blob.get("fields") or ()
        if field_id in names
    ]


def _names_in_head(metadata: Json) -> dict[int, str]:
    """The columns of the head's own schema by field id. The oldest snapshots do not name their schema."""
    head = current_snapshot(metadata) or {}
    schema = schema_by_id(metadata, head["schema-id"]) if "schema-id" in head else current_schema(metadata)
    return {field["id"]: field["name"] for field in schema["fields"]}


def _is_fit(kind: object) -> bool:
    return isinstance(kind, str) and kind.partition("(")[0] not in _UNFIT
