"""Partial columns: changes that set some columns of a row and leave the others (docs/protocols.md, rule 1.7).

A keyed table with the property `firn.partial` has the column `_set` in its change store: the ids of the columns that a
change sets, as in `3,5`; null for all columns. The column, not the property, makes a table partial: it belongs to the
same metadata as the snapshot that a reader or a merge reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from catalog.errors import CommitRefused, Invalid
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema
from catalog.keyed.column_rules import read_rules
from catalog.keyed.spec import INSERT_ONLY, KeyedTable, KeySpec
from firn.protocol.partial import SET, SET_ID, ColumnRule, read_groups

PARTIAL = "firn.partial"
SET_COLUMN: Json = {
    "id": SET_ID,
    "name": SET,
    "required": False,
    "type": "string",
    "doc": "the ids of the columns that the change sets, as in 3,5; null for all",
}


def is_partial(change: Json) -> bool:
    """Whether changes may set some columns only, by the metadata of the change store."""
    return has_set_column(current_schema(change))


def has_set_column(schema: Json) -> bool:
    """Whether a schema of a change store has `_set`."""
    return any(field["id"] == SET_ID for field in schema["fields"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Folding:
    """How changes that set some columns become one row, for the columns of a table in order.

    `ids` are the columns' field ids, as `_set` names them; `rules` say how values are combined, None that the newest
    one counts. `types` are Iceberg's; those of nested columns are empty. `sequences` name the sequence field of each
    column's group; None for columns in no group.
    """

    ids: tuple[int, ...]
    rules: tuple[ColumnRule | None, ...]
    types: tuple[str, ...]
    sequences: tuple[str | None, ...]


def read_folding(base: Json, change: Json) -> Folding | None:
    """How the changes of a keyed table are folded; None if each of them sets all columns."""
    if not is_partial(change):
        return None
    properties = base.get("properties") or {}
    fields, rules, groups = current_schema(base)["fields"], read_rules(properties), read_groups(properties)
    return Folding(
        ids=tuple(field["id"] for field in fields),
        rules=tuple(rules.get(field["name"]) for field in fields),
        types=tuple(field["type"] if isinstance(field["type"], str) else "" for field in fields),
        sequences=tuple(groups.get(field["name"]) for field in fields),
    )


def wants_partial(properties: Mapping[str, str]) -> bool:
    """The value of the property; Invalid for a text that is neither `true` nor `false`."""
    text = properties.get(PARTIAL, "false")
    if text not in ("true", "false"):
        raise Invalid(f"{PARTIAL}={text!r}: expected true or false")
    return text == "true"


def check_fits(base: Json, spec: KeySpec) -> None:
    """CommitRefused if a table of this key and this metadata cannot have partial changes."""
    if spec.sequence_field is not None:
        raise CommitRefused(
            f"{PARTIAL} and firn.sequence-field exclude each other: base stores one value of the sequence field for "
            "a row, and partial changes would need one for each column",
            hint="leave out one of the two; firn.group.<group>.sequence-field orders columns that are set together",
        )
    if spec.is_insert_only:
        raise CommitRefused(
            f"{PARTIAL} and {INSERT_ONLY} exclude each other: a table that takes inserts only never changes a column",
            hint="leave out one of the two",
        )
    if any(field["name"] == SET for field in current_schema(base)["fields"]):
        raise CommitRefused(f"column name {SET!r} is taken by the change store", hint="rename the column first")
    for partition_spec in base["partition-specs"]:
        check_partitioned_by_key(base, spec, partition_spec["fields"])


def check_switch(base: Json, change: Json, keyed: KeyedTable, *, linked: bool) -> None:
    """CommitRefused unless a table of whole rows can get partial columns now."""
    if linked:
        raise CommitRefused(f"a table that is linked to Hive cannot have {PARTIAL}: rebuilds replay whole rows")
    if keyed.pending_commits:
        raise CommitRefused(
            f"merge first: {PARTIAL} can be switched on only while nothing is pending",
            hint="run `firn table merge TABLE`, then try again",
        )
    check_fits(base, keyed.spec)
    for partition_spec in change["partition-specs"]:
        check_partitioned_by_key(base, keyed.spec, partition_spec["fields"])


def check_partitioned_by_key(base: Json, spec: KeySpec, fields: Iterable[Json]) -> None:
    """CommitRefused for a partition field of a column outside of the key.

    A partial change need not have the column's value. So the partition of the change would not be that of the row.
    """
    by_id = {field["id"]: field["name"] for field in current_schema(base)["fields"]}
    for field in fields:
        column = by_id.get(field["source-id"], f"with id {field['source-id']}")
        if field["transform"] != "void" and column not in spec.primary_key:
            raise CommitRefused(
                f"a table with {PARTIAL} can only be partitioned by columns of its primary key, and {column} is none",
                hint="partition by the key, for example bucket(16, KEY), or leave the partitioning out",
            )
