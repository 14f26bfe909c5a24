"""The steps of the model of images: writers, builder, readers, merges, clean-up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.models.image_commits import (
    append_changes,
    build_layer,
    commit_base,
    commit_change,
    list_named_by_base,
    spend,
)
from tests.models.image_merges import MergeModel
from tests.models.image_streams import Checkpoint, StreamModel
from tests.models.images import (
    Build,
    Change,
    ChangeFile,
    Image,
    Reader,
    Row,
    Rules,
    World,
    Write,
    find_pending,
    merge_rows,
    read_image,
    replay_log,
)


class Scope(NamedTuple):
    """What may happen: batches of changes, statements on the image, rows appended to base, and how often each step."""

    batches: tuple[tuple[Change, ...], ...]
    writes: tuple[tuple[Change, ...], ...] = ()
    direct: tuple[Row, ...] = ()
    budget: tuple[tuple[str, int], ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()

    def start(self) -> World:
        return World(left=self.budget)


class ImageModel:
    def __init__(self, rules: Rules, scope: Scope) -> None:
        self.rules, self.scope = rules, scope
        self._merges = MergeModel(rules)
        self._streams = StreamModel(rules, scope.checkpoints)

    def steps(self, world: World) -> Iterator[tuple[str, World]]:
        left = dict(world.left)
        yield from self._appends(world, left)
        yield from self._builds(world, left)
        yield from self._reads(world, left)
        yield from self._writes(world, left)
        yield from self._streams.steps(world, left)
        yield from self._merges.steps(world, left)
        yield from self._change_jobs(world, left)
        yield from self._removals(world, left)

    # --- writers -----------------------------------------------------------------------------------------------------

    def _appends(self, world: World, left: dict[str, int]) -> Iterator[tuple[str, World]]:
        for number, changes in enumerate(self.scope.batches):
            if left["batch"] and number not in world.done:
                after = append_changes(spend(world, "batch"), changes)
                if left["rollback"]:
                    after = after._replace(states=(*world.states, (after.b, after.c, len(after.log))))
                yield f"append {describe(changes)}", after._replace(done=world.done | {number})
        base = world.bases[world.b]
        for row in self.scope.direct:
            if left["direct"] and row.key not in {r.key for f in base.files for r in f.rows}:
                after = commit_base(spend(world, "direct"), (row,), base, base.hidden, base.through)
                yield f"append {row} to base", after._replace(log=(*world.log, (base.through, (row,))))

    def _writes(self, world: World, left: dict[str, int]) -> Iterator[tuple[str, World]]:
        """A statement reads the current image, and commits; the answer may be lost, and the client retries."""
        if world.write is None:
            for number, changes in enumerate(self.scope.writes):
                if left["write"] and self._served(world) is not None:
                    write = Write(number, world.c, changes)
                    yield f"a statement plans {describe(changes)}", spend(world, "write")._replace(write=write)
            return
        write = world.write
        is_delete = any(change.op == "D" for change in write.changes)
        if self.rules.records_writes and write.number in world.recorded:
            yield "the retry gets the recorded answer", world._replace(write=None)
            return
        if write.number in world.recorded:
            error = "a write was applied twice"
            yield "the retry is applied again", world._replace(write=None, error=error)
            return
        if is_delete and write.c != world.c:
            if self.rules.deletes_what_was_read:
                yield "the statement is refused: the table has changed", world._replace(write=None)
                return
            error = "a statement deleted a row that it did not read"
            yield "the statement commits", world._replace(write=None, error=error)
            return
        after = append_changes(world, write.changes)._replace(recorded=world.recorded | {write.number})
        yield "the statement commits", after._replace(write=None)
        if left["crash"]:
            yield "the statement commits, the answer is lost", spend(after, "crash")

    # --- builder and readers -----------------------------------------------------------------------------------------

    def _served(self, world: World) -> Image | None:
        """The image that a load gets now; None while it has to be built."""
        for image in reversed(world.images):
            if image.c == world.c and (image.b == world.b or not self.rules.names_the_pair):
                return image
        return None

    def _builds(self, world: World, left: dict[str, int]) -> Iterator[tuple[str, World]]:
        build = world.build
        if build is None:
            if left["build"] and self._served(world) is None:
                for label, image, new in self._plans(world):
                    started = spend(world, "build")._replace(build=Build(image, new))
                    started = started._replace(next_file=world.next_file + len(new))
                    if not self.rules.metadata_last:
                        started = started._replace(images=(*world.images, image))
                    yield label, started
            return
        if left["crash"]:
            yield "the builder is killed", spend(world, "crash")._replace(build=None)
        if build.written < len(build.new):
            disk = world.disk | {build.new[build.written]}
            yield (
                "the builder writes a file",
                world._replace(disk=disk, build=build._replace(written=build.written + 1)),
            )
            return
        images = world.images if build.image in world.images else (*world.images, build.image)
        yield "the builder writes metadata", world._replace(images=images, build=None)

    def _plans(self, world: World) -> Iterator[tuple[str, Image, tuple[int, ...]]]:
        base, change = world.pair
        if not find_pending(base, change.files):
            yield "nothing is pending: base is the image", Image(world.b, world.c, (), frozenset(), frozenset()), ()
            return
        image, new = build_layer(world, None, change.files, self.rules)
        yield "an image is built", image, new
        for below in world.images:
            before = world.changes[below.c].files
            added = tuple(file for file in change.files if file not in before)
            is_same = below.b == world.b and set(before) <= set(change.files)
            if added and (is_same or not self.rules.grows_on_unchanged_files):
                image, new = build_layer(world, below, added, self.rules)
                yield "an image grows by a layer", image, new

    def _reads(self, world: World, left: dict[str, int]) -> Iterator[tuple[str, World]]:
        reader = world.reader
        if reader is None:
            image = self._served(world)
            if left["read"] and image is not None:
                yield (
                    "a reader loads the image",
                    spend(world, "read")._replace(reader=Reader(image, replay_log(world))),
                )
            for older in world.images:
                if left["older"] and image is None:
                    expected = merge_rows(world, (older.b, older.c))
                    yield (
                        "a reader loads an older image",
                        spend(world, "older")._replace(reader=Reader(older, expected)),
                    )
            return
        rows = read_image(world, reader.image)
        if rows is None:
            error: str | None = "a reader's file is gone"
        elif len(rows) != len(set(rows)) or frozenset(rows) != reader.expected:
            error = "the image differs from the replay"
        else:
            error = None
        yield "the reader reads", world._replace(reader=None, error=error)

    # --- jobs --------------------------------------------------------------------------------------------------------

    def _change_jobs(self, world: World, left: dict[str, int]) -> Iterator[tuple[str, World]]:
        base, change = world.pair
        merged = [f for f in change.files if all(row.sequence <= base.through for row in f.rows)]
        if left["clean"] and merged:
            kept = tuple(file for file in change.files if file not in merged)
            yield "clean", commit_change(spend(world, "clean"), kept)
        for first in range(len(change.files) - 1):  # compaction of files that were there before the newest ones
            if left["compact"]:
                some = change.files[: first + 2]
                packed = ChangeFile(some[-1].sequence, tuple(row for file in some for row in file.rows))
                yield (
                    f"compact {len(some)} files",
                    commit_change(spend(world, "compact"), (packed, *change.files[first + 2 :])),
                )
        if left["late compact"] and len(change.files) > 1:  # planned on all, numbered like the newest snapshot
            packed = ChangeFile(change.sequence, tuple(row for row in change.files[0].rows))
            yield "compact the oldest file", commit_change(spend(world, "late compact"), (packed, *change.files[1:]))

    # --- removal -----------------------------------------------------------------------------------------------------

    def _removals(self, world: World, left: dict[str, int]) -> Iterator[tuple[str, World]]:
        held = world.reader.image if world.reader and self.rules.keeps_served_images else None
        if left["remove"]:
            for image in world.images:
                if image != held and image != self._served(world):
                    yield f"image of (B{image.b}, C{image.c}) is removed", self._remove(world, image)
        if left["expire"]:
            for number in world.kept_bases - {world.b} - self._list_held(world):
                yield f"expire B{number}", self._expire(world, number)
        if left["orphans"]:
            named = list_named_by_base(world) | {n for image in world.images for n in _files_of(world, image)}
            running = world.build.image.own if world.build else frozenset[int]()
            merging = frozenset(world.merge.new) if world.merge else frozenset[int]()
            orphans = world.disk - named - running - merging
            if orphans:
                yield "orphan removal", spend(world, "orphans")._replace(disk=world.disk - orphans)

    def _list_held(self, world: World) -> set[int]:
        """The snapshots of base that images, a running build and a running merge need."""
        held = {image.b for image in world.images} if self.rules.keeps_served_images else set[int]()
        if world.build and self.rules.keeps_pair_of_build:
            held.add(world.build.image.b)
        return held | ({world.merge.b} if world.merge else set())

    def _remove(self, world: World, image: Image) -> World:
        images = tuple(other for other in world.images if other != image)
        gone = set(image.own)
        if self.rules.keeps_named_files:
            gone -= list_named_by_base(world) | {number for other in images for number in other.own}
            gone -= world.build.image.own if world.build else frozenset()
        return spend(world, "remove")._replace(images=images, disk=world.disk - gone)

    def _expire(self, world: World, number: int) -> World:
        after = spend(world, "expire")._replace(kept_bases=world.kept_bases - {number})
        gone = world.bases[number].named - list_named_by_base(after)
        if self.rules.keeps_named_files:
            gone -= {n for image in world.images for n in image.own}
        return after._replace(disk=world.disk - gone)


def _files_of(world: World, image: Image) -> set[int]:
    return set(world.bases[image.b].named | image.own)


def describe(changes: tuple[Change, ...]) -> str:
    return ",".join(f"{change.op} {change.key}->{change.part}={change.value}" for change in changes)
