"""Temporary views: each table's query gets the views that it reads, at any depth, as CTEs.

The planner sees through CTEs, so a view never makes a plan full. The server and Spark never learn of views.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from firn.pipelines.code_definitions import add_views
from firn.pipelines.definition import Definition
from firn.pipelines.errors import InvalidDefinition
from firn.pipelines.parsing import find_place
from firn.pipelines.plan import Reason
from firn.pipelines.tables import find_tables
from firn.protocol.pipeline_code import CodeFunction

References: TypeAlias = dict[str, exp.Table]
"""References to views by the names of the views in lower case."""


@dataclass(frozen=True)
class View:
    """A temporary view. Its query names tables as those of definitions do, and other views by their names alone."""

    name: str
    query: exp.Query
    path: str
    line: int
    columns: tuple[str, ...] = ()
    function: CodeFunction | None = None
    """The Python that computes it; `query` then only names the tables that it reads."""


@dataclass(frozen=True)
class ResolvedViews:
    """The definitions whose queries read no views any more, and what is wrong with the views."""

    definitions: dict[str, Definition]
    problems: tuple[InvalidDefinition, ...]
    warnings: tuple[Reason, ...]


def resolve_views(definitions: Mapping[str, Definition], views: Mapping[str, View]) -> ResolvedViews:
    """Write the views into the queries. `views` are by their names in lower case.

    A definition that reads a view of a cycle is left out: the problem of the cycle is enough.
    """
    reads = {name: _find_references(view.query, views) for name, view in views.items()}
    ordered, cycles = _order_views(views, reads)
    resolved: dict[str, Definition] = {}
    used: set[str] = set()
    for name, definition in definitions.items():
        needed = _find_needed(_find_references(definition.query, views), reads)
        used |= needed
        if needed <= ordered.keys():
            chosen = [view for key, view in ordered.items() if key in needed]
            resolved[name] = (
                add_views(definition, chosen, _add_views(definition.query, chosen)) if chosen else definition
            )
    warnings = tuple(_warn_unused(view) for key, view in ordered.items() if key not in used)
    return ResolvedViews(resolved, tuple(cycles), warnings)


def is_view(table: exp.Table, views: Container[str]) -> bool:
    """Whether a reference that no CTE hides is to one of these views: only a name without a namespace can be."""
    return not table.db and table.name.lower() in views


def _find_references(query: exp.Query, views: Container[str]) -> References:
    """The views that a query reads itself, each with a reference to it."""
    return {table.name.lower(): table for table in find_tables(query) if is_view(table, views)}


def _find_needed(start: References, reads: Mapping[str, References]) -> set[str]:
    """The views that a query reads, directly or through others."""
    needed = set(start)
    waiting = [*start]
    while waiting:
        new = reads[waiting.pop()].keys() - needed
        needed |= new
        waiting += new
    return needed


def _order_views(
    views: Mapping[str, View], reads: Mapping[str, References]
) -> tuple[dict[str, View], list[InvalidDefinition]]:
    """The views, each after those that it reads, without those that a cycle keeps from it; a problem for each cycle."""
    ordered: dict[str, View] = {}
    problems: list[InvalidDefinition] = []
    lost: set[str] = set()
    waiting = dict(views)
    while waiting:
        ready = [name for name in waiting if not any(read in waiting for read in reads[name])]
        for name in ready:
            view = waiting.pop(name)
            if lost.isdisjoint(reads[name]):
                ordered[name] = view
            else:
                lost.add(name)
        if not ready:
            cycle = _find_cycle(waiting, reads)
            problems.append(_refuse_cycle(waiting, cycle, reads))
            lost.update(cycle)
            for name in cycle:
                del waiting[name]
    return ordered, problems


def _find_cycle(waiting: Mapping[str, View], reads: Mapping[str, References]) -> list[str]:
    """Views of which each reads the next, and the last reads the first."""
    path = [next(iter(waiting))]
    while True:
        following = next(read for read in reads[path[-1]] if read in waiting)
        if following in path:
            return path[path.index(following) :]
        path.append(following)


def _refuse_cycle(views: Mapping[str, View], cycle: list[str], reads: Mapping[str, References]) -> InvalidDefinition:
    first = views[cycle[0]]
    place = find_place(reads[cycle[0]][cycle[1 % len(cycle)]])
    if len(cycle) == 1:
        return InvalidDefinition.at(place, f"the temporary view {first.name} reads itself").in_file(first.path)
    names = " → ".join(views[name].name for name in [*cycle, cycle[0]])
    return InvalidDefinition.at(place, f"the temporary views read each other: {names}").in_file(first.path)


def _warn_unused(view: View) -> Reason:
    return Reason(f"no table reads the temporary view {view.name}", "Delete it, or read it", view.line, path=view.path)


def _add_views(query: exp.Query, views: list[View]) -> exp.Query:
    """A copy of a query with CTEs before its own. `views` come after those that they read."""
    tree = query.copy()
    queries = [view.query.copy() for view in views]
    names = _choose_names(tree, views)
    ctes = []
    for view, body in zip(views, queries, strict=True):
        _rename_references(body, names)
        columns = [_quote(name) for name in view.columns]
        alias = exp.TableAlias(this=_quote(names[view.name.lower()]), columns=columns)
        ctes.append(exp.CTE(this=body, alias=alias))
    _rename_references(tree, names)
    with_ = tree.args.get("with_")
    if with_ is None:
        tree.set("with_", exp.With(expressions=ctes))
    else:
        with_.set("expressions", [*ctes, *with_.expressions])
    return tree


def _choose_names(tree: exp.Query, views: list[View]) -> dict[str, str]:
    """A name for each CTE that nothing else in the queries has: neither a CTE nor a table may hide the other."""
    names = {view.name.lower(): view.name for view in views}
    used: set[str] = set()
    for query in (tree, *(view.query for view in views)):
        used.update(cte.alias.lower() for cte in query.find_all(exp.CTE))
        used.update(table.name.lower() for table in find_tables(query) if not table.db and not is_view(table, names))
    for key, name in names.items():
        chosen, number = name, 2
        while chosen.lower() in used:
            chosen, number = f"{name}_{number}", number + 1
        used.add(chosen.lower())
        names[key] = chosen
    return names


def _rename_references(query: exp.Query, names: Mapping[str, str]) -> None:
    for table in [table for table in find_tables(query) if is_view(table, names)]:
        if not table.alias:
            table.set("alias", exp.TableAlias(this=_quote(table.name)))
        identifier = _quote(names[table.name.lower()])
        identifier.meta.update(table.this.meta)
        table.set("this", identifier)


def _quote(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)
