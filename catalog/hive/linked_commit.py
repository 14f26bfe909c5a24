"""Checks of commits to a table that is linked to Hive. A commit must keep what syncs need to read Hive's files.

Hive's files carry no field ids. Readers find their columns by the names in the table's name mapping, and the partition
of a file by the one partition spec that Hive's directories follow.
"""

from __future__ import annotations

from collections.abc import Sequence

from catalog.errors import CommitRefused
from catalog.hive.mapping import PROPERTY, build_name_mapping, read_aliases
from catalog.iceberg.json import Json
from catalog.iceberg.reading import MAIN
from catalog.iceberg.table import current_schema

_CHANGING = frozenset({"add-snapshot", "set-snapshot-ref", "add-schema", "set-current-schema"})


def check_linked_commit(metadata: Json, updates: Sequence[Json]) -> None:
    """Raise CommitRefused if the updates would change the meaning of Hive's files."""
    schema = next(
        (update["schema"] for update in updates if update.get("action") == "add-schema"), current_schema(metadata)
    )
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


def check_downgrading(updates: Sequence[Json]) -> None:
    """Raise CommitRefused if the updates would change rows or columns of a table that is being downgraded."""
    if any(update.get("action") in _CHANGING and update.get("ref-name", MAIN) == MAIN for update in updates):
        raise CommitRefused(
            "a downgrade gives the table back to Hive, so the table takes no changes any more",
            hint="write to the Hive table once `firn hive downgrade` has ended, or cancel that operation",
        )


def _check_mapping(metadata: Json, schema: Json, mapping: str) -> None:
    """Raise CommitRefused if a column loses a name in the mapping: engines would let another column take it."""
    try:
        new = set(read_aliases(mapping))
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
    """Whether it is the table's own spec. The client may leave the ids of its fields to the server."""
    specs = {spec_["spec-id"]: spec_ for spec_ in metadata["partition-specs"]}
    return _list_transforms(spec) == _list_transforms(specs[metadata["default-spec-id"]])


def _list_transforms(spec: Json) -> list[tuple[object, ...]]:
    return [(field.get("source-id"), field.get("transform")) for field in spec.get("fields") or ()]
