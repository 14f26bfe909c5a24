"""Comparison of a view's metadata before and after a commit."""

from __future__ import annotations

from collections.abc import Iterator

from catalog.history.change import Change, ChangeKind
from catalog.history.columns import compare_columns
from catalog.history.tables import compare_location, compare_properties
from catalog.iceberg.json import Json
from catalog.iceberg.view import current_version


def describe_created_view(metadata: Json) -> list[Change]:
    """The changes that describe a new view."""
    version = current_version(metadata)
    columns = ", ".join(field["name"] for field in read_version_schema(metadata, version)["fields"])
    return [
        Change(ChangeKind.CREATED, "", after=columns),
        *_compare_sql({}, read_sql_by_dialect(version)),
        *compare_properties({}, metadata.get("properties") or {}),
    ]


def compare_views(before: Json, after: Json) -> list[Change]:
    """All differences; empty if there are none."""
    if before is after:
        return []
    old, new = current_version(before), current_version(after)
    return [
        *compare_versions(before, old, after, new),
        *compare_properties(before.get("properties") or {}, after.get("properties") or {}),
        *compare_location(ChangeKind.LOCATION, before["location"], after["location"]),
        *compare_location(ChangeKind.VIEW_VERSION, str(old["version-id"]), str(new["version-id"])),
    ]


def compare_versions(before: Json, old: Json, after: Json, new: Json) -> list[Change]:
    """The differences of two versions of a view: SQL, columns, and the defaults for names in the SQL."""
    return [
        *_compare_sql(read_sql_by_dialect(old), read_sql_by_dialect(new)),
        *compare_columns(read_version_schema(before, old), read_version_schema(after, new)),
        *compare_location(ChangeKind.VIEW_DEFAULTS, _format_defaults(old), _format_defaults(new)),
    ]


def read_sql_by_dialect(version: Json) -> dict[str, str]:
    """A version's SQL by dialect. Dialects are in lower case, as engines compare them."""
    return {
        representation["dialect"].lower(): representation["sql"]
        for representation in version["representations"]
        if representation["type"].lower() == "sql"
    }


def read_version_schema(metadata: Json, version: Json) -> Json:
    """The columns of one version; none if the view's metadata lacks that schema."""
    wanted = version["schema-id"]
    schema: Json = next(
        (schema for schema in metadata["schemas"] if schema.get("schema-id", 0) == wanted), {"fields": []}
    )
    return schema


def _compare_sql(old: dict[str, str], new: dict[str, str]) -> Iterator[Change]:
    for dialect in sorted(old.keys() | new.keys()):
        if old.get(dialect) != new.get(dialect):
            yield Change(ChangeKind.SQL, dialect, old.get(dialect), new.get(dialect))


def _format_defaults(version: Json) -> str | None:
    parts = [version.get("default-catalog") or "", *(version.get("default-namespace") or ())]
    return ".".join(part for part in parts if part) or None
