"""Compares stored positions with the snapshots that have brought the records (docs/protocols.md, rule 6.1).

The two move in one transaction. They differ if somebody has edited the database, or restored a part of it.
"""

from __future__ import annotations

from catalog.commits.positions import NO_POSITION, show_difference
from catalog.commits.writers import PIPELINE, Progress, Writer, find_progress
from catalog.history.lineage import Lineage
from catalog.iceberg.json import Json
from catalog.iceberg.reading import MAIN, current_snapshot, ref_snapshot_id
from catalog.keyed.spec import LOG_POSITION, LOG_WRITER


def find_newest_progress(metadata: Json, name: str) -> Progress | None:
    """The newest step of a writer that main has; None if no snapshot that is left tells one."""
    lineage = Lineage.of(metadata)
    steps = (find_progress(lineage, snapshot_id, name) for snapshot_id in _list_ancestors(lineage, metadata))
    return next((step for step in steps if step is not None), None)


def find_position_problem(metadata: Json, writer: Writer) -> str | None:
    """How the stored position contradicts the table; None if it does not, or if the snapshots have expired.

    A writer that was fenced for good stays as it is when main moves, so it is not compared. The position of a
    pipeline's writer may also move without a commit (rule 8.3).
    """
    if writer.fenced_at is not None or writer.name.startswith(PIPELINE):
        return None
    newest = find_newest_progress(metadata, writer.name)
    if newest is not None and (newest.end, newest.snapshot_id) != (writer.position, writer.snapshot_id):
        stored, reached = show_difference(writer.position, newest.end)
        return f"the stored position is {stored}, but snapshot {newest.snapshot_id} has brought the table to {reached}"
    if newest is None and writer.snapshot_id is None and writer.position != NO_POSITION:
        return (
            f"the stored position is {show_difference(writer.position, NO_POSITION)[0]}, and no commit has reached it"
        )
    stamp = ((current_snapshot(metadata) or {}).get("summary") or {}).get(LOG_POSITION)
    if writer.name == LOG_WRITER and stamp is not None and stamp != writer.position:
        stored, stamped = show_difference(writer.position, stamp)
        return f"the stored position of the log is {stored}, but the newest snapshot says {stamped}"
    return None


def _list_ancestors(lineage: Lineage, metadata: Json) -> list[int]:
    return lineage.ancestors(ref_snapshot_id(metadata, MAIN))
