"""How much of a backlog one merge takes: whole commits, the oldest first, within a number of rows.

A chunk ends at a snapshot of the change store's main branch, and is all that was appended above the watermark up to
that snapshot's sequence number. Its rows are read from the store's head, by their own sequence numbers, not from the
snapshot itself: a clean may have let go merged deletes since, and a late change that they would have beaten takes
effect for readers of the head; merged from the older snapshot it would not (docs/protocols.md, rule 1.2). Compactions
keep each row's sequence number, so packed files blur no chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_snapshot, sequence_number
from catalog.iceberg.summaries import read_number


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """What one merge takes: everything appended above the watermark and up to this snapshot of the change store."""

    snapshot_id: int
    through: int
    rows: int
    is_last: bool
    """Whether nothing stays pending but what is appended meanwhile."""


def choose_chunk(change: Json, *, watermark: int, max_rows: int | None) -> Chunk | None:
    """The longest run of commits that fits, but always one with rows; None when nothing lies above the watermark.

    Where history does not reach back to the watermark, the oldest snapshot stands for all that is missing before it.
    """
    found: Chunk | None = None
    rows = 0
    above = list(_above(change, watermark))
    for snapshot in reversed(above):
        added = _appended_rows(snapshot)
        if found is not None and found.rows and max_rows is not None and rows + added > max_rows:
            return found
        rows += added
        is_last = snapshot is above[0]
        found = Chunk(
            snapshot_id=snapshot["snapshot-id"], through=sequence_number(snapshot), rows=rows, is_last=is_last
        )
    return found


def _above(change: Json, watermark: int) -> Iterator[Json]:
    """Main's snapshots above the watermark, newest first."""
    by_id = {snapshot["snapshot-id"]: snapshot for snapshot in change.get("snapshots") or ()}
    snapshot = current_snapshot(change)
    while snapshot is not None and sequence_number(snapshot) > watermark:
        yield snapshot
        snapshot = by_id.get(snapshot.get("parent-snapshot-id"))


def _appended_rows(snapshot: Json) -> int:
    """Cleans and compactions bring no changes, however many rows they write."""
    summary = snapshot.get("summary") or {}
    return read_number(summary, "added-records") if summary.get("operation") == "append" else 0
