"""Changes that are added to counts and sums give the rows of a full computation; `make soak` runs more rounds."""

from __future__ import annotations

import os
import random
from dataclasses import replace

import pytest

from firn.pipelines import Plan, incremental
from firn.pipelines.group_changes import GroupChanges
from tests.group_queries import GROUP_QUERIES, make_group_query
from tests.pipeline_model import Model, Round, to_duckdb

IS_SOAK = bool(float(os.environ.get("SOAK_SECONDS", "0")))
ROUNDS, SEEDS, RANDOM_QUERIES = (8, 40, 400) if IS_SOAK else (6, 1, 6)
SCHEMA = {
    "t": {
        "k": "int",
        "g": "string",
        "v": "int",
        "fare": "decimal(10,2)",
        "wide": "decimal(20,2)",
        "score": "double",
        "at": "timestamp",
        "day": "date",
        "tags": "array<string>",
    },
    "d": {"k": "int", "city": "int"},
}


def run_model(sql: str, key: list[str], seed: object) -> list[Round]:
    """Rounds of a query, the SQL of whose plan is translated once for each set of changed inputs."""
    model = Model(sql, seed, key, adds_changes=True)
    assert set(model.plan.maintained_by()) == set(model.inputs), sql
    return model.run(ROUNDS)


@pytest.mark.parametrize("name", GROUP_QUERIES)
def test_added_changes_stay_equal_to_full(name: str) -> None:
    sql, key = GROUP_QUERIES[name]
    rounds = [round_ for seed in range(SEEDS) for round_ in run_model(sql, key, seed)]
    assert any(round_.unsure is not None for round_ in rounds)


def test_changes_added_to_random_queries_stay_equal_to_full() -> None:
    chance = random.Random(3)
    for seed in range(RANDOM_QUERIES):
        run_model(*make_group_query(chance), seed)


LEFT_OUT = {
    "a group without rows goes": ("counts", "coalesce(firn_count, 1) <> 0", "TRUE"),
    "the last value of a sum may have gone": ("sums", "d.lost1 > 0 AND d.gained1 = 0 AND", "FALSE AND"),
    "an extreme that has gone": ("extremes", "d.lost1 = c.`lo` AND", "FALSE AND"),
    "a lower value that replaces no extreme": ("extremes", "d.gained2 < d.lost2", "FALSE"),
    "nulls are groups": ("counts", "c.`k` <=> d.g0", "c.`k` = d.g0"),
    "rows of both states count": ("counts", "`t_f__before`", "`t_f__after`"),
    "a null that became a 0 may be the first value": ("sums", "OR lost1 <> gained1", ""),
    "other extremes change a group of as many rows": ("extremes", "OR NOT (lost", "OR FALSE AND NOT (lost"),
    "nulls are not counted": ("counts", "CASE WHEN v1 IS NULL THEN 0 ELSE n END", "n"),
}
"""For each rule a query, and its SQL with and without the rule."""


@pytest.mark.parametrize("rule", LEFT_OUT)
def test_without_it_a_result_is_wrong(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, text, other = LEFT_OUT[rule]
    sql, key = GROUP_QUERIES[name]
    build = Plan.group_changes
    replaced = []

    def build_without(self: Plan, changed: frozenset[str]) -> GroupChanges | None:
        built = build(self, changed)
        if built is None:
            return None
        parts = (built.changes.replace(text, other), built.maintained.replace(text, other))
        replaced.append(parts != (built.changes, built.maintained))
        return replace(built, changes=parts[0], maintained=parts[1])

    monkeypatch.setattr(Plan, "group_changes", build_without)
    with pytest.raises(AssertionError):
        run_seeds(sql, key)
    assert all(replaced)


def run_seeds(sql: str, key: list[str]) -> None:
    for seed in range(60):
        run_model(sql, key, seed)


def test_groups_that_lost_and_gained_the_same_are_left_out() -> None:
    model = Model(GROUP_QUERIES["sums"][0], 1, ["k"], adds_changes=True)
    model.state["f"] = [(number, number % 3, 1, number, 1) for number in range(12)]
    model.load_full()
    rows = model.state["f"]
    model.state["f"] = [(100 + number, *row[1:]) for number, row in enumerate(rows)]  # nobody reads this column
    assert model.follow_states({"f": rows}).affected == 0
    copied = "select * from t_f__new"
    for side in ("before", "after"):
        model.connection.execute(f"create or replace table t_f__{side} as {copied}")
    changes = model.plan.group_changes({"f"})
    assert changes is not None
    assert model.connection.execute(to_duckdb(changes.changes)).fetchall() == []


@pytest.mark.parametrize("damage", ["update target set n = 0", "update target set n = null", "delete from target"])
def test_groups_that_the_table_cannot_have_had_so_are_recomputed(damage: str) -> None:
    model = Model("select k, count(*) n from f group by k", 1, ["k"], adds_changes=True)
    model.state["f"] = [(number, number % 3, 1, 1, 1) for number in range(12)]
    model.load_full()
    model.connection.execute(damage)
    before, model.state["f"] = model.state["f"], []
    assert model.follow_states({"f": before}).unsure == 3


@pytest.mark.parametrize(
    "query",
    [
        "select k, sum(v) s from t group by k",  # nobody knows when a group is empty
        "select k, count(*) n, sum(score) s from t group by k",  # depends on the order
        "select k, count(*) n, sum(wide) s from t group by k",  # may overflow
        "select k, count(*) n, sum(v + 1) s from t group by k",
        "select k, count(*) n, avg(v) a from t group by k",
        "select k, count(*) n, count(distinct v) c from t group by k",
        "select k, count(*) n, sum(distinct v) s from t group by k",
        "select k, count(*) filter (where v > 1) n from t group by k",
        "select k, count(*) n, max(score) s from t group by k",
        "select k, count(*) n, max(tags) s from t group by k",
        "select k, count(*) n from t group by k having count(*) > 1",
        "select k, count(*) n from t group by k, g",  # the rows of the table do not tell the group
        "select k, count(*) n, score from t group by k, score",
        "select k, k + 1 as next, count(*) n from t group by k",
        "select distinct k, count(*) n from t group by k",
        "select t.k, count(*) n from t left join d on t.k = d.k group by t.k",
        "select t.k, count(*) n from t where exists (select 1 from d where d.k = t.k) group by t.k",
        "select x.k, count(*) n from (select k from t where v > 1) x group by x.k",
        "select k, count(*) n from t where at > '2026-01-01' group by k",  # depends on the time zone
        "select k, count(*) n from t where cast(at as date) > date '2026-01-01' group by k",
        "select k, count(*) n from t where day = 'today' group by k",
        "select k, count(*) n from t where day = date 'today' group by k",
        "select k, count(*) n from t where my_function(v) group by k",
        "select k, count(*) n from t where upper(g) = 'A' group by k",
        "select k, count(*) n, sum(v) over (partition by k) s from t group by k, v",
        "select k, count(*) n from t group by k union all select k, k from d",
    ],
)
def test_rows_of_other_queries_are_recomputed(query: str) -> None:
    plan = incremental(query, SCHEMA, key=["k"], deterministic=["my_function"])
    assert plan.maintained_by() == ()
    assert plan.group_changes({"t"}) is None


def test_a_key_that_is_no_group_needs_a_recomputation() -> None:
    query = "select k, count(*) n from t group by k"
    assert incremental(query, SCHEMA, key=["k"]).maintained_by() == ("t",)
    assert incremental(query, SCHEMA, key=["k", "n"]).maintained_by() == ()
    assert incremental(query, SCHEMA).maintained_by() == ()


def test_only_changes_of_one_input_that_is_read_once_are_added() -> None:
    plan = incremental("select t.k, count(*) n from t join d on t.k = d.k group by t.k", SCHEMA, key=["k"])
    assert plan.maintained_by() == ("t", "d")
    assert plan.group_changes({"t", "d"}) is None
    assert plan.group_changes({"other"}) is None
    twice = incremental("select a.k, count(*) n from t a join t b on a.k = b.v group by a.k", SCHEMA, key=["k"])
    assert twice.maintained_by() == ()


def test_times_are_compared_as_they_are() -> None:
    query = "select k, count(*) n, max(at) latest, min(day) d, count(at) c from t where at is not null group by k"
    assert incremental(query, SCHEMA, key=["k"]).maintained_by() == ("t",)


def test_only_the_columns_that_the_query_reads_are_read_from_changed_rows() -> None:
    changes = incremental("select k, count(*) n from t where v > 1 group by k", SCHEMA, key=["k"]).group_changes({"t"})
    assert changes is not None
    assert "SELECT `k`, `v`, -1 AS `firn_sign` FROM `t_t__before`" in changes.changes
