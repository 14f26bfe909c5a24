"""Hive tables that are rewritten: the copy has the values that Hive's own readers see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hive_metastore.ttypes import GetTableRequest

from firn.embedded.metastore import EmbeddedMetastore, MetastoreSession
from tests.fingerprints import fingerprint
from tests.hive_lake import HiveTable, Side
from tests.integration.hive.all_types import NESTED, PRIMITIVES
from tests.integration.hive.partitions import add_partition

pytestmark = [pytest.mark.hive, pytest.mark.spark]
KINDS = {**PRIMITIVES, **NESTED, "ch": ("CHAR(3)", "'ab'"), "mi": ("MAP<INT, DATE>", "map(1, DATE '0004-02-29')")}
SHOWN = "id, " + ", ".join(f"CAST({name} AS STRING)" for name in KINDS)
DELIMITED = r"""ROW FORMAT DELIMITED FIELDS TERMINATED BY '|' ESCAPED BY '\\' COLLECTION ITEMS TERMINATED BY ','
MAP KEYS TERMINATED BY '=' NULL DEFINED AS 'nil' STORED AS TEXTFILE"""
KINDS_OF_FILES = {
    "sequence": "STORED AS SEQUENCEFILE",
    "parquet": "STORED AS PARQUET",
    "orc": "STORED AS ORC",
    "columns": "ROW FORMAT SERDE 'org.apache.hadoop.hive.serde2.columnar.ColumnarSerDe' STORED AS RCFILE",
    "csv": "ROW FORMAT SERDE 'org.apache.hadoop.hive.serde2.OpenCSVSerde' STORED AS TEXTFILE",
}
ODD = ("odd", "1969-12-31")
JSON = "org.apache.hive.hcatalog.data.JsonSerDe"


def converted(table: HiveTable, **body: Any) -> dict[str, Any]:
    """The job that made a table of its rows."""
    before = fingerprint(table.path)
    job = table.side.server.post(f"catalogs/lake/hive/{table.name}/convert", body)
    ended = table.worked(job)
    assert fingerprint(table.path) == before
    return ended


def row(number: int, partition: str, day: str) -> str:
    return f"SELECT {number}, {', '.join(value for _, value in KINDS.values())}, {partition}, {day}"


def read_by(metastore: EmbeddedMetastore, table: HiveTable, serde: str) -> None:
    """Let another serializer read a table: Spark, which makes the tables here, does not have all of them."""
    with MetastoreSession(metastore.port) as hive:
        hive_table = hive.get_table_req(GetTableRequest(dbName="db", tblName=table.short)).table
        hive_table.sd.serdeInfo.serializationLib = serde
        hive_table.sd.serdeInfo.parameters = {"serialization.format": "1"}
        hive.alter_table("db", table.short, hive_table)


def test_values_of_all_types_in_text(side: Side) -> None:
    columns = f"id BIGINT, {', '.join(f'{name} {kind}' for name, (kind, _) in KINDS.items())}"
    table = side.table(columns, "p STRING, day DATE", kind=DELIMITED)
    nulls = f"SELECT 2{', NULL' * len(KINDS)}, 'ü /x', NULL"
    whole = row(1, "NULL", "DATE '2026-11-21'")
    table.insert(f"{whole} UNION ALL {nulls}")
    odd = table.path / "p=odd" / "day=1969-12-31"
    odd.mkdir(parents=True)
    lines = [
        r"3|yes|128|x|1.5|9223372036854775808|||1.005|nil|nil|a\|b\\c||?|2026-02-30|2026-13-01 00:00:00|1,x,,|||long",
        "4|TRUE",
        "5" + "|nil" * (len(KINDS) + 5),
        "",
        "6|false|1|2|3|4|5|6|7|8|9| s |vc|AP8=|2026-01-01|2026-01-01 10:00:00.123456|nil|,nil|k=,=|ab|7=2026-01-01,x=",
    ]
    (odd / "by_hand").write_text("\n".join(lines))
    table.alter("ADD PARTITION (p='odd', day='1969-12-31')")
    table.alter("ADD PARTITION (p='gone', day='1969-12-31')")
    gone = table.path / "p=gone" / "day=1969-12-31"
    gone.rmdir()
    job = converted(table)
    gone.mkdir()  # without it Spark reads nothing; to Hive it is empty
    assert job["result"]["rows"] == 7
    read = table.rows(f"{SHOWN}, p, CAST(day AS STRING)")
    assert len(read) == 7
    assert [line[:-2] for line in read] == table.hive_rows(SHOWN)
    # Spark does not read nulls out of Hive's directories: it takes their name for a text, and for no date at all.
    values = {line[0]: line[-2:] for line in read}
    assert values == {1: (None, "2026-11-21"), 2: ("ü /x", None), **dict.fromkeys((3, 4, 5, 6, None), ODD)}
    listed: Any = side.server.get(f"catalogs/lake/tables/{table.name}/snapshots")
    [snapshot] = listed
    assert snapshot["summary"]["firn.converted-from"] == table.name


@pytest.mark.parametrize("kind", ["PARQUET", "ORC"])
def test_bucketed_tables_with_values_of_all_types(side: Side, metastore: EmbeddedMetastore, kind: str) -> None:
    columns = f"id BIGINT, {', '.join(f'{name} {type_}' for name, (type_, _) in KINDS.items())}"
    table = side.table(columns, "p STRING, day DATE", kind=f"STORED AS {kind}")
    whole = row(1, "'x'", "DATE '2026-11-21'")
    table.insert(f"{whole} UNION ALL SELECT 2{', NULL' * len(KINDS)}, 'x', DATE '2026-11-22'")
    with MetastoreSession(metastore.port) as hive:
        described = hive.get_table_req(GetTableRequest(dbName="db", tblName=table.short)).table
        described.sd.numBuckets, described.sd.bucketCols = 4, ["id"]
        hive.alter_table("db", table.short, described)
    assert converted(table)["result"]["rows"] == 2
    assert table.rows(SHOWN) == table.hive_rows(SHOWN)


def test_csv_with_quotes_and_headers(side: Side) -> None:
    kind = "ROW FORMAT SERDE 'org.apache.hadoop.hive.serde2.OpenCSVSerde' WITH SERDEPROPERTIES ('separatorChar'=';')"
    table = side.table("id BIGINT, v STRING", kind=f"{kind} STORED AS TEXTFILE")
    table.alter("SET TBLPROPERTIES ('skip.header.line.count'='2')")
    header = f"{'a long line' * 99}\nid;v\n"
    for number in (1, 2):
        (table.path / f"f{number}.csv").write_text(f'{header}{number};"a;""b"\n{number + 2};\n')
    (table.path / "short.csv").write_text("id;v\n")
    dry = side.server.get(f"catalogs/lake/hive/{table.name}/convert")
    assert (dry["files"], dry["convertible"], len(dry["notes"])) == (3, True, 3)
    assert converted(table)["result"]["rows"] == 4
    assert table.rows() == [("1", 'a;"b'), ("2", 'a;"b'), ("3", ""), ("4", "")]


def test_partitions_that_are_stored_otherwise(side: Side, metastore: EmbeddedMetastore) -> None:
    columns, number = "id BIGINT, v STRING", 1
    table = side.table(columns, "p STRING", "VALUES (1, 'text', 'text')", kind="STORED AS TEXTFILE")
    for name, kind in KINDS_OF_FILES.items():
        number += 1
        other = side.table(columns, "", f"VALUES ({number}, 'a\"{name}')", kind=kind)
        path = add_partition(table, name, metastore, other)
        for file in other.path.glob("part-*"):
            file.rename(path / file.name)
    converted(table)
    assert len(table.rows()) == number
    assert table.rows() == table.hive_rows()


def test_json_by_names_in_any_case(side: Side, metastore: EmbeddedMetastore) -> None:
    columns = (
        "id BIGINT, name STRING, n DECIMAL(5,2), ts TIMESTAMP, st STRUCT<in_ner: ARRAY<DATE>>, m MAP<STRING, DOUBLE>"
    )
    table = side.table(columns, "p INT", kind="STORED AS TEXTFILE")
    table.alter("ADD PARTITION (p=7)")
    read_by(metastore, table, JSON)
    files = table.path / "p=7"
    write_json(files / "a", {"ID": 1, "Name": "ü\n", "n": 1.005, "st": {"In_ner": ["2026-01-01"]}, "m": {"K": 1}})
    write_json(files / "b", {"id": 2, "ts": "2026-01-01 10:00:00.5", "unknown": []}, {"id": None})
    with MetastoreSession(metastore.port) as hive:
        partition = hive.get_partition("db", table.short, ["7"])
        partition.sd.serdeInfo.serializationLib = JSON
        hive.alter_partition("db", table.short, partition)
    assert converted(table)["result"]["rows"] == 3
    shown = "id, name, CAST(n AS STRING), CAST(ts AS STRING), CAST(st.in_ner AS STRING), m['K'], p"
    assert table.rows(shown) == [
        (1, "ü\n", "1.01", None, "[2026-01-01]", 1.0, 7),
        (2, None, None, "2026-01-01 10:00:00.5", None, None, 7),
        (None, None, None, None, None, None, 7),
    ]


def test_a_keyed_table_is_filled_once_every_key_has_one_row(side: Side) -> None:
    table = side.table("id BIGINT, v STRING", "p STRING", kind="STORED AS TEXTFILE")
    table.insert("VALUES (1, 'a', 'x'), (1, 'b', 'y'), (2, 'c', 'x'), (NULL, 'd', 'x')")
    request = {"primary_key": ["id"], "sequence_field": "v"}
    convert = f"catalogs/lake/hive/{table.name}/convert"

    def refused() -> str:
        ended = side.worked_on(side.server.post(convert, request))
        assert ended["status"] == "failed"
        assert table.rows() == table.rows(store=".base") == []
        return str(ended["error"])

    assert "1 rows of " in refused()  # without a key
    table.insert("VALUES (1, 'a', 'x'), (1, 'b', 'y'), (2, 'c', 'x')", how="OVERWRITE")
    error = refused()
    for words in ("1 keys (id) of ", "1 duplicate rows: 1 (2 rows). ", f"firn table resolve-keys {table.name} "):
        assert words in error
    table.worked(side.server.post(convert, request | {"unique": False}))
    assert table.rows() == [(1, "a", "x"), (1, "b", "y"), (2, "c", "x")]
    assert table.job("keys", resolve=True)["result"]["removed_rows"] == 1
    kept = [(1, "b", "y"), (2, "c", "x")]
    assert table.rows() == kept
    table.insert("VALUES (1, 'b', 'y'), (2, 'c', 'x')", how="OVERWRITE")
    converted(table, name="db.second_copy", **request)
    assert side.hive.sql("SELECT * FROM lake.db.second_copy") == kept
    lineage = "SELECT _row_id, _last_updated_sequence_number FROM lake.db.second_copy.base"
    assert side.hive.sql(lineage) == [(0, 1), (1, 1)]
    side.hive.sql("INSERT INTO lake.db.second_copy.change VALUES (1, 'a', 'z', 'U', NULL), (2, 'd', 'z', 'U', NULL)")
    assert side.hive.sql("SELECT * FROM lake.db.second_copy") == [(1, "b", "y"), (2, "d", "z")]


def test_a_key_that_comes_twice_while_rows_are_written_is_never_seen(side: Side) -> None:
    table = side.table("id BIGINT, v STRING", "p STRING", "VALUES (1, 'a', 'x')", kind="STORED AS TEXTFILE")
    by_hand = table.path / "p=x" / "by_hand"
    by_hand.write_text("2\x01b\n")
    job = side.server.post(f"catalogs/lake/hive/{table.name}/convert", {"primary_key": ["id", "p"]})
    files = set(side.server.data_dir.rglob("*.parquet"))
    # As many rows as were counted.
    side.hive.work_beside(side.server.url, "writing them into the new table", by_hand, "1\x01b\n")
    ended = side.server.get(f"jobs/{job['id']}")
    assert (ended["status"], "1 keys (id, p) of " in str(ended["error"])) == ("failed", True), ended
    assert table.rows() == table.rows(store=".base") == []
    assert set(side.server.data_dir.rglob("*.parquet")) == files
    empty = side.table("id BIGINT, v STRING", kind="STORED AS TEXTFILE")
    assert converted(empty, primary_key=["id"])["result"]["rows"] == 0


def write_json(path: Path, *rows: dict[str, Any]) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
