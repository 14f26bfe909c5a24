"""Hive tables that are not all Parquet: both sides return the same rows, and what comes and goes keeps its format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

import firn
from firn.embedded.metastore import EmbeddedMetastore
from tests.command_line import Command
from tests.fingerprints import fingerprint
from tests.hive_engine import Rows
from tests.hive_lake import HiveTable, Side
from tests.integration.hive.all_types import NESTED, PRIMITIVES, refused_or_failed
from tests.integration.hive.partitions import add_partition

pytestmark = [pytest.mark.hive, pytest.mark.spark]
KINDS = {**PRIMITIVES, **NESTED, "da": ("DATE", "DATE '1969-12-31'"), "ch": ("CHAR(3)", "'abc'")}
SHOWN = "id, p, " + ", ".join(f"CAST({name} AS STRING)" for name in KINDS)


def scanned(table: HiveTable, columns: str) -> Rows:
    """What the client's own reader gives, as Spark shows it."""
    path = table.side.directory / f"scanned_{table.short}.parquet"
    with firn.connect(table.side.server.url) as client:
        pq.write_table(client.scan(f"lake.{table.name}").to_arrow(), path)
    try:
        return table.side.hive.sql(f"SELECT {columns} FROM parquet.`{path.as_uri()}`")
    finally:
        path.unlink()


def of_all_types(side: Side, kind: str) -> HiveTable:
    table = side.table(
        f"id BIGINT, {', '.join(f'{name} {kind}' for name, (kind, _) in KINDS.items())}", "p STRING", kind=kind
    )
    table.insert(f"{row(1, 'x')} UNION ALL SELECT 2{', NULL' * len(KINDS)}, 'x' UNION ALL {row(3, 'y')}")
    return table


def row(number: int, partition: str) -> str:
    return f"SELECT {number}, {', '.join(value for _, value in KINDS.values())}, '{partition}'"


@pytest.mark.parametrize(("kind", "timestamp"), [("ORC", "TIMESTAMP_NTZ"), ("AVRO", "TIMESTAMP")])
def test_values_of_all_types_read_the_same_through_sync_rebuild_and_publish(
    side: Side, kind: str, timestamp: str
) -> None:
    table = of_all_types(side, f"STORED AS {kind}")
    before = fingerprint(table.path)
    table.upgrade("id")
    assert len(table.rows(SHOWN)) == 3
    assert table.rows(SHOWN) == table.hive_rows(SHOWN) == scanned(table, SHOWN)
    filtered = f"i = -2147483648 AND s > 'u' AND da < DATE '1970-01-01' AND ts > {timestamp} '1969-12-31' AND p = 'y'"
    assert side.hive.sql(f"SELECT id FROM lake.{table.name} WHERE {filtered}") == [(3,)]
    assert fingerprint(table.path) == before
    table.insert(row(4, "y"))
    table.insert(row(5, "x"), how="OVERWRITE")
    table.sync()  # a rebuild first, then upserts
    assert table.rows(SHOWN) == table.hive_rows(SHOWN)
    side.hive.sql(f"INSERT INTO lake.{table.name}.change SELECT *, 'D', NULL FROM lake.{table.name} WHERE id = 3")
    expected = table.rows(SHOWN)
    table.publish()
    assert table.hive_rows(SHOWN) == table.rows(SHOWN) == table.rows(SHOWN, ".base") == expected
    assert [line[:2] for line in expected] == [(4, "y"), (5, "x")]
    table.insert(row(6, "y"))
    table.sync()
    assert table.rows(SHOWN) == table.hive_rows(SHOWN) == scanned(table, SHOWN)


STRUCT = {"type": "record", "name": "st", "fields": [{"name": "inner", "type": ["null", "int"], "default": None}]}
AVRO = {
    "type": "record",
    "name": "row",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "v", "type": ["string", "null"]},
        {"name": "st", "type": STRUCT},
    ],
}


def write_avro(path: Path, *rows: Mapping[str, Any]) -> None:
    with path.open("wb") as file:
        fastavro.writer(file, AVRO, rows, codec="deflate")


def write_orc(path: Path, *rows: Mapping[str, Any]) -> None:
    kind = pa.schema({"id": pa.int64(), "v": pa.string(), "st": pa.struct({"inner": pa.int32()})})
    orc.write_table(pa.Table.from_pylist(list(rows), schema=kind), path)


FIELDS = "id, v, st.inner, p"


def table_in_three_formats(side: Side, metastore: EmbeddedMetastore) -> HiveTable:
    """Each partition has the name of its format; other programs have written most files."""
    columns = "id BIGINT, v STRING, st STRUCT<inner: INT>"
    table = side.table(columns, "p STRING", "SELECT 1, 'a', named_struct('inner', 1), 'avro'", kind="STORED AS AVRO")
    write_avro(table.path / "p=avro" / "by_others", {"id": 2, "v": "b", "st": {"inner": 2}})
    as_orc, as_parquet = (side.table(columns, "p STRING", kind=f"STORED AS {kind}") for kind in ("ORC", "PARQUET"))
    in_orc = add_partition(table, "orc", metastore, as_orc)
    assert in_orc == table.path / "p=orc"
    write_orc(in_orc / "by_others", {"id": 3, "v": "c", "st": {"inner": 3}}, {"id": 4, "v": None, "st": None})
    add_partition(table, "parquet", metastore, as_parquet)
    side.hive.sql(f"INSERT INTO {as_parquet.name} SELECT 5, 'e', named_struct('inner', 5), 'parquet'")
    for path in (as_parquet.path / "p=parquet").glob("part-*"):
        path.rename(table.path / "p=parquet" / path.name)
    return table


def sync_files_of_two_formats(table: HiveTable) -> None:
    """Others add files whose rows replace older ones."""
    last = {"id": 2, "v": "last", "st": {}}
    write_avro(table.path / "p=avro" / "more", {"id": 2, "v": "old", "st": {"inner": 2}}, last)
    write_orc(table.path / "p=orc" / "more", {"id": 3, "v": "again", "st": {"inner": 30}})
    table.sync(everything=True)


def delete_and_publish(table: HiveTable, ids: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Delete these keys and publish; these rows are left on both sides."""
    deletes = f"SELECT *, 'D', NULL FROM lake.{table.name} WHERE id IN ({ids})"
    table.side.hive.sql(f"INSERT INTO lake.{table.name}.change {deletes}")
    table.job("merge")
    assert scanned(table, FIELDS) == rows
    assert table.publish()["result"]["switched"] == 3
    assert table.rows(FIELDS) == table.rows(FIELDS, ".base") == table.hive_rows(FIELDS) == rows


def test_partitions_of_one_table_in_three_formats(side: Side, metastore: EmbeddedMetastore) -> None:
    table = table_in_three_formats(side, metastore)
    before = fingerprint(table.path)
    rows = [
        (1, "a", 1, "avro"),
        (2, "b", 2, "avro"),
        (3, "c", 3, "orc"),
        (4, None, None, "orc"),
        (5, "e", 5, "parquet"),
    ]
    assert table.hive_rows(FIELDS) == rows
    assert "holds nulls (1 found)" in refused_or_failed(table, "v")
    table.upgrade("id", **{"firn.merge.mode": "vectors"})
    assert table.rows(FIELDS) == scanned(table, FIELDS) == rows
    sync_files_of_two_formats(table)
    rows[1:3] = [(2, "last", None, "avro"), (3, "again", 30, "orc")]
    assert table.rows(FIELDS) == rows
    delete_and_publish(table, "1, 4, 5", rows[1:3])
    assert before.items() <= fingerprint(table.path).items()
    (table.path / "p=avro" / "by_others").unlink()
    table.sync(everything=True)
    assert table.rows(FIELDS) == table.rows(FIELDS, ".base") == rows[1:3]


def test_values_that_hive_s_avro_cannot_hold_keep_their_partition_waiting_and_no_other(side: Side) -> None:
    columns = "id BIGINT, at TIMESTAMP, many ARRAY<STRUCT<code: CHAR(3), day: DATE>>, n SMALLINT"
    row = "{}, TIMESTAMP '2026-01-01 00:00:00.{}', array(NULL, named_struct('code', 'a', 'day', DATE '{}')), -3, {}"
    table = side.table(columns, "p STRING, q DATE", kind="STORED AS AVRO")
    known = "'x', DATE '2026-11-01'"
    table.insert(f"SELECT {row.format(1, 123, '2026-01-01', known)}")
    table.upgrade("id")
    held = [row.format(10 + at, 5, "1582-10-15", part) for at, part in enumerate(("'new', DATE '2026-11-02'", known))]
    finer = row.format(20, "123456", "2026-01-01", "'a b/ü', DATE '2026-11-01'")
    older = row.format(21, "1", "1582-10-14", "NULL, DATE '2026-11-01'")
    table.change(f"SELECT {' UNION ALL SELECT '.join([*held, finer, older])}")
    done = table.publish()
    assert (done["result"]["partitions"], done["result"]["switched"], done["result"]["rows"]) == (2, 2, 3)
    shown = "id, CAST(at AS STRING), trim(many[1].code), many[1].day, n, p, q"  # Hive's reader pads char values
    assert table.hive_rows(shown) == table.rows(shown)[:3]
    assert [line[0] for line in table.rows(store=".base")] == [1, 10, 11, 20, 21]
    messages = "1 rows have a value in at that is finer than a millisecond", "1 rows have a value in many that is"
    again = table.ask_publish()
    assert again["job"] is None, again
    assert again["partitions_waiting"] == 2
    assert all(words in again["message"] and words in done["result"]["waits"] for words in messages), again["message"]
    table.change(f"SELECT {finer.replace('123456', '123457')}")
    in_vain = table.publish()
    assert in_vain["result"]["partitions"] == 0
    assert messages[0] in in_vain["result"]["waits"]
    assert table.ask_publish()["job"] is None
    table.change(f"SELECT {finer.replace('123456', '123')}")
    table.change(f"SELECT {older}", op="D")
    table.publish()
    assert table.hive_rows(shown) == table.rows(shown)
    assert [line[0] for line in table.rows()] == [1, 10, 11, 20]
    assert table.ask_sync(everything=True)["outcome"] == "unchanged"


@pytest.mark.parametrize("key", [(), ("id",)])
def test_an_avro_table_without_partitions_is_published_and_given_back(side: Side, key: tuple[str, ...]) -> None:
    table = side.table("id BIGINT, v STRING", "", "VALUES (1, 'a'), (2, 'b')", kind="STORED AS AVRO").upgrade(*key)
    target = f"lake.{table.name}"
    if key:
        table.change("SELECT 2, 'mine'")
    else:
        side.hive.sql(f"DELETE FROM {target} WHERE id = 2", f"INSERT INTO {target} VALUES (2, 'mine')")
    table.publish()
    assert table.hive_rows() == table.rows() == [(1, "a"), (2, "mine")]
    table.insert("VALUES (3, 'theirs')")
    table.sync()
    assert table.rows() == table.hive_rows() == [(1, "a"), (2, "mine"), (3, "theirs")]
    if key:
        table.change("SELECT 1, '' UNION ALL SELECT 2, '' UNION ALL SELECT 3, ''", op="D")
    else:
        side.hive.sql(f"DELETE FROM {target}")
    command = Command(side.server.url)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(command, "hive", "downgrade", table.name, "--no-wait-for-writers")
        while not future.done():
            side.hive.work(side.server.url)
    assert future.result().code == 0, future.result().err
    assert table.hive_rows() == []
    table.insert("VALUES (4, 'theirs')")
    assert table.upgrade(*key).rows() == table.hive_rows() == [(4, "theirs")]
