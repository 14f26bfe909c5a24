"""The rows of an Iceberg table at a snapshot, as a view of DuckDB.

DuckDB itself reads Parquet files on a local disk that have the table's columns by id, with the same types. It leaves
out the rows at positions that PyIceberg has read from the deletes. PyIceberg reads all other files and hands Arrow
batches to DuckDB: files elsewhere, files of other formats, and files whose columns have other types or no field ids.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, _read_all_delete_files, schema_to_pyarrow
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, StaticTable, Table
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from firn.errors import Refused
from firn.hdfs.registration import register_file_io
from firn.protocol.locations import normalize_location
from firn.protocol.tasks.query import QueryTable
from firn.scan.avro import read_avro_rows
from firn.scan.projection import correct_projection

READ_BY_SPARK = "Use the engine Spark for this table."
THREADS = 4
FEW_FILES = 2_000
"""Footers that are read to find the files for DuckDB. PyIceberg reads the further files."""
_FIELD_ID = b"PARQUET:field_id"
_SMALLER = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
_OWN_COLUMNS = frozenset({"file_row_number", "file_index", "filename"})
"""DuckDB adds columns of these names."""
_GLOB = frozenset("*?[]{}\\")
"""DuckDB would expand these characters in a path."""
_TYPES = {
    "boolean": "BOOLEAN",
    "int": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMPTZ",
    "string": "VARCHAR",
    "uuid": "UUID",
    "binary": "BLOB",
}
Check = Callable[[str, Sequence[str]], None]
"""Called with a table's view, and its files before they are opened; raises if one of them may not be."""

correct_projection()
register_file_io()


@dataclass(frozen=True)
class TableSource:
    """One table of a query."""

    query_table: QueryTable
    table: Table
    check: Check
    most_files: int

    @classmethod
    def open(cls, query_table: QueryTable, file_io: dict[str, str], check: Check, most_files: int) -> TableSource:
        """Open the table's metadata file."""
        return cls(query_table, StaticTable.from_metadata(query_table.metadata, file_io), check, most_files)

    @cached_property
    def schema(self) -> Schema:
        """The columns of the snapshot: an older snapshot has those of its time."""
        snapshot = self._snapshot_id and self.table.metadata.snapshot_by_id(self._snapshot_id)
        current = self.table.schema()
        if not snapshot or snapshot.schema_id is None or self._snapshot_id == self.table.metadata.current_snapshot_id:
            return current
        return self.table.schemas().get(snapshot.schema_id, current)

    @cached_property
    def columns(self) -> tuple[NestedField, ...]:
        """The columns that the view has. Refused if two of them differ only in case, which DuckDB does not tell."""
        fields = self.schema.fields
        names = [column.name.casefold() for column in fields]
        if len(set(names)) < len(names):
            twice = sorted(column.name for column in fields if names.count(column.name.casefold()) > 1)
            raise Refused(
                f"columns of {self.query_table.name} differ only in upper and lower case: {', '.join(twice)}",
                hint=READ_BY_SPARK,
            )
        wanted = self.query_table.columns
        if wanted is None:
            return fields
        named = set(wanted)
        return tuple(column for column in fields if column.name.casefold() in named) or (self._smallest(),)

    def _smallest(self) -> NestedField:
        """The column that is read where a statement only counts rows."""
        flat = (column for column in self.schema.fields if not isinstance(column.field_type, (StructType, ListType)))
        return min(
            flat, key=lambda column: str(column.field_type) in {"string", "binary"}, default=self.schema.fields[0]
        )

    @property
    def _snapshot_id(self) -> int | None:
        return self.query_table.snapshot_id

    def plan(self) -> list[FileScanTask]:
        """The files of the snapshot, with their deletes; each was checked. Refused if the table cannot be read here."""
        view = self.query_table.view
        snapshot = None if self._snapshot_id is None else self.table.metadata.snapshot_by_id(self._snapshot_id)
        if snapshot is None:
            return []
        self.check(view, [snapshot.manifest_list])
        manifests = snapshot.manifests(self.table.io)
        self.check(view, [manifest.manifest_path for manifest in manifests])
        count = sum((m.added_files_count or 0) + (m.existing_files_count or 0) for m in manifests)
        if count > self.most_files:
            raise Refused(
                f"{self.query_table.name} has {count:,} files; a query reads {self.most_files:,} at most",
                hint=READ_BY_SPARK,
            )
        try:
            tasks = list(self.table.scan(snapshot_id=snapshot.snapshot_id).plan_files())
        except (ValueError, NotImplementedError) as error:
            if "equality deletes" not in str(error):
                raise
            raise Refused(f"{self.query_table.name} has equality deletes", hint=READ_BY_SPARK) from error
        files = [path for task in tasks for path in (task.file.file_path, *(d.file_path for d in task.delete_files))]
        self.check(view, list(dict.fromkeys(files)))
        return tasks


@dataclass
class Relation:
    """A table in DuckDB: the files that DuckDB reads by itself, and a stream of the others' rows."""

    source: TableSource
    direct: dict[tuple[str, ...], list[FileScanTask]] = field(default_factory=lambda: defaultdict(list))
    """Files by the names that the view's columns have in them."""
    others: list[FileScanTask] = field(default_factory=list)
    hidden: list[pa.Table] = field(default_factory=list)
    """Deleted positions, for each group of files with the same names."""

    @classmethod
    def of(cls, source: TableSource) -> Relation:
        """Plan the table, and decide for each file who reads it."""
        relation, tasks = cls(source), source.plan()
        if any(_name_type(column.field_type) is None for column in source.columns):
            relation.others = tasks
            return relation
        near, far = tasks[:FEW_FILES], tasks[FEW_FILES:]
        with ThreadPoolExecutor(THREADS) as threads:
            direct_names = list(threads.map(lambda task: find_direct(source, task), near))
        for task, names in zip(near, direct_names, strict=True):
            if names is None:
                relation.others.append(task)
            else:
                relation.direct[names].append(task)
        relation.others += far
        return relation

    @property
    def paths(self) -> list[str]:
        """The files that DuckDB may open."""
        return [normalize_location(task.file.file_path) for tasks in self.direct.values() for task in tasks]

    def create(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create the view."""
        view, columns = self.source.query_table.view, self.source.columns
        parts = []
        for names, tasks in self.direct.items():
            clean = [task for task in tasks if not task.delete_files]
            with_deletes = [task for task in tasks if task.delete_files]
            parts += [self._select_direct(names, clean)] if clean else []
            parts += [self._select_remaining(connection, names, with_deletes)] if with_deletes else []
        if self.others or not parts:
            stream = f"{view}_stream"
            connection.register(stream, Stream(self.source, self.others))
            named = ", ".join(_cast(column, column.name) for column in columns)
            parts.append(f"SELECT {named} FROM {_quote(stream)}")  # noqa: S608 -- names are quoted
        connection.execute(f"CREATE VIEW {_quote(view)} AS {' UNION ALL '.join(parts)}")

    def _select_direct(self, names: Sequence[str], tasks: Sequence[FileScanTask], *, numbered: bool = False) -> str:
        columns = zip(self.source.columns, names, strict=True)
        named = ", ".join(_cast(column, name) for column, name in columns)
        files = ", ".join(_text(normalize_location(task.file.file_path)) for task in tasks)
        options = f"hive_partitioning = false, union_by_name = false, file_row_number = {str(numbered).lower()}"
        return f"SELECT {named} FROM read_parquet([{files}], {options}) AS firn_rows"  # noqa: S608 -- all is quoted

    def _select_remaining(
        self, connection: duckdb.DuckDBPyConnection, names: Sequence[str], tasks: Sequence[FileScanTask]
    ) -> str:
        """The rows of files with deletes, without those at deleted positions."""
        deleted = _read_all_delete_files(self.source.table.io, tasks)
        files, positions = list[pa.Array](), list[pa.Array]()
        for number, task in enumerate(tasks):
            for chunk in chain.from_iterable(part.chunks for part in deleted.get(task.file.file_path, [])):
                files.append(pa.repeat(pa.scalar(number, pa.uint64()), len(chunk)))
                positions.append(chunk.cast(pa.int64()))
        hidden = f"{self.source.query_table.view}_deleted_{len(self.hidden)}"
        table = pa.table(
            [pa.chunked_array(files, pa.uint64()), pa.chunked_array(positions, pa.int64())], names=["file", "position"]
        )
        self.hidden.append(table)
        connection.register(hidden, table)
        return (
            f"{self._select_direct(names, tasks, numbered=True)} ANTI JOIN {_quote(hidden)} AS firn_deleted ON "
            "firn_deleted.file = firn_rows.file_index AND firn_deleted.position = firn_rows.file_row_number"
        )


def find_direct(source: TableSource, task: FileScanTask) -> tuple[str, ...] | None:
    """The names of the view's columns in a file that DuckDB can read by itself; None if PyIceberg has to."""
    path = normalize_location(task.file.file_path)
    if task.file.file_format is not FileFormat.PARQUET or not path.startswith("/"):
        return None
    if any(delete.content is not DataFileContent.POSITION_DELETES for delete in task.delete_files):
        return None
    if _GLOB & set(path) or any(ord(character) < 32 for character in path):
        return None
    fields = pq.ParquetFile(path).schema_arrow
    folded = [name.casefold() for name in fields.names]
    if len(set(folded)) < len(folded) or _OWN_COLUMNS & set(folded):
        return None
    by_id = {int(f.metadata[_FIELD_ID]): f for f in fields if _FIELD_ID in (f.metadata or {})}
    wanted = schema_to_pyarrow(Schema(*source.columns), include_field_ids=True)
    names = []
    for column, target in zip(source.columns, wanted, strict=True):
        field = by_id.get(column.field_id)
        if field is None or not _is_same(field, target):
            return None
        names.append(field.name)
    return tuple(names)


def _is_same(field: pa.Field, target: pa.Field) -> bool:
    """Whether a field of a file is the wanted one: its id and type, and those of its parts in their order.

    A field inside a struct may have been dropped, and another one of its name and type added.
    """
    if (field.metadata or {}).get(_FIELD_ID) != (target.metadata or {}).get(_FIELD_ID):
        return False
    if not pa.types.is_nested(target.type):
        return bool(field.type == _SMALLER.get(target.type, target.type))
    kinds = (pa.types.is_struct, pa.types.is_map, lambda kind: pa.types.is_list(kind) or pa.types.is_large_list(kind))
    parts, wanted = _list_parts(field.type), _list_parts(target.type)
    is_struct = pa.types.is_struct(target.type)
    return (
        any(is_kind(field.type) and is_kind(target.type) for is_kind in kinds)
        and len(parts) == len(wanted)
        and all(_is_same(*pair) for pair in zip(parts, wanted, strict=True))
        and (not is_struct or [part.name for part in parts] == [part.name for part in wanted])
    )


def _list_parts(kind: pa.DataType) -> list[pa.Field]:
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    if pa.types.is_struct(kind):
        return [kind.field(place) for place in range(kind.num_fields)]
    return [kind.value_field]


@dataclass(frozen=True)
class Stream:
    """Rows of files that PyIceberg reads. DuckDB asks for the stream once for each scan, and each begins anew."""

    source: TableSource
    tasks: Sequence[FileScanTask]

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Begin to read."""
        reader = pa.RecordBatchReader.from_batches(self._target, self._batches())
        return reader.__arrow_c_stream__(requested_schema)

    @cached_property
    def _columns(self) -> Schema:
        return Schema(*self.source.columns)

    @cached_property
    def _target(self) -> pa.Schema:
        types = schema_to_pyarrow(self._columns, include_field_ids=False)
        return pa.schema([pa.field(each.name, each.type) for each in types])

    def _batches(self) -> Iterator[pa.RecordBatch]:
        if not self.tasks:
            return
        table = self._pinned
        rest = [task for task in self.tasks if task.file.file_format is not FileFormat.AVRO]
        deletes = _read_all_delete_files(table.io, rest)
        scan = ArrowScan(table.metadata, table.io, self._columns, AlwaysTrue())
        for task in rest:
            for batch in scan._record_batches_from_scan_tasks_and_deletes([task], deletes):  # noqa: SLF001 -- its public method holds whole files in memory
                yield self._arrange(batch)
        avro = [task for task in self.tasks if task.file.file_format is FileFormat.AVRO]
        tables = read_avro_rows(table, avro, self._columns) if avro else iter(())
        yield from chain.from_iterable(map(self._arrange, rows.to_batches()) for rows in tables)

    @cached_property
    def _pinned(self) -> Table:
        """The table with the schema of the snapshot as its current one, as PyIceberg's reader expects it."""
        table, schema = self.source.table, self.source.schema
        metadata = table.metadata.model_copy(update={"current_schema_id": schema.schema_id})
        return Table(table.name(), metadata, table.metadata_location, table.io, table.catalog, table.config)

    def _arrange(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [batch.column(each.name).cast(each.type) for each in self._target]
        return pa.record_batch(arrays, schema=self._target)


def _cast(column: NestedField, name: str) -> str:
    """The column under its name and type; files and streams may have a narrower one."""
    kind = _name_type(column.field_type)
    value = _quote(name) if kind is None else f"CAST({_quote(name)} AS {kind})"
    return f"{value} AS {_quote(column.name)}"


def _name_type(kind: IcebergType) -> str | None:
    """The type in DuckDB's SQL; None if it is left to the Arrow type."""
    if isinstance(kind, ListType):
        element = _name_type(kind.element_type)
        return None if element is None else f"{element}[]"
    if isinstance(kind, MapType):
        key, value = _name_type(kind.key_type), _name_type(kind.value_type)
        return None if key is None or value is None else f"MAP({key}, {value})"
    if isinstance(kind, StructType):
        fields = [(each.name, _name_type(each.field_type)) for each in kind.fields]
        if any(each is None for _, each in fields):
            return None
        return f"STRUCT({', '.join(f'{_quote(name)} {each}' for name, each in fields)})"
    text = str(kind)
    if text.startswith("decimal"):
        return text.upper()
    return "BLOB" if text.startswith("fixed") else _TYPES.get(text)


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
