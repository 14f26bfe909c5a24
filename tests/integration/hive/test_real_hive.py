"""Hive 4 itself, with its own readers and writers, on the other side of upgrade, sync and publish."""

from __future__ import annotations

import pytest
from hive_metastore.ttypes import GetTableRequest

from firn.embedded.metastore import MetastoreSession
from tests.integration.hive.real_tables import RealSide, RealTable

pytestmark = [pytest.mark.hive, pytest.mark.spark]

TYPES = {
    "b": ("BOOLEAN", "true", "false"),
    "ti": ("TINYINT", "CAST(-128 AS TINYINT)", "CAST(127 AS TINYINT)"),
    "si": ("SMALLINT", "CAST(32767 AS SMALLINT)", "CAST(-1 AS SMALLINT)"),
    "i": ("INT", "-2147483648", "0"),
    "bi": ("BIGINT", "9223372036854775807", "-1"),
    "f": ("FLOAT", "CAST(1.25 AS FLOAT)", "CAST('NaN' AS FLOAT)"),
    "d": ("DOUBLE", "CAST(-0.5 AS DOUBLE)", "CAST('Infinity' AS DOUBLE)"),
    "d1": ("DECIMAL(9,2)", "1234567.89", "-0.01"),
    "d2": ("DECIMAL(18,0)", "-999999999999999999", "1"),
    "d3": ("DECIMAL(38,18)", "CAST('12345678901234567890.123456789012345678' AS DECIMAL(38,18))", "-1"),
    "s": ("STRING", "'ü ☃'", "''"),
    "vc": ("VARCHAR(5)", "'abc'", "'ab  '"),
    "ch": ("CHAR(5)", "'ab'", "''"),
    "bin": ("BINARY", "unhex('00FF')", "unhex('')"),
    "da": ("DATE", "DATE '1969-12-31'", "DATE '9999-12-31'"),
    "ts": ("TIMESTAMP", "TIMESTAMP '1969-12-31 23:59:59.999999'", "TIMESTAMP '2024-07-01 12:00:00'"),
    "st": (
        "STRUCT<a: INT, b: STRUCT<c: STRING, d: ARRAY<INT>>>",
        "named_struct('a', 1, 'b', named_struct('c', 'x', 'd', array(1, CAST(NULL AS INT))))",
        "named_struct('a', CAST(NULL AS INT), 'b', named_struct('c', '', 'd', array(7)))",
    ),
    "ar": (
        "ARRAY<STRUCT<x: DATE, y: DECIMAL(10,3)>>",
        "array(named_struct('x', DATE '2026-01-01', 'y', CAST(1.5 AS DECIMAL(10,3))))",
        "array(named_struct('x', DATE '2026-01-02', 'y', CAST(NULL AS DECIMAL(10,3))))",
    ),
    "ma": (
        "MAP<STRING, TIMESTAMP>",
        "map('k', TIMESTAMP '2024-01-01 00:00:00.5')",
        "map('l', TIMESTAMP '1900-01-01 00:00:00')",
    ),
}
DRY_RUNS = {
    "ch": ["rtrim(ch)"],  # Hive pads as it reads
    "bin": ["hex(bin)"],
    "st": ["st.a", "st.b.c", "st.b.d[0]"],
    "ar": ["ar[0].x", "ar[0].y"],
    "ma": ["ma['k']", "ma['l']"],
}
# Hive shows the directory's name where a text partition is null.
SHOWN = ["id", "coalesce(nullif(p, '__HIVE_DEFAULT_PARTITION__'), 'null')"]
SHOWN += [shown for name in TYPES for shown in DRY_RUNS.get(name, [name])]
READERS: tuple[dict[str, str], ...] = (
    {},
    {"hive__fetch__task__conversion": "none"},
    {"hive__vectorized__execution__enabled": "false"},
)


def selected(id_: int, at: int, partition: str) -> str:
    """A row of all types; `at` is which of their values, or 0 for nulls."""
    nulls = [f"IF(true, NULL, {kind[1]})" for kind in TYPES.values()]
    values = [kind[at] for kind in TYPES.values()] if at else nulls
    return f"SELECT CAST({id_} AS BIGINT), {', '.join(values)}, {partition}"


def of_all_types(side: RealSide, kind: str) -> RealTable:
    columns = ", ".join(f"{name} {kind[0]}" for name, kind in TYPES.items())
    table = side.create_table(f"id BIGINT, {columns}", "p STRING", kind=kind)
    rows = [selected(1, 1, "'a b/c=ü'"), selected(2, 2, "NULL"), selected(3, 0, "'%25'")]
    return table.do(f"INSERT INTO {{t}} PARTITION (p) {' UNION ALL '.join(rows)}")


@pytest.mark.parametrize("kind", ["PARQUET", "ORC", "AVRO"])
def test_all_types_read_the_same_where_either_side_wrote_them(real_side: RealSide, kind: str) -> None:
    table = of_all_types(real_side, kind).upgrade("id")
    assert len(table.ours(SHOWN)) == 3
    assert table.ours(SHOWN) == table.theirs(SHOWN)
    changed = [selected(1, 2, "'a b/c=ü'"), selected(3, 1, "'%25'"), selected(4, 2, "NULL"), selected(5, 1, "'new:1'")]
    held = (
        [text.replace(".999999", ".999") for text in changed] if kind == "AVRO" else changed
    )  # it has no microseconds
    table.upserted(" UNION ALL ".join(held))
    assert table.publish()["result"]["switched"] == 4
    expected = table.ours(SHOWN)
    assert len(expected) == 5
    for reader in READERS:  # Hive's readers for one row, for batches of rows, and again for one row
        real_side.real.set(**reader)
        assert table.theirs(SHOWN) == expected
    real_side.real.set(hive__fetch__task__conversion="more", hive__vectorized__execution__enabled="true")
    assert table.ours(SHOWN, ".base") == expected
    assert table.theirs(["count(*)", "max(i)", "count(vc)"]) == [("5", "0", "5")]


def test_counts_that_hive_answers_from_statistics_stay_right(real_side: RealSide) -> None:
    """Of managed tables only: what becomes of external ones is none of its business."""
    table = real_side.create_table("id BIGINT, n INT", "p STRING", external=False)
    table.do("INSERT INTO {t} PARTITION (p) VALUES (1, 1, 'x'), (2, 2, 'x'), (3, 3, 'y')")
    with MetastoreSession(real_side.metastore.port) as client:  # as earlier Hives have left them
        hive_table = client.get_table_req(GetTableRequest(dbName="db", tblName=table.short)).table
        hive_table.tableType, hive_table.parameters = "MANAGED_TABLE", {}
        client.alter_table("db", table.short, hive_table)
    counted = ["count(*)", "max(n)"]
    planned = f"EXPLAIN SELECT {', '.join(counted)} FROM {table.name}"
    assert not any("Map Reduce" in line[0] for line in real_side.real.sql(planned))
    table.upgrade("id").upserted("SELECT CAST(2 AS BIGINT), 50, 'x' UNION ALL SELECT CAST(4 AS BIGINT), 99, 'x'")
    table.publish()
    assert table.theirs(counted) == [("4", "99")]
    table.do("INSERT INTO {t} PARTITION (p='x') VALUES (5, 500)")
    assert table.theirs(counted) == [("5", "500")]


def same(table: RealTable, *shown: str) -> list[tuple[str, ...]]:
    """What both sides show once what Hive did was taken over."""
    table.sync()
    rows = table.theirs(shown)
    assert table.ours(shown) == rows
    return rows


def test_what_hive_does_to_a_published_table_is_taken_over(real_side: RealSide) -> None:
    """A table by Hive 4's defaults: an external one whose files it deletes with its partitions."""
    table = real_side.create_table("id BIGINT, v STRING", "p STRING", external=False)
    table.do("INSERT INTO {t} PARTITION (p) VALUES (1, 'a', 'x'), (2, 'b', 'x'), (3, 'c', 'y')").upgrade("id")
    table.upserted("SELECT CAST(2 AS BIGINT), 'mine', 'x'")
    table.publish()
    table.do("INSERT INTO {t} PARTITION (p='x') VALUES (5, 'theirs')")
    assert same(table, "id", "v") == [("1", "a"), ("2", "mine"), ("3", "c"), ("5", "theirs")]
    source = real_side.create_table("id BIGINT, v STRING").do("INSERT INTO {t} VALUES (7, 'loaded')")
    table.do(
        "INSERT OVERWRITE TABLE {t} PARTITION (p='x') VALUES (1, 'over')",
        f"LOAD DATA INPATH '{source.path.as_uri()}/000000_0' INTO TABLE {{t}} PARTITION (p='x')",
        "ALTER TABLE {t} ADD PARTITION (p='empty')",
        "ALTER TABLE {t} PARTITION (p='y') RENAME TO PARTITION (p='z')",
    )
    assert same(table, "id", "v", "p") == [("1", "over", "x"), ("3", "c", "z"), ("7", "loaded", "x")]
    table.do(
        "ALTER TABLE {t} PARTITION (p='x') RENAME TO PARTITION (p='xx')",  # where it was published
        "ALTER TABLE {t} ADD COLUMNS (w INT) CASCADE",
        "INSERT INTO {t} PARTITION (p='q') VALUES (8, 'new', 8)",
        "ALTER TABLE {t} CHANGE COLUMN w w BIGINT CASCADE",
    )
    wide = [("1", "over", "NULL", "xx"), ("3", "c", "NULL", "z"), ("7", "loaded", "NULL", "xx"), ("8", "new", "8", "q")]
    assert same(table, "id", "v", "w", "p") == wide
    table.do("TRUNCATE TABLE {t} PARTITION (p='xx')", "ALTER TABLE {t} DROP PARTITION (p='q')")
    assert same(table, "id", "v", "w", "p") == [wide[1]]


def test_a_table_without_partitions_goes_back_and_forth(real_side: RealSide) -> None:
    table = real_side.create_table("id BIGINT, v STRING")
    table.do("INSERT INTO {t} VALUES (1, 'a'), (2, 'b')").upgrade("id").upserted("SELECT CAST(2 AS BIGINT), 'mine'")
    table.publish()
    assert same(table, "id", "v") == [("1", "a"), ("2", "mine")]
    table.do("INSERT INTO {t} VALUES (5, 'theirs')")
    assert same(table, "id", "v") == [("1", "a"), ("2", "mine"), ("5", "theirs")]
    table.do("INSERT OVERWRITE TABLE {t} VALUES (6, 'over')")
    assert same(table, "id", "v") == [("6", "over")]
