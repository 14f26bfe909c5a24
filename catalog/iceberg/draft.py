"""Metadata while it is being changed, and the updates that tables and views share.

A draft starts as a shallow copy: a list or map inside is copied the first time it is written and shared with the
original otherwise, so that adding a snapshot to a table with 20,000 of them costs one list copy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from catalog.errors import Invalid
from catalog.iceberg.json import Json, read_object, text, text_map, texts
from catalog.iceberg.schema import check_schema, choose_schema_id

LAST_ADDED = -1
"""In updates: the schema, spec, order or view version that an earlier update of the same request brought."""


AnyDraft = TypeVar("AnyDraft", bound="Draft")


@dataclass(slots=True, kw_only=True)
class Draft:
    """The new metadata (`fields`) beside what it was made from (`base`), which is never written."""

    base: Json
    now_ms: int
    fields: Json = field(init=False)
    changed: bool = False
    last_schema: int | None = None
    _owned: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.fields = dict(self.base)

    def set(self, key: str, value: object) -> None:
        """Give a top-level field a new value."""
        self.fields[key] = value
        self._owned.discard(key)
        self.changed = True

    def items(self, key: str) -> list[Json]:
        """The list at `key`, for reading."""
        rows: list[Json] = self.fields.get(key) or []
        return rows

    def own_items(self, key: str) -> list[Json]:
        """The list at `key`, for writing."""
        if key not in self._owned:
            self.fields[key] = list(self.items(key))
            self._owned.add(key)
        self.changed = True
        rows: list[Json] = self.fields[key]
        return rows

    def own_map(self, key: str) -> Json:
        """The object at `key`, for writing."""
        if key not in self._owned:
            self.fields[key] = dict(self.fields.get(key) or {})
            self._owned.add(key)
        self.changed = True
        entries: Json = self.fields[key]
        return entries


def apply_each(
    draft: AnyDraft, updates: Sequence[Json], handlers: Mapping[str, Callable[[AnyDraft, Json], None]], *, kind: str
) -> None:
    """Apply the updates in their order; an action that `handlers` lacks is Invalid."""
    for update in updates:
        read_object(update, "update")
        action = text(update, "action", "update").lower()
        handler = handlers.get(action)
        if handler is None:
            raise Invalid(f"cannot apply update {action!r} to a {kind}", hint=f"known: {', '.join(sorted(handlers))}")
        handler(draft, update)


def set_location(draft: Draft, update: Json) -> None:
    """Where new files go; a slash at the end is dropped, as readers do."""
    location = parse_location(text(update, "location", "set-location"))
    if draft.fields.get("location") != location:
        draft.set("location", location)


def parse_location(location: str) -> str:
    """The location without slashes at its end; Invalid when nothing is left."""
    stripped = location.rstrip("/")
    if not stripped or stripped.endswith(":"):
        raise Invalid(f"invalid location {location!r}: it must be a path or URI")
    return stripped


def set_properties(draft: Draft, update: Json) -> None:
    """Add or replace properties; clients older than the specification's text call the map `updated`."""
    updates = text_map(update, "updates" if "updates" in update else "updated", "set-properties")
    if updates:
        draft.own_map("properties").update(updates)


def remove_properties(draft: Draft, update: Json) -> None:
    """Remove properties; names that are not set are passed over."""
    removals = texts(update, "removals" if "removals" in update else "removed", "remove-properties")
    present = draft.fields.get("properties") or {}
    for name in removals:
        if name in present:
            draft.own_map("properties").pop(name, None)


def add_schema(draft: Draft, schema: Json, *, format_version: int, lowest_id: int) -> tuple[int, int]:
    """Add a schema unless an equal one is there; its id in this metadata and its highest field id.

    The schema counts as the last added one even when an equal one was there before: the client cannot know that.
    """
    fields = check_schema(schema, format_version)
    schema_id, reused = choose_schema_id(draft.items("schemas"), schema, lowest=lowest_id)
    if not reused:
        draft.own_items("schemas").append({**schema, "schema-id": schema_id})
    draft.last_schema = schema_id
    return schema_id, fields.highest_id


def resolve_last(requested: int, last: int | None, kind: str) -> int:
    """The id itself, or the last added one for -1; Invalid when nothing was added."""
    if requested != LAST_ADDED:
        return requested
    if last is None:
        raise Invalid(f"Cannot set last added {kind}: no {kind} has been added")
    return last
