"""Avro files with the columns that a test asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import fastavro
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.name_mapping import create_mapping_from_schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    NestedField,
)

from firn.scan import Scan


def column(field_id: int, name: str, kind: Any, **more: Any) -> NestedField:
    return NestedField(field_id=field_id, name=name, field_type=kind, required=more.pop("required", False), **more)


@dataclass(frozen=True)
class Plain:
    """A plain table of a PyIceberg catalog."""

    table: Table

    def load(self) -> Table:
        return self.table


class WrittenTable:
    """A table whose files are written here."""

    def __init__(self, directory: Path, *columns: NestedField, by: NestedField | None = None) -> None:
        self.directory = directory
        catalog = InMemoryCatalog("test", warehouse=directory.as_uri())
        catalog.create_namespace("db")
        spec = PartitionSpec(*([PartitionField(by.field_id, 1000, IdentityTransform(), by.name)] if by else []))
        fields = [*columns, *([by] if by else [])]
        self.table = catalog.create_table("db.t", Schema(*fields), partition_spec=spec)
        with self.table.transaction() as change:
            mapping = create_mapping_from_schema(self.table.schema()).model_dump_json()
            change.set_properties({"schema.name-mapping.default": mapping})

    def add(self, schema: Mapping[str, Any], *rows: Mapping[str, Any], partition: Sequence[Any] = ()) -> DataFile:
        path = self.directory / f"f{len(list(self.directory.iterdir()))}.avro"
        with path.open("wb") as file:
            fastavro.writer(file, dict(schema), rows, codec="snappy")
        return self.register(path, FileFormat.AVRO, len(rows), partition)

    def register(self, path: Path, kind: FileFormat, rows: int, partition: Sequence[Any] = ()) -> DataFile:
        file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=path.as_uri(),
            file_format=kind,
            partition=Record(*partition),
            record_count=rows,
            file_size_in_bytes=path.stat().st_size,
        )
        file.spec_id = 0
        with self.table.transaction() as change, change.update_snapshot().fast_append() as append:
            append.append_data_file(file)
        return file

    def scanned(self, where: str | None = None, *columns: str) -> list[dict[str, Any]]:
        scan = Scan(source=Plain(self.table), filter=where, columns=columns or None)
        return cast("list[dict[str, Any]]", scan.to_arrow().to_pylist())
