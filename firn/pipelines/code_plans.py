"""Plans of tables that Python computes, and of queries whose rows Python transforms.

Firn cannot read what a function does. Without a promise of its owner all rows are computed; a declared scope lets a run
compute the affected values alone (docs/pipelines.md#python).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from firn.pipelines.normalization import Schema
from firn.pipelines.plan import Column, Input, Plan, Reason, Strategy
from firn.pipelines.planner import plan_query
from firn.protocol.pipeline_code import CodeScope, TableCode

_PREFIX = "firn_code"


def plan_code(
    code: TableCode,
    inputs: Mapping[str, Sequence[str]],
    *,
    key: Sequence[str] = (),
    declared: Mapping[str, str] | None = None,
    line: int | None = None,
) -> Plan:
    """The plan of a table whose rows a function gives, or a query of views in Python.

    `inputs` has the columns of the tables that it reads, as far as they are known.
    """
    sources = tuple(
        Input(name, f"{_PREFIX}_{number}", tuple(columns)) for number, (name, columns) in enumerate(inputs.items())
    )
    columns = tuple(Column(name, type_) for name, type_ in (declared or {}).items())
    plan = Plan(Strategy.FULL, columns, sources, key=tuple(name.lower() for name in key))
    reason = _find_reason(code, line)
    if reason is not None:
        return replace(plan, reasons=(reason,))
    return replace(plan, strategy=Strategy.INCREMENTAL, scope=tuple(name.lower() for name in code.scope))


def _find_reason(code: TableCode, line: int | None) -> Reason | None:
    if any(transform.scope is CodeScope.ALL for transform in code.transforms):
        return _explain_all(code, line)
    if code.scope:
        return None
    subject = "Python computes it" if code.function is not None else "it reads a view in Python"
    return Reason(f"{subject}, and promises no scope", "Declare firn.scope, or say refresh: full", line)


def plan_transformed(
    query: exp.Query,
    schema: Schema,
    code: TableCode,
    *,
    key: Sequence[str] = (),
    deterministic: Iterable[str] = (),
    line: int | None = None,
) -> Plan:
    """The plan of a query whose rows transforms change. It has the columns of the query, not those of the table.

    Raises InvalidDefinition as `plan_query`. A key column that only a transform makes is no error here.
    """
    known = plan_query(query, schema, deterministic=deterministic)
    own = [name.lower() for name in key]
    names = {column.name for column in known.columns}
    plan = plan_query(query, schema, key=[name for name in own if name in names], deterministic=deterministic)
    terms = tuple(replace(term, is_added=False) for term in plan.terms)  # the table has the transforms' rows
    plan = replace(plan, key=tuple(own), terms=terms)
    reason = _find_obstacle(plan, code, own, line) if plan.is_incremental else None
    return plan if reason is None else replace(plan, strategy=Strategy.FULL, scope=(), terms=(), reasons=(reason,))


def _find_obstacle(plan: Plan, code: TableCode, key: Sequence[str], line: int | None) -> Reason | None:
    """Why the promises of the transforms do not allow the plan's scope."""
    scopes = {transform.scope for transform in code.transforms}
    if CodeScope.ALL in scopes:
        return _explain_all(code, line)
    if CodeScope.KEY in scopes and not set(plan.scope) <= set(key):
        name = next(entry.function.name for entry in code.transforms if entry.scope is CodeScope.KEY)
        text = f"{name} needs all rows of a key, and the query computes rows by {', '.join(plan.scope)}"
        return Reason(text, "Name a key whose columns the query gives, or declare scope: row", line)
    return None


def _explain_all(code: TableCode, line: int | None) -> Reason:
    name = next(entry.function.name for entry in code.transforms if entry.scope is CodeScope.ALL)
    return Reason(f"the transform {name} has scope: all", "Declare scope: row or key, if it keeps that", line)


def plan_later(inputs: Mapping[str, Sequence[str]], unknown: Sequence[str], key: Sequence[str], line: int) -> Plan:
    """The plan, before any run, of a query whose inputs Python computes: each run plans it with their columns."""
    sources = tuple(
        Input(name, f"{_PREFIX}_{number}", tuple(columns)) for number, (name, columns) in enumerate(inputs.items())
    )
    text = f"the columns of {', '.join(unknown)} are known when it is computed, and each run plans this query then"
    reason = Reason(text, 'Declare them: @dp.materialized_view(schema="…"), or sources in firn-pipeline.yml', line)
    return Plan(Strategy.FULL, (), sources, key=tuple(key), reasons=(reason,))
