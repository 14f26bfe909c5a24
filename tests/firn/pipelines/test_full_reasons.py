"""What cannot be incremental says where, why, and what to write instead; what hides inside of it, too."""

from __future__ import annotations

import pytest

from firn.pipelines import Strategy, incremental
from tests.pipeline_shapes import FULL, SCHEMA


@pytest.mark.parametrize("reason", FULL)
def test_a_query_is_full_with_line_reason_and_remedy(reason: str) -> None:
    sql, line, remedy = FULL[reason]
    plan = incremental(sql, SCHEMA)
    assert (plan.strategy, [(obstacle.text, obstacle.line) for obstacle in plan.reasons]) == (
        Strategy.FULL,
        [(reason, line)],
    )
    assert remedy in plan.reasons[0].remedy
    assert plan.scope == ()
    assert "__new" in plan.full()
    with pytest.raises(ValueError, match="the plan is full"):
        plan.affected({"f"})


UNREPEATABLE = """
    aes_encrypt(v,'k') current_catalog() current_database() current_date() current_date current_schema()
    current_timestamp current_timezone() current_user() curdate() input_file_block_length() input_file_block_start()
    input_file_name() localtimestamp() monotonically_increasing_id() now() rand() rand(7) randn()
    random() randstr(3) session_user() shuffle(array(v)) spark_partition_id() uniform(1,2) user()
    uuid() version() unix_timestamp() date'today' timestamp'now'
"""


@pytest.mark.parametrize("function", UNREPEATABLE.split())
def test_a_function_with_another_value_in_each_run_is_full_wherever_it_stands(function: str) -> None:
    for sql in (
        f"select k, {function} as x from f",
        f"select k from f where cast({function} as string) > ''",
        f"select k from (select k, {function} as x from f) y",
        f"select k from f where exists (select 1 from e where e.k = f.k and cast({function} as string) > '')",
        f"with c as (select k, max({function}) as x from f group by k) select k from c",
    ):
        plan = incremental(sql, SCHEMA)
        assert not plan.is_incremental, sql
        assert any("has another value in each run" in reason.text for reason in plan.reasons), sql


def test_a_function_that_the_user_vouches_for_is_planned() -> None:
    plan = incremental("select k, My_Function(v) as x from f", SCHEMA, deterministic=["my_function"])
    assert plan.scope == ("k", "x")


def test_every_reason_is_given_in_the_order_of_the_lines() -> None:
    sql = "select k, rand() as r\nfrom f\nright join d on f.k = d.k\nlimit 3"
    assert [reason.line for reason in incremental(sql.replace("select k", "select f.k"), SCHEMA).reasons] == [1, 3, 4]


@pytest.mark.parametrize("inner", [sql for sql, _, _ in FULL.values()])
def test_a_derived_table_that_must_be_full_makes_the_query_full(inner: str) -> None:
    assert not incremental(
        f"select e.k, count(*) as n from e cross join ({inner}) x group by e.k", SCHEMA
    ).is_incremental


@pytest.mark.parametrize(
    "sql",
    [
        "select k from f where exists (select count(*) from e where e.k = f.k)",
        "select k from f where k in (select max(k) from e where e.flag = f.g group by flag)",
        "select k from f where exists (select k from e where e.k = f.k union select k from d)",
        "select k from f where k in (select k from e where e.k = f.k union select k from d)",
        "select k from f where exists (select 1 from e join d on d.k = f.k)",
        "select k from f where exists (select 1 from e where e.k = f.k and exists (select 1 from c where city = g))",
        "select k from f where k > all (select k from e)",
        "select k from f where not (v = 1 and exists (select 1 from e where e.k = f.k))",
        "select f.k from f join e on e.k = f.k and e.flag in (select flag from e)",
        "select k, count(*) as n from f group by k having exists (select 1 from e)",
        "select k, session_window(t, '5 min') as w from f group by all limit 1",
        "select f.k from f, lateral (select * from d where d.k = f.k) x",
        "select * from f pivot (sum(v) for k in (1, 2))",
        "select k from f tablesample (10 percent)",
        "select k from f version as of 3",
        "select id from range(10)",
        "select a from values (1), (2) as x(a)",
        "select 1 as one",
        "select any(v > 1) as x from f",
        "select histogram_numeric(v, 5) as x from f",
        "select sum(sum(v)) over (partition by k) as s from f",
        "select row_number() over (partition by 1 order by v) as r, k from f",
        "select sum(v) over w as s, k from f window w as (order by v)",
        "select 'a' as source, 1 as one from f",
    ],
)
def test_it_is_full(sql: str) -> None:
    plan = incremental(sql, SCHEMA)
    assert not plan.is_incremental
    assert all(reason.line == 1 and reason.column and reason.remedy for reason in plan.reasons)


def test_columns_that_spark_cannot_compare_select_no_rows() -> None:
    schema = {"f": {"id": "int", "m": "map<string,int>", "s": "struct<m:map<string,int>>", "x": "variant"}}
    assert incremental("select id, m, s, x from f", schema).scope == ("id",)


def test_functions_with_several_values_select_no_rows() -> None:
    assert incremental("select id, explode(array(v, t)) as x from f", SCHEMA).scope == ("id",)


def test_sums_of_doubles_and_order_dependent_aggregates_are_warned_about() -> None:
    schema = {"f": {"k": "int", "x": "double", "d": "decimal(9,2)"}}
    plan = incremental("select k,\n sum(x) as s, sum(d) as t,\n first(x) as u from f group by k", schema)
    assert [(warning.line, warning.text) for warning in plan.warnings] == [
        (2, "sum() of DOUBLE depends on the order of addition"),
        (3, "first() depends on the order of the rows"),
    ]
