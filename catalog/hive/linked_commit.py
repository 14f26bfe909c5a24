"""What a commit may not do to a table that is linked to Hive: what the next sync needs to find Hive's rows by.

Hive's files carry no field ids. A column is found in them by the names that the mapping gives it, and a file belongs to
its partition by the one spec that Hive's directories follow.
"""

from __future__ import annotations

from collections.abc import Sequence

from catalog.errors import CommitRefused
from catalog.hive.mapping import PROPERTY, build_name_mapping, read_aliases
from catalog.iceberg.json import Json
from catalog.iceberg.reading import MAIN
from catalog.iceberg.table import current_schema

_CHANGING = frozenset({"add-snapshot", "set-snapshot-ref", "add-schema", "set-current-schema"})


def check_linked(metadata: Json, updates: Sequence[Json]) -> None:
    """CommitRefused when the updates would make Hive's files mean something else."""
    schema = next((one["schema"] for one in updates if one.get("action") == "add-schema"), current_schema(metadata))
    for update in updates:
        match update.get("action"):
            case "set-properties" if PROPERTY in (update.get("updates") or {}):
                _check_mapping(metadata, schema, str(update["updates"][PROPERTY]))
            case "remove-properties" if PROPERTY in (update.get("removals") or ()):
                raise CommitRefused(
                    f"{PROPERTY} stays while the table is linked to Hive: its files carry no field ids, and columns "
                    "would be taken from them by position"
                )
            case "add-spec" if not _is_spec(metadata, update.get("spec") or {}):
                raise CommitRefused(
                    "the partition spec stays while the table is linked to Hive, whose directories follow it",
                    hint="make a table of your own with another spec and write to it from this one",
                )
            case _:
                pass


def check_stays(updates: Sequence[Json]) -> None:
    """CommitRefused when the updates would change rows or columns of a table that is being downgraded to Hive."""
    if any(one.get("action") in _CHANGING and one.get("ref-name", MAIN) == MAIN for one in updates):
        raise CommitRefused(
            "the table is being downgraded to Hive and takes no changes any more",
            hint="write to the Hive table once `firn hive downgrade` has ended, or cancel that operation",
        )


def _check_mapping(metadata: Json, schema: Json, wanted: str) -> None:
    """Names may come, and go with their column: no column may lose one, as engines let another column take it over."""
    try:
        new = set(read_aliases(wanted))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CommitRefused(f"{PROPERTY} is no name mapping: {error}") from error
    kept = {field_id for field_id, _ in read_aliases(build_name_mapping(schema))}
    before = read_aliases(metadata.get("properties", {}).get(PROPERTY, "[]"))
    lost = sorted(name for field_id, name in before if field_id in kept and (field_id, name) not in new)
    if lost:
        raise CommitRefused(
            f"{PROPERTY} has to keep the name {lost[0]!r}: Hive's files hold a column of this table under it",
            hint="give a new column another name",
        )


def _is_spec(metadata: Json, spec: Json) -> bool:
    """Whether it is the table's own; its fields' ids may be left to the server."""
    default = next(one for one in metadata["partition-specs"] if one["spec-id"] == metadata["default-spec-id"])
    return _said(spec) == _said(default)


def _said(spec: Json) -> list[tuple[object, ...]]:
    return [(field.get("source-id"), field.get("transform")) for field in spec.get("fields") or ()]
