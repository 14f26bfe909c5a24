"""A warehouse as it grows over years: tables in all formats, each kind of blocker, views, and some broken files."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from bench.hive.tables import AGE_SECONDS
from catalog.hive.model import HivePartition, HiveStorage, HiveTable
from tests.hive_tables import AVRO, ORC, PARQUET_SERDE, TEXT, a_hive_table, a_storage
from tests.server.metastore.hive_side import HiveSide

COLUMNS = "id bigint; customer string; amount double"
ROWS = 100
TABLES_PER_DATABASE = 250
_TEXT_INPUT = "org.apache.hadoop.mapred.TextInputFormat"
_ORC_OUTPUT = "org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat"
"""The metastore asks for it in transactional tables."""
_SUFFIXES = {PARQUET_SERDE: "parquet", ORC: "orc", AVRO: "avro", TEXT: "txt"}
_DDL_TIME = 1_700_000_000
_WRITERS = ("ann", "ben", "etl", "reports")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of table."""

    share: int
    """Of the tables without views, in 200ths."""
    serde: str = PARQUET_SERDE
    columns: str = COLUMNS
    partitioned_by: str = ""
    values: Sequence[tuple[str, ...]] = ((),)
    """The values of the partitions; one without values for a table that has none."""
    files: int = 2
    """In each directory."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    input_format: str | None = None
    bucket_columns: tuple[str, ...] = ()
    partition_serde: str | None = None
    """The format of the last partition, if it differs."""
    is_managed: bool = False
    shares_directory: bool = False
    nests_directory: bool = False
    declares_key: bool = False
    is_cut_off: bool = False
    """Whether a file is not whole, which only the upgrade itself notices."""


_DAYS = (("2026-03-01",), ("2026-03-02",), ("2026-03-03",))
_BY_DAY = {"partitioned_by": "day string", "values": _DAYS, "files": 1}
_LITERAL = '{"type":"record","name":"r","fields":[{"name":"id","type":"long"}]}'

KINDS = {
    "parquet": Kind(share=40),
    "parquet_declared": Kind(share=10, declares_key=True),
    "parquet_by_day": Kind(share=40, **_BY_DAY),  # type: ignore[arg-type]
    "orc": Kind(share=15, serde=ORC),
    "orc_by_day": Kind(share=12, serde=ORC, **_BY_DAY),  # type: ignore[arg-type]
    "avro": Kind(share=10, serde=AVRO),
    "mixed_formats": Kind(share=6, partition_serde=ORC, **_BY_DAY),  # type: ignore[arg-type]
    "cut_off": Kind(share=2, is_cut_off=True),
    "text": Kind(share=14, serde=TEXT, input_format=_TEXT_INPUT),
    "transactional": Kind(
        share=8, serde=ORC, bucket_columns=("id",), parameters={"transactional": "true"}, is_managed=True
    ),
    "storage_handler": Kind(
        share=3, files=0, parameters={"storage_handler": "org.apache.hadoop.hive.hbase.HBaseStorageHandler"}
    ),
    "bucketed": Kind(share=8, bucket_columns=("id",)),
    "by_position": Kind(share=3, parameters={"parquet.column.index.access": "true"}),
    "avro_schema": Kind(share=4, serde=AVRO, parameters={"avro.schema.literal": _LITERAL}),
    "spark_format": Kind(share=3, files=0, parameters={"spark.sql.sources.provider": "delta"}),
    "iceberg": Kind(share=3, files=0, parameters={"table_type": "ICEBERG"}),
    "column_type": Kind(share=3, columns=f"{COLUMNS}; either uniontype<int,string>"),
    "partition_type": Kind(share=2, partitioned_by="part double", values=(("1.5",),)),
    "partition_value": Kind(share=2, partitioned_by="part int", values=(("1",), ("one",))),
    "same_values": Kind(share=2, partitioned_by="part int", values=(("1",), ("01",))),
    "shared_location": Kind(share=2, shares_directory=True, **_BY_DAY),  # type: ignore[arg-type]
    "partition_format": Kind(share=3, partition_serde=TEXT, **_BY_DAY),  # type: ignore[arg-type]
    "timestamp_formats": Kind(share=2, columns=f"{COLUMNS}; at timestamp", partition_serde=ORC, **_BY_DAY),  # type: ignore[arg-type]
    "subdirectories": Kind(share=3, nests_directory=True),
}


@dataclass(frozen=True)
class Warehouse:
    """Writes files and entries of a metastore."""

    hive: HiveSide
    directory: Path
    show: Callable[[str], object] = str
    """Gets a line for each database that begins."""

    def generate(self, tables: int, views: int) -> dict[str, int]:
        """Make so many tables and views; the counts by kind."""
        templates = _write_templates(self.directory / "templates")
        kinds = Counter[str]()
        for number, kind in enumerate(_spread_kinds(tables)):
            database = f"area_{number // TABLES_PER_DATABASE:02d}"
            if number % TABLES_PER_DATABASE == 0:
                self.show(f"generate: {number:,} of {tables:,} tables")
                self.hive.add_database(database)
            self._add_table(database, f"{kind}_{number:05d}", KINDS[kind], templates, number)
            kinds[kind] += 1
        self._add_views(views, tables)
        return dict(kinds)

    def _add_table(self, database: str, name: str, kind: Kind, templates: Mapping[str, Path], number: int) -> None:
        root = self.directory / f"{database}.db" / name
        table = _build_table(database, name, kind, f"file:{root}", number)
        self.hive.add_table(table)
        partitions = [
            _build_partition(kind, table, values, is_last=values == kind.values[-1]) for values in kind.values if values
        ]
        if partitions:
            self.hive.add_partitions(database, name, partitions)
        for storage in [partition.storage for partition in partitions] or [table.storage]:
            _copy_files(Path(storage.location.removeprefix("file:")), kind.files, templates[_SUFFIXES[storage.serde]])
        if kind.nests_directory:
            _copy_files(root / "late", 1, templates["parquet"])
        if kind.is_cut_off:
            file = next(root.iterdir())
            file.write_bytes(file.read_bytes()[:-9])
        if kind.declares_key:
            self.hive.declare_primary_key(database, name, ["id"], f"pk_{name}")

    def _add_views(self, views: int, tables: int) -> None:
        """Three of four views have a query that Spark answers with the same rows; some read blocked tables."""
        names = [f"area_{n // TABLES_PER_DATABASE:02d}.{kind}_{n:05d}" for n, kind in enumerate(_spread_kinds(tables))]
        self.hive.add_database("reports")
        for number in range(views):
            table = names[number * 7 % len(names)]
            query = _QUERIES[number % len(_QUERIES)](table)
            storage = a_storage("", "id bigint; customer string")
            view = a_hive_table("reports", f"view_{number:04d}", type="VIRTUAL_VIEW", storage=storage, view_text=query)
            self.hive.add_table(replace(view, owner=_WRITERS[number % len(_WRITERS)]))


_QUERIES: tuple[Callable[[str], str], ...] = (
    lambda table: f"SELECT `t`.`id`, `t`.`customer` FROM {table} `t` WHERE `t`.`amount` > 1.5",
    lambda table: f"SELECT max(`t`.`id`) AS `id`, `t`.`customer` FROM {table} `t` GROUP BY `t`.`customer`",
    lambda table: f"SELECT DISTINCT `t`.`id`, upper(`t`.`customer`) AS `customer` FROM {table} `t`",
    lambda table: f"SELECT `t`.`id`, mask_name(`t`.`customer`) AS `customer` FROM {table} `t`",
)


def _spread_kinds(tables: int) -> Iterator[str]:
    """Kinds by their shares, mixed: each database has all of them."""
    total, credit = sum(kind.share for kind in KINDS.values()), dict.fromkeys(KINDS, 0)
    for _ in range(tables):
        for name, kind in KINDS.items():
            credit[name] += kind.share
        chosen = max(credit, key=credit.__getitem__)
        credit[chosen] -= total
        yield chosen


def _build_table(database: str, name: str, kind: Kind, location: str, number: int) -> HiveTable:
    storage = _build_storage(kind, kind.serde, location)
    if kind.bucket_columns:
        storage = replace(storage, bucket_columns=kind.bucket_columns, buckets=4)
    external = {} if kind.is_managed else {"EXTERNAL": "TRUE"}
    parameters = {**external, "transient_lastDdlTime": str(_DDL_TIME + number), **kind.parameters}
    table = a_hive_table(database, name, storage=storage, partitioned_by=kind.partitioned_by, parameters=parameters)
    type_name = "MANAGED_TABLE" if kind.is_managed else table.type
    return replace(table, owner=_WRITERS[number % len(_WRITERS)], type=type_name)


def _build_storage(kind: Kind, serde: str, location: str) -> HiveStorage:
    input_format = _TEXT_INPUT if serde == TEXT else kind.input_format
    storage = a_storage(location, kind.columns, serde=serde, input_format=input_format)
    return replace(storage, output_format=_ORC_OUTPUT) if serde == ORC else storage


def _build_partition(kind: Kind, table: HiveTable, values: tuple[str, ...], *, is_last: bool) -> HivePartition:
    serde = kind.partition_serde if kind.partition_serde and is_last else kind.serde
    shared = kind.values[0] if kind.shares_directory else values
    location = f"{table.storage.location}/{table.partition_columns[0].name}={shared[0]}"
    parameters = {"transient_lastDdlTime": str(_DDL_TIME), "numRows": str(ROWS * kind.files)}
    return HivePartition(values=values, storage=_build_storage(kind, serde, location), parameters=parameters)


def _copy_files(directory: Path, files: int, template: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    then = time.time() - AGE_SECONDS
    for number in range(files):
        path = directory / f"part-{number:05d}{template.suffix}"
        shutil.copyfile(template, path)
        os.utime(path, (then, then))


def _write_templates(directory: Path) -> dict[str, Path]:
    """One small file of each format."""
    directory.mkdir(parents=True)
    paths = {suffix: directory / f"rows.{suffix}" for suffix in _SUFFIXES.values()}
    rows = pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "customer": pa.array([f"c{number % 7}" for number in range(ROWS)]),
            "amount": pa.array([number / 4 for number in range(ROWS)]),
        }
    )
    pq.write_table(rows, paths["parquet"])
    orc.write_table(rows, str(paths["orc"]))
    types = {"id": "long", "customer": "string", "amount": "double"}
    fields = [{"name": name, "type": ["null", kind]} for name, kind in types.items()]
    with paths["avro"].open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "row", "fields": fields}, rows.to_pylist())
    lines = [f"{row['id']}\x01{row['customer']}\x01{row['amount']}" for row in rows.to_pylist()]
    paths["txt"].write_text("\n".join(lines) + "\n", encoding="utf-8")
    return paths
