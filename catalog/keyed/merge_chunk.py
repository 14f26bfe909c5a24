"""The part of a backlog that one merge takes: whole commits, the oldest first, up to a number of rows.

A chunk ends at a snapshot of the change store's main branch. It holds all appends above the watermark up to that
snapshot's sequence number. The merge reads these rows from the store's head by their own sequence numbers, not from
the snapshot itself. A clean may have removed merged deletes since. A late change that they would have beaten takes
effect for readers of the head, but not in the older snapshot (docs/protocols.md, rule 1.2).

Compactions keep each row's sequence number, so they do not move rows between chunks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_snapshot, sequence_number
from catalog.iceberg.summaries import read_number


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """All appends above the watermark up to this snapshot of the change store."""

    snapshot_id: int
    through: int
    rows: int
    is_last: bool
    """Whether only appends that come later stay pending."""


def choose_chunk(change: Json, *, watermark: int, max_rows: int | None) -> Chunk | None:
    """The longest run of commits that fits, but at least one with rows; None if nothing is above the watermark.

    If the history does not reach back to the watermark, the oldest snapshot includes all appends before it.
    """
    chunk: Chunk | None = None
    rows = 0
    above = list(_list_above(change, watermark))
    for snapshot in reversed(above):
        added = _count_appended_rows(snapshot)
        if chunk is not None and chunk.rows and max_rows is not None and rows + added > max_rows:
            return chunk
        rows += added
        is_last = snapshot is above[0]
        chunk = Chunk(
            snapshot_id=snapshot["snapshot-id"], through=sequence_number(snapshot), rows=rows, is_last=is_last
        )
    return chunk


def _list_above(change: Json, watermark: int) -> Iterator[Json]:
    """Main's snapshots above the watermark, newest first."""
    by_id = {snapshot["snapshot-id"]: snapshot for snapshot in change.get("snapshots") or ()}
    snapshot = current_snapshot(change)
    while snapshot is not None and sequence_number(snapshot) > watermark:
        yield snapshot
        snapshot = by_id.get(snapshot.get("parent-snapshot-id"))


def _count_appended_rows(snapshot: Json) -> int:
    """Rows that an append added; 0 for cleans and compactions, which bring no changes."""
    summary = snapshot.get("summary") or {}
    return read_number(summary, "added-records") if summary.get("operation") == "append" else 0
