"""Without any one rule of the planner a query goes wrong, or costs more than it must."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest
from sqlglot import exp

from firn.pipelines import affected, equalities, incremental, joins, recompute, relations, scope
from firn.pipelines.plan import Access, State
from firn.pipelines.selects import Leaf, Parts
from tests.pipeline_model import Model, count_affected
from tests.pipeline_shapes import SCHEMA, SHAPES

find_equal = equalities.find_equal


def compare_null_unsafe(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return exp.EQ(this=left, expression=right)


def equal_with_own_columns(parts: Parts, leaf: Leaf, output: exp.Expr) -> exp.Expr | None:
    own = isinstance(output, exp.Column) and output.table == leaf.alias
    return output if own else find_equal(parts, leaf, output)


def pairs_of_all_joins(parts: Parts) -> list[equalities.Pair]:
    return [pair for leaf in parts.leaves for pair in equalities.find_pairs(leaf.on)]


def match_left_side(parts: Parts, leaf: Leaf, changed: str) -> exp.Expr:
    pair = equalities.join_values(parts)[0]
    return relations.null_safe_equal(exp.column(pair[leaf is not parts.leaves[0]].name, table=changed), pair[0].copy())


MUTANTS: dict[str, tuple[str, Any, str, Any]] = {
    "old states are read, too": ("inner join group by dimension", affected, "STATES", (State.NEW,)),
    "new states are read, too": ("inner join group by dimension", affected, "STATES", (State.OLD,)),
    "changed rows alone need both states": ("group", affected, "STATES", (State.NEW,)),
    "affected values compare null-safe": ("group", relations, "null_safe_equal", compare_null_unsafe),
    "full joins compare null-safe": ("full join group by side", joins, "null_safe_equal", compare_null_unsafe),
    "full joins are restricted on both sides": ("full join group by side", joins, "_match_join_value", match_left_side),
    "a nullable column is not read from changed rows": (
        "left join group by dimension",
        equalities,
        "is_nullable",
        lambda leaf, output: False,
    ),
    "only inner joins make columns equal": (
        "left join group by dimension key",
        equalities,
        "_hard_pairs",
        pairs_of_all_joins,
    ),
    "windows bound the scope": ("window", scope, "window_keys", lambda select: []),
    "all branches bound the scope": (
        "union of rows and groups",
        scope,
        "_common_scope",
        lambda query: scope.find_scope(query.left),
    ),
    "a nullable side is not filtered by its own columns": (
        "left join group by dimension",
        recompute,
        "find_equal",
        equal_with_own_columns,
    ),
    "a null among the values lets nulls through": (
        "filter",
        recompute,
        "_is_one_of",
        lambda node, values: exp.In(this=node, expressions=[exp.convert(v) for v in values if v is not None]),
    ),
}


def run_seeds(name: str, seeds: int) -> None:
    for seed in range(seeds):
        Model(SHAPES[name], seed).run(5)


@pytest.mark.parametrize("rule", MUTANTS)
def test_without_it_a_result_is_wrong(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, module, attribute, mutant = MUTANTS[rule]
    monkeypatch.setattr(module, attribute, mutant)
    with pytest.raises((AssertionError, duckdb.Error)):
        run_seeds(name, 12)


def follow_as_inner_join(parts: Parts, leaf: Leaf, equal: Any) -> Access:
    return Access.JOIN


@pytest.mark.parametrize("name", ["left join", "left chain", "not exists over a join"])
def test_left_and_anti_joins_followed_as_inner_ones_affect_more(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows without a match would count as matches of a change."""
    fewest = [count_affected(Model(SHAPES[name], seed).run(4)) for seed in range(3)]
    monkeypatch.setattr(affected, "choose_access", follow_as_inner_join)
    more = [count_affected(Model(SHAPES[name], seed).run(4)) for seed in range(3)]
    assert sum(more) > sum(fewest)


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("group", {"f"}),
        ("inner join group by key", {"f", "d"}),
        ("inner join group by other key", {"f", "d"}),
        ("one key in three tables", {"f", "d", "e"}),
        ("left join group by key", {"f", "d"}),
        ("left join, is null", {"f"}),
        ("not exists", {"f", "e"}),
        ("full join group", {"f", "d"}),
        ("window", {"f"}),
        ("except", {"f", "e"}),
    ],
)
def test_no_join_is_made_where_the_changed_rows_hold_the_scope(name: str, changed: set[str]) -> None:
    steps = incremental(SHAPES[name], SCHEMA).affected(changed)
    assert [step.name for step in steps] == ["firn_affected"]
    for word in ("JOIN", "EXISTS", "__old", "__new"):
        assert word not in steps[0].sql


def test_only_the_columns_of_the_scope_are_read_from_changed_rows() -> None:
    (step,) = incremental(SHAPES["group"], SCHEMA).affected({"f"})
    assert "`v`" not in step.sql


def test_columns_of_two_types_are_not_equal() -> None:
    """`7 = '07'` is true, but the group is 7."""
    schema = {"f": {"k": "int", "v": "int"}, "d": {"k": "string", "w": "int"}}
    plan = incremental("select f.k, sum(d.w) as s from f join d on f.k = d.k group by f.k", schema)
    assert [term.access for term in plan.terms] == [Access.ROWS, Access.JOIN]
    full = incremental("select coalesce(f.k, d.k) as k, f.v from f full join d on f.k = d.k", schema)
    assert not full.is_incremental


def test_equal_derived_tables_share_their_steps() -> None:
    steps = incremental(SHAPES["cte twice"], SCHEMA).affected({"f"})
    assert [step.name for step in steps] == [
        "firn_affected_1",
        "firn_affected_1__before",
        "firn_affected_1__after",
        "firn_affected",
    ]


def test_the_sql_of_nested_queries_grows_with_their_depth_only() -> None:
    """Inlined affected values grew fourfold with each level."""
    sql, sizes = "select k, g, v from f", []
    for level in range(6):
        sql = (
            f"select x{level}.k, x{level}.g, max(x{level}.v) as v from ({sql}) x{level} group by x{level}.k, x{level}.g"
        )
        sizes.append(sum(len(step.sql) for step in incremental(sql, SCHEMA).affected({"f"})))
    assert sizes[5] - sizes[4] < 2 * (sizes[2] - sizes[1])
