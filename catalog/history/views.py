"""What a commit changed in a view, told from its metadata before and after."""

from __future__ import annotations

from collections.abc import Iterator

from catalog.history.change import Change, ChangeKind
from catalog.history.columns import column_changes
from catalog.history.tables import property_changes, where_differs
from catalog.iceberg.json import Json
from catalog.iceberg.view import current_version


def created_view(metadata: Json) -> list[Change]:
    """What a view was created with."""
    version = current_version(metadata)
    columns = ", ".join(field["name"] for field in schema_of_version(metadata, version)["fields"])
    return [
        Change(ChangeKind.CREATED, "", after=columns),
        *_sql({}, sql_by_dialect(version)),
        *property_changes({}, metadata.get("properties") or {}),
    ]


def view_changes(before: Json, after: Json) -> list[Change]:
    """Everything that differs; empty when nothing does."""
    if before is after:
        return []
    old, new = current_version(before), current_version(after)
    return [
        *version_changes(before, old, after, new),
        *property_changes(before.get("properties") or {}, after.get("properties") or {}),
        *where_differs(ChangeKind.LOCATION, before["location"], after["location"]),
        *where_differs(ChangeKind.VIEW_VERSION, str(old["version-id"]), str(new["version-id"])),
    ]


def version_changes(before: Json, old: Json, after: Json, new: Json) -> list[Change]:
    """What differs between two versions of a view: its SQL, its columns, and where names in it are looked up."""
    return [
        *_sql(sql_by_dialect(old), sql_by_dialect(new)),
        *column_changes(schema_of_version(before, old), schema_of_version(after, new)),
        *where_differs(ChangeKind.VIEW_DEFAULTS, _defaults(old), _defaults(new)),
    ]


def sql_by_dialect(version: Json) -> dict[str, str]:
    """A version's SQL per dialect, in lower case as engines compare them."""
    return {one["dialect"].lower(): one["sql"] for one in version["representations"] if one["type"].lower() == "sql"}


def schema_of_version(metadata: Json, version: Json) -> Json:
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
