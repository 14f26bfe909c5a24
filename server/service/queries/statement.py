"""Checks a statement of the instant engine, and names its tables.

The engine never gets the user's text. It gets SQL that is written from the checked tree, in which each table is a view
of a fixed name (decision 0177). So a difference between two parsers can fail a query, and cannot open a table.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from catalog.errors import Invalid

DIALECT = "duckdb"
MOST_CHARACTERS = 20_000
MOST_NODES = 5_000
DEEPEST = 50
"""Open parentheses: a parser may need exponential time for nested ones."""
VIEW = "firn_table_{}"
ROW_FUNCTIONS = frozenset({"generate_series", "range", "unnest", "json_each", "json_tree", "repeat", "repeat_row"})
"""Functions in FROM that make rows of their arguments alone."""
_DENIED = re.compile(
    r"""(read|scan|duckdb|pragma|parquet|sniff|iceberg|delta|ducklake|sqlite|postgres|mysql|st_read|json_execute|enable
    |disable|truncate|storage|test|which|load|install|add_parquet|from_substrait|get_substrait)_.*
    |.*_scan(_.*)?|query|query_table|glob|getenv|getvariable|current_setting|set_config|nextval|currval|write_log
    |parse_duckdb_log_message|sql_auto_complete|checkpoint|force_checkpoint|json_serialize_sql|json_deserialize_sql
    |json_serialize_plan|summary|python_map_function|sleep_ms|pg_(?!typeof).*""",
    re.VERBOSE | re.IGNORECASE,
)
"""Functions that read files, run text as SQL, or show and change the engine's state."""
_EXPLAIN = re.compile(r"\s*EXPLAIN\s+(?!ANALYZE\b)", re.IGNORECASE)
_ONLY_SELECT = "The instant engine runs one SELECT. For anything else use the engine Spark: `firn sql --engine spark`."
_TOO_LARGE = "Split the statement, or use the engine Spark."
_BUGS = (AttributeError, IndexError, KeyError, TypeError, ValueError)
"""What sqlglot also raises for SQL that it does not expect."""

logging.getLogger("sqlglot").setLevel(logging.ERROR)  # it warns of statements that are refused anyway


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table as the statement names it, with a snapshot, branch, tag or time if it names one."""

    parts: tuple[str, ...]
    version: str | None = None
    time: str | None = None

    @property
    def text(self) -> str:
        """The name as people write it."""
        return ".".join(self.parts)


@dataclass(frozen=True, slots=True)
class Statement:
    """A checked statement. In `sql` the table number n is the view `firn_table_n`."""

    sql: str
    tables: tuple[NamedTable, ...]
    columns: frozenset[str] | None
    """Names in lower case that may be columns; None if the statement may need all columns."""
    explain: bool = False


@lru_cache(maxsize=256)
def parse_statement(text: str, *, most_rows: int) -> Statement:
    """Check a statement. Raises Invalid for everything but one SELECT without forbidden parts.

    A statement without LIMIT gets one, one row above the limit.
    """
    explain = _EXPLAIN.match(text)
    statement = text[explain.end() :] if explain else text
    tokens = _tokenize(statement)
    tree = _parse(statement)
    _check_tree(tree)
    columns = _find_columns(tree)
    tables = _replace_tables(tree)
    if not tree.args.get("limit"):
        tree.set("limit", exp.Limit(expression=exp.Literal.number(most_rows + 1)))
    sql = tree.sql(dialect=DIALECT, comments=False)
    _check_written(sql, len(tables))
    _check_values(tokens, " ".join([sql, *(f"{table.version} {table.time}" for table in tables)]))
    return Statement(sql, tables, columns, explain is not None)


# --- parsing ---


def _tokenize(text: str) -> list[Token]:
    if len(text) > MOST_CHARACTERS:
        raise Invalid(f"the statement has {len(text):,} characters; {MOST_CHARACTERS:,} are allowed", hint=_TOO_LARGE)
    try:
        tokens = list(sqlglot.tokenize(text, read=DIALECT))
    except (SqlglotError, RecursionError, *_BUGS) as error:
        raise Invalid("the statement cannot be parsed: a quote or a comment does not end") from error
    depth = deepest = 0
    for token in tokens:
        opens = token.token_type in {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
        closes = token.token_type in {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
        depth += opens - closes
        deepest = max(deepest, depth)
    if deepest > DEEPEST:
        raise Invalid(f"the statement nests more than {DEEPEST} levels deep", hint=_TOO_LARGE)
    return tokens


def _parse(text: str) -> exp.Query:
    try:
        trees = [tree for tree in sqlglot.parse(text, read=DIALECT) if tree is not None]
    except ParseError as error:
        raise _refuse_syntax(text, error) from error
    except (SqlglotError, RecursionError, *_BUGS) as error:
        raise Invalid("the statement cannot be parsed", hint="Simplify it, or use the engine Spark.") from error
    if len(trees) != 1:
        raise Invalid(f"the text has {len(trees)} statements", hint="Run one statement at a time.")
    tree = trees[0]
    while isinstance(tree, (exp.Subquery, exp.Paren)) and not any(
        value for name, value in tree.args.items() if name != "this"
    ):
        tree = tree.this
    if not isinstance(tree, (exp.Select, exp.SetOperation)):
        name = text.split(maxsplit=1)[0].upper()[:20] if text.strip() else "An empty text"
        raise Invalid(f"{name} is not a query", hint=_ONLY_SELECT)
    return tree


def _refuse_syntax(text: str, error: ParseError) -> Invalid:
    first = error.errors[0] if error.errors else {}
    reason = str(first.get("description") or "invalid syntax").rstrip(".")
    where = f", line {first['line']}, column {first['col']}" if first.get("line") else ""
    hint = 'Quote names with ", not with `.' if "`" in text else None
    return Invalid(f"the statement cannot be parsed: {reason}{where}", hint=hint)


# --- what a statement may not have ---


def _check_tree(tree: exp.Expr) -> None:
    nodes = list(tree.walk())
    if len(nodes) > MOST_NODES:
        raise Invalid(f"the statement has more than {MOST_NODES:,} parts", hint=_TOO_LARGE)
    for node in nodes:
        if isinstance(node, (exp.Command, exp.DDL, exp.DML, exp.Into, exp.Copy, exp.Set, exp.Pragma, exp.Attach)):
            raise Invalid(f"{node.key.upper()} cannot be a part of a query", hint=_ONLY_SELECT)
        if isinstance(node, exp.Table) and not _is_named(node):
            _check_source(node)
        if isinstance(node, (exp.Parameter, exp.Placeholder)):
            raise Invalid("the statement has a parameter", hint="Write the value.")


def _check_source(table: exp.Table) -> None:
    source = table.this
    name = source.name if isinstance(source, exp.Anonymous) else source.sql(dialect=DIALECT).partition("(")[0]
    if name.lower() not in ROW_FUNCTIONS:
        raise Invalid(
            f"{name.lower()[:80]} cannot stand in FROM",
            hint="Read tables by their names; files and other sources are closed to queries.",
        )


def _check_written(sql: str, tables: int) -> None:
    """Check the text that the engine gets: its names of functions, and once more its tables and its form."""
    tokens = _tokenize_written(sql)
    for token, following in pairwise(tokens):
        if following.token_type is TokenType.L_PAREN and _DENIED.fullmatch(token.text):
            raise Invalid(
                f"the function {token.text.lower()} is not allowed", hint="Queries read tables, no files and settings."
            )
    tree = _parse(sql)
    views = {VIEW.format(number) for number in range(tables)}
    for table in tree.find_all(exp.Table):
        if not _is_named(table):
            _check_source(table)
        elif len(table.parts) != 1 or (table.name not in views and not _is_cte(table)):
            raise Invalid(f"the statement cannot be checked: {table.name[:80]}", hint="Write it in another way.")


def _check_values(tokens: list[Token], sql: str) -> None:
    """Refuse a statement of which a value is not in the written text: the parser has taken it for something else."""
    for token in tokens:
        is_value = token.token_type in {TokenType.STRING, TokenType.NUMBER}
        if is_value and token.text not in sql and token.text.replace("'", "''") not in sql:
            raise Invalid(
                f"the statement cannot be checked near {token.text[:80]!r}, line {token.line}",
                hint="Write it in another way, such as CAST('…' AS type).",
            )


def _tokenize_written(sql: str) -> list[Token]:
    try:
        return list(sqlglot.tokenize(sql, read=DIALECT))
    except SqlglotError as error:
        raise Invalid("the statement cannot be checked", hint="Write it in another way.") from error


# --- tables and columns ---


@dataclass
class _Tables:
    """The tables of a statement, each once, in the order of their names in it."""

    numbers: dict[NamedTable, int] = field(default_factory=dict)

    def view(self, named: NamedTable) -> str:
        return VIEW.format(self.numbers.setdefault(named, len(self.numbers)))


def _replace_tables(tree: exp.Expr) -> tuple[NamedTable, ...]:
    """Replace each table by its view, under the name by which the rest of the statement knows it."""
    tables = _Tables()
    named_tables = [t for t in tree.find_all(exp.Table) if _is_named(t) and not _is_cte(t)]
    sources = {(table.name, table.db) for table in named_tables if table.db}
    for table in named_tables:
        view = tables.view(_name(table))
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
        table.set("this", exp.to_identifier(view))
        for part in ("db", "catalog", "version", "when"):
            table.set(part, None)
    for column in tree.find_all(exp.Column):
        if (column.table, column.db) in sources:
            column.set("db", None)
            column.set("catalog", None)
    return tuple(tables.numbers)


def _is_named(table: exp.Table) -> bool:
    """Whether a name stands there, not a function; a name of four parts and more is a tree of its own."""
    return all(isinstance(part, exp.Identifier) for part in table.parts)


def _name(table: exp.Table) -> NamedTable:
    parts = tuple(part.name for part in table.parts)
    if any(not part for part in parts):
        raise Invalid("a name in the statement is empty")
    version = table.args.get("version")
    if table.args.get("when"):
        raise Invalid(
            "AT (…) is not supported", hint="Write FOR VERSION AS OF snapshot, or FOR TIMESTAMP AS OF 'time'."
        )
    if version is None:
        return NamedTable(parts)
    value = version.expression
    if not isinstance(value, exp.Literal) or str(version.args.get("kind")).upper() != "AS OF":
        raise Invalid(f"the version of {'.'.join(parts)} is no literal", hint="Write FOR VERSION AS OF snapshot.")
    if str(version.this).upper() == "TIMESTAMP":
        return NamedTable(parts, time=value.name)
    return NamedTable(parts, version=value.name)


def _is_cte(table: exp.Table) -> bool:
    """Whether a name means a common table expression: one before it, or the one that it is a recursive part of."""
    if len(table.parts) != 1 or not isinstance(table.this, exp.Identifier):
        return False
    name = table.name.casefold()
    child: exp.Expr = table
    parent = table.parent
    while parent is not None:
        if isinstance(parent, exp.With) and isinstance(child, exp.CTE):
            if name in {cte.alias.casefold() for cte in _visible_inside(parent, child)}:
                return True
        elif (with_ := parent.args.get("with_")) is not None and with_ is not child and _defines(with_, name):
            return True
        child, parent = parent, parent.parent
    return False


def _defines(with_: exp.With, name: str) -> bool:
    return name in {cte.alias.casefold() for cte in with_.expressions}


def _visible_inside(with_: exp.With, cte: exp.CTE) -> Iterator[exp.CTE]:
    for each in with_.expressions:
        if each is cte:
            if with_.args.get("recursive"):
                yield each
            return
        yield each


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
