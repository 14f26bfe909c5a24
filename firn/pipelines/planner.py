"""`incremental(sql, schema)`: the plan of a query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches

from sqlglot import exp
from sqlglot.errors import UnsupportedError

from firn.pipelines.errors import InvalidDefinition
from firn.pipelines.forbidden import refuse_forbidden
from firn.pipelines.full_reasons import NotIncremental, find_reasons
from firn.pipelines.maintainable import read_groups
from firn.pipelines.normalization import (
    Schema,
    drop_positions,
    drop_types,
    expand_windows,
    hides_columns,
    normalize,
)
from firn.pipelines.parsing import DIALECT, find_place, parse_query, too_deep
from firn.pipelines.plan import Column, Input, Plan, State, Strategy
from firn.pipelines.program import Program
from firn.pipelines.relations import to_sql, with_state
from firn.pipelines.scope import require_scope
from firn.pipelines.selects import PREFIX, unwrap
from firn.pipelines.tables import find_tables, rename_tables, table_name
from firn.pipelines.types import check_types
from firn.pipelines.warnings import find_warnings


def incremental(sql: str, schema: Schema, *, key: Sequence[str] = (), deterministic: Iterable[str] = ()) -> Plan:
    """Plan a query of Spark SQL: incrementally if that is right for it, otherwise in full, with reasons.

    `schema` has, for each table by the name that the query uses, the columns and their types of Spark. `key` are the
    columns of the target's key; the scope consists of them as far as possible. `deterministic` are names of the user's
    functions that always give one value for equal arguments. Raises InvalidDefinition if the SQL cannot be read, or
    names unknown tables or columns.
    """
    return plan_query(parse_query(sql), schema, key=key, deterministic=deterministic)


def plan_query(query: exp.Query, schema: Schema, *, key: Sequence[str] = (), deterministic: Iterable[str] = ()) -> Plan:
    """The same for a parsed query, which stays as it is."""
    try:
        return _plan(query.copy(), schema, tuple(key), frozenset(name.lower() for name in deterministic))
    except RecursionError as error:
        raise too_deep() from error
    except UnsupportedError as error:
        raise InvalidDefinition(f"Spark has no such SQL: {str(error)[:200]}") from error


def _plan(tree: exp.Query, schema: Schema, key: tuple[str, ...], deterministic: frozenset[str]) -> Plan:
    check_tables(tree, schema)
    check_types(schema)
    refuse_forbidden(tree)
    _check_names(tree)
    prefixes = rename_tables(tree)
    expand_windows(tree)
    reasons = find_reasons(tree, deterministic)
    inputs = tuple(Input(name, prefix, tuple(schema[name])) for name, prefix in prefixes.items())
    if any(map(hides_columns, tree.walk())):
        return Plan(Strategy.FULL, (), inputs, key=key, reasons=reasons, _full=_full_sql(tree))
    query = normalize(tree, {prefix: schema[name] for name, prefix in prefixes.items()})
    _check_in(query)
    columns = read_columns(query)
    full = Plan(
        Strategy.FULL,
        columns,
        inputs,
        key=_check_key(key, columns),
        reasons=reasons,
        warnings=find_warnings(query),
        _full=_full_sql(tree),
    )
    drop_types(query)
    return full if reasons else _plan_incrementally(full, query, prefixes)


def _plan_incrementally(full: Plan, query: exp.Query, prefixes: Mapping[str, str]) -> Plan:
    """The incremental plan; the full one with the reason if a part of the query has no scope."""
    try:
        scope = choose_scope(require_scope(query), full.key)
        columns = {read.name: read.columns for read in full.inputs}
        program = Program(query, scope, prefixes, columns, read_groups(query, full.key))
        program.check()
        terms = program.terms()
    except NotIncremental as error:
        return replace(full, reasons=(error.reason,))
    drop_positions(query)
    sql = to_sql(with_state(query, State.NEW))
    return replace(full, strategy=Strategy.INCREMENTAL, scope=scope, terms=terms, _program=program, _full=sql)


def choose_scope(scope: tuple[str, ...], key: Sequence[str]) -> tuple[str, ...]:
    """The columns of the scope that are in the target's key; all of them if none is."""
    return tuple(name for name in scope if name in key) or scope


def read_columns(query: exp.Query) -> tuple[Column, ...]:
    """The columns of a normalized query. Raises InvalidDefinition if one has no name, or two have one name."""
    _check_branches(query)
    columns: dict[str, Column] = {}
    for number, output in enumerate(query.selects, 1):
        name = output.alias_or_name
        place = find_place(output)
        if not name or name.startswith("_col_"):
            hint = "write … AS name"
            raise InvalidDefinition.at(place, f"column {number} of the result has no name", hint=hint)
        if name in columns:
            hint = "name one of them otherwise with AS"
            raise InvalidDefinition.at(place, f"two columns of the result are named {name}", hint=hint)
        columns[name] = Column(name, _read_type(output))
    return tuple(columns.values())


def _check_branches(query: exp.Query) -> None:
    for branches in query.find_all(exp.SetOperation):
        counts = (len(branches.left.named_selects), len(branches.right.named_selects))
        if counts[0] != counts[1]:
            text = f"the branches of {branches.key.upper()} have {counts[0]} and {counts[1]} columns"
            raise InvalidDefinition.at(find_place(branches.right), text, hint="select as many columns in both")


def _check_in(query: exp.Query) -> None:
    for node in query.find_all(exp.In):
        if node.args.get("query") is None:
            continue
        values = len(node.this.expressions) if isinstance(node.this, exp.Tuple) else 1
        columns = len(unwrap(node.args["query"]).named_selects)
        if values != columns:
            text = f"IN compares {values} with {columns} columns"
            raise InvalidDefinition.at(find_place(node), text, hint="select as many columns as IN compares")


def check_tables(tree: exp.Query, schema: Schema) -> None:
    """Raise InvalidDefinition for the first table that the schema does not have."""
    for table in find_tables(tree):
        name = table_name(table)
        if name not in schema:
            near = get_close_matches(name, list(schema), n=1)
            hint = f"did you mean {near[0]}?" if near else "give the columns of the table"
            raise InvalidDefinition.at(find_place(table), f"there is no table {name}", hint=hint)


def _check_names(tree: exp.Query) -> None:
    for parameter in tree.find_all(exp.Placeholder, exp.Parameter):
        text = f"the query has the parameter {parameter.sql(DIALECT)}"
        raise InvalidDefinition.at(find_place(parameter), text, hint="write the value")
    for identifier in tree.find_all(exp.Identifier):
        if identifier.name.lower().startswith(PREFIX):
            text = f"the name {identifier.name} begins with {PREFIX}, which Firn uses for its own relations"
            raise InvalidDefinition.at(find_place(identifier), text, hint="choose another name")


def _check_key(key: Sequence[str], columns: Sequence[Column]) -> tuple[str, ...]:
    """The key in lower case, as columns are. Raises InvalidDefinition for one that is not in the result."""
    names = [column.name for column in columns]
    lowered = tuple(name.lower() for name in key)
    for name in lowered if names else ():
        if name not in names:
            near = get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"the result has {', '.join(names)}"
            raise InvalidDefinition(f"the key column {name} is not in the result", hint=hint)
    return lowered


def _read_type(output: exp.Expr) -> str | None:
    type_ = output.type
    if not isinstance(type_, exp.DataType) or type_.is_type("unknown", "null"):
        return None
    return type_.sql(DIALECT).lower()


def _full_sql(tree: exp.Query) -> str:
    copy = tree.copy()
    for table in list(find_tables(copy)):
        table.set("this", exp.to_identifier(f"{table.name}__{State.NEW}", quoted=True))
    return to_sql(copy)
