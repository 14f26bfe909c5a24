"""Looks at the plan of a query before it runs: it may read the tables of its lease, and do nothing else.

The server has checked the statement by another parser. Here Spark's own parser and analyzer say what it means.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from py4j.java_gateway import is_instance_of
from pyspark.sql import DataFrame, SparkSession

from firn.errors import Refused
from firn.spark.java import iterate

_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical."
_STATEMENTS = (f"{_LOGICAL}Command", f"{_LOGICAL}ParsedStatement")
_EXECUTES = re.compile(r"Execute|Script|Command|Compound")
"""Names of parsed operators that run something while Spark analyzes the plan, such as EXECUTE IMMEDIATE."""
_OPERATORS = """
Aggregate AsOfJoin CTERelationDef CTERelationRef DataSourceV2Relation Deduplicate Distinct Except Expand Filter Generate
GlobalLimit Intersect Join LateralJoin LocalLimit LocalRelation Offset OneRowRelation Pivot Project Range
RebalancePartitions Repartition RepartitionByExpression ResolvedHint ReturnAnswer Sample Sort SubqueryAlias Tail Union
UnionLoop UnionLoopRef Unpivot View Window WithCTE
"""
OPERATORS = frozenset(_OPERATORS.split())
"""What a plan may consist of. Missing are, among others, scripts, files, and Python and Java functions."""


def analyze(session: SparkSession, statement: str, tables: Collection[tuple[str, ...]]) -> DataFrame:
    """The frame of a statement, whose plan only reads these tables, named with their catalogs; else Refused.

    The session has to be active in this thread: Spark's parser takes its settings from there.
    """
    if "${" in statement:
        raise Refused("the statement has a variable, ${…}", hint="Write the value.")
    java: Any = session._jsparkSession
    parsed = java.sessionState().sqlParser().parsePlan(statement)
    gateway = session.sparkContext._gateway
    is_statement = any(is_instance_of(gateway, parsed, name) for name in _STATEMENTS)
    if is_statement or any(_EXECUTES.search(_name_operator(node)) for node in _walk(parsed)):
        raise Refused("the statement is not a query", hint="The engine Spark runs one SELECT.")
    jvm: Any = session._jvm
    frame = DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(java, parsed), session)
    analyzed: Any = frame._jdf.queryExecution().analyzed()
    for node in _walk(analyzed):
        name = _name_operator(node)
        if name not in OPERATORS:
            raise Refused(f"{name} cannot be a part of a query", hint="Write the statement in another way.")
        if name == "DataSourceV2Relation" and _name(node) not in tables:
            raise Refused("the statement reads a table that the server has not checked", hint="Report this statement.")
    return frame


def _walk(plan: Any) -> Iterator[Any]:
    """All operators of a plan, those of its subqueries among them."""
    waiting = [plan, *iterate(plan.subqueriesAll())]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += iterate(node.children())


def _name_operator(node: Any) -> str:
    return str(node.getClass().getSimpleName()).rstrip("$")


def _name(relation: Any) -> tuple[str, ...] | None:
    catalog, identifier = relation.catalog(), relation.identifier()
    if catalog.isEmpty() or identifier.isEmpty():
        return None
    namespace: Sequence[Any] = list(identifier.get().namespace())
    return (str(catalog.get().name()), *map(str, namespace), str(identifier.get().name()))
