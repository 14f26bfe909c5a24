"""Model of a time to live that reads apply (docs/protocols.md, rule 5.14).

A row has a day. Reads hide rows whose day is too old, before a ttl job deletes them. Writers upsert, or insert on an
insert-only table. A server builds images for a pair of snapshots and a cutoff, some as a layer on an older image. The
oracle replays the log, and leaves out the rows that are too old now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tests.models.explore import Check, Steps


class Rules(NamedTuple):
    """The parts of rule 5.14; without one of them a history goes wrong."""

    key_has_cutoff: bool = True
    """An image belongs to a cutoff, too: at a later one it is built again."""
    layers_share_cutoff: bool = True
    """A layer is built only on an image of the same cutoff."""
    hides_changes: bool = True
    """A pending row that is too old is in no image."""
    builds_anew: bool = True
    """Where rows of base decide about changes, each image is built from base, and not on an image that hides rows."""
    merges_all: bool = True
    """A merge brings rows into base that reads hide: they may become visible again, and feeds show their deletes."""


class Change(NamedTuple):
    key: str
    day: int
    sequence: int = 0


Rows = tuple[tuple[str, int], ...]


class Image(NamedTuple):
    b: int
    through: int  # of the change store
    cutoff: int
    rows: Rows


class World(NamedTuple):
    insert_only: bool
    base: Rows = ()
    b: int = 0
    watermark: int = 0
    changes: tuple[Change, ...] = ()
    log: tuple[Change | int, ...] = ()  # a number: rows before this day were deleted
    cutoff: int = 0
    images: tuple[Image, ...] = ()
    read: Rows | None = None
    left: tuple[tuple[str, int], ...] = (("commit", 3), ("tick", 2), ("grow", 1), ("job", 2), ("read", 3))


DAYS = (0, 1, 2)


def apply(rows: Rows, changes: Iterable[Change], *, insert_only: bool) -> Rows:
    merged = dict(rows)
    for change in changes:
        if not (insert_only and change.key in merged):
            merged[change.key] = change.day
    return tuple(sorted(merged.items()))


def hide(rows: Rows, cutoff: int) -> Rows:
    return tuple((key, day) for key, day in rows if day >= cutoff)


def replay(world: World) -> Rows:
    rows: Rows = ()
    for event in world.log:
        rows = hide(rows, event) if isinstance(event, int) else apply(rows, [event], insert_only=world.insert_only)
    return hide(rows, world.cutoff)


def check(world: World) -> str | None:
    if world.read is not None and world.read != replay(world):
        return "a read differs from the replay without old rows"
    return None


CHECK: Check[World] = check


def at_read_steps(rules: Rules) -> Steps[World]:
    def steps(world: World) -> Iterator[tuple[str, World]]:
        left, world = dict(world.left), world._replace(read=None)
        pending = _list_pending(world)
        if left["commit"]:
            for day in DAYS:
                change = Change("k", day, sequence=len(world.changes) + 1)
                committed = world._replace(changes=(*world.changes, change), log=(*world.log, change))
                yield f"commit day {day}", _spend(committed, "commit")
        if left["tick"]:
            yield "time passes", _spend(world._replace(cutoff=world.cutoff + 1), "tick")
        if left["grow"] and world.cutoff:
            yield "the age grows", _spend(world._replace(cutoff=world.cutoff - 1), "grow")
        if left["job"] and pending:
            rows = apply(world.base, pending, insert_only=world.insert_only)
            rows = rows if rules.merges_all else hide(rows, world.cutoff)
            merged = world._replace(base=rows, b=world.b + 1, watermark=pending[-1].sequence)
            yield "merge", _spend(merged, "job")
        if left["job"] and not pending:
            deleted = world._replace(base=hide(world.base, world.cutoff), b=world.b + 1, log=(*world.log, world.cutoff))
            yield "ttl", _spend(deleted, "job")
        if left["read"]:
            yield "read", _spend(_read(world, pending, rules), "read")

    return steps


def _list_pending(world: World) -> list[Change]:
    return [change for change in world.changes if change.sequence > world.watermark]


def _read(world: World, pending: list[Change], rules: Rules) -> World:
    """Serve an image of the pair, or build one: on an older image if there is one, else on base."""
    through = len(world.changes)
    for image in world.images:
        same_cutoff = image.cutoff == world.cutoff or not rules.key_has_cutoff
        if (image.b, image.through) == (world.b, through) and same_cutoff:
            return world._replace(read=image.rows)
    below = _find_below(world, rules)
    if below is None:
        rows = hide(world.base, world.cutoff) if not rules.builds_anew else world.base
        rows = apply(rows, pending, insert_only=world.insert_only)
    else:
        newer = [change for change in pending if change.sequence > below.through]
        rows = apply(below.rows, newer, insert_only=world.insert_only)
    shown = (
        hide(rows, world.cutoff)
        if rules.hides_changes
        else tuple((key, day) for key, day in rows if (key, day) not in world.base or day >= world.cutoff)
    )
    image = Image(world.b, through, world.cutoff, shown)
    return world._replace(images=(image, *world.images), read=shown)


def _find_below(world: World, rules: Rules) -> Image | None:
    if world.insert_only and rules.builds_anew:
        return None
    for image in world.images:
        if image.b == world.b and (image.cutoff == world.cutoff or not rules.layers_share_cutoff):
            return image
    return None


def _spend(world: World, kind: str) -> World:
    left = tuple((name, count - (name == kind)) for name, count in world.left)
    return world._replace(left=left)
