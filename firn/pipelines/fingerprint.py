"""The fingerprint of a query: two queries have the same one only if they give the same rows of the same inputs."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping

from sqlglot import exp
from sqlglot.optimizer.normalize_identifiers import normalize_identifiers

from firn.pipelines.errors import InvalidDefinition
from firn.pipelines.normalization import ORDERS, Schema, expand_windows, hides_columns, qualify_columns
from firn.pipelines.parsing import DIALECT
from firn.pipelines.tables import find_tables, rename_tables

_VERSION = "1"
"""To be raised if the form of queries changes. All tables of all pipelines then need a rebuild."""


def fingerprint_query(query: exp.Query, schema: Schema) -> str:
    """The digest of a query's normal form, which names its inputs as `schema` does.

    Comments, layout, case, aliases of tables and names of CTEs do not count. Columns that `*` stands for do. Different
    queries may give the same rows and still have different fingerprints.
    """
    return _digest(_build_form(query, schema))


def _build_form(query: exp.Query, schema: Schema) -> exp.Expr:
    tree = query.copy()
    prefixes = rename_tables(tree)
    expand_windows(tree)
    names = {prefix: name for name, prefix in prefixes.items()}
    form = _normalize(tree, {prefix: schema[name] for prefix, name in names.items()})
    _restore_names(form, names)
    return form


def _digest(form: exp.Expr) -> str:
    text = form.sql(DIALECT, comments=False, normalize_functions="upper")
    return hashlib.sha256(f"{_VERSION}\n{text}".encode()).hexdigest()


def fingerprint_text(query: exp.Query) -> str:
    """The digest of a query over inputs whose columns are not known: all but comments, layout and case counts."""
    return _digest(normalize_identifiers(query.copy(), dialect=DIALECT))


def find_extended(query: exp.Query, schema: Schema, old: exp.Query, old_fingerprint: str) -> str | None:
    """The fingerprint of the old query, if this one gives its columns with the same values, and more columns.

    None for queries of which that cannot be told: columns decide about the rows of DISTINCT and of set operations.
    """
    kept = {name.lower() for name in old.named_selects}
    form = _build_form(query, schema)
    if not isinstance(form, exp.Select) or form.args.get("distinct") is not None or "" in kept or "*" in kept:
        return None
    group = form.args.get("group")
    added = [column for column in form.expressions if column.alias_or_name.lower() not in kept]
    makes_rows = any(column.find(exp.UDTF, exp.Explode) is not None for column in added)
    if not added or makes_rows or (group is not None and group.args.get("all")):
        return None
    form.set("expressions", [column for column in form.expressions if column.alias_or_name.lower() in kept])
    return old_fingerprint if _digest(form) == old_fingerprint else None


def fingerprint_append(fingerprint: str, streams: Collection[str]) -> str:
    """The fingerprint of a query that appends: what a table has then depends on what its streams had at each run."""
    text = "\n".join((_VERSION, "append", *sorted(streams), fingerprint))
    return hashlib.sha256(text.encode()).hexdigest()


def _normalize(tree: exp.Query, schema: Schema) -> exp.Expr:
    """The form with qualified columns; the tree in lower case if the columns cannot be told from the text."""
    if not any(map(hides_columns, tree.walk())):
        try:
            return qualify_columns(_drop_last_order(tree), schema)
        except InvalidDefinition:  # such as ORDER BY in a nested query, by a column that the plan does not need
            pass
    return normalize_identifiers(tree.copy(), dialect=DIALECT)


def _drop_last_order(tree: exp.Query) -> exp.Query:
    """A copy without the order of the result, which a table does not have. With LIMIT it decides about rows."""
    copy = tree.copy()
    if not any(copy.args.get(name) for name in ("limit", "offset")):
        for name in ORDERS:
            copy.set(name, None)
    return copy


def _restore_names(form: exp.Expr, names: Mapping[str, str]) -> None:
    """Prefixes depend on the other names in the query; the names of the inputs do not."""
    for table in find_tables(form):
        if table.name in names:
            table.set("this", exp.to_identifier(names[table.name], quoted=True))
