"""A keyed table's two stores, written with PyIceberg alone: base and change files with rows that a test chooses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType

from firn.protocol.tasks.image import Layer, OldRows
from firn.protocol.tasks.merge import RewriteRule
from firn.scan.lineage import LineageFile
from optimizer.images.changes import KeyColumns
from optimizer.images.hidden import read_hidden
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
        self.files: list[LineageFile] = []
        self.written = 0

    def write_base(self, rows: Sequence[Row]) -> None:
        schema = schema_to_pyarrow(self.base.schema(), include_field_ids=False)
        self.base.append(pa.Table.from_pylist([row._asdict() for row in rows], schema=schema))

    def delete_from_base(self, where: str) -> None:
        self.base.delete(where)

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
            base_files=list(base.scan().plan_files()),
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


def read_image(base: Table, layer: Layer) -> list[Row]:
    """What a reader of the image sees, sorted."""
    return sorted((Row(*(row[name] for name in Row._fields)) for row in list_image_rows(base, layer)), key=repr)


def list_image_rows(base: Table, layer: Layer) -> list[dict[str, Any]]:
    """The rows of base at positions that are not hidden, and those of the packs."""
    hidden = read_hidden(base.io, [_as_delete_file(hidden_file.location) for hidden_file in layer.hidden])
    rows: list[dict[str, Any]] = []
    for task in base.scan().plan_files():
        if task.file.file_path in layer.removed_files:
            assert task.file.file_path not in hidden
            continue
        old = read_hidden(base.io, task.delete_files).get(task.file.file_path, ())
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


def _as_delete_file(location: str) -> DataFile:
    kind = FileFormat.PUFFIN if location.endswith(".puffin") else FileFormat.PARQUET
    return DataFile.from_args(content=DataFileContent.POSITION_DELETES, file_path=location, file_format=kind)
