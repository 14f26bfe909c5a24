"""What the statements of both engines have in common: one SELECT, in which each table is a view of a fixed name.

An engine never gets the user's text. It gets SQL that is written from the checked tree (decision 0177). So a difference
between two parsers can fail a query, and cannot open a table.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from catalog.errors import Invalid
from firn.protocol.query_leases import ExplainMode

MOST_CHARACTERS = 20_000
MOST_NODES = 5_000
DEEPEST = 50
"""Open parentheses: a parser may need exponential time for nested ones."""
VIEW = "firn_table_{}"
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
    explain_mode: ExplainMode = ExplainMode.FORMATTED


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlRules:
    """What the statements of one engine may have, and the hints of refusals."""

    dialect: str
    row_functions: frozenset[str]
    """Functions in FROM that make rows of their arguments alone."""
    denied: re.Pattern[str]
    """Functions that no statement calls."""
    other_statements: str
    simplify: str
    split: str
    wrong_quote: str
    """A quote of names in other dialects, and not in this one."""
    quote_hint: str

    def tokenize(self, text: str) -> list[Token]:
        """The words of a text; Invalid if it is too long, nests too deep or does not end."""
        if len(text) > MOST_CHARACTERS:
            raise Invalid(
                f"the statement has {len(text):,} characters; {MOST_CHARACTERS:,} are allowed", hint=self.split
            )
        try:
            tokens = list(sqlglot.tokenize(text, read=self.dialect))
        except (SqlglotError, RecursionError, *_BUGS) as error:
            raise Invalid("the statement cannot be parsed: a quote or a comment does not end") from error
        depth = deepest = 0
        for token in tokens:
            opens = token.token_type in {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
            closes = token.token_type in {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
            depth += opens - closes
            deepest = max(deepest, depth)
        if deepest > DEEPEST:
            raise Invalid(f"the statement nests more than {DEEPEST} levels deep", hint=self.split)
        return tokens

    def parse(self, text: str) -> exp.Query:
        """The tree of a text; Invalid unless it is one query."""
        try:
            trees = [tree for tree in sqlglot.parse(text, read=self.dialect) if tree is not None]
        except ParseError as error:
            raise self._refuse_syntax(text, error) from error
        except (SqlglotError, RecursionError, *_BUGS) as error:
            raise Invalid("the statement cannot be parsed", hint=self.simplify) from error
        if len(trees) != 1:
            raise Invalid(f"the text has {len(trees)} statements", hint="Run one statement at a time.")
        tree = trees[0]
        while isinstance(tree, (exp.Subquery, exp.Paren)) and not any(
            value for name, value in tree.args.items() if name != "this"
        ):
            tree = tree.this
        if isinstance(tree, exp.Values):
            tree = _select_values(tree)
        if not isinstance(tree, (exp.Select, exp.SetOperation)):
            name = text.split(maxsplit=1)[0].upper()[:20] if text.strip() else "An empty text"
            raise Invalid(f"{name} is not a query", hint=self.other_statements)
        return tree

    def _refuse_syntax(self, text: str, error: ParseError) -> Invalid:
        first = error.errors[0] if error.errors else {}
        reason = str(first.get("description") or "invalid syntax").rstrip(".")
        where = f", line {first['line']}, column {first['col']}" if first.get("line") else ""
        hint = self.quote_hint if self.wrong_quote in text else None
        return Invalid(f"the statement cannot be parsed: {reason}{where}", hint=hint)

    def check_tree(self, tree: exp.Expr) -> None:
        """Raise Invalid if a part of the tree is no part of a query."""
        nodes = list(tree.walk())
        if len(nodes) > MOST_NODES:
            raise Invalid(f"the statement has more than {MOST_NODES:,} parts", hint=self.split)
        for node in nodes:
            if isinstance(node, (exp.Command, exp.DDL, exp.DML, exp.Into, exp.Copy, exp.Set, exp.Pragma, exp.Attach)):
                raise Invalid(f"{node.key.upper()} cannot be a part of a query", hint=self.other_statements)
            if isinstance(node, exp.Table) and not _is_named(node):
                self._check_source(node)
            if isinstance(node, (exp.Parameter, exp.Placeholder)):
                raise Invalid("the statement has a parameter", hint="Write the value.")

    def _check_source(self, table: exp.Table) -> None:
        source = table.this
        name = source.name if isinstance(source, exp.Anonymous) else source.sql(dialect=self.dialect).partition("(")[0]
        if name.lower() not in self.row_functions:
            raise Invalid(
                f"{name.lower()[:80]} cannot stand in FROM",
                hint="Read tables by their names; files and other sources are closed to queries.",
            )

    def check_written(self, sql: str, tables: int) -> None:
        """Check the text that the engine gets: its names of functions, and once more its tables and its form."""
        try:
            tokens = list(sqlglot.tokenize(sql, read=self.dialect))
        except SqlglotError as error:
            raise Invalid("the statement cannot be checked", hint="Write it in another way.") from error
        for token, following in pairwise(tokens):
            if following.token_type is TokenType.L_PAREN and self.denied.fullmatch(token.text):
                raise Invalid(
                    f"the function {token.text.lower()} is not allowed",
                    hint="Queries read tables, no files and settings.",
                )
        tree = self.parse(sql)
        views = {VIEW.format(number) for number in range(tables)}
        for table in tree.find_all(exp.Table):
            if not _is_named(table):
                self._check_source(table)
            elif len(table.parts) != 1 or (table.name not in views and not _is_cte(table)):
                raise Invalid(f"the statement cannot be checked: {table.name[:80]}", hint="Write it in another way.")


def check_values(dialect: str, tokens: list[Token], sql: str) -> None:
    """Refuse a statement of which a value is not in the written text: the parser has taken it for something else."""
    for token in tokens:
        is_value = token.token_type in {TokenType.STRING, TokenType.NUMBER}
        if is_value and token.text not in sql and _quote(token.text, dialect) not in sql:
            raise Invalid(
                f"the statement cannot be checked near {token.text[:80]!r}, line {token.line}",
                hint="Write it in another way, such as CAST('…' AS type).",
            )


def _quote(text: str, dialect: str) -> str:
    return exp.Literal.string(text).sql(dialect=dialect)[1:-1]


def _select_values(values: exp.Values) -> exp.Select:
    """VALUES alone as a SELECT over them, which the other checks know."""
    select = exp.Select(expressions=[exp.Star()])
    for part in ("limit", "offset", "order", "with_"):
        if (value := values.args.get(part)) is not None:
            values.set(part, None)
            select.set(part, value)
    if not values.alias:
        values.set("alias", exp.TableAlias(this=exp.to_identifier("_values")))
    select.set("from_", exp.From(this=values))
    return select


# --- tables ---


@dataclass
class _Tables:
    """The tables of a statement, each once, in the order of their names in it."""

    numbers: dict[NamedTable, int] = field(default_factory=dict)

    def view(self, named: NamedTable) -> str:
        return VIEW.format(self.numbers.setdefault(named, len(self.numbers)))


def replace_tables(tree: exp.Expr) -> tuple[NamedTable, ...]:
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
