"""One layer of an image: the files that the changes of one pair of snapshots add to base (docs/protocols.md#images)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.table import FileScanTask, Table
from pyroaring import BitMap64

from firn.protocol.tasks.image import HiddenPositions, Layer
from optimizer.images.changes import Changes, KeyColumns, find_newest, read_changes
from optimizer.images.hidden import read_hidden, to_bitmap, write_position_files, write_vectors
from optimizer.images.lineage import LineageFile
from optimizer.images.newest import OP, select_effective, select_keys
from optimizer.images.packs import write_packs
from optimizer.images.positions import BATCH_ROWS, Hits, find_keys, find_live
from optimizer.images.reading import number_rows

_FIRST_WITH_VECTORS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerPlan:
    """What a layer is built from. `base` and `change` are read at their current snapshots.

    `files` are the change store's: those with pending rows and, on a table with a sequence field, also those with
    merged deletes. `directory` and `name` say where the layer's files go; no file there has such a name yet.
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


def build_layer(plan: LayerPlan) -> Layer:
    """Write the layer's files. FileNotFoundError when a file of the pair is gone, ValueError for a damaged one.

    When this raises, files of `name` may be left in `directory`; nothing names them.
    """
    if not plan.files:
        return _build_without_changes(plan)
    base = plan.base.schema()
    changes = read_changes(plan.change, plan.files, plan.columns, plan.watermark, through=plan.through, values=base)
    newest = find_newest(changes, plan.columns)
    hits = list(
        find_keys(plan.base, [task.file for task in plan.base_files], newest, plan.columns, batch_rows=plan.batch_rows)
    )
    deletes = _deletes_to_read(plan, {hit.file.file_path for hit in hits})
    deleted = read_hidden(plan.base.io, deletes)
    effective = _find_effective(plan.columns, changes, newest, hits, deleted)
    hidden = {hit.file.file_path: to_bitmap(_hidden_by(hit, newest, plan.columns).to_numpy()) for hit in hits}
    hidden_rows = sum(len(positions) for positions in hidden.values())
    written, replaced = _write_hidden(plan, {path: bits for path, bits in hidden.items() if bits}, deleted)
    shown = effective.filter(pc.not_equal(effective[OP], "D"))
    packs = write_packs(
        plan.change, plan.base.schema(), changes, shown, directory=plan.directory, name=f"{plan.name}-p"
    )
    return Layer(packs=packs, hidden=written, replaced_vectors=replaced, keys=len(newest), hidden_rows=hidden_rows)


def _build_without_changes(plan: LayerPlan) -> Layer:
    """The layer of a pair without change files: under v2 it has the positions that base's vectors hide."""
    written, replaced = _write_hidden(plan, {}, read_hidden(plan.base.io, _deletes_to_read(plan, set())))
    return Layer(packs=[], hidden=written, replaced_vectors=replaced, keys=0, hidden_rows=0)


def _deletes_to_read(plan: LayerPlan, hit: set[str]) -> set[DataFile]:
    """The delete files of base whose positions the layer needs.

    Under v2 every vector becomes position deletes. Under v3 the new vector of a file has all of its old positions. A
    sequence field needs to know which rows of base are live.
    """
    is_v3 = plan.format_version >= _FIRST_WITH_VECTORS
    return {
        delete
        for task in plan.base_files
        for delete in task.delete_files
        if (task.file.file_path in hit and (is_v3 or plan.columns.sequence_field))
        or (not is_v3 and delete.file_format is FileFormat.PUFFIN)
    }


def _find_effective(
    columns: KeyColumns, changes: Changes, newest: pa.Table, hits: Sequence[Hits], deleted: Mapping[str, BitMap64]
) -> pa.Table:
    """The newest changes that take effect: all of them without a sequence field, else by rule 1.2."""
    if columns.sequence_field is None:
        return newest
    names = columns.names
    none = newest.select(names).slice(0, 0)
    held = pa.concat_tables([none, *(find_live(hit, deleted).select(names) for hit in hits)])
    merged = changes.merged.filter(pc.equal(changes.merged[OP], "D")).select(names)
    return select_effective(newest, columns.primary_key, columns.sequence_field, base_rows=held, deleted=merged)


def _hidden_by(hit: Hits, newest: pa.Table, columns: KeyColumns) -> pa.Array:
    """The positions that a file's rows lose: all, or with a sequence field those that no newer value outranks."""
    if columns.sequence_field is None:
        return hit.positions
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
        whole = {path: bits | deleted.get(path, BitMap64()) for path, bits in hidden.items()}
        replaced = sorted(vectors & whole.keys())
        written = write_vectors(plan.base.io, plan.directory, f"{plan.name}-b", whole) if whole else []
        return written, replaced
    whole = hidden | {path: hidden.get(path, BitMap64()) | deleted[path] for path in vectors if path in deleted}
    groups = _group_by_partition([task.file for task in plan.base_files if task.file.file_path in whole])
    return write_position_files(plan.base.io, plan.directory, f"{plan.name}-b", groups, whole), sorted(vectors)


def _group_by_partition(files: Sequence[DataFile]) -> list[list[str]]:
    """The paths of the files of each partition: a position-delete file has the partition of its data files."""
    groups: dict[tuple[object, ...], list[str]] = defaultdict(list)
    for file in files:
        groups[file.spec_id, *(file.partition[i] for i in range(len(file.partition)))].append(file.file_path)
    return list(groups.values())
