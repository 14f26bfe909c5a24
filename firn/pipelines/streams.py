"""`FROM STREAM t` in queries: which inputs are streams."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from firn.pipelines.errors import Place
from firn.pipelines.parsing import start_of
from firn.pipelines.tables import find_tables, table_name
from firn.pipelines.token_reader import place_of

_STREAM = "is_stream"
_INSTEAD = "write CREATE MATERIALIZED VIEW, which needs no STREAM"


def hide_streams(text: str, tokens: Sequence[Token]) -> tuple[str, frozenset[Place]]:
    """The text with blanks for each `STREAM`, which sqlglot does not know, and the places of the tables behind it."""
    letters, places = list(text), set[Place]()
    for number, (before, token) in enumerate(pairwise(tokens), 1):
        if before.text.upper() not in ("FROM", "JOIN") or token.token_type is TokenType.IDENTIFIER:
            continue
        rest = tokens[number + 1 : number + 2] if token.text.upper() == "STREAM" else []
        if rest and rest[0].token_type in (TokenType.VAR, TokenType.IDENTIFIER):
            blanks, name = [token], rest[0]
        elif rest and rest[0].text == "(" and (end := _find_end(tokens, number + 1)) is not None:
            blanks, name = [token, rest[0], tokens[end]], tokens[number + 2]
        else:
            continue
        for blank in blanks:
            letters[blank.start : blank.end + 1] = " " * (blank.end + 1 - blank.start)
        places.add(place_of(name))
    return "".join(letters), frozenset(places)


def _find_end(tokens: Sequence[Token], begin: int) -> int | None:
    """The parenthesis behind `(a.b.c`; None if anything else stands there."""
    for number in range(begin + 1, len(tokens)):
        is_name = (number - begin) % 2 == 1
        if not is_name and tokens[number].text != ".":
            return number if tokens[number].text == ")" else None
    return None


def mark_streams(query: exp.Query, places: Collection[Place]) -> None:
    """Say of each table at one of these places that it is read as a stream, in place."""
    for table in query.find_all(exp.Table):
        first = table.parts[0] if table.parts else None
        if first is not None and start_of(first) in places:
            table.meta[_STREAM] = True


def find_streams(query: exp.Query) -> tuple[str, ...]:
    """The names of the tables that a query reads as streams, each once."""
    return tuple(dict.fromkeys(table_name(table) for table in find_tables(query) if table.meta.get(_STREAM)))
