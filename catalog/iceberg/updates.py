"""A commit's updates as clients send them, brought into one spelling before anybody judges them.

A judge knows an update by its action and looks inside it. What would be applied under a spelling that no judge knows
passes every rule, so there is one spelling behind the edge, and what judges read has the type that they expect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from catalog.iceberg.json import Json, child, drop_nulls, integers, read_object, text, text_map, texts
from catalog.iceberg.schema import identifier_ids, index
from catalog.iceberg.snapshots import parse_ref, parse_snapshot

_STORED = frozenset(
    {"schema", "spec", "sort-order", "snapshot", "statistics", "partition-statistics", "encryption-key", "view-version"}
)
"""The part of an update that goes into the metadata unchanged."""


def parse_updates(updates: Sequence[Json]) -> list[Json]:
    """The updates with their actions in lower case and under the specification's names; Invalid when one is malformed.

    Actions that are not known here pass: whoever applies the updates refuses them.
    """
    return [_parsed(read_object(update, "update")) for update in updates]


def _parsed(update: Json) -> Json:
    action = text(update, "action", "update").lower()
    stored = {key: drop_nulls(update[key]) for key in _STORED & update.keys()}
    named = {**update, **stored, "action": action}
    return _PARSERS[action](named) if action in _PARSERS else named


def _set_properties(update: Json) -> Json:
    return _renamed(update, "updated", "updates", text_map)


def _remove_properties(update: Json) -> Json:
    return _renamed(update, "removed", "removals", texts)


def _renamed(update: Json, old: str, key: str, read: Callable[[Json, str, str], object]) -> Json:
    """Clients older than the specification's text have another word for it."""
    value = read(update, key if key in update else old, update["action"])
    return {name: entry for name, entry in update.items() if name != old} | {key: value}


def _add_snapshot(update: Json) -> Json:
    parse_snapshot(child(update, "snapshot", "add-snapshot"))
    return update


def _add_schema(update: Json) -> Json:
    schema = child(update, "schema", "add-schema")
    index(schema)
    identifier_ids(schema)
    return update


def _remove_snapshots(update: Json) -> Json:
    integers(update, "snapshot-ids", "remove-snapshots")
    return update


def _set_ref(update: Json) -> Json:
    text(update, "ref-name", "set-snapshot-ref")
    return {**update, "type": parse_ref(update)["type"]}


def _with_text(key: str) -> Callable[[Json], Json]:
    def parse(update: Json) -> Json:
        text(update, key, update["action"])
        return update

    return parse


_PARSERS: Mapping[str, Callable[[Json], Json]] = {
    "add-schema": _add_schema,
    "add-snapshot": _add_snapshot,
    "assign-uuid": _with_text("uuid"),
    "remove-properties": _remove_properties,
    "remove-snapshot-ref": _with_text("ref-name"),
    "remove-snapshots": _remove_snapshots,
    "set-location": _with_text("location"),
    "set-properties": _set_properties,
    "set-snapshot-ref": _set_ref,
}
