"""SHOW and DESCRIBE: what each form asks for, and that a name in one is nothing but a name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.errors import Invalid
from server.service.queries.catalog_parser import CatalogQuestion, CatalogStatement, matches, parse_catalog_statement
from server.service.queries.parsing import NamedTable

Q = CatalogQuestion
T, N = ("t",), ("db", "t")


def about(question: CatalogQuestion, *table: str, item: str | None = None) -> CatalogStatement:
    return CatalogStatement(question=question, table=NamedTable(table), item=item)


def lists(question: CatalogQuestion, *namespace: str, pattern: str | None = None) -> CatalogStatement:
    return CatalogStatement(question=question, namespace=namespace or None, pattern=pattern)


FORMS = {
    "SHOW TABLES": lists(Q.TABLES),
    "show tables;": lists(Q.TABLES),
    " -- a comment\n/* and; another */ Show Tables In db": lists(Q.TABLES, "db"),
    "SHOW TABLES FROM lake.db LIKE 'o*'": lists(Q.TABLES, "lake", "db", pattern="o*"),
    "SHOW TABLES 'o*|p*'": lists(Q.TABLES, pattern="o*|p*"),
    'SHOW TABLES LIKE "o%"': lists(Q.TABLES, pattern="o%"),
    "SHOW TABLES LIKE 'it''s \\' \\\\'": lists(Q.TABLES, pattern="it's ' \\"),
    "SHOW VIEWS IN db": lists(Q.VIEWS, "db"),
    "SHOW DATABASES": lists(Q.NAMESPACES),
    "SHOW SCHEMAS LIKE 'd*'": lists(Q.NAMESPACES, pattern="d*"),
    "SHOW NAMESPACES IN lake": lists(Q.NAMESPACES, "lake"),
    "SHOW CATALOGS": lists(Q.CATALOGS),
    "SHOW COLUMNS IN db.t": about(Q.COLUMNS, *N),
    "SHOW COLUMNS FROM t IN db": about(Q.COLUMNS, *N),
    "SHOW TBLPROPERTIES db.t": about(Q.PROPERTIES, *N),
    "SHOW TBLPROPERTIES db.t ('write.format.default')": about(Q.PROPERTIES, *N, item="write.format.default"),
    "SHOW TBLPROPERTIES db.t (write.format.default)": about(Q.PROPERTIES, *N, item="write.format.default"),
    "SHOW CREATE TABLE db.t": about(Q.CREATE_TABLE, *N),
    "DESCRIBE db.t": about(Q.DESCRIBE, *N),
    "DESC TABLE t": about(Q.DESCRIBE, *T),
    "DESCRIBE EXTENDED db.t": about(Q.EXTENDED, *N),
    "DESC FORMATTED db.t": about(Q.EXTENDED, *N),
    "DESCRIBE db.t id": about(Q.DESCRIBE, *N, item="id"),
    "DESCRIBE HISTORY db.t": about(Q.HISTORY, *N),
    "DESCRIBE history": about(Q.DESCRIBE, "history"),
    "DESCRIBE extended": about(Q.DESCRIBE, "extended"),
    "DESCRIBE EXTENDED history": about(Q.EXTENDED, "history"),
    "DESCRIBE `a.b`.`it``s`": about(Q.DESCRIBE, "a.b", "it`s"),
    'DESCRIBE "a b".t': about(Q.DESCRIBE, "a b", "t"),
    "DESCRIBE db.2026": about(Q.DESCRIBE, "db", "2026"),
    "DESCRIBE `db; DROP TABLE t`.t": about(Q.DESCRIBE, "db; DROP TABLE t", "t"),
    "DESCRIBE NAMESPACE lake.db": lists(Q.NAMESPACE, "lake", "db"),
    "DESC DATABASE EXTENDED db": lists(Q.NAMESPACE, "db"),
}


@pytest.mark.parametrize("text", FORMS)
def test_each_form_asks_for_what_it_says(text: str) -> None:
    assert parse_catalog_statement(text) == FORMS[text]


OTHERS = ("", "SELECT 1", "-- SHOW TABLES", "'SHOW' TABLES", "EXPLAIN SELECT 1", "\x00", "`SHOW`", "(SHOW TABLES)")


@pytest.mark.parametrize("text", OTHERS)
def test_others_are_left_to_the_engines(text: str) -> None:
    assert parse_catalog_statement(text) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SHOW", "SHOW alone is not supported"),
        ("SHOW PARTITIONS t", "SHOW PARTITIONS is not supported"),
        ("SHOW FUNCTIONS", "SHOW FUNCTIONS is not supported"),
        ("SHOW TABLES; DROP TABLE t", "near 'DROP'"),
        ("SHOW TABLES;;", "near ';'"),
        ("SHOW TABLES IN", "a namespace"),
        ("SHOW TABLES IN db.", "a namespace"),
        ("SHOW TABLES LIKE o", "a pattern in quotes"),
        ("SHOW TABLES IN ``", "is empty"),
        ("SHOW TABLES IN 'db'", "a namespace"),
        ("SHOW TABLES IN (SELECT 1)", "a namespace"),
        ("SHOW COLUMNS t", "IN or FROM"),
        ("SHOW CREATE VIEW v", "TABLE"),
        ("SHOW TBLPROPERTIES t ('k'", "closing bracket"),
        ("DESCRIBE", "a table"),
        ("DESCRIBE SELECT * FROM t", "describes a table"),
        ("DESCRIBE QUERY SELECT 1", "describes a table"),
        ("DESCRIBE t VERSION AS OF 1", "near 'AS'"),
        ("DESCRIBE csv.`/etc/passwd` x y", "near 'y'"),
        ("DESCRIBE ${env:HOME}", "near '\\$"),
        ("DESCRIBE `open", "near '`'"),
        ("SHOW TABLES /* open", "near '/"),
        ("DESCRIBE t\x00", "near"),
        ("DESCRIBE " + "a." * 30 + "b", "30|31 parts"),
        ("DESCRIBE " + "a." * 500 + "b", "more than 100 words"),
        ("SHOW TABLES LIKE '" + "x" * 20_000 + "'", "a pattern in quotes"),
    ],
)
def test_what_is_refused_says_where_it_ends(text: str, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        parse_catalog_statement(text)


@given(st.text(max_size=60))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    for start in ("", "SHOW ", "DESCRIBE ", "SHOW TABLES IN ", "SHOW TBLPROPERTIES t "):
        try:
            parse_catalog_statement(start + text)
        except Invalid:
            continue


@pytest.mark.parametrize(
    ("pattern", "name", "is_match"),
    [
        ("orders", "Orders", True),
        ("order", "orders", False),
        ("o*s", "orders", True),
        ("o%s", "orders", True),
        ("*", "", True),
        ("*r*e*", "orders", True),
        ("*e*r*e*", "orders", False),
        ("a*a", "a", False),
        ("o_ders", "orders", False),
        ("a|ord*", "orders", True),
        (".*", "orders", False),
        ("o[r]*", "orders", False),
        ("a*" * 5_000 + "b", "a" * 255, False),
    ],
)
def test_patterns(pattern: str, name: str, *, is_match: bool) -> None:
    assert matches(pattern, name) is is_match
