"""What the engine Spark may be asked: one SELECT over named tables, and nothing that Spark would do besides."""

from __future__ import annotations

import pytest

from catalog.errors import Invalid
from server.service.queries.parsing import NamedTable
from server.service.queries.spark_statement import parse_spark_statement


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("SELECT 1L, 'it''s', r'\\d', 'a\\'b'", "SELECT CAST(1 AS BIGINT), CONCAT('it', 's'), '\\\\d', 'a\\'b'"),
        ("SELECT t.a FROM db.t", "SELECT t.a FROM firn_table_0 AS `t`"),
        ("SELECT lake.db.t.a FROM lake.db.t", "SELECT t.a FROM firn_table_0 AS `t`"),
        ("SELECT * FROM csv.`/etc/passwd`", "SELECT * FROM firn_table_0 AS `/etc/passwd`"),
        ("SELECT /*+ BROADCAST(b) */ * FROM a JOIN b USING (id)", None),
        ("WITH q AS (SELECT * FROM t) SELECT * FROM q LATERAL VIEW explode(xs) e AS x", None),
        ("SELECT transform(xs, x -> x + 1) FROM t", None),
        ("VALUES (1, 'a'), (2, 'b') LIMIT 1", "SELECT * FROM VALUES (1, 'a'), (2, 'b') AS _values LIMIT 1"),
        ("SELECT * FROM range(3)", "SELECT * FROM RANGE(3)"),
    ],
)
def test_each_table_becomes_a_view_of_a_fixed_name(text: str, sql: str | None) -> None:
    statement = parse_spark_statement(text)
    assert sql in (None, statement.sql)
    assert "BROADCAST" not in statement.sql
    for number in range(len(statement.tables)):
        assert f"firn_table_{number} AS " in statement.sql


def test_versions_and_plans_are_found() -> None:
    statement = parse_spark_statement("EXPLAIN SELECT * FROM t VERSION AS OF 12 JOIN u TIMESTAMP AS OF '2026-01-01'")
    assert statement.explain
    assert set(statement.tables) == {NamedTable(("t",), version="12"), NamedTable(("u",), time="2026-01-01")}
    assert "AS OF" not in statement.sql


@pytest.mark.parametrize(("words", "mode"), [("", "formatted"), ("Formatted", "formatted"), ("EXTENDED", "extended")])
def test_explain_has_modes(words: str, mode: str) -> None:
    statement = parse_spark_statement(f"EXPLAIN {words} SELECT 1")
    assert (statement.explain, statement.explain_mode, statement.sql) == (True, mode, "SELECT 1")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "DROP TABLE t",
        "SELECT 1; DROP TABLE t",
        "SELECT 1 -- \n; DROP TABLE t",
        "FROM t INSERT INTO u SELECT *",
        "SELECT TRANSFORM(a) USING 'cat' FROM t",
        "SELECT TRANSFORM(a) USING cat FROM t",
        "SELECT reflect('java.lang.System', 'exit', 1)",
        "SELECT REFLECT /* x */ ('java.lang.System', 'exit', 1)",
        "SELECT `try_reflect`('a')",
        "SELECT `java_method` ('a')",
        "SELECT builtin.upper('a')",
        "SELECT '${env:FIRN_TOKEN}'",
        'SELECT "${env:FIRN_TOKEN}"',
        "SELECT `${env:FIRN_TOKEN}`",
        "SELECT * FROM IDENTIFIER('a')",
        "SELECT * FROM read_files('/etc')",
        "SELECT from_avro(a, 'x', map('avroSchemaUrl', 'http://x')) FROM t",
        "EXPLAIN CODEGEN SELECT 1",
        "EXPLAIN DELETE FROM t",
        "VALUES (reflect('a'))",
        "SELECT * FROM t WHERE a = :p",
        "SELECT * FROM t VERSION AS OF (SELECT 1)",
        "TABLE t",
        "SHOW TABLES",
        f"SELECT {'(' * 60}1{')' * 60}",
        f"SELECT '{'x' * 20_000}'",
        "SELECT 'x",
    ],
)
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_spark_statement(text)
