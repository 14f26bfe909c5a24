"""How snapshots descend from one another: what a rollback takes from main, and what may be fast-forwarded."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from catalog.errors import Invalid, NotFound
from catalog.iceberg.json import Json
from catalog.iceberg.reading import MAIN, current_snapshot_id, ref_of, ref_snapshot_id
from catalog.iceberg.summaries import read_number


@dataclass(frozen=True, slots=True)
class Lineage:
    """The snapshots of a table by id, for as many questions as one request has."""

    snapshots: Mapping[int, Json]

    @classmethod
    def of(cls, metadata: Json) -> Lineage:
        """The lineage of everything that has not been expired."""
        return cls({one["snapshot-id"]: one for one in metadata.get("snapshots") or ()})

    def ancestors(self, snapshot_id: int | None) -> list[int]:
        """The snapshot and what it stands on, newest first, as far back as history goes."""
        found: list[int] = []
        seen: set[int] = set()
        while snapshot_id is not None and snapshot_id in self.snapshots and snapshot_id not in seen:
            found.append(snapshot_id)
            seen.add(snapshot_id)
            snapshot_id = self.snapshots[snapshot_id].get("parent-snapshot-id")
        return found

    def only_in(self, one: int | None, other: int | None) -> list[int]:
        """What stands under `one` and not under `other`, newest first."""
        under_other = set(self.ancestors(other))
        return [snapshot_id for snapshot_id in self.ancestors(one) if snapshot_id not in under_other]

    def descends(self, snapshot_id: int | None, *, ancestor: int | None) -> bool:
        """Whether the snapshot stands on `ancestor`, or is it."""
        return ancestor is None or ancestor in self.ancestors(snapshot_id)


class MainMove(StrEnum):
    """How a commit moved main, other than by a new snapshot on top of it."""

    NONE = "none"
    ROLLBACK = "rollback"  # to a snapshot that it stood on
    FORWARD = "fast-forward"  # to one that stands on it
    SET = "set main"  # to one beside it


def classify_main_move(before: Json, after: Json, added: Collection[int]) -> MainMove:
    """How main moved; NONE for the usual commit, which puts main on a snapshot that it brings itself (`added`)."""
    was, now = ref_snapshot_id(before, MAIN), ref_snapshot_id(after, MAIN)
    if was == now or was is None or now is None or now in added:
        return MainMove.NONE
    lineage = Lineage.of(after)
    if lineage.descends(now, ancestor=was):
        return MainMove.FORWARD
    return MainMove.ROLLBACK if now in Lineage.of(before).ancestors(was) else MainMove.SET


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What a table holds at one snapshot, as its summary says."""

    rows: int = 0
    files: int = 0
    bytes: int = 0

    @classmethod
    def of(cls, snapshot: Json | None) -> Totals:
        """Nothing, before the first snapshot."""
        summary = (snapshot or {}).get("summary") or {}
        return cls(
            rows=read_number(summary, "total-records"),
            files=read_number(summary, "total-data-files"),
            bytes=read_number(summary, "total-files-size"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """Main set back to (or forward to, when a rollback is undone) a snapshot of the table."""

    head: int
    target: int
    leaving: Sequence[int]
    """Snapshots that main will not stand on any more, newest first; the table keeps them until they expire."""
    returning: Sequence[int]
    """Snapshots that main will stand on again, newest first."""
    held: Mapping[int, Sequence[str]]
    """Branches and tags that name a leaving snapshot: it does not expire while they do."""
    now: Totals
    then: Totals

    @property
    def is_done(self) -> bool:
        """Main is there already: a request that is repeated after its answer was lost finds it so."""
        return self.head == self.target


def plan_rollback(metadata: Json, target: int) -> Rollback:
    """What setting main to `target` does; NotFound for a snapshot that the table has not, or not any more."""
    head = current_snapshot_id(metadata)
    lineage = Lineage.of(metadata)
    if head is None:
        raise Invalid("the table has no data: there is nothing to roll back")
    if target not in lineage.snapshots:
        raise NotFound(
            f"the table has no snapshot {target}",
            hint="it may have expired: `firn table snapshots` lists what is there",
        )
    leaving = lineage.only_in(head, target)
    return Rollback(
        head=head,
        target=target,
        leaving=leaving,
        returning=lineage.only_in(target, head),
        held=_held(metadata, leaving),
        now=Totals.of(lineage.snapshots.get(head)),
        then=Totals.of(lineage.snapshots[target]),
    )


def find_snapshot_at(metadata: Json, moment: datetime) -> int:
    """The snapshot that readers of main saw at a moment, as time travel finds it; NotFound before the first."""
    wanted = int(moment.timestamp() * 1000)
    found: int | None = None
    for entry in metadata.get("snapshot-log") or ():
        if entry["timestamp-ms"] <= wanted:
            found = entry["snapshot-id"]
    if found is None:
        raise NotFound(
            f"nothing is known of the table at {moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC",
            hint="it had no data then, or that part of its history has expired",
        )
    return found


def find_ref_or_snapshot(metadata: Json, text: str) -> int:
    """The snapshot that a branch, a tag or a snapshot's id names; NotFound when there is none."""
    ref = ref_of(metadata, text)
    if ref is not None:
        return int(ref["snapshot-id"])
    if text == MAIN:
        raise Invalid("the table has no data yet: main points at nothing")
    if text.isascii() and text.isdigit() and any(one["snapshot-id"] == int(text) for one in metadata["snapshots"]):
        return int(text)
    raise NotFound(f"the table has no snapshot, branch or tag {text}", hint="`firn table refs` lists what is there")


def _held(metadata: Json, snapshot_ids: Iterable[int]) -> dict[int, list[str]]:
    leaving = set(snapshot_ids)
    held: dict[int, list[str]] = {}
    for name, ref in (metadata.get("refs") or {}).items():
        if name != MAIN and ref["snapshot-id"] in leaving:
            held.setdefault(ref["snapshot-id"], []).append(name)
    return held
