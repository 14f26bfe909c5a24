"""Comparison of a table's metadata before and after a commit."""

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
    "max-ref-age-ms": "kept {}",
    "max-snapshot-age-ms": "its snapshots kept {}",
    "min-snapshots-to-keep": "at least {} snapshots kept",
}
_MS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))


def describe_created_table(metadata: Json) -> list[Change]:
    """The changes that describe a new table."""
    fields = current_schema(metadata)["fields"]
    columns = ", ".join(f"{field['name']} {format_iceberg_type(field['type'])}" for field in fields)
    changes = [
        Change(ChangeKind.CREATED, "", after=columns),
        Change(ChangeKind.FORMAT, "", after=str(metadata["format-version"])),
        Change(ChangeKind.LOCATION, "", after=metadata["location"]),
        *compare_location(ChangeKind.PARTITIONING, None, _format_partitioning(metadata)),
        *compare_location(ChangeKind.SORT_ORDER, None, format_sort_order(metadata)),
        *compare_properties({}, metadata.get("properties") or {}),
    ]
    return [*changes, *_describe_new_snapshots(metadata.get("snapshots") or []), *_compare_refs({}, metadata)]


def compare_tables(before: Json, after: Json) -> list[Change]:
    """All differences, columns first; empty if there are none.

    The cost is that of the commit, not of the table: shared parts are skipped, and only added or removed snapshots are
    read.
    """
    if before is after:
        return []
    before = complete_metadata(before)
    return [
        *compare_location(ChangeKind.REPLACED, before.get("table-uuid"), after.get("table-uuid")),
        *compare_columns(current_schema(before), current_schema(after)),
        *compare_location(ChangeKind.PARTITIONING, _format_partitioning(before), _format_partitioning(after)),
        *compare_location(ChangeKind.SORT_ORDER, format_sort_order(before), format_sort_order(after)),
        *compare_location(ChangeKind.FORMAT, str(before["format-version"]), str(after["format-version"])),
        *compare_location(ChangeKind.LOCATION, before["location"], after["location"]),
        *compare_properties(before.get("properties") or {}, after.get("properties") or {}),
        *_compare_snapshots(before, after),
        *_compare_refs(before.get("refs") or {}, after),
        *_compare_statistics(before, after),
        *_compare_encryption_keys(before, after),
    ]


def compare_properties(before: Mapping[str, str], after: Mapping[str, str]) -> list[Change]:
    """Properties that were set, changed or removed, by name."""
    if before is after:
        return []
    return [
        Change(ChangeKind.PROPERTY, key, before.get(key), after.get(key))
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    ]


def compare_location(kind: ChangeKind, before: str | None, after: str | None) -> Iterator[Change]:
    """A change of a value that the whole table or view has, if the value differs."""
    if before != after:
        yield Change(kind, "", before, after)


def _format_partitioning(metadata: Json) -> str | None:
    return ", ".join(format_partitioning(metadata)) or None


def format_sort_order(metadata: Json) -> str | None:
    """The table's own sort order as text for people; None without one."""
    wanted = metadata.get("default-sort-order-id", 0)
    order = next((order for order in metadata.get("sort-orders") or () if order["order-id"] == wanted), None)
    if order is None or not order["fields"]:
        return None
    names = {field["id"]: field["name"] for field in current_schema(metadata)["fields"]}
    return ", ".join(_format_sort_field(field, names) for field in order["fields"])


def _format_sort_field(field: Json, names: Mapping[int, str]) -> str:
    ids: Sequence[int] = field.get("source-ids") or [field.get("source-id", -1)]
    column = ", ".join(names.get(source_id, f"field {source_id}") for source_id in ids)
    transform = field["transform"]
    shown = column if transform == "identity" else f"{transform}({column})"
    return f"{shown} {field.get('direction', 'asc')} {field.get('null-order', '').replace('-', ' ')}".rstrip()


def _compare_snapshots(before: Json, after: Json) -> Iterator[Change]:
    """New snapshots are at the end of the list, even if older ones were removed."""
    old, new = before.get("snapshots") or [], after.get("snapshots") or []
    if old is new:
        return
    added = _find_added_snapshots(old, new)
    yield from _describe_new_snapshots(added)
    gone = len(old) + len(added) - len(new)
    if gone > 0:
        left = {snapshot["snapshot-id"] for snapshot in new}
        ids = [snapshot["snapshot-id"] for snapshot in old if snapshot["snapshot-id"] not in left]
        more = ", …" if gone > _NAMED_IDS else ""
        yield Change(ChangeKind.EXPIRED, ", ".join(map(str, ids[:_NAMED_IDS])) + more, before=str(gone))


def _find_added_snapshots(old: Sequence[Json], new: Sequence[Json]) -> list[Json]:
    """The added snapshots. A commit on a table with 20,000 snapshots must not read each of them."""
    if old and len(new) > len(old) and new[len(old) - 1]["snapshot-id"] == old[-1]["snapshot-id"]:
        return list(new[len(old) :])
    old_ids = {snapshot["snapshot-id"] for snapshot in old}
    return [snapshot for snapshot in new if snapshot["snapshot-id"] not in old_ids]


def _describe_new_snapshots(snapshots: Sequence[Json]) -> Iterator[Change]:
    for snapshot in snapshots:
        operation = (snapshot.get("summary") or {}).get("operation", "unknown")
        parent = snapshot.get("parent-snapshot-id")
        yield Change(
            ChangeKind.SNAPSHOT, str(snapshot["snapshot-id"]), None if parent is None else str(parent), str(operation)
        )


def _compare_refs(old: Json, after: Json) -> Iterator[Change]:
    new: Json = after.get("refs") or {}
    if old is new:
        return
    for name in sorted(old.keys() | new.keys()):
        was, now = old.get(name), new.get(name)
        if was == now:
            continue
        kind = ChangeKind.TAG if (now or was or {}).get("type") == "tag" else ChangeKind.BRANCH
        yield from _compare_value(kind, name, _format_target(was), _format_target(now))
        if now is not None:
            yield from _compare_value(ChangeKind.RETENTION, name, format_retention(was or {}), format_retention(now))


def _compare_value(kind: ChangeKind, name: str, before: str | None, after: str | None) -> Iterator[Change]:
    if before != after:
        yield Change(kind, name, before, after)


def _format_target(ref: Json | None) -> str | None:
    return None if ref is None else str(ref["snapshot-id"])


def format_retention(ref: Json) -> str | None:
    """The retention of a branch or tag and of its snapshots; None if the table's own rules apply."""
    parts = []
    for key, phrase in _AGES.items():
        value = ref.get(key)
        if value is not None:
            parts.append(phrase.format(format_milliseconds(value) if key.endswith("-ms") else value))
    return ", ".join(parts) or None


def format_milliseconds(milliseconds: int) -> str:
    """`7 d`, `36 h`: in the largest unit that gives a whole number."""
    for unit, size in _MS:
        if milliseconds % size == 0:
            return f"{milliseconds // size} {unit}"
    return f"{milliseconds} ms"


def _compare_statistics(before: Json, after: Json) -> Iterator[Change]:
    """Statistics files that were set or removed, without those of removed snapshots."""
    for key in ("statistics", "partition-statistics"):
        old, new = before.get(key) or [], after.get(key) or []
        if old is new or old == new:
            continue
        was, now = ({entry["snapshot-id"]: entry["statistics-path"] for entry in files} for files in (old, new))
        left = {snapshot["snapshot-id"] for snapshot in after.get("snapshots") or ()}
        for snapshot_id in sorted(was.keys() | now.keys()):
            if was.get(snapshot_id) != now.get(snapshot_id) and (snapshot_id in now or snapshot_id in left):
                yield Change(ChangeKind.STATISTICS, str(snapshot_id), was.get(snapshot_id), now.get(snapshot_id))


def _compare_encryption_keys(before: Json, after: Json) -> Iterator[Change]:
    """Only the key ids: the history must not hold encryption keys."""
    was, now = ({key["key-id"] for key in metadata.get("encryption-keys") or ()} for metadata in (before, after))
    for key_id in sorted(was ^ now):
        yield Change(
            ChangeKind.ENCRYPTION_KEY, key_id, "there" if key_id in was else None, "there" if key_id in now else None
        )


def read_table_state(metadata: Json) -> tuple[int | None, int | None]:
    """The current schema's id and main's snapshot: the two facts to which a table can go back."""
    return metadata.get("current-schema-id"), current_snapshot_id(metadata)
