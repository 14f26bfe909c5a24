"""Checks a statement of the instant engine, and names its tables."""

from __future__ import annotations

import re
from functools import lru_cache

from sqlglot import exp

from server.service.queries.parsing import SqlRules, Statement, check_values, replace_tables

DIALECT = "duckdb"
ROW_FUNCTIONS = frozenset({"generate_series", "range", "unnest", "json_each", "json_tree", "repeat", "repeat_row"})
DENIED = re.compile(
    r"""(read|scan|duckdb|pragma|parquet|sniff|iceberg|delta|ducklake|sqlite|postgres|mysql|st_read|json_execute|enable
    |disable|truncate|storage|test|which|load|install|add_parquet|from_substrait|get_substrait)_.*
    |.*_scan(_.*)?|query|query_table|glob|getenv|getvariable|current_setting|set_config|nextval|currval|write_log
    |parse_duckdb_log_message|sql_auto_complete|checkpoint|force_checkpoint|json_serialize_sql|json_deserialize_sql
    |json_serialize_plan|summary|python_map_function|sleep_ms|pg_(?!typeof).*""",
    re.VERBOSE | re.IGNORECASE,
)
"""Functions that read files, run text as SQL, or show and change the engine's state."""
_EXPLAIN = re.compile(r"\s*EXPLAIN\s+(?!ANALYZE\b)", re.IGNORECASE)
_RULES = SqlRules(
    dialect=DIALECT,
    row_functions=ROW_FUNCTIONS,
    denied=DENIED,
    other_statements="The instant engine runs one SELECT, SHOW or DESCRIBE. For anything else use "
    "`firn sql --engine local-spark`.",
    simplify="Simplify it, or use the engine Spark.",
    split="Split the statement, or use the engine Spark.",
    wrong_quote="`",
    quote_hint='Quote names with ", not with `.',
)


@lru_cache(maxsize=256)
def parse_statement(text: str, *, most_rows: int) -> Statement:
    """Check a statement. Raises Invalid for everything but one SELECT without forbidden parts.

    A statement without LIMIT gets one, one row above the limit.
    """
    explain = _EXPLAIN.match(text)
    statement = text[explain.end() :] if explain else text
    tokens = _RULES.tokenize(statement)
    tree = _RULES.parse(statement)
    _RULES.check_tree(tree)
    columns = _find_columns(tree)
    tables = replace_tables(tree)
    if not tree.args.get("limit"):
        tree.set("limit", exp.Limit(expression=exp.Literal.number(most_rows + 1)))
    sql = tree.sql(dialect=DIALECT, comments=False)
    _RULES.check_written(sql, len(tables))
    check_values(DIALECT, tokens, " ".join([sql, *(f"{table.version} {table.time}" for table in tables)]))
    return Statement(sql, tables, columns, explain is not None)


def _find_columns(tree: exp.Expr) -> frozenset[str] | None:
    """All names in the statement: the columns that it needs are among them. None if it may mean others, too."""
    for node in tree.walk():
        is_counted = isinstance(node, exp.Star) and isinstance(node.parent, exp.Count)
        if isinstance(node, (exp.Star, exp.Columns)) and not is_counted:
            return None
        if isinstance(node, exp.TableAlias) and node.columns:
            return None
        if isinstance(node, exp.Join) and str(node.args.get("method") or "").upper() in {"NATURAL", "POSITIONAL"}:
            return None
        if isinstance(node, (exp.Pivot, exp.PositionalColumn)):
            return None
    names = frozenset(identifier.name.casefold() for identifier in tree.find_all(exp.Identifier))
    columns = {column.name.casefold() for column in tree.find_all(exp.Column)}
    sources = {t.alias_or_name.casefold() for t in tree.find_all(exp.Table, exp.Subquery, exp.CTE)}
    return None if columns & sources else names  # a table's name as a column is the whole row
