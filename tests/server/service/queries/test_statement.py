"""What the instant engine may be asked: one SELECT over named tables, whatever a statement looks like."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

from catalog.errors import Invalid
from server.service.queries.parsing import MOST_CHARACTERS, NamedTable, Statement
from server.service.queries.statement import parse_statement


def parsed(text: str, most_rows: int = 10) -> Statement:
    return parse_statement(text, most_rows=most_rows)


def names(text: str) -> list[str]:
    return [table.text for table in parsed(text).tables]


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("SELECT 1", []),
        ("FROM db.t", ["db.t"]),
        ("SELECT * FROM lake.a.b.t", ["lake.a.b.t"]),
        ("SELECT x FROM a.t UNION ALL SELECT y FROM t ORDER BY 1", ["a.t", "t"]),
        ("SELECT * FROM t a JOIN t b USING (id)", ["t"]),
        ("SELECT (SELECT max(x) FROM u) FROM t WHERE EXISTS (SELECT 1 FROM v WHERE v.x = t.x)", ["t", "u", "v"]),
        ("WITH q AS (SELECT * FROM t) SELECT * FROM q, q r", ["t"]),
        ("WITH t AS (SELECT * FROM t) SELECT * FROM t", ["t"]),
        ("WITH a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a, b", ["b"]),
        ("WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT * FROM r", []),
        ("SELECT * FROM (WITH t AS (SELECT 1) SELECT * FROM t), t", ["t"]),
        ("SELECT * FROM 'file.parquet'", ["file.parquet"]),
        ("SELECT * FROM firn_table_0, a.t", ["firn_table_0", "a.t"]),
        ("SELECT * FROM information_schema.tables", ["information_schema.tables"]),
        ("SELECT * FROM range(3), unnest([1, 2])", []),
    ],
)
def test_its_tables_are_found(text: str, tables: list[str]) -> None:
    statement = parsed(text)
    assert sorted(table.text for table in statement.tables) == sorted(tables)
    for number in range(len(tables)):
        assert f"firn_table_{number} AS " in statement.sql


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM read_parquet('/etc/x')",
        "SELECT * FROM main.read_text('/etc/passwd')",
        "SELECT * FROM \"read_csv\"('/etc/passwd')",
        "SELECT * FROM glob('*')",
        "SELECT * FROM query('SELECT 1')",
        "SELECT * FROM query_table('t')",
        "SELECT * FROM duckdb_settings()",
        "SELECT * FROM pragma_version()",
        "SELECT * FROM sniff_csv('x')",
        "SELECT * FROM t, LATERAL read_text('x')",
        "SELECT * FROM parquet_metadata('x')",
        "SELECT 'x'.read_text()",
        "SELECT read_text('x')",
        "SELECT current_setting('allowed_paths')",
        "SELECT getenv('HOME')",
        "SELECT nextval('s')",
        "SELECT * FROM json_execute_serialized_sql('x')",
        "SELECT * INTO u FROM t",
        "WITH x AS (INSERT INTO t VALUES (1) RETURNING *) SELECT * FROM x",
        "WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x",
        "SELECT * FROM t WHERE x = $1",
        "SELECT ?",
    ],
)
def test_files_settings_and_changes_are_refused_inside_of_queries(text: str) -> None:
    with pytest.raises(Invalid):
        parsed(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        "SELECT 1; DROP TABLE t",
        "DROP TABLE t",
        "INSERT INTO t VALUES (1)",
        "UPDATE t SET x = 1",
        "MERGE INTO t USING u ON t.x = u.x WHEN MATCHED THEN DELETE",
        "CREATE TABLE u AS SELECT * FROM t",
        "COPY t TO '/tmp/x'",
        "COPY (SELECT 1) TO '/tmp/x'",
        "EXPORT DATABASE '/tmp/x'",
        "ATTACH '/tmp/x' AS x",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET memory_limit = '1TB'",
        "RESET memory_limit",
        "PRAGMA database_list",
        "CALL pragma_version()",
        "USE x",
        "CHECKPOINT",
        "VACUUM",
        "EXPLAIN ANALYZE SELECT 1",
        "EXPLAIN COPY t TO 'x'",
        "PREPARE q AS SELECT 1",
        "CREATE SECRET s (TYPE s3)",
        "IMPORT DATABASE 'x'",
        "PIVOT t ON x USING sum(y)",
        "SHOW TABLES",
        "SELECT 'open",
        "SELECT * FROM t AT (VERSION => 1)",
        "SELECT * FROM t FOR VERSION AS OF x + 1",
    ],
)
def test_everything_but_one_query_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parsed(text)


def test_columns_are_only_left_out_where_the_statement_cannot_mean_them() -> None:
    assert parsed("SELECT count(*) FROM db.t").columns == frozenset({"db", "t"})
    assert parsed('SELECT x, "Y" FROM t WHERE z > 1').columns == frozenset({"x", "y", "z", "t"})
    for text in (
        "SELECT * FROM t",
        "SELECT t FROM t",
        "SELECT u FROM t AS u",
        "SELECT COLUMNS('a.*') FROM t",
        "SELECT a FROM t AS u(a)",
        "SELECT x FROM t NATURAL JOIN u",
        "SELECT t.* FROM t",
    ):
        assert parsed(text).columns is None, text


def test_versions_stand_beside_their_tables() -> None:
    text = "SELECT * FROM t FOR VERSION AS OF 12 JOIN t FOR VERSION AS OF 'tag' USING (x)"
    assert parsed(text).tables == (
        NamedTable(("t",), version="12"),
        NamedTable(("t",), version="tag"),
    )
    (table,) = parsed("SELECT * FROM t FOR TIMESTAMP AS OF '2026-01-01'").tables
    assert table == NamedTable(("t",), time="2026-01-01")


def test_a_limit_is_added_where_there_is_none() -> None:
    assert parsed("SELECT * FROM t ORDER BY x").sql.endswith("ORDER BY x LIMIT 11")
    assert parsed("SELECT 1 UNION SELECT 2").sql.endswith("LIMIT 11")
    assert parsed("SELECT * FROM t LIMIT 3").sql.endswith("LIMIT 3")


def test_a_value_that_the_parser_loses_is_no_other_result() -> None:
    with pytest.raises(Invalid, match="cannot be checked near '00000000"):
        parsed("SELECT uuid('00000000-0000-4000-8000-000000000000')")
    for text in (
        "SELECT 'it''s', e'a\\nb', 1e3, 0.5, $$x$$",
        "SELECT x -> 'a' ->> '$.b', x['c'], DATE '2026-01-01' FROM t",
    ):
        parsed(text)


def test_explain_is_no_part_of_the_statement() -> None:
    statement = parsed("explain SELECT x FROM t")
    assert statement.explain
    assert statement.sql.startswith("SELECT")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "(" * 3_000 + "1" + ")" * 3_000,
        "SELECT " + "[" * 3_000,
        "SELECT " + "CASE WHEN 1 THEN " * 800 + "1" + " END" * 800,
        "SELECT " + "NOT " * 4_000 + "1",
        "SELECT " + "1 + " * 4_000 + "1",
        "SELECT " + "-" * 1_000 + "1",
        "SELECT " + "x -> " * 3_000 + "1",
        "SELECT 1" + " UNION SELECT 1" * 1_200,
        "SELECT " + "f(" * 49 + ")" * 49,
        "SELECT " + "(SELECT " * 49 + "1" + ")" * 49,
        "SELECT x" + "::int" * 3_000,
        "SELECT " + "x" * MOST_CHARACTERS,
    ],
    ids=lambda text: text[:20],
)
def test_no_statement_keeps_the_parser_busy(text: str) -> None:
    start = time.process_time()
    with suppress(Invalid):
        parsed(text)
    assert time.process_time() - start < 2
