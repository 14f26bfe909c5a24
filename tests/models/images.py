"""Model of images: a keyed table served as one ordinary table (docs/protocols.md#images).

An image is base's files, the positions hidden in them, and packs. The oracle replays the acknowledged changes, as the
keyed model's does. Files have numbers, and a reader fails when a file that it needs is gone.
"""

from __future__ import annotations

from typing import NamedTuple


class Rules(NamedTuple):
    """The rules, each with the number that docs/protocols.md gives it."""

    compares_all_rows: bool = True
    """5.1: the newest pending row of a key is found over all pending rows by row id, not commit by commit."""
    names_the_pair: bool = True
    """5.2: an image belongs to one base snapshot and one change snapshot, and is served for this pair alone."""
    metadata_last: bool = True
    """5.3: the builder writes metadata after all other files of the image."""
    grows_on_unchanged_files: bool = True
    """5.4: a builder adds a layer to an image only if base is the same and the change files only became more."""
    hides_in_packs: bool = True
    """5.4: a layer hides its keys in the packs of earlier layers, too."""
    keeps_served_images: bool = True
    """5.5: an image and the snapshots of its pair stay for as long as a reader may hold it."""
    keeps_pair_of_build: bool = True
    """5.12: the snapshots of a running build's pair stay, however long it takes."""
    keeps_named_files: bool = True
    """5.5: the removal of an image leaves the files that another image or a snapshot of base names."""
    adopts_on_head: bool = True
    """5.6: base adopts a layer only if the base snapshot that it was built on is the head."""
    adopts_own_files: bool = True
    """5.6: the files that base adopts are its own, never those of an image, whose removal deletes them."""
    merges_through_the_pair: bool = True
    """5.6: the watermark becomes the number of the change snapshot that was read, whatever came since."""
    merges_rows: bool = True
    """5.6: an adoption of a part takes rows by their own numbers, which may be below that of a compacted file."""
    moves_watermark_with_files: bool = True
    """5.6: one commit of base has the files and the watermark."""
    rewrites_shown_rows: bool = True
    """5.6: a file that an adoption writes again leaves out the rows that base had hidden in it."""
    removes_rewritten: bool = True
    """5.6: the commit that adds a rewritten file removes the old one."""
    replays_commits: bool = True
    """2.3: a commit that was recorded is answered as it was, though base has moved by it."""
    keeps_files_in_doubt: bool = True
    """2.7: an optimizer that has no answer to its commit deletes none of its files."""
    keeps_old_positions: bool = True
    """5.9: a new vector has the positions that base had hidden in the file."""
    rolls_back_by_new_snapshots: bool = True
    """1.4: a rollback commits the old snapshots again, under new numbers."""
    records_writes: bool = True
    """5.7: a translated write is recorded under its client's snapshot id, and a retry gets the recorded answer."""
    deletes_what_was_read: bool = True
    """5.8: a translated delete commits only if the change store's head is the one of the image it read."""
    shown_rows_win: bool = True
    """5.10: a checkpoint deletes only the keys of its equality deletes that none of its visible rows has."""
    lists_last_commits: bool = True
    """5.11: the ancestors of a served image name the last checkpoint that each stream has committed."""
    knows_files: bool = True
    """5.11: a stream's commit with the files of an earlier one is that commit, and is not applied again."""


class Row(NamedTuple):
    key: str
    part: str
    value: str


class Change(NamedTuple):
    key: str
    part: str
    value: str
    op: str
    row_id: int = 0
    sequence: int = 0


class ChangeFile(NamedTuple):
    sequence: int  # a compacted file has that of the snapshot it was planned on
    rows: tuple[Change, ...]


class DataFile(NamedTuple):
    number: int
    rows: tuple[Row, ...]


Positions = frozenset[tuple[int, int]]  # file number, position


class BaseSnapshot(NamedTuple):
    files: tuple[DataFile, ...]
    hidden: Positions
    through: int  # the watermark
    positions: frozenset[int] = frozenset()  # the files that hold `hidden`

    @property
    def named(self) -> frozenset[int]:
        """All files that the snapshot names."""
        return frozenset(file.number for file in self.files) | self.positions


class ChangeSnapshot(NamedTuple):
    sequence: int
    files: tuple[ChangeFile, ...]


class Image(NamedTuple):
    """One complete image. `own` numbers its files that are not base's: packs, positions."""

    b: int
    c: int
    packs: tuple[DataFile, ...]
    hidden: Positions
    own: frozenset[int]


class Build(NamedTuple):
    """A running build: the image it makes, and how many of its own files are written."""

    image: Image
    new: tuple[int, ...]
    written: int = 0


class Reader(NamedTuple):
    """A reader that holds an image, and the rows that the table had when the image was loaded."""

    image: Image
    expected: frozenset[Row]


class Merge(NamedTuple):
    """A running merge: what it read, and up to which change. An adoption has a layer, and writes its `new` files.

    `rewritten` is a file of base whose rows are in the layer's pack.
    """

    kind: str
    b: int
    c: int
    through: int
    layer: Image | None = None
    new: tuple[int, ...] = ()
    rewritten: int | None = None
    written: int = 0
    has_no_answer: bool = False
    """Whether it has committed, and the answer was lost."""


class Write(NamedTuple):
    """A statement on the image whose answer the client does not have: its number, and the change snapshot it read."""

    number: int
    c: int
    changes: tuple[Change, ...]


class Stream(NamedTuple):
    """A stream of checkpoints, as its newest state has it: the next one to commit, and whether the job has restarted
    without knowing if that one is committed.
    """

    next: int = 0
    is_in_doubt: bool = False
    listed: frozenset[int] = frozenset()  # committed checkpoints whose snapshots the change store still has
    sent: frozenset[tuple[int, ...]] = frozenset()  # the checkpoints of each commit: their files identify it


class World(NamedTuple):
    bases: tuple[BaseSnapshot, ...] = (BaseSnapshot((), frozenset(), 0),)
    changes: tuple[ChangeSnapshot, ...] = (ChangeSnapshot(0, ()),)
    b: int = 0
    c: int = 0
    kept_bases: frozenset[int] = frozenset({0})
    images: tuple[Image, ...] = ()
    disk: frozenset[int] = frozenset()
    next_file: int = 1
    next_row_id: int = 1
    log: tuple[tuple[int, tuple[Change, ...] | tuple[Row, ...]], ...] = ()
    build: Build | None = None
    merge: Merge | None = None
    reader: Reader | None = None
    write: Write | None = None
    stream: Stream = Stream()
    recorded: frozenset[int] = frozenset()
    done: frozenset[int] = frozenset()  # batches
    states: tuple[tuple[int, int, int], ...] = ((0, 0, 0),)  # base, change and length of the log, to roll back to
    left: tuple[tuple[str, int], ...] = ()
    error: str | None = None

    @property
    def pair(self) -> tuple[BaseSnapshot, ChangeSnapshot]:
        return self.bases[self.b], self.changes[self.c]


def replay_log(world: World) -> frozenset[Row]:
    """The rows of base after all acknowledged changes; a row appended to base lies under the changes not yet merged."""
    rows: dict[str, Row] = {}
    for _, entries in sorted(world.log, key=lambda entry: (entry[0], isinstance(entry[1][0], Row))):
        for entry in entries:
            if isinstance(entry, Row):
                rows[entry.key] = entry
            elif entry.op == "D":
                rows.pop(entry.key, None)
            else:
                rows[entry.key] = Row(entry.key, entry.part, entry.value)
    return frozenset(rows.values())


def find_pending(base: BaseSnapshot, files: tuple[ChangeFile, ...], through: int | None = None) -> list[Change]:
    """The rows above the watermark, up to a number."""
    pending = [row for file in files for row in file.rows if row.sequence > base.through]
    return [row for row in pending if through is None or row.sequence <= through]


def choose_newest(
    base: BaseSnapshot, files: tuple[ChangeFile, ...], rules: Rules, through: int | None = None
) -> dict[str, Change]:
    """The newest pending change of each key."""
    if through is not None and not rules.merges_rows:
        files = tuple(file for file in files if file.sequence <= through)
    pending = find_pending(base, files, through)
    if not rules.compares_all_rows:  # the later file wins
        of_file = {row.row_id: file.sequence for file in files for row in file.rows}
        pending.sort(key=lambda row: (of_file[row.row_id], row.row_id))
    else:
        pending.sort(key=lambda row: row.row_id)
    return {row.key: row for row in pending}


def read_image(world: World, image: Image) -> list[Row] | None:
    """The rows that a client finds; None when a file is gone."""
    base = world.bases[image.b]
    files = (*base.files, *image.packs)
    if not base.named | image.own <= world.disk:
        return None
    hidden = base.hidden | image.hidden
    return [row for file in files for i, row in enumerate(file.rows) if (file.number, i) not in hidden]


def merge_rows(world: World, pair: tuple[int, int] | None = None) -> frozenset[Row]:
    """The merged rows of a pair, or of the newest one, computed from base and from all pending changes."""
    base, change = world.pair if pair is None else (world.bases[pair[0]], world.changes[pair[1]])
    newest = choose_newest(base, change.files, Rules())
    live = {r for f in base.files for i, r in enumerate(f.rows) if (f.number, i) not in base.hidden}
    shown = {Row(r.key, r.part, r.value) for r in newest.values() if r.op != "D"}
    return frozenset({row for row in live if row.key not in newest} | shown)


def check(world: World) -> str | None:
    """The invariant that the world breaks."""
    if world.error:
        return world.error
    base = world.bases[world.b]
    if not base.named <= world.disk:
        return "base has lost a file"
    live = [r.key for f in base.files for i, r in enumerate(f.rows) if (f.number, i) not in base.hidden]
    if len(live) != len(set(live)):
        return "base has two live rows of one key"
    if merge_rows(world) != replay_log(world):
        return "the merged rows differ from the replay"
    return None
