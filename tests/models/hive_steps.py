"""The steps of the model in `tests.models.hive`, what it is started with, and what must hold at each moment."""

from __future__ import annotations

from collections.abc import Iterator

from tests.models.explore import Check, Steps
from tests.models.hive import (
    File,
    HiveSync,
    Rules,
    World,
    append_change,
    budget,
    is_overtaken,
    list_directory,
    merge,
    read_view,
    rows_of,
    signatures,
    spend,
)

PUBLISH = ("publish writes a new directory", "publish commits base", "HMS is repointed")
OPENINGS: dict[str, tuple[str, ...]] = {
    "fresh": (),
    "published while an add is open": ("Firn upserts f1", "Hive add resolves hive", *PUBLISH),
    "published while an overwrite is open": ("Firn upserts f1", "Hive overwrite resolves hive", *PUBLISH),
    "published twice": ("Firn upserts f1", *PUBLISH, "Hive add resolves _firn/p1", "Firn upserts f2", *PUBLISH),
}


def hive_steps(rules: Rules) -> Steps[World]:
    firn = _FirnSteps(rules)

    def steps(world: World) -> Iterator[tuple[str, World]]:
        left = dict(world.left)
        if not (rules.locks and world.publish and world.publish.stage == "checked"):
            yield from hive_side_steps(world, left)
        yield from firn.steps(world, left)

    return steps


def follow(world: World, rules: Rules, *labels: str) -> World:
    """The world after these steps."""
    for wanted in labels:
        world = next(after for label, after in hive_steps(rules)(world) if label == wanted)
    return world


def start(opening: str) -> World:
    """A world in which these steps have been taken, with everything but a second late writer still to come."""
    world = follow(World(left=budget(hive=3, firn=3, publish=2)), Rules(), *OPENINGS[opening])
    return world._replace(left=budget(late=0 if world.late_writer else 1))


# --- Hive's side -----------------------------------------------------------------------------------------------------


def hive_side_steps(world: World, left: dict[str, int]) -> Iterator[tuple[str, World]]:
    if left["hive"] and world.location:
        yield from _writes(world, spend(world, "hive"), world.location, left)
    if world.late_writer is None:
        return
    kind, directory = world.late_writer
    if directory not in {world.location, *world.left_by_firn}:
        yield "the late Hive writer loses its directory to another Hive action", world._replace(late_writer=None)
        return
    after = _write(world, kind, directory)._replace(late_writer=None)
    yield f"late Hive {kind} into {directory}", after
    if directory in world.left_by_firn:
        repointed = after._replace(location=directory)
        yield f"late Hive {kind} into {directory}, and points HMS back there", repointed


def _writes(world: World, spent: World, location: str, left: dict[str, int]) -> Iterator[tuple[str, World]]:
    yield "Hive adds a file", _write(spent, "add", location)
    yield "Hive overwrites", _write(spent, "overwrite", location)
    files = list_directory(world, location)
    if len(files) > 1:
        gone = min(files)
        removed = spent._replace(storage=world.storage - {gone}, logical=world.logical - gone.rows)
        yield f"a Hive-side program removes {gone.name}", removed
    dropped = _leave(spent, None)._replace(storage=world.storage - files)
    yield "Hive drops the partition with its files", dropped
    if location == "hive":
        yield "Hive relocates the partition", _leave(spent, "elsewhere")
    if world.late_writer is None and left["late"]:
        for kind in ("add", "overwrite"):
            yield f"Hive {kind} resolves {location}", spend(spent, "late")._replace(late_writer=(kind, location))


def _write(world: World, kind: str, directory: str) -> World:
    """Into the directory that the writer resolved. An overwrite uses Hive's file name: old and new look the same."""
    serial = world.serial + 1
    name = f"n{serial}" if kind == "add" else "000000_0"
    new = File(directory, name, world.now, frozenset({(f"x{serial}", 0)}))
    gone = list_directory(world, directory) if kind == "overwrite" else frozenset[File]()
    logical = world.logical - rows_of(gone) | new.rows
    return world._replace(serial=serial, storage=world.storage - gone | {new}, logical=logical)


def _leave(world: World, directory: str | None) -> World:
    """Hive drops or relocates the whole partition. After a late writer's repointing Hive showed only a part of it."""
    shown, there = rows_of(list_directory(world, world.location)), rows_of(list_directory(world, directory))
    either = world.either
    if world.location in world.left_by_firn:
        whole = {world.baseline.dir, *world.left_by_firn}
        either |= rows_of(file for file in world.storage | world.baseline.listing if file.dir in whole) - there
    logical = world.logical - shown | there
    return world._replace(location=directory, left_by_firn=frozenset(), logical=logical, either=either)


# --- Firn's side -----------------------------------------------------------------------------------------------------


class _FirnSteps:
    def __init__(self, rules: Rules) -> None:
        self.rules, self.firn = rules, HiveSync(rules)

    def steps(self, world: World, left: dict[str, int]) -> Iterator[tuple[str, World]]:
        if left["firn"]:
            yield from _changes(world)
        if left["tick"]:
            yield "a second passes", spend(world, "tick")._replace(now=world.now + 1)
        if world.listed:
            after = self.firn.sync(world, *world.listed)._replace(listed=None)
            yield "sync commits", self.firn.check_superseded(after)
        elif world.publish and world.publish.stage == "written":
            yield "publish commits base", self.firn.commit_publish(world, world.publish)
            yield "publish crashes before its commit", world._replace(publish=None)
        elif world.publish and world.publish.stage == "checked":
            yield "HMS is repointed", self.firn.repoint(world, world.publish)
        else:
            yield from self._idle(world, left)

    def _idle(self, world: World, left: dict[str, int]) -> Iterator[tuple[str, World]]:
        publish = world.publish
        if publish:
            is_abandoned = is_overtaken(world)
            if self.rules.locks or (self.rules.finishes_publish_first and is_abandoned):
                label = "publish is abandoned" if is_abandoned else "HMS is repointed"
                yield label, self.firn.repoint(world, publish)
            else:
                yield "publish checks HMS", world._replace(publish=publish._replace(stage="checked"))
        if left["sync"] and not (self.rules.finishes_publish_first and publish):
            listed = (world.location, list_directory(world, world.location), world.now)
            yield "sync lists", spend(world, "sync")._replace(listed=listed)
        if not publish:
            yield from self._jobs(world, left)
        if left["clean"]:
            yield from self._cleans(world)

    def _jobs(self, world: World, left: dict[str, int]) -> Iterator[tuple[str, World]]:
        if left["merge"] and world.seq > world.merged and (merged := merge(world)):
            yield "merge", spend(merged, "merge")
        if left["publish"] and (started := self.firn.start_publish(world)):
            yield "publish writes a new directory", spend(started, "publish")

    def _cleans(self, world: World) -> Iterator[tuple[str, World]]:
        through = self.firn.removable_through(world)
        if any(change.seq <= through for change in world.changes):
            kept = tuple(change for change in world.changes if change.seq > through)
            yield f"change rows up to {through} are cleaned", spend(world, "clean")._replace(changes=kept)
        if world.publish:
            return
        in_use = {world.location, *(superseded.baseline.dir for superseded in world.superseded)}
        if self.rules.repairs_location:
            in_use.add(world.baseline.dir)
        published = {file.dir for file in world.storage if file.dir.startswith("_firn/p")}
        for directory in sorted(published - in_use):
            yield f"superseded directory {directory} is cleaned", spend(_clean(world, directory), "clean")
        for superseded in world.superseded[:1]:
            if _is_quiet(world, superseded.baseline.dir, superseded.baseline.listing):
                yield (
                    f"the watch of {superseded.baseline.dir} ends",
                    spend(world, "clean")._replace(superseded=world.superseded[1:]),
                )


def _changes(world: World) -> Iterator[tuple[str, World]]:
    spent, key = spend(world, "firn"), f"f{world.seq + 1}"
    upserted = append_change(spent, "U", (key, 0))._replace(logical=world.logical | {(key, 0)})
    yield f"Firn upserts {key}", upserted
    for row in sorted(world.logical & (read_view(world) or frozenset()))[:1]:
        updated = (row[0], row[1] + 1)
        logical = world.logical - {row}
        yield f"Firn updates {row[0]}", append_change(spent, "U", updated)._replace(logical=logical | {updated})
        yield f"Firn deletes {row[0]}", append_change(spent, "D", row)._replace(logical=logical)


def _is_quiet(world: World, directory: str | None, known: frozenset[File]) -> bool:
    """Whether nothing new lies in a superseded directory, and neither HMS nor a late writer names it."""
    if world.location == directory or (world.late_writer and world.late_writer[1] == directory):
        return False
    return signatures(list_directory(world, directory)) == signatures(known)


def _clean(world: World, directory: str) -> World:
    """Delete a published directory that no snapshot and no HMS location needs; older snapshots are expired first."""
    gone = {file for file in list_directory(world, directory) if file.path not in world.head}
    return world._replace(storage=world.storage - gone, history=frozenset())


# --- what must hold --------------------------------------------------------------------------------------------------


def settle(world: World, rules: Rules) -> World:
    """Nobody writes any more: finish what is open, then sync and publish."""
    firn = HiveSync(rules)
    world = world._replace(now=world.now + 2)
    if world.listed:
        world = firn.sync(world, *world.listed)._replace(listed=None)
    if world.publish and world.publish.stage == "written":
        world = world._replace(publish=None)
    for _ in range(2):
        if world.publish:
            world = firn.repoint(world, world.publish)
        for _ in range(2):
            synced = firn.sync(world, world.location, list_directory(world, world.location), world.now)
            world = firn.check_superseded(synced)
        after = firn.start_publish(world)
        if after is None or after.publish is None:
            return world
        committed = firn.commit_publish(after, after.publish)
        world = firn.repoint(committed, after.publish._replace(stage="committed"))._replace(now=world.now + 2)
    return world


def check_with(rules: Rules) -> Check[World]:
    """Once everybody rests, Hive and the view show the same rows, and those that the oracle has."""

    def check(world: World) -> str | None:
        if world.late_writer:
            return None
        end = settle(world, rules)
        view = read_view(end)
        if view is None:
            return "base's head stays broken"
        if world.logical - view - world.either:
            return "rows are lost"
        if view - world.logical - world.either:
            return "removed rows come back"
        if rows_of(list_directory(end, end.location)) != view:
            return "Hive and the view differ after settling"
        return None

    return check


def find_damage(*labels: str) -> dict[str, tuple[int, int]]:
    """Per Hive-side action after these steps: files that the head and that older snapshots lose before any sync."""
    before = follow(World(left=budget(hive=2, firn=2, publish=2)), Rules(), *labels)
    damage = {}
    for label, after in hive_side_steps(before, dict(before.left)):
        lost = {file.path for file in before.storage} - {file.path for file in after.storage}
        if after.late_writer is None and lost & (before.head | before.history):
            damage[label] = (len(lost & before.head), len(lost & before.history))
    return damage
