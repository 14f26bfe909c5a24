"""A keyed table's two stores, written with PyIceberg alone: base and change files with rows that a test chooses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType
from pyroaring import BitMap64

from firn.protocol.tasks.image import HiddenPositions, Layer, OldRows
from firn.protocol.tasks.merge import RewriteRule
from firn.scan.lineage import LineageFile
from optimizer.images.changes import KeyColumns
from optimizer.images.hidden import Hidden, read_hidden, to_bitmap, write_position_files, write_vectors
from optimizer.images.layer import LayerPlan, build_layer
from optimizer.images.rewriting import Rewriting

COLUMNS = (
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "region", StringType(), required=True),
    NestedField(3, "day", StringType(), required=False),
    NestedField(4, "at", LongType(), required=False),
    NestedField(5, "value", StringType(), required=False),
)
OP = NestedField(10_000_001, "_op", StringType(), required=False)
LINEAGE = (
    NestedField(2147483540, "_row_id", LongType(), required=False),
    NestedField(2147483539, "_last_updated_sequence_number", LongType(), required=False),
)


class Row(NamedTuple):
    id: int
    region: str
    day: str | None
    at: int | None
    value: str | None


class Change(NamedTuple):
    """A change with the lineage that compaction would write into the file; None leaves it to be derived."""

    row: Row
    op: str = "U"
    row_id: int | None = None
    sequence: int | None = None


class Stores:
    """Base and change over one catalog in memory, partitioned by `day`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        catalog: Catalog = InMemoryCatalog("test", warehouse=directory.as_uri())
        catalog.create_namespace("db")
        spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "day"))
        self.base = catalog.create_table("db.base", Schema(*COLUMNS), partition_spec=spec)
        optional = [field.model_copy(update={"required": field.name in ("id", "region")}) for field in COLUMNS]
        # What lineage columns hold is a matter of the files; PyIceberg's writer takes them for ordinary ones.
        self.change = catalog.create_table("db.change", Schema(*optional, OP), partition_spec=spec)
        self.files, self.written, self.deletes = list[LineageFile](), 0, dict[str, DataFile]()

    def write_base(self, rows: Sequence[Row]) -> None:
        schema = schema_to_pyarrow(self.base.schema(), include_field_ids=False)
        self.base.append(pa.Table.from_pylist([row._asdict() for row in rows], schema=schema))

    def delete_from_base(self, key: int, *, as_vector: bool = False) -> None:
        """Hide base's rows with this id by their positions; PyIceberg would write the files anew."""
        directory, write = self.directory.as_uri(), write_vectors if as_vector else _write_positions
        for task in self.list_base():
            path = task.file.file_path
            places = np.flatnonzero(pc.equal(_read_parquet(path)["id"], key).to_numpy())
            if len(places):
                hidden = to_bitmap(places) | read_hidden(self.base.io, task.delete_files).get(path, BitMap64())
                self.written += 1
                (written,) = write(self.base.io, directory, f"deleted-{self.written}", {path: hidden})
                self.deletes[path] = _as_delete_file(written.location)

    def list_base(self) -> list[FileScanTask]:
        """The files of base with their deletes."""
        tasks = list(self.base.refresh().scan().plan_files())
        deletes = self.deletes
        return [
            FileScanTask(t.file, {deletes[t.file.file_path]} if t.file.file_path in deletes else set()) for t in tasks
        ]

    def write_changes(self, changes: Sequence[Change], *, sequence: int, first_row_id: int | None) -> None:
        """One change file; all changes are of one partition."""
        (day,) = {change.row.day for change in changes}
        fields = (*self.change.schema().fields, *LINEAGE)
        schema = schema_to_pyarrow(Schema(*fields), include_field_ids=True)
        rows = [
            {**change.row._asdict(), "_op": change.op, "_row_id": change.row_id, LINEAGE[1].name: change.sequence}
            for change in changes
        ]
        file = self._write(pa.Table.from_pylist(rows, schema=schema), day)
        self.files.append(LineageFile(file=file, first_row_id=first_row_id, sequence_number=sequence))

    def _write(self, rows: pa.Table, day: str | None) -> DataFile:
        self.written += 1
        path = self.directory / f"change-{self.written}.parquet"
        pq.write_table(rows, path, store_schema=False)
        file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=path.as_uri(),
            file_format=FileFormat.PARQUET,
            partition=Record(day),
            record_count=len(rows),
            file_size_in_bytes=path.stat().st_size,
        )
        file.spec_id = 0
        return file

    def build(
        self,
        columns: KeyColumns,
        watermark: int,
        *,
        version: int = 2,
        batch_rows: int = 4,
        memory_bytes: int | None = None,
        rule: RewriteRule | None = None,
        hides: OldRows | None = None,
    ) -> Layer:
        base = self.base.refresh()
        rewriting = None if rule is None else Rewriting(rule=rule, lineage=self._number_rows() if version > 2 else None)
        plan = LayerPlan(
            base=base,
            base_files=self.list_base(),
            change=self.change,
            files=self.files,
            columns=columns,
            watermark=watermark,
            directory=(self.directory / "merged").as_uri(),
            name="image",
            format_version=version,
            batch_rows=batch_rows,
            memory_bytes=memory_bytes,
            rewriting=rewriting,
            hides=hides,
        )
        (self.directory / "merged").mkdir(exist_ok=True)
        return build_layer(plan)

    def _number_rows(self) -> dict[str, LineageFile]:
        """A lineage of base's files: rows have the ids 1000, 1001 … in the order of the files' names."""
        lineage, first = dict[str, LineageFile](), 1000
        for task in sorted(self.base.scan().plan_files(), key=lambda task: task.file.file_path):
            path = task.file.file_path
            lineage[path] = LineageFile(file=task.file, first_row_id=first, sequence_number=5)
            first += task.file.record_count
        return lineage


def read_image(stores: Stores, layer: Layer) -> list[Row]:
    """What a reader of the image sees, sorted."""
    return sorted((Row(*(row[name] for name in Row._fields)) for row in list_image_rows(stores, layer)), key=repr)


def list_image_rows(stores: Stores, layer: Layer) -> list[dict[str, Any]]:
    """The rows of base at positions that are not hidden, and those of the packs.

    Readers ignore position deletes of a file that has a vector, and the image replaces some of base's vectors.
    """
    io = stores.base.io
    hidden = read_hidden(io, [_as_delete_file(hidden_file.location) for hidden_file in layer.hidden])
    with_vectors = {path for file in layer.hidden if file.offset is not None for path in file.data_files}
    rows: list[dict[str, Any]] = []
    for task in stores.list_base():
        if task.file.file_path in layer.removed_files:
            assert task.file.file_path not in hidden
            continue
        is_replaced = task.file.file_path in {*with_vectors, *layer.replaced_vectors}
        old = read_hidden(io, () if is_replaced else task.delete_files).get(task.file.file_path, ())
        gone = {*hidden.get(task.file.file_path, ()), *old}
        table = _read_parquet(task.file.file_path)
        rows += [row for position, row in enumerate(table.to_pylist()) if position not in gone]
    for pack in (*layer.packs, *layer.rewritten):
        packed = _read_parquet(pack.location).to_pylist()
        assert len(packed) == pack.rows
        rows += packed
    return rows


def _read_parquet(location: str) -> pa.Table:
    return pq.read_table(location.removeprefix("file://"), partitioning=None)


def _write_positions(io: FileIO, directory: str, name: str, hidden: Hidden) -> list[HiddenPositions]:
    return write_position_files(io, directory, name, [list(hidden)], hidden)


def _as_delete_file(location: str) -> DataFile:
    kind = FileFormat.PUFFIN if location.endswith(".puffin") else FileFormat.PARQUET
    return DataFile.from_args(content=DataFileContent.POSITION_DELETES, file_path=location, file_format=kind)
