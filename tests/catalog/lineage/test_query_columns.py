"""Which tables and columns a query reads, also of queries that somebody wrote to harm the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from catalog.lineage.query_columns import list_tables, parse_query, trace_columns

SCHEMAS: Mapping[tuple[str, ...], Sequence[str]] = {
    ("db", "t"): ["id", "a", "b"],
    ("db", "u"): ["id", "n"],
}


def trace(sql: str, dialect: str = "spark") -> dict[str, list[str]] | None:
    query = parse_query(sql, dialect)
    assert query is not None
    output = trace_columns(query, SCHEMAS)
    if output is None:
        return None
    return {name: sorted(f"{'.'.join(parts)}.{column}" for parts, column in origins) for name, origins in output}


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT a, sum(b) AS s FROM db.t WHERE id > 1 GROUP BY a", {"a": ["db.t.a"], "s": ["db.t.b"]}),
        ("SELECT * FROM db.t", {"id": ["db.t.id"], "a": ["db.t.a"], "b": ["db.t.b"]}),
        ("SELECT T.A FROM db.t", {"A": ["db.t.a"]}),
        ("SELECT x.n, a FROM db.t JOIN db.u AS x ON x.id = t.id", {"n": ["db.u.n"], "a": ["db.t.a"]}),
        ("SELECT id FROM db.t JOIN db.u USING (id)", {"id": ["db.t.id", "db.u.id"]}),
        (
            "WITH c AS (SELECT id AS k, a || b AS v FROM db.t) SELECT v, n FROM c JOIN db.u ON k = id",
            {"v": ["db.t.a", "db.t.b"], "n": ["db.u.n"]},
        ),
        ("SELECT id FROM db.t UNION ALL SELECT n FROM db.u", {"id": ["db.t.id", "db.u.n"]}),
        ("SELECT (SELECT max(n) FROM db.u WHERE u.id = t.id) AS m FROM db.t", {"m": ["db.u.n"]}),
        ("SELECT y FROM (SELECT a AS x, b AS y FROM db.t) s", {"y": ["db.t.b"]}),
        ("SELECT z FROM (SELECT a, b FROM db.t) AS s(w, z)", {"z": ["db.t.b"]}),
        ("SELECT e FROM db.t LATERAL VIEW explode(a) x AS e", {"e": ["db.t.a"]}),
        ("SELECT q.a FROM nowhere AS q", {"a": ["nowhere.a"]}),
        ("SELECT 1 AS c, count(*) AS n FROM db.t", {"c": [], "n": []}),
        ("SELECT db.t.a AS a FROM db.t", {"a": ["db.t.a"]}),
        ("SELECT * FROM nowhere", None),
        ("SELECT * EXCEPT (a) FROM db.t", None),
        ("SELECT c FROM x, y", None),
        ("WITH RECURSIVE c AS (SELECT 1 AS n UNION ALL SELECT n FROM c) SELECT n FROM c", None),
    ],
)
def test_columns(sql: str, columns: dict[str, list[str]] | None) -> None:
    assert trace(sql) == columns


def test_tables_are_listed_once_and_names_of_with_are_none() -> None:
    query = parse_query("WITH c AS (SELECT 1 FROM a.b) SELECT * FROM c, a.b, x.y.z, c AS d", "trino")
    assert query is not None
    assert set(list_tables(query)) == {("a", "b"), ("x", "y", "z")}


@pytest.mark.parametrize(
    "sql", ["", "DROP TABLE t", "SELECT ((", "(" * 80 + "SELECT 1" + ")" * 80, "x" * 70_000, "\x00"]
)
def test_no_query(sql: str) -> None:
    assert parse_query(sql, "spark") is None


def test_a_query_that_names_its_parts_often_is_traced_once() -> None:
    """Traced at each use it would take for ever, and the test would run out of time."""
    steps = "".join(f", c{n + 1} AS (SELECT x.a || y.a AS a FROM c{n} x, c{n} y)" for n in range(100))
    assert trace(f"WITH c0 AS (SELECT a FROM db.t){steps} SELECT a FROM c100") == {"a": ["db.t.a"]}
    wide = "".join(f", c{n + 1} AS (SELECT x.*, y.* FROM c{n} x, c{n} y)" for n in range(40))
    assert trace(f"WITH c0 AS (SELECT * FROM db.t){wide} SELECT * FROM c40") is None
