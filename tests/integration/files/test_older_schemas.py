"""Files from before columns were added and widened, one in capitals: readers find the table as it is now."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyiceberg.table import StaticTable

from catalog.files.data_file import DataFileEntry, FileFormat
from server.files.footers import Footers
from tests.server.files.registered import Registered
from tests.spark_fixtures import hadoop_catalog

pytestmark = pytest.mark.spark
BEFORE = pa.schema({"id": pa.int32(), "f": pa.float32(), "m": pa.decimal128(9, 2), "s": pa.struct({"a": pa.int32()})})
ROW = {"id": -(2**31), "f": 0.5, "m": Decimal("-1.25"), "s": {"a": 7}}
NOW = "id bigint; new string; f double; m decimal(12,2); s struct<a:bigint,b:string>"
READ = {"id": -(2**31), "new": None, "f": 0.5, "m": Decimal("-1.25"), "s": {"a": 7, "b": None}}
AVRO = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "f", "type": ["null", "float"]},
        {"name": "m", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "s", "type": {"type": "record", "name": "s", "fields": [{"name": "a", "type": ["null", "int"]}]}},
    ],
}


def write(path: Path, form: FileFormat) -> None:
    rows = pa.Table.from_pylist([ROW], schema=BEFORE)
    match form:
        case FileFormat.PARQUET:
            pq.write_table(rows, path)
        case FileFormat.ORC:
            orc.write_table(rows.rename_columns(["ID", "F", "M", "S"]), path)
        case FileFormat.AVRO:
            with path.open("wb") as file:
                fastavro.writer(file, AVRO, [ROW])


def test_narrower_types_and_missing_columns_have_the_values_of_now(tmp_path: Path) -> None:
    table = Registered(tmp_path / "wh", NOW, "p string")
    entries = []
    for form in FileFormat:
        write(tmp_path / form, form)
        stats = Footers(table.storage, table.schema).read(f"file:{tmp_path}/{form}", form)
        entries.append(DataFileEntry(stats=stats, partition=(str(form),)))
    table.map_names([alias for entry in entries for alias in entry.stats.aliases])
    table.commit(entries)
    spark = hadoop_catalog("older", table.warehouse)
    read = [row.asDict(recursive=True) for row in spark.sql("SELECT * FROM older.db.t ORDER BY p").collect()]
    assert read == [{**READ, "p": form} for form in sorted(FileFormat)]
    filtered = "id < 0 AND new IS NULL AND f > 0.4 AND m = -1.25 AND s.a = 7 AND s.b IS NULL"
    assert spark.sql(f"SELECT count(*) FROM older.db.t WHERE {filtered}").collect() == [(3,)]
    for form in (FileFormat.PARQUET, FileFormat.ORC):
        rows = StaticTable.from_metadata(table.metadata_file).scan(row_filter=f"p = '{form}'").to_arrow().to_pylist()
        assert rows == [{**READ, "p": form}]
