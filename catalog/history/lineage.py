"""The ancestry of snapshots: what a rollback removes from main, and which branches can be fast-forwarded."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from catalog.errors import Invalid, NotFound
from catalog.iceberg.json import Json
from catalog.iceberg.reading import MAIN, current_snapshot_id, ref_of, ref_snapshot_id, snapshot_by_id
from catalog.iceberg.summaries import read_number


@dataclass(frozen=True, slots=True)
class Lineage:
    """The snapshots of a table by id. Build it once for all questions of a request."""

    snapshots: Mapping[int, Json]

    @classmethod
    def of(cls, metadata: Json) -> Lineage:
        """The lineage of all snapshots that the metadata holds."""
        return cls({snapshot["snapshot-id"]: snapshot for snapshot in metadata.get("snapshots") or ()})

    def ancestors(self, snapshot_id: int | None) -> list[int]:
        """The snapshot and its ancestors, newest first, as far back as the metadata reaches."""
        ancestors: list[int] = []
        seen: set[int] = set()
        while snapshot_id is not None and snapshot_id in self.snapshots and snapshot_id not in seen:
            ancestors.append(snapshot_id)
            seen.add(snapshot_id)
            snapshot_id = self.snapshots[snapshot_id].get("parent-snapshot-id")
        return ancestors

    def with_following(self, snapshot_ids: Collection[int], head: int | None) -> frozenset[int]:
        """These snapshots, and the history of `head` from the oldest of them on: what tells the changes since then."""
        ancestors = self.ancestors(head)
        last = max((number for number, ancestor in enumerate(ancestors) if ancestor in snapshot_ids), default=-1)
        return frozenset((*snapshot_ids, *ancestors[: last + 1]))

    def only_in(self, snapshot_id: int | None, other_id: int | None) -> list[int]:
        """The ancestors of `snapshot_id` that are no ancestors of `other_id`, newest first."""
        other_ancestors = set(self.ancestors(other_id))
        return [ancestor for ancestor in self.ancestors(snapshot_id) if ancestor not in other_ancestors]

    def descends(self, snapshot_id: int | None, *, ancestor: int | None) -> bool:
        """Whether the snapshot descends from `ancestor`, or is it."""
        return ancestor is None or ancestor in self.ancestors(snapshot_id)


class MainMove(StrEnum):
    """The kind of a move of main that is no new snapshot on top of it."""

    NONE = "none"
    ROLLBACK = "rollback"  # to an ancestor
    FORWARD = "fast-forward"  # to a descendant
    SET = "set main"  # to a snapshot that is neither


def classify_main_move(before: Json, after: Json, added: Collection[int]) -> MainMove:
    """The move of main. NONE for the usual commit, which sets main to a snapshot that it adds itself (`added`)."""
    was, now = ref_snapshot_id(before, MAIN), ref_snapshot_id(after, MAIN)
    if was == now or was is None or now is None or now in added:
        return MainMove.NONE
    lineage = Lineage.of(after)
    if lineage.descends(now, ancestor=was):
        return MainMove.FORWARD
    return MainMove.ROLLBACK if now in Lineage.of(before).ancestors(was) else MainMove.SET


def find_snapshots_of_move(before: Json, after: Json, added: Iterable[Json]) -> tuple[int, int] | None:
    """From which snapshot main moves to which older one, or to one of another branch; None if it stays or grows.

    One commit may set main back and add a snapshot there: Iceberg's transactions do. The snapshot to which main moves
    is the one below the `added` ones. A commit whose snapshots have no parent replaces the table, and is no move.
    """
    was, now = ref_snapshot_id(before, MAIN), ref_snapshot_id(after, MAIN)
    parents = {snapshot["snapshot-id"]: snapshot.get("parent-snapshot-id") for snapshot in added}
    while now in parents:
        now = parents.pop(now)
    if was is None or now is None or was == now or snapshot_by_id(before, now) is None:
        return None
    return was, now


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The rows, files and bytes of a table at one snapshot, from its summary."""

    rows: int = 0
    files: int = 0
    bytes: int = 0

    @classmethod
    def of(cls, snapshot: Json | None) -> Totals:
        """The totals of a snapshot; zeros for None, the state before the first snapshot."""
        summary = (snapshot or {}).get("summary") or {}
        return cls(
            rows=read_number(summary, "total-records"),
            files=read_number(summary, "total-data-files"),
            bytes=read_number(summary, "total-files-size"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """A rollback of main to a snapshot of the table, or forward to one when a rollback is undone."""

    head: int
    target: int
    leaving: Sequence[int]
    """Snapshots that main no longer descends from, newest first. The table keeps them until they expire."""
    returning: Sequence[int]
    """Snapshots that main descends from again, newest first."""
    held: Mapping[int, Sequence[str]]
    """Branches and tags on leaving snapshots, by snapshot id. They prevent the snapshot's expiry."""
    now: Totals
    then: Totals

    @property
    def is_done(self) -> bool:
        """Whether main is at the target already, as after a repeated request whose first response was lost."""
        return self.head == self.target


def plan_rollback(metadata: Json, target: int) -> Rollback:
    """The plan of setting main to `target`; NotFound if the table does not have the snapshot, or no longer has it."""
    head = current_snapshot_id(metadata)
    lineage = Lineage.of(metadata)
    if head is None:
        raise Invalid("the table has no data: there is nothing to roll back")
    if target not in lineage.snapshots:
        raise NotFound(
            f"the table has no snapshot {target}",
            hint="it may have expired: `firn table snapshots` lists the snapshots",
        )
    leaving = lineage.only_in(head, target)
    return Rollback(
        head=head,
        target=target,
        leaving=leaving,
        returning=lineage.only_in(target, head),
        held=_find_refs(metadata, leaving),
        now=Totals.of(lineage.snapshots.get(head)),
        then=Totals.of(lineage.snapshots[target]),
    )


def find_snapshot_at(metadata: Json, moment: datetime) -> int:
    """The snapshot that readers of main saw at `moment`, as in time travel; NotFound before the first."""
    wanted = int(moment.timestamp() * 1000)
    snapshot_id: int | None = None
    for entry in metadata.get("snapshot-log") or ():
        if entry["timestamp-ms"] <= wanted:
            snapshot_id = entry["snapshot-id"]
    if snapshot_id is None:
        raise NotFound(
            f"the table has no recorded snapshot at {moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC",
            hint="it had no data then, or that part of its history has expired",
        )
    return snapshot_id


def find_ref_or_snapshot(metadata: Json, text: str) -> int:
    """The snapshot that a branch, a tag or a snapshot id names; NotFound if there is none."""
    ref = ref_of(metadata, text)
    if ref is not None:
        return int(ref["snapshot-id"])
    if text == MAIN:
        raise Invalid("the table has no data yet: main points at nothing")
    if (
        text.isascii()
        and text.isdigit()
        and any(snapshot["snapshot-id"] == int(text) for snapshot in metadata["snapshots"])
    ):
        return int(text)
    raise NotFound(f"the table has no snapshot, branch or tag {text}", hint="`firn table refs` lists branches and tags")


def _find_refs(metadata: Json, snapshot_ids: Iterable[int]) -> dict[int, list[str]]:
    leaving = set(snapshot_ids)
    held: dict[int, list[str]] = {}
    for name, ref in (metadata.get("refs") or {}).items():
        if name != MAIN and ref["snapshot-id"] in leaving:
            held.setdefault(ref["snapshot-id"], []).append(name)
    return held
