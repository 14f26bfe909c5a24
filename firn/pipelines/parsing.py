"""SQL text into trees of sqlglot; each error has line and column."""

from __future__ import annotations

from itertools import pairwise

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from firn.pipelines.errors import InvalidDefinition, Place

DIALECT = "spark"
MAX_CHARACTERS = 200_000
MAX_NODES = 20_000
_BEGINS_QUERY = (TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN, TokenType.FROM, TokenType.VALUES)
_BUGS = (AttributeError, IndexError, KeyError, TypeError, ValueError)
"""What sqlglot also raises for SQL that it does not expect, such as `date_trunc('', x)`."""
_FILE = "path"
"""The key in the `meta` of a view's parts under which its file stands."""
_TOO_DEEP = "the SQL nests too deeply"
_SPLIT = "make parts of it tables or views of their own"


def parse_query(text: str, *, line: int = 1, column: int = 1) -> exp.Query:
    """Parse one SELECT statement that begins at a place of its file. Raises InvalidDefinition for anything else."""
    check_size(text)
    padded = f"{chr(10) * (line - 1)}{' ' * (column - 1)}{text}"
    _require_query(padded)
    tree = _parse(padded)
    while isinstance(tree, (exp.Paren, exp.Subquery)) and not _has_modifiers(tree):
        tree = tree.this
    if not isinstance(tree, (exp.Select, exp.SetOperation)):
        reason = f"{tree.key.upper()} stands where a query belongs"
        raise InvalidDefinition(reason, line=line, column=column, hint="write one SELECT")
    return tree


def tokenize(text: str) -> list[Token]:
    """The tokens of SQL. Raises InvalidDefinition if a quote or comment does not end."""
    check_size(text)
    try:
        return list(sqlglot.tokenize(text, read=DIALECT))
    except TokenError as error:
        raise _refuse_open_text(text) from error


def check_size(text: str) -> None:
    """Raise InvalidDefinition for a text that is too large to be a definition."""
    if len(text) > MAX_CHARACTERS:
        raise InvalidDefinition(f"the SQL has {len(text):,} characters; {MAX_CHARACTERS:,} are allowed", hint=_SPLIT)


def mark_file(tree: exp.Expr, path: str) -> None:
    """Say of each part of a query that it stands in another file than the query will, in place."""
    for node in tree.walk():
        node.meta[_FILE] = path


def start_of(node: exp.Expr) -> Place | None:
    """Where the word of a node begins; None for a node that has none of its own."""
    meta = node.meta
    if not {"line", "col", "start", "end"} <= meta.keys():
        return None
    return Place(meta["line"], meta["col"] - (meta["end"] - meta["start"]), meta.get(_FILE))


def set_place(node: exp.Expr, place: Place) -> None:
    """Say where a node begins."""
    node.meta.update(line=place.line, col=place.column, start=0, end=0)


def find_place(node: exp.Expr) -> Place:
    """The place of the first word of a node, or of one near it; without line where the tree knows none."""
    around: exp.Expr | None = node
    while around is not None:
        starts = (start_of(part) for part in around.walk())
        places = [(start.path, start.line or 0, start.column or 0) for start in starts if start is not None]
        if places:
            files = {path for path, _, _ in places}
            # Lines of different files cannot be compared. A node without a file of its own is of the definition, unless
            # all of its parts are of a view.
            own = around.meta.get(_FILE)
            path = own if own in files else places[0][0]
            line, column = min((line, column) for part, line, column in places if part == path)
            return Place(line, column, path)
        around = around.parent
    return Place()


def too_deep() -> InvalidDefinition:
    """The error for a query whose nesting exceeds what Python's stack holds."""
    return InvalidDefinition(_TOO_DEEP, hint=_SPLIT)


def _parse(text: str) -> exp.Expr:
    try:
        trees = [tree for tree in sqlglot.parse(text, read=DIALECT, max_nodes=MAX_NODES) if tree is not None]
    except ParseError as error:
        raise _refuse(error) from error
    except (SqlglotError, *_BUGS) as error:
        raise InvalidDefinition(f"the SQL cannot be read: {str(error)[:200]}") from error
    except RecursionError as error:
        raise too_deep() from error
    trees = [tree for tree in trees if not isinstance(tree, exp.Semicolon)]
    if len(trees) != 1:  # a comment after the last semicolon is no statement
        reason = "there is no query" if not trees else "several statements stand where one query belongs"
        place = find_place(trees[1]) if len(trees) > 1 else Place()
        raise InvalidDefinition.at(place, reason, hint="write one SELECT")
    return trees[0]


def _require_query(text: str) -> None:
    tokens = tokenize(text)
    _refuse_templates(tokens)
    if tokens and tokens[0].token_type not in _BEGINS_QUERY:
        first = tokens[0]
        raise InvalidDefinition(
            f"{first.text.upper()[:40]} stands where a query belongs",
            line=first.line,
            column=first.col - (first.end - first.start),
            hint="write one SELECT",
        )


def _refuse_templates(tokens: list[Token]) -> None:
    for first, second in pairwise(tokens):
        is_expression = first.token_type is second.token_type is TokenType.L_BRACE and first.end + 1 == second.start
        if is_expression or first.token_type is TokenType.BLOCK_START:
            raise InvalidDefinition(
                "only the SQL files of a folder may have Jinja", line=first.line, column=first.col, hint="write SQL"
            )


def _refuse_open_text(text: str) -> InvalidDefinition:
    return InvalidDefinition(
        "a quoted text or a comment does not end", line=text.count("\n") + 1, hint="close the quote or the comment"
    )


def _refuse(error: ParseError) -> InvalidDefinition:
    first = error.errors[0] if error.errors else {}
    near = str(first.get("highlight") or "").strip()[:40]
    description = str(first.get("description") or str(error)).partition(" but got ")[0].rstrip(".")[:200]
    if "max" in description.lower() and "node" in description.lower():
        return InvalidDefinition(f"the query has more than {MAX_NODES:,} parts", hint=_SPLIT)
    reason = (
        f"the SQL cannot be parsed near {near!r}: {description}" if near else f"the SQL cannot be parsed: {description}"
    )
    return InvalidDefinition(reason, line=first.get("line"), column=first.get("col"))


def _has_modifiers(node: exp.Expr) -> bool:
    return any(value for name, value in node.args.items() if name not in ("this", "alias"))
