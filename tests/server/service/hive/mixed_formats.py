"""Tables whose partitions have different formats."""

from __future__ import annotations

import os
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest
from pyarrow import orc

from tests.hive_tables import AVRO, ORC, a_hive_partition, a_storage
from tests.server.service.hive.beside_hive import LONG_AGO_NS, BesideHive, HiveFiles, uri

SCHEMA = {
    "type": "record",
    "name": "r",
    "fields": [{"name": "id", "type": ["null", "long"]}, {"name": "v", "type": "string"}],
}


@pytest.fixture
def mixed(beside: BesideHive) -> HiveFiles:
    """A Parquet table with a partition in ORC and one in Avro."""
    table = beside.hive_table()
    for part, serde in (("orc", ORC), ("avro", AVRO)):
        directory = table.path / f"p={part}"
        directory.mkdir()
        storage = a_storage(uri(directory), "id bigint; v string", serde=serde)
        beside.metastore.add_partition("db", table.short, a_hive_partition(part, storage=storage))
    write_orc(table, "f", 4)
    write_avro(table, "f", 5, 6)
    return table


def write_orc(table: HiveFiles, name: str, *ids: int | None) -> None:
    rows = pa.table({"ID": pa.array(ids, pa.int64()), "v": ["" for _ in ids]})
    orc.write_table(rows, table.path / "p=orc" / name)
    long_ago(table.path / "p=orc" / name)


def write_avro(table: HiveFiles, name: str, *ids: int | None) -> None:
    with (table.path / "p=avro" / name).open("wb") as file:
        fastavro.writer(file, SCHEMA, [{"id": row_id, "v": ""} for row_id in ids])
    long_ago(table.path / "p=avro" / name)


def long_ago(path: Path) -> None:
    """So it is believed at once."""
    os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))
