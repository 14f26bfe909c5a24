"""Sequence groups: columns of which the change with the greatest sequence value wins (docs/protocols.md, rule 1.10).

A group stands in the properties `firn.group.<group>.columns` and `firn.group.<group>.sequence-field`, fixed at
creation, of a table with partial columns. The sequence field belongs to the group, whether the columns name it or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from catalog.errors import CommitRefused, Invalid
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema
from catalog.keyed.column_rules import read_rules
from catalog.keyed.schema import has_order
from catalog.keyed.spec import LOG_TOPIC, KeySpec
from firn.protocol.partial import list_group_columns, name_group, read_groups

_PREFIX = "firn.group."


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceGroup:
    """Columns of a table that are set together; `sequence_field` orders their values, and is one of `columns`."""

    name: str
    columns: Sequence[str]
    sequence_field: str


def parse_groups(properties: Mapping[str, str]) -> list[SequenceGroup]:
    """The groups of a table's properties. Invalid for one without columns or sequence field, or with bad names."""
    for key in properties:
        if key.startswith(_PREFIX) and name_group(key) is None:
            raise Invalid(
                f"unknown property {key}",
                hint=f"a group has the properties {_PREFIX}<group>.columns and {_PREFIX}<group>.sequence-field",
            )
    names = dict.fromkeys(name for key in properties if (name := name_group(key)) is not None)
    return [_parse_group(name, properties) for name in names]


def _parse_group(name: str, properties: Mapping[str, str]) -> SequenceGroup:
    key = f"firn.group.{name}"
    missing = [part for part in ("columns", "sequence-field") if f"{key}.{part}" not in properties]
    if missing:
        raise Invalid(f"group {name!r} has no {key}.{missing[0]}", hint="a group needs columns and a sequence field")
    text, sequence = properties[f"{key}.columns"], properties[f"{key}.sequence-field"]
    columns = list_group_columns(text)
    if not all(columns) or len({*columns}) != len(columns):
        raise Invalid(f"{key}.columns={text!r}: expected different column names, separated by commas")
    if columns == [sequence]:
        raise Invalid(
            f"{key}.columns={text!r}: the group has no column besides its sequence field",
            hint="name the columns that the sequence field orders",
        )
    return SequenceGroup(name=name, columns=[*dict.fromkeys([*columns, sequence])], sequence_field=sequence)


def check_groups(base: Json, spec: KeySpec, *, partial: bool) -> None:
    """Invalid if the groups of a new table do not fit its columns."""
    properties = base.get("properties") or {}
    groups, owners = parse_groups(properties), dict[str, str]()
    if groups and not partial:
        raise Invalid(f"group {groups[0].name!r} needs firn.partial=true", hint="set all of these properties")
    if groups and LOG_TOPIC in properties:
        raise Invalid(
            f"a table with {LOG_TOPIC} cannot have the group {groups[0].name!r}: a record may leave out a part of it",
            hint="leave out the group, or write the changes with firn.spark",
        )
    types = {field["name"]: field["type"] for field in current_schema(base)["fields"]}
    ruled = read_rules(properties)
    for group in groups:
        for reason in _list_reasons(group, types, spec, owners):
            raise Invalid(f"group {group.name!r}: {reason}")
        for column in group.columns:
            if column in ruled:
                raise Invalid(f"group {group.name!r}: column {column!r} has a rule; leave out one of the two")
        owners |= dict.fromkeys(group.columns, group.name)


def _list_reasons(
    group: SequenceGroup, types: Mapping[str, object], spec: KeySpec, owners: Mapping[str, str]
) -> Iterator[str]:
    """The reasons why a group does not fit a table, of whose columns `owners` belong to other groups."""
    for column in group.columns:
        if column not in types:
            yield f"the table has no column {column!r}; it has {', '.join(types)} (case matters)"
        elif column in spec.primary_key:
            yield f"column {column!r} is part of the primary key, which no change sets"
        elif column in owners:
            yield f"column {column!r} belongs to the group {owners[column]!r} already"
    kind = types[group.sequence_field]
    if not has_order(kind):
        shown = kind if isinstance(kind, str) else "nested"
        yield (
            f"column {group.sequence_field!r} cannot be the sequence field: its type is {shown}, which has no order "
            "that engines agree on"
        )


def check_grouped_columns(new: Json, old: Json, properties: Mapping[str, str]) -> None:
    """CommitRefused if a schema change drops, renames or changes the type of a column in a group, which names it."""
    by_id, grouped = {field["id"]: field for field in new["fields"]}, read_groups(properties)
    for field in old["fields"]:
        kept = by_id.get(field["id"]) or {}
        is_same = (kept.get("name"), kept.get("type")) == (field["name"], field["type"])
        if field["name"] in grouped and not is_same:
            raise CommitRefused(
                f"column {field['name']!r} belongs to a sequence group: it cannot be dropped, renamed or widened"
            )
