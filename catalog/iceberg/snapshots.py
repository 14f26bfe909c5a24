"""Updates of the content of a table: snapshots, refs, statistics, encryption keys, and the logs that follow."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.errors import Invalid, RequirementFailed
from catalog.iceberg.json import (
    HIGHEST_LONG,
    Json,
    child,
    children,
    integer,
    integer_or_none,
    integers,
    text,
    text_map,
    texts,
)
from catalog.iceberg.reading import MAIN, current_snapshot_id, sequence_number
from catalog.iceberg.structure import FIRST_VERSION_WITH_ROW_LINEAGE, TableDraft

CLOCK_TOLERANCE_MS = 60_000
"""Readers refuse metadata whose logs go back in time by more than this."""
LATEST_MS = 253_402_300_799_999
"""The last moment of the year 9999."""
_REF_AGES = ("max-ref-age-ms", "max-snapshot-age-ms", "min-snapshots-to-keep")


def add_snapshot(draft: TableDraft, update: Json) -> None:
    """Add a snapshot; no ref points at it yet.

    RequirementFailed, so that the client reads again and retries, when its sequence number or first row id has been
    overtaken by another commit.
    """
    snapshot = parse_snapshot(child(update, "snapshot", "add-snapshot"))
    if not (draft.items("schemas") and draft.items("partition-specs") and draft.items("sort-orders")):
        raise Invalid("Cannot add a snapshot before a schema, a partition spec and a sort order are added")
    snapshot_id = snapshot["snapshot-id"]
    if snapshot_id in draft.snapshots_by_id():
        raise Invalid(f"Snapshot already exists for id: {snapshot_id}")
    _advance_sequence_number(draft, snapshot)
    if draft.format_version >= FIRST_VERSION_WITH_ROW_LINEAGE:
        _advance_row_id(draft, snapshot)
    draft.own_items("snapshots").append(snapshot)
    draft.snapshots_by_id()[snapshot_id] = snapshot
    draft.added[snapshot_id] = snapshot


def parse_snapshot(snapshot: Json) -> Json:
    """The snapshot itself; Invalid when a field of it has the wrong type or a value that no reader can take."""
    integer(snapshot, "snapshot-id", "snapshot")
    if not 0 <= integer(snapshot, "timestamp-ms", "snapshot") <= LATEST_MS:
        raise Invalid(f"invalid snapshot: 'timestamp-ms' is outside the years 1970 to 9999: {snapshot['timestamp-ms']}")
    integer_or_none(snapshot, "parent-snapshot-id", "snapshot")
    if snapshot.get("manifest-list") is None and "manifests" in snapshot:
        texts(snapshot, "manifests", "snapshot")
    else:
        text(snapshot, "manifest-list", "snapshot")
    if "summary" in snapshot:
        text_map(snapshot, "summary", "snapshot")
    for key in ("first-row-id", "added-rows", "sequence-number"):
        if (integer_or_none(snapshot, key, "snapshot") or 0) < 0:
            raise Invalid(f"invalid snapshot: {key!r} cannot be negative: {snapshot[key]}")
    if snapshot.get("first-row-id") is not None and snapshot.get("added-rows") is None:
        raise Invalid("invalid snapshot: 'added-rows' is required when 'first-row-id' is set")
    return snapshot


def _advance_sequence_number(draft: TableDraft, snapshot: Json) -> None:
    number = sequence_number(snapshot)
    if draft.format_version == 1:
        if number:
            raise Invalid(f"invalid snapshot: its sequence number must be 0 in v1: {number}")
        return
    last: int = draft.fields.get("last-sequence-number") or 0
    if number <= last and snapshot.get("parent-snapshot-id") is not None:
        raise RequirementFailed(
            "Validation failed, please retry: "
            f"Cannot add snapshot with sequence number {number} older than last sequence number {last}"
        )
    if number > last:
        draft.set("last-sequence-number", number)


def _advance_row_id(draft: TableDraft, snapshot: Json) -> None:
    """Reserve the row ids that the snapshot uses.

    A snapshot that leaves a gap moves the counter past its own rows; by adding the row count alone, later snapshots
    would be given ids that this one uses.
    """
    first, following = snapshot.get("first-row-id"), draft.fields.get("next-row-id") or 0
    if first is None:
        raise Invalid("Cannot add a snapshot: first-row-id is null")
    if first < following:
        raise RequirementFailed(
            "Validation failed, please retry: "
            f"Cannot add a snapshot, first-row-id is behind table next-row-id: {first} < {following}"
        )
    following = first + snapshot["added-rows"]
    if following > HIGHEST_LONG:
        raise Invalid(f"invalid snapshot: its row ids go beyond {HIGHEST_LONG}: {following}")
    draft.set("next-row-id", following)


def set_snapshot_ref(draft: TableDraft, update: Json) -> None:
    """Create or move a branch or tag; moving main is what makes a snapshot current."""
    name, ref = text(update, "ref-name", "set-snapshot-ref"), parse_ref(update)
    if (draft.fields.get("refs") or {}).get(name) == ref:
        return
    snapshot_id = ref["snapshot-id"]
    snapshot = draft.snapshots_by_id().get(snapshot_id)
    if snapshot is None:
        raise Invalid(f"Cannot set {name} to unknown snapshot: {snapshot_id}")
    if name == MAIN:
        if ref["type"] != "branch":
            raise Invalid(f"Cannot set {MAIN} to a tag, it must be a branch")
        _make_current(draft, snapshot)
    draft.own_map("refs")[name] = ref


def parse_ref(update: Json) -> Json:
    """Parse set-snapshot-ref to the form of metadata. Raises Invalid if it is no branch or tag."""
    where = "set-snapshot-ref"
    ref = {key: value for key, value in update.items() if key not in {"action", "ref-name"} and value is not None}
    ref["type"] = text(update, "type", where).lower()
    if ref["type"] not in {"branch", "tag"}:
        raise Invalid(f"invalid {where}: unknown type {ref['type']!r}, it must be 'branch' or 'tag'")
    integer(ref, "snapshot-id", where)
    for key in _REF_AGES:
        value = integer_or_none(ref, key, where)
        if value is not None and value <= 0:
            raise Invalid(f"invalid {where}: {key!r} must be greater than 0")
        if value is not None and ref["type"] == "tag" and key != "max-ref-age-ms":
            raise Invalid(f"invalid {where}: tags do not support {key!r}")
    return ref


def _make_current(draft: TableDraft, snapshot: Json) -> None:
    snapshot_id = snapshot["snapshot-id"]
    draft.heads.append(snapshot_id)
    if draft.fields.get("current-snapshot-id") == snapshot_id:
        return
    draft.set("current-snapshot-id", snapshot_id)
    # a rollback happens now, whenever the snapshot was made
    changed_at = snapshot["timestamp-ms"] if snapshot_id in draft.added else draft.now_ms
    draft.own_items("snapshot-log").append({"timestamp-ms": changed_at, "snapshot-id": snapshot_id})


def remove_snapshot_ref(draft: TableDraft, update: Json) -> None:
    """Remove a branch or tag; without main the table has no current snapshot."""
    _drop_ref(draft, text(update, "ref-name", "remove-snapshot-ref"))


def _drop_ref(draft: TableDraft, name: str) -> None:
    if name in (draft.fields.get("refs") or {}):
        draft.own_map("refs").pop(name)
    if name == MAIN and current_snapshot_id(draft.fields) is not None:
        draft.set("current-snapshot-id", None)


def remove_snapshots(draft: TableDraft, update: Json) -> None:
    """Remove snapshots with their statistics; ids that are not there are passed over.

    RequirementFailed when a branch or tag that the request does not itself set or remove holds one of them: it was
    made since the client looked, and clients send no requirement that would say so.
    """
    snapshots = draft.snapshots_by_id()
    doomed = set(integers(update, "snapshot-ids", "remove-snapshots")) & snapshots.keys()
    if not doomed:
        return
    for name, ref in list((draft.fields.get("refs") or {}).items()):
        if ref["snapshot-id"] in doomed:
            if name not in draft.named_refs:
                held = f"{ref['type']} {name} holds snapshot {ref['snapshot-id']}"
                raise RequirementFailed(f"Requirement failed: {held}, it cannot be removed")
            _drop_ref(draft, name)
    draft.set("snapshots", [snapshot for snapshot in draft.items("snapshots") if snapshot["snapshot-id"] not in doomed])
    draft.snapshots = {
        snapshot_id: snapshot for snapshot_id, snapshot in snapshots.items() if snapshot_id not in doomed
    }
    draft.snapshots_removed = True
    for key in ("statistics", "partition-statistics"):
        _drop_statistics(draft, key, doomed)


def set_statistics(draft: TableDraft, update: Json) -> None:
    """Set a snapshot's statistics file in place of an earlier one."""
    file = child(update, "statistics", "set-statistics")
    integer(file, "file-footer-size-in-bytes", "statistics")
    for blob in children(file, "blob-metadata", "statistics"):
        _check_blob(blob)
    _replace_statistics(draft, "statistics", file)


def _check_blob(blob: Json) -> None:
    """Java cannot load a table whose statistics lack one of these."""
    text(blob, "type", "blob of statistics")
    integer(blob, "snapshot-id", "blob of statistics")
    integer(blob, "sequence-number", "blob of statistics")
    integers(blob, "fields", "blob of statistics")
    if "properties" in blob:
        text_map(blob, "properties", "blob of statistics")


def set_partition_statistics(draft: TableDraft, update: Json) -> None:
    """Set a snapshot's partition statistics file in place of an earlier one."""
    file = child(update, "partition-statistics", "set-partition-statistics")
    _replace_statistics(draft, "partition-statistics", file)


def _replace_statistics(draft: TableDraft, key: str, file: Json) -> None:
    snapshot_id = integer(file, "snapshot-id", key)
    text(file, "statistics-path", key)
    integer(file, "file-size-in-bytes", key)
    _drop_statistics(draft, key, {snapshot_id})
    draft.own_items(key).append(file)


def remove_statistics(draft: TableDraft, update: Json) -> None:
    """Forget a snapshot's statistics file."""
    _drop_statistics(draft, "statistics", {integer(update, "snapshot-id", "remove-statistics")})


def remove_partition_statistics(draft: TableDraft, update: Json) -> None:
    """Forget a snapshot's partition statistics file."""
    _drop_statistics(draft, "partition-statistics", {integer(update, "snapshot-id", "remove-partition-statistics")})


def _drop_statistics(draft: TableDraft, key: str, snapshot_ids: set[int]) -> None:
    kept = [file for file in draft.items(key) if file["snapshot-id"] not in snapshot_ids]
    if len(kept) < len(draft.items(key)):
        draft.set(key, kept)


def add_encryption_key(draft: TableDraft, update: Json) -> None:
    """Add a key; one with this id that is there already stays as it is."""
    key = child(update, "encryption-key", "add-encryption-key")
    key_id = text(key, "key-id", "encryption key")
    text(key, "encrypted-key-metadata", "encryption key")
    if all(existing["key-id"] != key_id for existing in draft.items("encryption-keys")):
        draft.own_items("encryption-keys").append(key)


def remove_encryption_key(draft: TableDraft, update: Json) -> None:
    """Remove a key; an unknown id is passed over."""
    key_id = text(update, "key-id", "remove-encryption-key")
    kept = [key for key in draft.items("encryption-keys") if key["key-id"] != key_id]
    if len(kept) < len(draft.items("encryption-keys")):
        draft.set("encryption-keys", kept)


def settle_snapshot_log(draft: TableDraft) -> None:
    """Make the snapshot log tell only what readers of the table could have seen.

    Snapshots that were current only between two updates of this request leave it.  Where a removed snapshot was
    current, everything before goes too: a gap would make time travel return the state before the gap.
    """
    current = current_snapshot_id(draft.fields)
    passing = {head for head in draft.heads if head in draft.added and head != current}
    if passing or draft.snapshots_removed:
        draft.set("snapshot-log", _visible(draft.items("snapshot-log"), passing, draft))
    if draft.heads:
        _order_new_entries(draft.own_items("snapshot-log"), len(draft.heads))


def _order_new_entries(log: list[Json], count: int) -> None:
    """Hold back the clocks of writers that differ so much that readers would refuse the log."""
    for at in range(max(1, len(log) - count), len(log)):
        earliest = log[at - 1]["timestamp-ms"] - CLOCK_TOLERANCE_MS
        if log[at]["timestamp-ms"] < earliest:
            log[at] = {**log[at], "timestamp-ms": earliest}


def _visible(log: Sequence[Json], passing: set[int], draft: TableDraft) -> list[Json]:
    snapshots = draft.snapshots_by_id()
    kept: list[Json] = []
    for entry in log:
        if entry["snapshot-id"] in snapshots:
            if entry["snapshot-id"] not in passing:
                kept.append(entry)
        elif draft.snapshots_removed:
            kept.clear()
    return kept
