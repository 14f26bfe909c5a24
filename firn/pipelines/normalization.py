"""One form for all queries: CTEs become derived tables, columns name their sources, no two sources share an alias."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from sqlglot import exp
from sqlglot.errors import OptimizeError, SchemaError, SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.qualify_tables import qualify_tables

from firn.pipelines.errors import InvalidDefinition
from firn.pipelines.functions import is_aggregate
from firn.pipelines.parsing import DIALECT, MAX_NODES, find_place
from firn.pipelines.tables import is_named

Schema = Mapping[str, Mapping[str, str]]
"""Columns and their types of Spark by the name of the table."""

CTE_NAME = "firn_cte"
"""The key in a derived table's `meta` under which the name of its CTE stands."""

ORDERS = ("order", "sort", "distribute", "cluster")


def normalize(tree: exp.Query, schema: Schema) -> exp.Query:
    """A copy of the query in that form, with types.

    `schema` names the tables as the query does after `rename_tables`. Raises InvalidDefinition for unknown columns.
    """
    copy = inline_ctes(tree)
    for query in copy.find_all(exp.Select, exp.SetOperation, exp.Subquery):
        for name in ORDERS:
            query.set(name, None)
    return _qualify(copy, schema)


def qualify_columns(tree: exp.Query, schema: Schema) -> exp.Query:
    """The same with the orders of the query, which decide about rows where it has LIMIT."""
    return _qualify(inline_ctes(tree), schema)


def hides_columns(node: exp.Expr) -> bool:
    """Whether the columns of the result cannot be told from the text and the schema of the tables."""
    if isinstance(node, exp.Join) and node.method:
        return True
    return isinstance(node, (exp.Lateral, exp.Pivot)) or (
        isinstance(node, exp.With) and bool(node.args.get("recursive"))
    )


def inline_ctes(tree: exp.Query) -> exp.Query:
    """A copy of the query with derived tables for its CTEs. Raises InvalidDefinition if it gets too large."""
    root = exp.Subquery(this=tree.copy())
    _Inlining().replace_in(root, {})
    query = root.this
    assert isinstance(query, exp.Query)  # noqa: S101 -- tells the type checker that only references were replaced
    return query.pop()


class _Inlining:
    def __init__(self) -> None:
        self.nodes = 0

    def replace_in(self, node: exp.Expr, known: Mapping[str, exp.CTE]) -> None:
        with_ = node.args.get("with_")
        if with_ is not None:
            known = dict(known)
            for cte in with_.expressions:
                self.replace_in(cte, known)
                known[cte.alias.lower()] = cte
            node.set("with_", None)
        for child in list(node.iter_expressions()):
            self.replace_in(child, known)
            if isinstance(child, exp.Table) and is_named(child) and not child.db and child.name.lower() in known:
                child.replace(self._derive(child, known[child.name.lower()]))

    def _derive(self, table: exp.Table, cte: exp.CTE) -> exp.Subquery:
        self.nodes += sum(1 for _ in cte.this.walk())
        if self.nodes > MAX_NODES:
            raise InvalidDefinition.at(
                find_place(table),
                f"the CTEs and views, written out where they are used, have more than {MAX_NODES:,} parts",
                hint=f"make {cte.alias} a table of its own",
            )
        alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name, quoted=True))
        if not alias.args.get("columns") and cte.args["alias"].args.get("columns"):
            alias = exp.TableAlias(this=alias.this, columns=[name.copy() for name in cte.args["alias"].columns])
        subquery = exp.Subquery(this=cte.this.copy(), alias=alias)
        subquery.meta[CTE_NAME] = cte.alias
        return subquery


def expand_windows(tree: exp.Query) -> None:
    """Each `OVER w` gets what `WINDOW w AS (…)` says, in place."""
    for select in tree.find_all(exp.Select):
        _expand_windows(select)


def _expand_windows(select: exp.Select) -> None:
    named = {window.name.lower(): window for window in select.args.get("windows") or ()}
    if not named:
        return
    for window in select.find_all(exp.Window):
        base = named.get(window.alias.lower()) if window.alias and window.parent is not select else None
        if base is None:
            continue
        for part in ("partition_by", "order", "spec"):
            value = base.args.get(part)
            if not value or window.args.get(part):
                continue
            window.set(part, [item.copy() for item in value] if isinstance(value, list) else value.copy())
        window.set("alias", None)
        window.set("over", "OVER")
    select.set("windows", None)


def _qualify(tree: exp.Query, schema: Schema) -> exp.Query:
    nested: dict[str, object] = {table: dict(columns) for table, columns in schema.items()}
    try:
        qualified = qualify(tree, schema=nested, dialect=DIALECT)
        # Not at once: `t.*` and `t.struct.field` would not be found under the new aliases.
        aliased = qualify_tables(qualified, dialect=DIALECT, canonicalize_table_aliases=True)
        typed = annotate_types(aliased, schema=nested, dialect=DIALECT)
    except (OptimizeError, SchemaError) as error:
        raise _refuse_column(tree, schema, error) from error
    except (SqlglotError, ValueError, KeyError, AttributeError) as error:
        raise InvalidDefinition(f"the names in the query cannot be resolved: {str(error)[:200]}") from error
    for select in typed.find_all(exp.Select):
        _expand_group_by_all(select)
    return typed


def drop_positions(tree: exp.Expr) -> None:
    """Forget places and comments, in place, once no error can name them: copies of the tree cost less."""
    for node in tree.walk():
        node.meta.clear()
        node.comments = None


def drop_types(query: exp.Query) -> None:
    """Keep the types of columns and outputs alone, in place, because every copy of the tree copies them."""
    outputs = {id(output) for select in query.find_all(exp.Select) for output in select.selects}
    for node in query.walk():
        if not isinstance(node, exp.Column) and id(node) not in outputs:
            node.type = None


def _refuse_column(tree: exp.Query, schema: Schema, error: SqlglotError) -> InvalidDefinition:
    """The error for the column that could not be resolved; sqlglot's own words if it named none."""
    message = str(error)
    named = re.search(r"(?:Column '|Unknown column: )(?P<name>[^']+?)(?:' could not be resolved|$)", message)
    name = named["name"].lower() if named else None
    column = next((part for part in tree.find_all(exp.Column) if part.name.lower() == name), None)
    if column is None:
        return InvalidDefinition(message.partition(". Line")[0].partition("\n")[0][:200])
    reason, hint = _explain_column(tree, schema, column)
    return InvalidDefinition.at(find_place(column), reason, hint=hint)


def _explain_column(tree: exp.Query, schema: Schema, column: exp.Column) -> tuple[str, str | None]:
    aliases = [source.alias.lower() for source in tree.find_all(exp.Table, exp.Subquery) if source.alias]
    name = column.sql(DIALECT)
    if column.table and column.table.lower() not in aliases:
        return f"{name}: the query has no input {column.table}", _suggest(column.table, aliases)
    owners = [table for table in tree.find_all(exp.Table) if column.name.lower() in _lower(schema.get(table.name))]
    if len(owners) > 1 and not column.table:
        return f"more than one input has the column {name}", "write the name of the input before it"
    known = {name for columns in schema.values() for name in _lower(columns)}
    return f"no input has the column {name}", _suggest(column.name, known)


def _suggest(name: str, known: Iterable[str]) -> str | None:
    near = get_close_matches(name.lower(), sorted(set(known)), n=1)
    return f"did you mean {near[0]}?" if near else None


def _lower(columns: Mapping[str, str] | None) -> set[str]:
    return {name.lower() for name in columns or ()}


def _expand_group_by_all(select: exp.Select) -> None:
    group = select.args.get("group")
    if group is None or not group.args.get("all"):
        return
    columns = [column.unalias() for column in select.expressions]
    group.set("expressions", [item.copy() for item in columns if not any(map(is_aggregate, item.walk()))])
    group.set("all", None)
