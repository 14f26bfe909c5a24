"""The commits of the model of images, and the files that builders write."""

from __future__ import annotations

from collections.abc import Collection

from tests.models.images import (
    BaseSnapshot,
    Change,
    ChangeFile,
    ChangeSnapshot,
    DataFile,
    Image,
    Positions,
    Row,
    Rules,
    World,
    choose_newest,
)


def append_changes(world: World, changes: tuple[Change, ...]) -> World:
    sequence = _next_sequence(world)
    rows = tuple(r._replace(row_id=world.next_row_id + i, sequence=sequence) for i, r in enumerate(changes))
    after = commit_change(world, (*world.changes[world.c].files, ChangeFile(sequence, rows)))
    return after._replace(next_row_id=world.next_row_id + len(rows), log=(*world.log, (sequence, rows)))


def commit_change(world: World, files: tuple[ChangeFile, ...]) -> World:
    snapshot = ChangeSnapshot(_next_sequence(world), files)
    return world._replace(changes=(*world.changes, snapshot), c=len(world.changes))


def commit_base(world: World, rows: tuple[Row, ...], below: BaseSnapshot, hidden: Positions, through: int) -> World:
    """Base with one more data file."""
    added = (DataFile(world.next_file, rows),) if rows else ()
    after = move_base(world, BaseSnapshot((*below.files, *added), hidden, through, below.positions))
    return after._replace(disk=world.disk | {file.number for file in added}, next_file=world.next_file + len(added))


def move_base(world: World, snapshot: BaseSnapshot) -> World:
    """The snapshot becomes base's head."""
    number = len(world.bases)
    return world._replace(bases=(*world.bases, snapshot), b=number, kept_bases=world.kept_bases | {number})


def build_layer(
    world: World, below: Image | None, files: tuple[ChangeFile, ...], rules: Rules, through: int | None = None
) -> tuple[Image, tuple[int, ...]]:
    """The image after one more layer, and the numbers of the layer's files: positions, pack."""
    base = world.bases[world.b]
    newest = choose_newest(base, files, rules, through)
    packs = below.packs if below else ()
    among = (*base.files, *(packs if rules.hides_in_packs else ()))
    hidden = _find_positions(among, newest.keys())
    shown = tuple(Row(r.key, r.part, r.value) for r in newest.values() if r.op != "D")
    new = tuple(range(world.next_file, world.next_file + (2 if shown else 1)))  # positions, pack
    if shown:
        packs = (*packs, DataFile(new[-1], shown))
    own = (below.own if below else frozenset()) | set(new)
    return Image(world.b, world.c, packs, hidden | (below.hidden if below else frozenset()), own), new


def rewrite_file(
    world: World, layer: Image, new: tuple[int, ...], file: DataFile, rules: Rules
) -> tuple[Image, tuple[int, ...]]:
    """The layer with the rows of a file of base in its pack, instead of positions that it hides in the file."""
    hidden = layer.hidden | (world.bases[world.b].hidden if rules.rewrites_shown_rows else frozenset())
    kept = tuple(row for i, row in enumerate(file.rows) if (file.number, i) not in hidden)
    rows = (*kept, *(row for pack in layer.packs for row in pack.rows))
    new = new if layer.packs or not rows else (*new, new[-1] + 1)
    packs = (DataFile(new[-1], rows),) if rows else ()
    elsewhere = frozenset(place for place in layer.hidden if place[0] != file.number)
    return layer._replace(packs=packs, hidden=elsewhere, own=layer.own | set(new)), new


def list_named_by_base(world: World) -> set[int]:
    return {file for number in world.kept_bases for file in world.bases[number].named}


def spend(world: World, kind: str) -> World:
    return world._replace(left=tuple((k, n - (k == kind)) for k, n in world.left))


def _next_sequence(world: World) -> int:
    return world.changes[-1].sequence + 1


def _find_positions(files: tuple[DataFile, ...], keys: Collection[str]) -> Positions:
    return frozenset((file.number, i) for file in files for i, row in enumerate(file.rows) if row.key in keys)
