"""The tables that a query reads: names of CTEs are none, and each table gets a name without dots."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import exp

from firn.protocol.names import join_name


def find_tables(node: exp.Expr, ctes: frozenset[str] = frozenset()) -> Iterator[exp.Table]:
    """The references to tables in a query, at any depth, in order. `ctes` are names in lower case that hide tables."""
    with_ = node.args.get("with_")
    for cte in [] if with_ is None else with_.expressions:
        name = cte.alias.lower()
        yield from find_tables(cte.this, ctes | {name} if with_ is not None and with_.args.get("recursive") else ctes)
        ctes = ctes | {name}
    for child in node.iter_expressions():
        if child is with_:
            continue
        if isinstance(child, exp.Table) and is_named(child) and (child.db or child.name.lower() not in ctes):
            yield child
        yield from find_tables(child, ctes)


def is_named(table: exp.Table) -> bool:
    """Whether it is a table with a name, not a function that gives rows."""
    return isinstance(table.this, (exp.Identifier, exp.Dot))


def table_name(table: exp.Table) -> str:
    """The dotted name as the query writes it; parts with dots are in backticks."""
    return join_name([part.name for part in table.parts])


def rename_tables(tree: exp.Query) -> dict[str, str]:
    """Give each table of the query a name without dots, in place. Returns these prefixes by the names of the tables."""
    used = {identifier.name.lower() for identifier in tree.find_all(exp.Identifier)}
    prefixes: dict[str, str] = {}
    tables = list(find_tables(tree))
    _shorten_columns(tree, {tuple(part.name.lower() for part in table.parts) for table in tables})
    for table in tables:
        name = table_name(table)
        if name not in prefixes:
            prefixes[name] = _choose_prefix(name, used)
            used.add(prefixes[name])
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
        identifier = exp.to_identifier(prefixes[name], quoted=True)
        identifier.meta.update(table.this.meta)
        table.set("this", identifier)
        table.set("db", None)
        table.set("catalog", None)
    return prefixes


def _shorten_columns(tree: exp.Query, tables: set[tuple[str, ...]]) -> None:
    """`db.trip.fare` becomes `trip.fare`, if the query reads `db.trip`."""
    for column in tree.find_all(exp.Column):
        parts = tuple(part.name.lower() for part in column.parts)
        if any(parts[:-1] == table[-len(parts) + 1 :] for table in tables if len(parts) > 2):
            column.set("db", None)
            column.set("catalog", None)


def _choose_prefix(name: str, used: set[str]) -> str:
    stem = "t_" + re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    prefix, number = stem, 2
    while prefix in used:
        prefix, number = f"{stem}_{number}", number + 1
    return prefix
