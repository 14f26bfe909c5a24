"""What a commit changed in a view, told from its metadata before and after."""

from __future__ import annotations

from collections.abc import Iterator

from catalog.history.change import Change, ChangeKind
from catalog.history.columns import compare_columns
from catalog.history.tables import compare_location, compare_properties
from catalog.iceberg.json import Json
from catalog.iceberg.view import current_version


def describe_created_view(metadata: Json) -> list[Change]:
    """What a view was created with."""
    version = current_version(metadata)
    columns = ", ".join(field["name"] for field in read_version_schema(metadata, version)["fields"])
    return [
        Change(ChangeKind.CREATED, "", after=columns),
        *_sql({}, read_sql_by_dialect(version)),
        *compare_properties({}, metadata.get("properties") or {}),
    ]


def compare_views(before: Json, after: Json) -> list[Change]:
    """Everything that differs; empty when nothing does."""
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
    """What differs between two versions of a view: its SQL, its columns, and where names in it are looked up."""
    return [
        *_sql(read_sql_by_dialect(old), read_sql_by_dialect(new)),
        *compare_columns(read_version_schema(before, old), read_version_schema(after, new)),
        *compare_location(ChangeKind.VIEW_DEFAULTS, _defaults(old), _defaults(new)),
    ]


def read_sql_by_dialect(version: Json) -> dict[str, str]:
    """A version's SQL per dialect, in lower case as engines compare them."""
    return {one["dialect"].lower(): one["sql"] for one in version["representations"] if one["type"].lower() == "sql"}


def read_version_schema(metadata: Json, version: Json) -> Json:
    """The columns of one version; none where the view has lost their schema."""
    wanted = version["schema-id"]
    found: Json = next((one for one in metadata["schemas"] if one.get("schema-id", 0) == wanted), {"fields": []})
    return found


def _sql(old: dict[str, str], new: dict[str, str]) -> Iterator[Change]:
    for dialect in sorted(old.keys() | new.keys()):
        if old.get(dialect) != new.get(dialect):
            yield Change(ChangeKind.SQL, dialect, old.get(dialect), new.get(dialect))


def _defaults(version: Json) -> str | None:
    parts = [version.get("default-catalog") or "", *(version.get("default-namespace") or ())]
    return ".".join(part for part in parts if part) or None
