"""One layer of an image: the files that the changes of one pair of snapshots add to base (docs/protocols.md#images)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.table import FileScanTask, Table
from pyroaring import BitMap64

from firn.protocol.partial import read_groups
from firn.protocol.tasks.image import HiddenPositions, Layer, OldRows, Pack
from firn.scan.column_rules import read_rules
from firn.scan.lineage import LineageFile
from firn.scan.newest import OP, select_effective, select_keys, subtract_keys
from firn.scan.old_rows import drop_old, find_old
from firn.scan.reading import number_rows
from optimizer.images.changes import (
    BATCH_ROWS,
    FILE,
    POSITION,
    Changes,
    KeyColumns,
    Selection,
    find_newest,
    read_changes,
    sample_changes,
)
from optimizer.images.folding import PackedRows, fold_over_base, is_partial
from optimizer.images.hidden import read_hidden, to_bitmap, write_position_files, write_vectors
from optimizer.images.key_ranges import ALL_KEYS, PROCESS_BYTES, KeyRange, split_keys
from optimizer.images.old_rows import find_old_files, list_old_positions
from optimizer.images.packs import PackSource, write_folded, write_packs
from optimizer.images.positions import Hits, find_keys, find_live
from optimizer.images.rewriting import (
    Rewrite,
    Rewriting,
    choose_rewrites,
    list_covered_deletes,
    list_touched,
    write_rewrites,
)

LEAST_BYTES = 32 * 2**20
"""For the rows of a build, however little memory is allowed."""
_COPIES = 7
"""The largest number of copies of a range's pending rows in memory: read, filtered, sorted, hashed and picked."""
_BATCH_SHARE = 12
_PLACE_BYTES = 20
_FIRST_WITH_VECTORS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerPlan:
    """The input of a layer.

    The builder reads `base` and `change` at their current snapshots. `files` are those of the change store with pending
    rows and, on a table with a sequence field, also those with merged deletes. The layer's files go to `directory`;
    their names begin with `name`, which no other file there does.
    """

    base: Table
    base_files: Sequence[FileScanTask]
    change: Table
    files: Sequence[LineageFile]
    columns: KeyColumns
    watermark: int
    directory: str
    name: str
    format_version: int
    through: int | None = None
    """The last change that counts; None for all."""
    batch_rows: int = BATCH_ROWS
    rewriting: Rewriting | None = None
    """How files of base are written again; None if none is."""
    memory_bytes: int | None = None
    """The memory of the process; None for as much as it needs. With less memory it reads the keys more often."""
    hides: OldRows | None = None
    """The rows that are too old for reads; merges have none."""


@dataclass(slots=True)
class _Effects:
    """What the changes of the ranges of keys so far do: they hide positions of base, show changes, and fold partial
    changes into packs of rows.
    """

    hidden: dict[str, BitMap64] = field(default_factory=lambda: defaultdict(BitMap64))
    shown: dict[int, BitMap64] = field(default_factory=lambda: defaultdict(BitMap64))
    folded: list[Pack] = field(default_factory=list)
    hit: set[str] = field(default_factory=set)
    keys: int = 0


def build_layer(plan: LayerPlan) -> Layer:
    """Write the layer's files. FileNotFoundError when a file of the pair is gone, ValueError for a damaged one.

    When this raises, files of `name` may be left in `directory`; nothing names them.
    """
    if is_partial(plan.change):
        names = tuple(column.name for column in plan.base.schema().fields)
        plan = replace(plan, columns=replace(plan.columns, folded=names))
    plan, ranges = _fit_into_memory(plan) if plan.files else (plan, [])
    effects, rows = _Effects(), tuple[pa.Table, ...]()
    for within in ranges:
        rows = _find_within(plan, within, effects)
    old = _hide_old_rows(plan, effects)
    hidden = {path: positions for path, positions in effects.hidden.items() if positions and path not in old}
    source = PackSource(change=plan.change, schema=plan.base.schema(), files=plan.files, rows=rows)
    rewrites = _choose_rewrites(plan, hidden, effects.shown)
    removed = {file.file_path for rewrite in rewrites for file in rewrite.files} | old
    moved = {number for rewrite in rewrites for number, _ in rewrite.picked}
    deleted = read_hidden(plan.base.io, _deletes_to_read(plan, effects.hit))
    kept = replace(plan, base_files=[task for task in plan.base_files if task.file.file_path not in old])
    written, replaced = _write_hidden(kept, {path: hidden[path] for path in hidden.keys() - removed}, deleted)
    packed = {number: positions for number, positions in effects.shown.items() if number not in moved}
    return Layer(
        packs=[*effects.folded, *write_packs(source, packed, directory=plan.directory, name=f"{plan.name}-p")],
        hidden=written,
        replaced_vectors=replaced,
        keys=effects.keys,
        hidden_rows=sum(len(positions) for positions in hidden.values()),
        rewritten=_write_rewrites(plan, rewrites, source),
        removed_files=sorted(removed),
        removed_deletes=list_covered_deletes(plan.base_files, removed),
    )


def _choose_rewrites(plan: LayerPlan, hidden: Mapping[str, BitMap64], shown: Mapping[int, BitMap64]) -> list[Rewrite]:
    if plan.rewriting is None:
        return []
    touched = list_touched(plan.base, plan.base_files, plan.change, plan.files, hidden, shown)
    deletes = {delete for partition in touched for task in partition.tasks for delete in task.delete_files}
    return choose_rewrites(touched, hidden, read_hidden(plan.base.io, deletes), shown, plan.rewriting.rule)


def _write_rewrites(plan: LayerPlan, rewrites: Sequence[Rewrite], source: PackSource) -> list[Pack]:
    if plan.rewriting is None or not rewrites:
        return []
    name = f"{plan.name}-r"
    return write_rewrites(plan.base, rewrites, plan.rewriting, source, directory=plan.directory, name=name)


def _fit_into_memory(plan: LayerPlan) -> tuple[LayerPlan, list[KeyRange]]:
    """The plan, with batches that fit, and the ranges of keys to handle one after another.

    Rows of keys take several times their size while the newest ones are sorted out.
    """
    if plan.memory_bytes is None:
        return plan, [ALL_KEYS]
    budget = max(plan.memory_bytes - PROCESS_BYTES, LEAST_BYTES)
    count = sum(file.file.record_count for file in plan.files)
    sample = sample_changes(plan.change, plan.files, plan.columns)
    width = sample.nbytes / max(len(sample), 1) + _PLACE_BYTES
    plan = replace(plan, batch_rows=min(plan.batch_rows, max(int(budget / width / _BATCH_SHARE), 1)))
    ranges = ceil(count * width * _COPIES / budget)
    return plan, [ALL_KEYS] if ranges <= 1 else split_keys(sample, plan.columns.primary_key, ranges)


def _find_within(plan: LayerPlan, within: KeyRange, effects: _Effects) -> tuple[pa.Table, ...]:
    """Add what the changes of these keys hide and show; returns the rows of all files if they were read at once."""
    columns, size = plan.columns, plan.batch_rows
    schema = None if columns.folded else plan.base.schema()
    selection = Selection(watermark=plan.watermark, through=plan.through, within=within)
    changes = read_changes(plan.change, plan.files, columns, selection, values=schema, batch_rows=size)
    newest = find_newest(changes, columns)
    effects.keys += len(newest)
    if not len(newest):
        return changes.rows
    hits = find_keys(plan.base, [task.file for task in plan.base_files], newest, columns, batch_rows=size)
    if columns.folded:
        _fold(plan, changes, list(hits), effects)
        return ()
    effective = newest
    if columns.insert_only:
        effective = _drop_held(plan, newest, list(hits))
    elif columns.sequence_field is None:
        for hit in hits:
            effects.hidden[hit.file.file_path] |= to_bitmap(hit.positions.to_numpy())
    else:
        effective = _compare_sequences(plan, changes, newest, list(hits), effects)
    effects.hit |= effects.hidden.keys()
    _note_shown(_drop_old(plan, effective.filter(pc.not_equal(effective[OP], "D"))), effects)
    return changes.rows


def _drop_held(plan: LayerPlan, inserts: pa.Table, hits: Sequence[Hits]) -> pa.Table:
    """The inserts of keys that no row of base has (docs/protocols.md, rule 1.9)."""
    deleted = read_hidden(plan.base.io, _deletes_to_read(plan, {hit.file.file_path for hit in hits}))
    for hit in hits:
        inserts = subtract_keys(inserts, find_live(hit, deleted), plan.columns.primary_key)
    return inserts


def _fold(plan: LayerPlan, changes: Changes, hits: Sequence[Hits], effects: _Effects) -> None:
    """Hide base's rows of the pending keys, and write those that take their places."""
    for hit in hits:
        effects.hidden[hit.file.file_path] |= to_bitmap(hit.positions.to_numpy())
    effects.hit |= effects.hidden.keys()
    deleted = read_hidden(plan.base.io, _deletes_to_read(plan, {hit.file.file_path for hit in hits}))
    rules = read_rules(plan.base.properties)
    groups = read_groups(plan.base.properties)
    folded = fold_over_base(plan.base, changes.pending, hits, deleted, plan.columns.primary_key, rules, groups)
    if plan.hides is not None and plan.columns.age is not None:
        is_young = ~find_old(folded.rows, plan.columns.age, plan.hides.value)
        folded = PackedRows(rows=folded.rows.filter(pa.array(is_young)), like=folded.like[is_young])
    source = PackSource(change=plan.change, schema=plan.base.schema(), files=plan.files)
    name = f"{plan.name}-f{len(effects.folded)}"
    effects.folded += write_folded(source, folded.rows, folded.like, directory=plan.directory, name=name)


def _note_shown(shown: pa.Table, effects: _Effects) -> None:
    numbers, positions = shown[FILE].to_numpy(), shown[POSITION].to_numpy()
    order = np.argsort(numbers, kind="stable")
    numbers, positions = numbers[order], positions[order]
    names, starts = np.unique(numbers, return_index=True)
    for number, own in zip(names, np.split(positions, starts[1:]), strict=False):
        effects.shown[int(number)] |= to_bitmap(own)


def _hide_old_rows(plan: LayerPlan, effects: _Effects) -> frozenset[str]:
    """Hide the rows of base that are too old for reads; returns the files that have no other rows."""
    if plan.hides is None:
        return frozenset()
    files = find_old_files(plan.base, plan.base_files, plan.hides)
    for path, places in list_old_positions(plan.base, files.part, plan.hides, batch_rows=plan.batch_rows):
        effects.hidden[path] |= to_bitmap(places)
    effects.hit |= effects.hidden.keys()
    return files.whole


def _drop_old(plan: LayerPlan, rows: pa.Table) -> pa.Table:
    if plan.hides is None or plan.columns.age is None:
        return rows
    return drop_old(rows, plan.columns.age, plan.hides.value)


def _deletes_to_read(plan: LayerPlan, hit: set[str]) -> set[DataFile]:
    """The delete files of base whose positions the layer needs.

    Under v2 every vector becomes position deletes. Under v3 the new vector of a file has all of its old positions. A
    sequence field, partial changes and an insert-only table need to know which rows of base are live.
    """
    is_v3, columns = plan.format_version >= _FIRST_WITH_VECTORS, plan.columns
    needs_live = bool(columns.sequence_field or columns.folded or columns.insert_only)
    return {
        delete
        for task in plan.base_files
        for delete in task.delete_files
        if (task.file.file_path in hit and (is_v3 or needs_live))
        or (not is_v3 and delete.file_format is FileFormat.PUFFIN)
    }


def _compare_sequences(
    plan: LayerPlan, changes: Changes, newest: pa.Table, hits: Sequence[Hits], effects: _Effects
) -> pa.Table:
    """The newest changes that take effect by rule 1.2. Base loses the rows that no newer value outranks."""
    columns = plan.columns
    effects.hit |= {hit.file.file_path for hit in hits}
    deleted = read_hidden(plan.base.io, _deletes_to_read(plan, {hit.file.file_path for hit in hits}))
    for hit in hits:
        effects.hidden[hit.file.file_path] |= to_bitmap(_hidden_by(hit, newest, columns).to_numpy())
    names = columns.names
    none = newest.select(names).slice(0, 0)
    held = pa.concat_tables([none, *(find_live(hit, deleted).select(names) for hit in hits)])
    merged = changes.merged.filter(pc.equal(changes.merged[OP], "D")).select(names)
    return select_effective(newest, columns.primary_key, columns.sequence_field or "", base_rows=held, deleted=merged)


def _hidden_by(hit: Hits, newest: pa.Table, columns: KeyColumns) -> pa.Array:
    """The positions of a file's rows that give way to newer values of the sequence field."""
    mine = select_keys(hit.rows, columns.primary_key)
    names = mine.column_names
    mine = mine.append_column("held", hit.rows[columns.sequence_field]).append_column("i", number_rows(len(mine)))
    theirs = select_keys(newest, columns.primary_key).append_column("s", newest[columns.sequence_field])
    joined = mine.join(theirs, names, join_type="left outer")
    gives_way = pc.or_kleene(pc.is_null(joined["held"]), pc.greater_equal(joined["s"], joined["held"]))
    return hit.positions.take(joined["i"].filter(pc.fill_null(gives_way, False)).combine_chunks())


def _write_hidden(
    plan: LayerPlan, hidden: dict[str, BitMap64], deleted: Mapping[str, BitMap64]
) -> tuple[list[HiddenPositions], list[str]]:
    """The written delete files, and the data files whose vectors they replace."""
    vectors = {
        task.file.file_path
        for task in plan.base_files
        for delete in task.delete_files
        if delete.file_format is FileFormat.PUFFIN
    }
    if plan.format_version >= _FIRST_WITH_VECTORS:
        all_hidden = {path: bits | deleted.get(path, BitMap64()) for path, bits in hidden.items()}
        replaced = sorted(vectors & all_hidden.keys())
        written = write_vectors(plan.base.io, plan.directory, f"{plan.name}-b", all_hidden) if all_hidden else []
        return written, replaced
    all_hidden = hidden | {path: hidden.get(path, BitMap64()) | deleted[path] for path in vectors if path in deleted}
    groups = _group_by_partition([task.file for task in plan.base_files if task.file.file_path in all_hidden])
    return write_position_files(plan.base.io, plan.directory, f"{plan.name}-b", groups, all_hidden), sorted(vectors)


def _group_by_partition(files: Sequence[DataFile]) -> list[list[str]]:
    """The paths of the files of each partition: a position-delete file has the partition of its data files."""
    groups: dict[tuple[object, ...], list[str]] = defaultdict(list)
    for file in files:
        groups[file.spec_id, *(file.partition[i] for i in range(len(file.partition)))].append(file.file_path)
    return list(groups.values())
