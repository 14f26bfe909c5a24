"""`FROM STREAM t` in queries: which inputs are streams, and which queries give right rows of new rows alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from firn.pipelines.errors import InvalidDefinition, Place
from firn.pipelines.full_reasons import is_aggregated
from firn.pipelines.normalization import inline_ctes
from firn.pipelines.parsing import find_place, start_of
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


def check_streams(query: exp.Query, streams: Collection[str]) -> None:
    """Raise InvalidDefinition for a query that new rows of these tables alone give wrong rows of."""
    tree = inline_ctes(query)
    for table in list(find_tables(tree)):
        if table_name(table) in streams:
            _check_path(table)
    for select in tree.find_all(exp.Select):
        sources = [source for source in _list_sources(select) if _reads(source, streams)]
        if len(sources) > 1:
            _refuse(sources[1], "a join of two streams would miss rows that come in different runs")


def _check_path(table: exp.Table) -> None:
    """Check everything around a stream, from the inside to the outside."""
    node: exp.Expr = table
    while node.parent is not None:
        parent = node.parent
        if isinstance(parent, (exp.Exists, exp.In)) or (isinstance(node, exp.Subquery) and _is_value(parent)):
            _refuse(table, "a stream in a condition or a value would need the rows of earlier runs")
        if isinstance(parent, exp.SetOperation) and (not isinstance(parent, exp.Union) or parent.args.get("distinct")):
            _refuse(parent, f"{parent.key.upper()} of a stream would need the rows of earlier runs")
        if isinstance(parent, exp.Join) and (parent.side or parent.kind.upper() in ("SEMI", "ANTI")):
            _refuse(parent, f"{parent.side or parent.kind} JOIN with a stream would need the rows of earlier runs")
        if isinstance(parent, exp.Select):
            _check_select(parent, table)
        node = parent


def _check_select(select: exp.Select, table: exp.Table) -> None:
    for join in select.args.get("joins") or ():
        if join.side.upper() in ("RIGHT", "FULL"):
            _refuse(join, f"{join.side} JOIN with a stream would need the rows of earlier runs")
    if is_aggregated(select) or select.args.get("distinct"):
        _refuse(table, "an aggregate or DISTINCT of a stream would need the rows of earlier runs")
    if any(part.find(exp.Window) for part in select.expressions) or select.args.get("qualify"):
        _refuse(table, "a window over a stream would need the rows of earlier runs")
    if select.args.get("limit") or select.args.get("offset"):
        _refuse(table, "LIMIT of a stream depends on how its rows are spread over runs")


def _is_value(parent: exp.Expr) -> bool:
    return not isinstance(parent, (exp.From, exp.Join, exp.Subquery, exp.SetOperation, exp.Query))


def _list_sources(select: exp.Select) -> Iterator[exp.Expr]:
    from_ = select.args.get("from_")
    if from_ is not None:
        yield from_.this
    for join in select.args.get("joins") or ():
        yield join.this


def _reads(source: exp.Expr, streams: Collection[str]) -> bool:
    tables = [source] if isinstance(source, exp.Table) else find_tables(source)
    return any(table_name(table) in streams for table in tables)


def _refuse(node: exp.Expr, reason: str) -> None:
    raise InvalidDefinition.at(find_place(node), reason, hint=_INSTEAD)
