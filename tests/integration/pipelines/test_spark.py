"""Spark runs the SQL of plans, and the rows are those of the whole query; the planner knows Spark's functions."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import sqlglot
from pyspark.sql import SparkSession
from sqlglot import exp

from firn.pipelines import incremental
from firn.pipelines.functions import AGGREGATES, MANY_ROWS, SCALARS, UNREPEATABLE, is_aggregate, is_unknown
from firn.pipelines.plan import State
from firn.spark.local_frames import create_local_frame
from tests.pipeline_model import Model, Row
from tests.pipeline_shapes import SCHEMA, SHAPES
from tests.spark_fixtures import shared_spark

pytestmark = pytest.mark.spark

SMALL_QUERIES = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Compiling a query costs far more here than its few rows."""
CHOSEN = (
    "filter",
    "distinct",
    "group",
    "group by all",
    "inner join group by dimension",
    "join using",
    "self join",
    "left join group by dimension",
    "full join",
    "not exists",
    "exists over a join",
    "in, two columns",
    "window over group",
    "qualify",
    "qualify with exchanged names",
    "union",
    "except all",
    "cte twice",
    "aggregate of aggregate",
    "left join of a set operation",
)


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    """A session of its own, with all states of the tables of the shapes as temporary views."""
    session = shared_spark().newSession()
    for name, value in SMALL_QUERIES.items():
        session.conf.set(name, value)
    rows = Model("select f.id from f, d, e, c", 3)
    for name, columns in SCHEMA.items():
        old = rows.random_rows(name, 14)
        new = rows.change(name, rows.change(name, old))
        before, after = Counter(old) - Counter(new), Counter(new) - Counter(old)
        types = ", ".join(f"{column} int" for column in columns)
        states = {State.OLD: old, State.NEW: new, State.BEFORE: before.elements(), State.AFTER: after.elements()}
        for state, part in states.items():
            create_local_frame(session, list(part), types).createOrReplaceTempView(f"t_{name}__{state}")
    return session


@pytest.mark.parametrize("name", CHOSEN)
def test_incremental_equals_full(name: str, spark: SparkSession) -> None:
    plan = incremental(SHAPES[name], SCHEMA)
    for step in plan.affected(set(SCHEMA)):
        relation = spark.sql(step.sql)
        create_local_frame(spark, relation.collect(), relation.schema).createOrReplaceTempView(step.name)
    affected = set(collect(spark, "select * from firn_affected"))
    scope = [[column.name for column in plan.columns].index(column) for column in plan.scope]
    old = collect(spark, plan.full().replace(f"__{State.NEW}`", f"__{State.OLD}`"))
    kept = [row for row in old if tuple(row[position] for position in scope) not in affected]
    few = {column: sorted({row[plan.scope.index(column)] for row in affected}, key=str) for column in plan.scope}
    full = Counter(collect(spark, plan.full()))
    assert Counter(kept + collect(spark, plan.rows())) == full
    assert Counter(kept + collect(spark, plan.rows({name: few[name] for name in plan.pruned_columns()}))) == full
    assert affected


def collect(spark: SparkSession, sql: str) -> list[Row]:
    return [tuple(row) for row in spark.sql(sql).collect()]


def call(name: str) -> exp.Expr | None:
    """A call of a function as sqlglot reads it; None for an operator."""
    for arguments in ("", "a", "a, b", "a, b, c", "a, b, c, d"):
        try:
            (node,) = sqlglot.parse_one(f"select {name}({arguments})", read="spark").expressions
        except (sqlglot.ParseError, ValueError):
            continue
        return node if isinstance(node, exp.Func) else None
    return None


def test_the_planner_knows_each_function_of_spark(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    infos = jvm.org.apache.spark.sql.api.python.PythonSQLUtils.listBuiltinFunctionInfos()
    functions = {info.getName(): info.getGroup() for info in infos}
    assert set(functions) >= AGGREGATES | MANY_ROWS | SCALARS | UNREPEATABLE
    calls = {name: node for name in functions if name.isidentifier() and (node := call(name)) is not None}
    unknown = {name for name, node in calls.items() if is_unknown(node, frozenset())}
    assert unknown <= {"collations", "python_worker_logs", "sql_keywords", "range"}
    missed = {name for name, node in calls.items() if functions[name] == "agg_funcs" and not is_aggregate(node)}
    assert missed <= set()
