"""SQL that cannot be planned at all gets one clear message with its place."""

from __future__ import annotations

import random
import re
import time
from contextlib import suppress

import pytest

from firn.pipelines import incremental
from firn.pipelines.errors import InvalidDefinition
from tests.pipeline_shapes import SCHEMA, SHAPES

INVALID = {
    "select k frm f wher": "line 1, column 14: the SQL cannot be parsed near 'f'",
    "select k from": "line 1, column 13: the SQL cannot be parsed near 'from': Expected table name",
    "select (k from f": "the SQL cannot be parsed",
    "": "there is no query",
    "-- nothing": "there is no query",
    "select k\nfrom f; drop table f": "several statements stand where one query belongs",
    "drop table f": "line 1, column 1: DROP stands where a query belongs",
    "insert into f select * from d": "line 1, column 1: INSERT stands where a query belongs",
    "merge into f using d on f.k = d.k when matched then delete": "MERGE stands where a query belongs",
    "create table x as select k from f": "CREATE stands where a query belongs",
    "explain select k from f": "EXPLAIN stands where a query belongs",
    "with x as (select k from f) insert into d select * from x": "INSERT stands where a query belongs",
    "select 'abc from f": "line 1: a quoted text or a comment does not end",
    "select k /* from f": "a quoted text or a comment does not end",
    "select `k from f": "a quoted text or a comment does not end",
    "select k\nfrom nowhere": "line 2, column 6: there is no table nowhere",
    "select k from F": "line 1, column 15: there is no table F",
    "select k,\n kk from f": "line 2, column 2: no input has the column `kk`",
    "select x.k from f": "line 1, column 8: `x`.`k`: the query has no input x",
    "select k from f join d on f.k = d.k": "more than one input has the column `k`",
    "select k, v as k from f": "line 1, column 11: two columns of the result are named k",
    "select k + 1 from f": "line 1, column 8: column 1 of the result has no name",
    "select k from f union select k, w from d": "the branches of UNION have 1 and 2 columns",
    "select k from f where (k, g) in (select k from d)": "IN compares 2 with 1 columns",
    "select date_trunc() as x from f": "the SQL cannot be read",
    "select k from f where k = :p": "the query has the parameter :p",
    "select {{ column }} from f": "line 1, column 8: only the SQL files of a folder may have Jinja",
    "select k from {% if x %} f": "line 1, column 16: only the SQL files of a folder may have Jinja",
    "select firn_q.k from f firn_q": "the name firn_q begins with firn_",
    "select k from f for update": "Spark has no such SQL",
}
FORBIDDEN = {
    "select reflect('java.lang.System', 'exit') as x, k from f": "REFLECT calls Java code",
    "select `Reflect`('java.lang.System', 'exit') as x, k from f": "REFLECT calls Java code",
    "select k from f where java_method('a', 'b') = 'c'": "JAVA_METHOD calls Java code",
    "select k from (select k from f where exists (select try_reflect('a', 'b'))) x": "TRY_REFLECT calls Java code",
    "select k from f, lateral java_method('a', 'b')": "JAVA_METHOD calls Java code",
    "select v.a from values (reflect('a', 'b')) as v(a)": "REFLECT calls Java code",
    "select y from f lateral view explode(array(reflect('a', 'b'))) x as y": "REFLECT calls Java code",
    "select transform(k) using 'sh -c evil' as (b) from f": "TRANSFORM … USING runs a program",
    "from f select transform(k) using 'cat' as b": "TRANSFORM … USING runs a program",
    "select from_protobuf(k, 'm', '/etc/passwd') as x from f": "FROM_PROTOBUF reads a file",
    "select k from f, read_files('/etc/passwd')": "READ_FILES in FROM is not allowed",
    "select x.value from f, lateral read_kafka('x') x": "READ_KAFKA in FROM is not allowed",
    "select k from identifier('parquet.`/etc/passwd`')": "IDENTIFIER hides the name of a table",
    "select value from text.`/etc/passwd`": "there is no table text./etc/passwd",
    "select k from f where k in (select value from csv.`/etc/passwd`)": "there is no table csv./etc/passwd",
}
"""SQL that would run a program, or read what its author may not read."""


@pytest.mark.parametrize("deterministic", [(), ("reflect", "java_method", "read_files", "read_kafka")])
@pytest.mark.parametrize("sql", FORBIDDEN)
def test_sql_that_runs_a_program_or_reads_a_file_is_refused(sql: str, deterministic: tuple[str, ...]) -> None:
    with pytest.raises(InvalidDefinition) as refusal:
        incremental(sql, SCHEMA, deterministic=deterministic)
    assert FORBIDDEN[sql] in refusal.value.message


def test_functions_that_make_rows_of_their_arguments_are_allowed() -> None:
    assert not incremental("select f.k, r.id from f, range(3) r", SCHEMA).is_incremental
    assert not incremental("select f.k, x.col from f, lateral explode(array(f.k)) x", SCHEMA).is_incremental


@pytest.mark.parametrize("sql", INVALID)
def test_it_is_refused_with_its_place(sql: str) -> None:
    with pytest.raises(InvalidDefinition) as refusal:
        incremental(sql, SCHEMA)
    assert INVALID[sql] in refusal.value.message
    assert "\n" not in refusal.value.message
    assert len(refusal.value.message) < 300


WORDS = [
    "(",
    ")",
    ",",
    "select",
    "from",
    "where",
    "case",
    "'",
    "*",
    "as",
    "null",
    "over",
    "in",
    "exists",
    "not",
    "join",
    "left",
    "on",
    "1",
    "''",
    "`",
    "{",
    "[",
    "->",
    "::",
    "cast(",
    "distinct",
    ".",
]


def test_mutilated_queries_are_planned_or_refused() -> None:
    """No other error comes out of the planner."""
    chosen = random.Random(1)
    for _ in range(150):
        words = re.sub(r"([(),])", r" \1 ", chosen.choice(list(SHAPES.values()))).split()
        for _ in range(chosen.choice([1, 1, 2, 3])):
            position = chosen.randrange(len(words))
            words[position : position + chosen.choice([0, 1])] = [chosen.choice(WORDS)]
        with suppress(InvalidDefinition):
            incremental(" ".join(words), SCHEMA)


def test_the_nearest_name_is_given() -> None:
    for sql, hint in (("select k from ff", "did you mean f?"), ("select citi from d", "did you mean city?")):
        with pytest.raises(InvalidDefinition) as refusal:
            incremental(sql, SCHEMA)
        assert refusal.value.hint == hint


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("(" * 3_000 + "select k from f" + ")" * 3_000, "nests too deeply"),
        ("select " + "(" * 3_000 + "k" + ")" * 3_000 + " as k from f", "nests too deeply"),
        ("select k from " + "(select k from " * 900 + "f" + ") x" * 900, "nests too deeply"),
        ("select " + " + ".join(["k"] * 30_000) + " as k from f", "more than 20,000 parts"),
        ("select k from f -- " + "x" * 200_000, "200,000 are allowed"),
        (
            "with c0 as (select k from f), "
            + ", ".join(f"c{n} as (select a.k from c{n - 1} a join c{n - 1} b on a.k = b.k)" for n in range(1, 30))
            + " select k from c29",
            "the CTEs and views, written out where they are used, have more than 20,000 parts",
        ),
    ],
    ids=["parentheses", "expression", "derived tables", "parts", "characters", "CTEs"],
)
def test_a_giant_is_refused_in_seconds(sql: str, words: str) -> None:
    began = time.process_time()
    with pytest.raises(InvalidDefinition, match=words):
        incremental(sql, SCHEMA)
    assert time.process_time() - began < 20


def test_a_key_that_is_not_in_the_result_is_refused() -> None:
    with pytest.raises(InvalidDefinition, match="the key column drivr is not in the result") as refusal:
        incremental("select k as driver from f", SCHEMA, key=["drivr"])
    assert refusal.value.hint == "did you mean driver?"


NAMES = {
    "my `t`": {"a b": "int", "x'y": "int", 'q"z': "int"},
    "raw.trip": {"driver": "bigint", "Fare": "decimal(9,2)"},
    "lake.raw.trip": {"driver": "bigint"},
}


def test_names_with_quotes_and_spaces_stay_names() -> None:
    sql = "select `a b`, `x'y` from `my ``t``` where `q\"z` = 'it''s; drop table f'"
    plan = incremental(sql, {"`my ``t```": NAMES["my `t`"]})
    assert plan.scope == ("a b", "x'y")
    (step,) = plan.affected({"`my ``t```"})
    assert "SELECT `_0`.`a b`, `_0`.`x'y` FROM `t_my_t__before`" in step.sql
    schema = {"t_my_t__new": NAMES["my `t`"], "xaffected": {"a b": "int", "x'y": "int"}}
    assert incremental(plan.rows({"a b": [1]}).replace("`firn_", "`x"), schema).scope == ("a b", "x'y")


def test_values_with_quotes_and_backslashes_stay_values() -> None:
    plan = incremental("select s, count(*) as n from f group by s", {"f": {"s": "string"}})
    sql = plan.rows({"s": ["it's", "back\\slash", "`; drop table f"]})
    assert r"IN ('it\'s', 'back\\slash', '`; drop table f')" in sql


def test_tables_with_one_last_name_are_two_inputs() -> None:
    plan = incremental(
        "select a.driver, b.driver as other from raw.trip a join lake.raw.trip b on a.driver = b.driver",
        NAMES,
    )
    assert [(source.name, source.prefix) for source in plan.inputs] == [
        ("raw.trip", "t_raw_trip"),
        ("lake.raw.trip", "t_lake_raw_trip"),
    ]


def test_columns_may_name_their_table_in_full_and_in_any_case() -> None:
    plan = incremental("select RAW.trip.DRIVER as driver, Fare from raw.trip", NAMES)
    assert [column.name for column in plan.columns] == ["driver", "fare"]
