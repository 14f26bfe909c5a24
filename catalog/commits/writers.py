"""Writers that bring the records of a source to a table, and the checks of their commits (docs/protocols.md#streams).

A commit may name its writer, the writer's epoch, the position from which it read, and the position that it reached.
The table then knows up to where it has the records of the source, so the writer needs no checkpoint of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from catalog.commits.positions import NO_POSITION, check_position, check_step, show_difference
from catalog.errors import Conflict, Invalid, PositionMoved, WriterFenced
from catalog.history.lineage import Lineage
from catalog.iceberg.json import Json
from catalog.iceberg.reading import MAIN
from catalog.keyed.spec import LOG_SKIP, POSITION, POSITION_FROM, WRITER_EPOCH, WRITER_ID
from catalog.names import RelationId

LONGEST_NAME = 255
PIPELINE = "pipeline:"
"""Begins the names of the writers of pipelines."""
MOST_WRITERS = 1_000
"""The number of writers that one table can have, those fenced for good included."""
_HIGHEST_EPOCH = 2**63 - 1
_PROGRESS = (WRITER_EPOCH, POSITION_FROM, POSITION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """A registered writer of a table or change store, and what the table has of its source."""

    relation_id: RelationId
    name: str
    epoch: int
    """The number of registrations. Only the copy that registered last may commit."""
    position: str = NO_POSITION
    registered_at: datetime
    registered_by: str | None = None
    """The principal; None without access control."""
    committed_at: datetime | None = None
    snapshot_id: int | None = None
    """The snapshot that brought the table to the position; None if no commit did."""
    fenced_at: datetime | None = None
    """When somebody ended the writer for good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress that a commit records: a writer's step from one position to the next."""

    writer: str
    epoch: int
    start: str
    end: str
    snapshot_id: int


def check_writer_name(name: str) -> None:
    """Raise Invalid unless the name is 1 to 255 printable characters without spaces at its ends."""
    if not _is_name(name):
        raise Invalid(
            f"{name[:LONGEST_NAME]!r} is not a name for a writer",
            hint=f"a name has 1 to {LONGEST_NAME} printable characters, and no space at its ends",
        )


def _is_name(name: str) -> bool:
    return 0 < len(name) <= LONGEST_NAME and name.isprintable() and name == name.strip()


def name_writer_with_progress(updates: Sequence[Json]) -> str | None:
    """The writer that a commit with a position names, before any check; None for commits without a position."""
    for summary in _list_summaries(updates):
        if _has_progress(summary):
            name = summary.get(WRITER_ID)
            return name if isinstance(name, str) and _is_name(name) else None
    return None


def read_progress(updates: Sequence[Json]) -> Progress | None:
    """The progress that a commit records; None for commits without a position, Invalid for malformed ones."""
    snapshots = [update["snapshot"] for update in updates if update.get("action") == "add-snapshot"]
    if not any(_has_progress(summary) for summary in _list_summaries(updates)):
        return None
    moves = [update for update in updates if update.get("action") == "set-snapshot-ref"]
    moved = [(move.get("ref-name"), move.get("snapshot-id")) for move in moves]
    if len(snapshots) != 1 or moved != [(MAIN, snapshots[0].get("snapshot-id"))]:
        raise Invalid(
            f"a commit with {POSITION} adds one snapshot, and makes it the head of main",
            hint="other branches have no positions: commit there without them",
        )
    return _parse_progress(snapshots[0])


def check_progress(writer: Writer | None, progress: Progress) -> None:
    """Raise WriterFenced for an earlier epoch (rule 6.2), PositionMoved for a commit from elsewhere (rule 6.1)."""
    if writer is None:
        raise Invalid(
            f"writer {progress.writer!r} is not registered for this table",
            hint="register it first: POST …/tables/{table}/writers/{writer}",
        )
    if writer.fenced_at is not None or progress.epoch < writer.epoch:
        raise WriterFenced(
            writer.name, progress.epoch, writer.epoch, at=writer.registered_at, ended_at=writer.fenced_at
        )
    if progress.epoch > writer.epoch:
        raise Invalid(
            f"epoch {progress.epoch} of writer {writer.name!r} was never registered; the newest is {writer.epoch}"
        )
    if progress.start != writer.position:
        repeats = progress.end == writer.position and writer.snapshot_id is not None
        start, stored = show_difference(progress.start, writer.position)
        raise PositionMoved(writer.name, start, stored, repeated_in=writer.snapshot_id if repeats else None)


def advance_writer(writer: Writer, progress: Progress, now: datetime) -> Writer:
    """The writer after its commit."""
    return replace(writer, position=progress.end, committed_at=now, snapshot_id=progress.snapshot_id)


def register_writer(writer: Writer, now: datetime, principal: str | None) -> Writer:
    """The writer with its next epoch; Conflict if somebody fenced it for good."""
    if writer.fenced_at is not None:
        raise Conflict(
            f"writer {writer.name!r} was fenced for good at {writer.fenced_at:%Y-%m-%d %H:%M:%S} UTC",
            hint="register the new writer under another name",
        )
    return replace(writer, epoch=writer.epoch + 1, registered_at=now, registered_by=principal)


def move_writers_with_main(before: Json, was: int, now: int, writers: Sequence[Writer]) -> list[Writer]:
    """The writers whose positions change when main moves from snapshot `was` to `now` of this metadata (rule 6.7).

    Raises Conflict if the metadata no longer has the snapshots that tell the positions at `now`.
    """
    lineage = Lineage.of(before)
    leaving, returning = lineage.only_in(was, now), lineage.only_in(now, was)
    open_writers = [writer for writer in writers if writer.fenced_at is None]
    if open_writers and not _meet(lineage, was, now):
        raise Conflict(
            f"the snapshots that tell the position of writer {open_writers[0].name!r} at snapshot {now} have expired",
            hint="fence the writers of the table first: `firn writer fence`",
        )
    moved = [_move_writer(writer, lineage, leaving, returning, now) for writer in open_writers]
    return [writer for writer in moved if writer not in open_writers]


def _move_writer(
    writer: Writer, lineage: Lineage, leaving: Sequence[int], returning: Sequence[int], now: int
) -> Writer:
    position = writer.position
    for snapshot_id in leaving:  # newest first
        progress = find_progress(lineage, snapshot_id, writer.name)
        position = position if progress is None else progress.start
    for snapshot_id in reversed(returning):
        progress = find_progress(lineage, snapshot_id, writer.name)
        position = position if progress is None else progress.end
    if position == writer.position:
        return writer
    steps = (find_progress(lineage, snapshot_id, writer.name) for snapshot_id in lineage.ancestors(now))
    newest = next((step.snapshot_id for step in steps if step is not None), None)
    return replace(writer, position=position, snapshot_id=newest)


def _meet(lineage: Lineage, was: int, now: int) -> bool:
    """Whether both lines lead to one snapshot, or to the empty table."""
    lines = lineage.ancestors(was), lineage.ancestors(now)
    oldest = [lineage.snapshots[line[-1]].get("parent-snapshot-id") for line in lines if line]
    return not set(lines[0]).isdisjoint(lines[1]) or oldest == [None, None]


def find_progress(lineage: Lineage, snapshot_id: int, name: str) -> Progress | None:
    """The step of this writer that the snapshot has brought; None if it has brought none."""
    snapshot = lineage.snapshots[snapshot_id]
    summary = snapshot.get("summary") or {}
    if summary.get(WRITER_ID) != name or not _has_progress(summary):
        return None
    try:
        return _parse_progress(snapshot)
    except Invalid:  # it came with the table's first metadata, which no check of commits has seen
        return None


def _list_summaries(updates: Sequence[Json]) -> list[Mapping[str, Any]]:
    snapshots = (update.get("snapshot") or {} for update in updates if update.get("action") == "add-snapshot")
    return [snapshot.get("summary") or {} for snapshot in snapshots]


def _has_progress(summary: Mapping[str, Any]) -> bool:
    return any(key in summary for key in _PROGRESS)


def _parse_progress(snapshot: Json) -> Progress:
    summary = snapshot.get("summary") or {}
    missing = [key for key in (WRITER_ID, *_PROGRESS) if not summary.get(key)]
    if missing:
        raise Invalid(
            f"a commit with a position needs {', '.join(missing)}, too",
            hint=f"registering the writer answers its epoch and its position; {POSITION_FROM} begins as {NO_POSITION}",
        )
    name, epoch = str(summary[WRITER_ID]), str(summary[WRITER_EPOCH])
    check_writer_name(name)
    if not (epoch.isascii() and epoch.isdecimal()) or len(epoch) > len(str(_HIGHEST_EPOCH)):
        raise Invalid(f"{WRITER_EPOCH}={epoch[:40]!r} is not an epoch", hint="registering the writer answers it")
    start, end = (check_position(key, summary[key]) for key in (POSITION_FROM, POSITION))
    if end == NO_POSITION:
        raise Invalid(f"{POSITION}={NO_POSITION} is not a position that a commit can reach")
    if summary.get(LOG_SKIP) != "true":  # a user moves the position, and knows what is lost
        check_step(start, end)
    return Progress(writer=name, epoch=int(epoch), start=start, end=end, snapshot_id=snapshot["snapshot-id"])
