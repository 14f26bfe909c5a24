"""Which queries may append: new rows of a stream add rows to their result, and change or remove none.

Then the rows that a result gains are those of the query over the new rows of the stream alone. Other inputs are read
as they are at the run; later changes of them change no row that was appended before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final, NoReturn

from sqlglot import exp

from firn.pipelines.errors import InvalidDefinition
from firn.pipelines.full_reasons import is_aggregated
from firn.pipelines.normalization import ORDERS, inline_ctes
from firn.pipelines.parsing import find_place
from firn.pipelines.tables import find_tables, table_name

_KNOWN: Final = frozenset({"expressions", "from_", "joins", "where", "laterals", "hint", "kind", "with_", *ORDERS})
_WORDS: Final = {"distinct": "DISTINCT", "limit": "LIMIT", "offset": "OFFSET", "qualify": "QUALIFY"}
_OTHER_MODE: Final = "write a materialized view, which Firn keeps up to date with all changes"
_KEPT_BY_LEFT: Final = ("LEFT", "SEMI", "ANTI")


def check_append(query: exp.Query, streams: Collection[str]) -> None:
    """Raise InvalidDefinition, with the place, if new rows of the streams may change or remove rows of the result.

    `streams` are names of inputs as the query writes them.
    """
    for with_ in query.find_all(exp.With):
        if with_.args.get("recursive"):
            _refuse(with_, "a recursive CTE cannot read a stream")
    _Check(frozenset(name.lower() for name in streams)).check(inline_ctes(query))


class _Check:
    def __init__(self, streams: frozenset[str]) -> None:
        self.streams = streams

    def check(self, query: exp.Expr) -> None:
        while isinstance(query, (exp.Subquery, exp.Paren)):
            self._check_arguments(query, {"this", "alias"})
            query = query.this
        if isinstance(query, exp.Union) and not query.args.get("distinct"):
            self._check_arguments(query, {"this", "expression", "distinct", "by_name", *ORDERS})
            for branch in (query.left, query.right):
                if not self.reads(branch):
                    _refuse(branch, "a branch of UNION ALL reads no stream, so each run would add its rows again")
                self.check(branch)
        elif isinstance(query, exp.Select):
            self._check_select(query)
        else:
            _refuse(query, f"{query.key.upper()} over a stream compares new rows with earlier ones")

    def reads(self, node: exp.Expr) -> bool:
        """Whether a part of the query reads a stream, at any depth."""
        tables = [node] if isinstance(node, exp.Table) else []
        return any(table_name(table).lower() in self.streams for table in [*tables, *find_tables(node)])

    def _check_select(self, select: exp.Select) -> None:
        if is_aggregated(select):
            _refuse(select, "an aggregate over a stream changes rows that were appended before")
        self._check_arguments(select, _KNOWN)
        for node in select.walk(prune=lambda node: node is not select and isinstance(node, exp.Query)):
            if isinstance(node, exp.Window):
                _refuse(node, "a window function over a stream changes rows that were appended before")
        from_ = select.args.get("from_")
        if from_ is None:
            _refuse(select, "the query reads no stream")
        joins: list[exp.Join] = select.args.get("joins") or []
        sources = [from_.this, *(join.this for join in joins)]
        read = [number for number, source in enumerate(sources) if self.reads(source)]
        if not read:
            _refuse(select, "a part of the query reads no stream, so each run would add its rows again")
        if len(read) > 1:
            _refuse(sources[read[1]], "two streams are joined: a new row of one may match earlier rows of the other")
        self._check_joins(joins, read[0])
        self._check_source(sources[read[0]])
        for part in _list_conditions(select, joins):
            if self.reads(part):
                _refuse(part, "a stream in a subquery may change which earlier rows there are")

    def _check_joins(self, joins: list[exp.Join], place: int) -> None:
        """`place` is the number of the streaming source: 0 is FROM."""
        for number, join in enumerate(joins, 1):
            word = join.side.upper() or join.kind.upper()
            is_inner = word in ("", "INNER", "CROSS")
            if not is_inner and (word not in _KEPT_BY_LEFT or number == place):
                side = "its other side" if number == place else "the stream"
                _refuse(join, f"{word} JOIN may change or remove earlier rows: {side} does not keep its rows")

    def _check_source(self, source: exp.Expr) -> None:
        if isinstance(source, exp.Table):
            self._check_arguments(source, {"this", "db", "catalog", "alias", "only"})
        else:
            self.check(source)

    def _check_arguments(self, node: exp.Expr, known: Collection[str]) -> None:
        for name, value in node.args.items():
            if value and name not in known:
                part = value[0] if isinstance(value, list) else value
                words = _WORDS.get(name, name.strip("_").replace("_", " ").upper())
                _refuse(part if isinstance(part, exp.Expr) else node, f"{words} over a stream depends on other rows")


def _list_conditions(select: exp.Select, joins: list[exp.Join]) -> Iterator[exp.Expr]:
    """The parts of a SELECT where a subquery is no source of rows."""
    yield from select.expressions
    yield from (part for part in (select.args.get("where"), *(select.args.get("laterals") or [])) if part is not None)
    yield from (on for join in joins if (on := join.args.get("on")) is not None)


def _refuse(node: exp.Expr, text: str) -> NoReturn:
    raise InvalidDefinition.at(find_place(node), f"mode: append: {text}", hint=_OTHER_MODE)
