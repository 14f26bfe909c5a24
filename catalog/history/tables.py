"""What a commit changed in a table, told from its metadata before and after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from catalog.history.change import Change, ChangeKind
from catalog.history.columns import compare_columns
from catalog.history.schema_text import format_iceberg_type, format_partitioning
from catalog.iceberg.formats import complete_metadata
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema, current_snapshot_id

_NAMED_IDS = 5
_AGES: Mapping[str, str] = {
    "max-ref-age-ms": "kept",
    "max-snapshot-age-ms": "its snapshots kept",
    "min-snapshots-to-keep": "snapshots kept at least",
}
_MS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))


def describe_created_table(metadata: Json) -> list[Change]:
    """What a table was created with."""
    fields = current_schema(metadata)["fields"]
    columns = ", ".join(f"{field['name']} {format_iceberg_type(field['type'])}" for field in fields)
    changes = [
        Change(ChangeKind.CREATED, "", after=columns),
        Change(ChangeKind.FORMAT, "", after=str(metadata["format-version"])),
        Change(ChangeKind.LOCATION, "", after=metadata["location"]),
        *compare_location(ChangeKind.PARTITIONING, None, _partitioning(metadata)),
        *compare_location(ChangeKind.SORT_ORDER, None, format_sort_order(metadata)),
        *compare_properties({}, metadata.get("properties") or {}),
    ]
    return [*changes, *_new_snapshots(metadata.get("snapshots") or []), *_refs({}, metadata)]


def compare_tables(before: Json, after: Json) -> list[Change]:
    """Everything that differs, columns first; empty when nothing does.

    Costs no more than the commit itself: what the two share is not looked into, and of the snapshots only those that
    came or went are.
    """
    if before is after:
        return []
    before = complete_metadata(before)
    return [
        *compare_location(ChangeKind.REPLACED, before.get("table-uuid"), after.get("table-uuid")),
        *compare_columns(current_schema(before), current_schema(after)),
        *compare_location(ChangeKind.PARTITIONING, _partitioning(before), _partitioning(after)),
        *compare_location(ChangeKind.SORT_ORDER, format_sort_order(before), format_sort_order(after)),
        *compare_location(ChangeKind.FORMAT, str(before["format-version"]), str(after["format-version"])),
        *compare_location(ChangeKind.LOCATION, before["location"], after["location"]),
        *compare_properties(before.get("properties") or {}, after.get("properties") or {}),
        *_snapshots(before, after),
        *_refs(before.get("refs") or {}, after),
        *_statistics(before, after),
        *_keys(before, after),
    ]


def compare_properties(before: Mapping[str, str], after: Mapping[str, str]) -> list[Change]:
    """Properties set, changed and removed, by name."""
    if before is after:
        return []
    return [
        Change(ChangeKind.PROPERTY, key, before.get(key), after.get(key))
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    ]


def compare_location(kind: ChangeKind, before: str | None, after: str | None) -> Iterator[Change]:
    """A change of the whole table or view, if it is one."""
    if before != after:
        yield Change(kind, "", before, after)


def _partitioning(metadata: Json) -> str | None:
    return ", ".join(format_partitioning(metadata)) or None


def format_sort_order(metadata: Json) -> str | None:
    """The table's own sort order, as people read it; None without one."""
    wanted = metadata.get("default-sort-order-id", 0)
    order = next((one for one in metadata.get("sort-orders") or () if one["order-id"] == wanted), None)
    if order is None or not order["fields"]:
        return None
    names = {field["id"]: field["name"] for field in current_schema(metadata)["fields"]}
    return ", ".join(_sort_field(field, names) for field in order["fields"])


def _sort_field(field: Json, names: Mapping[int, str]) -> str:
    ids: Sequence[int] = field.get("source-ids") or [field.get("source-id", -1)]
    column = ", ".join(names.get(one, f"field {one}") for one in ids)
    transform = field["transform"]
    shown = column if transform == "identity" else f"{transform}({column})"
    return f"{shown} {field.get('direction', 'asc')} {field.get('null-order', '').replace('-', ' ')}".rstrip()


def _snapshots(before: Json, after: Json) -> Iterator[Change]:
    """New ones are at the end of the list, whatever went from before it."""
    old, new = before.get("snapshots") or [], after.get("snapshots") or []
    if old is new:
        return
    added = _tail(old, new)
    yield from _new_snapshots(added)
    gone = len(old) + len(added) - len(new)
    if gone > 0:
        left = {one["snapshot-id"] for one in new}
        ids = [one["snapshot-id"] for one in old if one["snapshot-id"] not in left]
        more = ", …" if gone > _NAMED_IDS else ""
        yield Change(ChangeKind.EXPIRED, ", ".join(map(str, ids[:_NAMED_IDS])) + more, before=str(gone))


def _tail(old: Sequence[Json], new: Sequence[Json]) -> list[Json]:
    """What was added: a commit on a table with 20,000 snapshots must not look at each of them."""
    if old and len(new) > len(old) and new[len(old) - 1]["snapshot-id"] == old[-1]["snapshot-id"]:
        return list(new[len(old) :])
    known = {one["snapshot-id"] for one in old}
    return [one for one in new if one["snapshot-id"] not in known]


def _new_snapshots(snapshots: Sequence[Json]) -> Iterator[Change]:
    for snapshot in snapshots:
        operation = (snapshot.get("summary") or {}).get("operation", "unknown")
        parent = snapshot.get("parent-snapshot-id")
        yield Change(
            ChangeKind.SNAPSHOT, str(snapshot["snapshot-id"]), None if parent is None else str(parent), str(operation)
        )


def _refs(old: Json, after: Json) -> Iterator[Change]:
    new: Json = after.get("refs") or {}
    if old is new:
        return
    for name in sorted(old.keys() | new.keys()):
        one, other = old.get(name), new.get(name)
        if one == other:
            continue
        kind = ChangeKind.TAG if (other or one or {}).get("type") == "tag" else ChangeKind.BRANCH
        yield from _named(kind, name, _target(one), _target(other))
        if other is not None:
            yield from _named(ChangeKind.RETENTION, name, format_retention(one or {}), format_retention(other))


def _named(kind: ChangeKind, name: str, before: str | None, after: str | None) -> Iterator[Change]:
    if before != after:
        yield Change(kind, name, before, after)


def _target(ref: Json | None) -> str | None:
    return None if ref is None else str(ref["snapshot-id"])


def format_retention(ref: Json) -> str | None:
    """How long a branch or tag and its snapshots are kept; None when it is left to the table's own rules."""
    parts = []
    for key, says in _AGES.items():
        value = ref.get(key)
        if value is not None:
            parts.append(f"{says} {format_milliseconds(value) if key.endswith('-ms') else value}")
    return ", ".join(parts) or None


def format_milliseconds(milliseconds: int) -> str:
    """`7 d`, `36 h`: in the largest unit that leaves a whole number."""
    for unit, size in _MS:
        if milliseconds % size == 0:
            return f"{milliseconds // size} {unit}"
    return f"{milliseconds} ms"


def _statistics(before: Json, after: Json) -> Iterator[Change]:
    """Files that were set or removed; those that went with their snapshots are not worth a word."""
    for key in ("statistics", "partition-statistics"):
        old, new = before.get(key) or [], after.get(key) or []
        if old is new or old == new:
            continue
        was, now = ({one["snapshot-id"]: one["statistics-path"] for one in files} for files in (old, new))
        left = {one["snapshot-id"] for one in after.get("snapshots") or ()}
        for snapshot_id in sorted(was.keys() | now.keys()):
            if was.get(snapshot_id) != now.get(snapshot_id) and (snapshot_id in now or snapshot_id in left):
                yield Change(ChangeKind.STATISTICS, str(snapshot_id), was.get(snapshot_id), now.get(snapshot_id))


def _keys(before: Json, after: Json) -> Iterator[Change]:
    """The ids alone: what encrypts belongs into no history."""
    was, now = ({one["key-id"] for one in metadata.get("encryption-keys") or ()} for metadata in (before, after))
    for key_id in sorted(was ^ now):
        yield Change(
            ChangeKind.ENCRYPTION_KEY, key_id, "there" if key_id in was else None, "there" if key_id in now else None
        )


def read_table_state(metadata: Json) -> tuple[int | None, int | None]:
    """The current schema's id and main's snapshot: what makes a commit a version that can be gone back to."""
    return metadata.get("current-schema-id"), current_snapshot_id(metadata)
