"""Random filters, and what they say of a row: the oracle of planning."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st
from pyiceberg.transforms import parse_transform

from server.files.partitions import parse_primitive_type
from tests.server.scans.lake_table import KINDS, Row, is_nan

DOMAINS: Mapping[str, tuple[Any, ...]] = {
    "id": (-5, -1, 0, 1, 2, 3, 7, 100, 2**40),
    "n": (None, -3, -2, -1, 0, 1, 2, 5, 2**31 - 1),
    "s": (None, "", "a", "ab", "abc", "abcd", "b", "ba", "c", "cé"),
    "d": (None, -400, -31, -1, 0, 1, 30, 31, 365, 20_000),
    "x": (None, -1.5, 0.0, 0.1, 2.5, float("nan")),
    "ts": (None, -86_400_000_001, -1, 0, 1, 3_600_000_000, 86_400_000_000, 20_000 * 86_400_000_000),
    "dec": tuple(None if text is None else Decimal(text) for text in (None, "-1.05", "0.00", "0.99", "1.00", "12.34")),
    "flag": (None, True, False),
}
ROWS = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in DOMAINS.items()})
TRANSFORMS = {
    "id": ("identity", "bucket[3]", "truncate[4]", "void"),
    "n": ("identity", "bucket[2]", "truncate[3]"),
    "s": ("identity", "bucket[3]", "truncate[1]", "truncate[2]"),
    "d": ("identity", "year", "month", "day", "bucket[2]"),
    "x": ("identity",),
    "ts": ("identity", "year", "month", "day", "hour"),
    "dec": ("identity", "truncate[50]", "bucket[2]"),
    "flag": ("identity",),
}
SPECS = st.lists(
    st.sampled_from([(name, transform) for name, every in TRANSFORMS.items() for transform in every]),
    max_size=2,
    unique_by=lambda field: (field[0], field[1].partition("[")[0]),
)
_UNARY = ("is-null", "not-null")
_COMPARED: Mapping[str, Callable[[Any, Any], bool]] = {
    "lt": operator.lt,
    "lt-eq": operator.le,
    "gt": operator.gt,
    "gt-eq": operator.ge,
    "eq": operator.eq,
}
_OPPOSITE = {"not-eq": "eq", "not-in": "in", "not-starts-with": "starts-with", "not-nan": "is-nan"}
_NEGATED = {"is-null": "not-null", "lt": "gt-eq", "lt-eq": "gt"} | {
    operator: other for other, operator in _OPPOSITE.items()
}
_NEGATED |= {other: operator for operator, other in _NEGATED.items()}


def literal_json(name: str, value: Any) -> Any:
    """A value as a client writes it."""
    match KINDS[name]:
        case "date":
            return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
        case "timestamp":
            return (datetime(1970, 1, 1) + timedelta(microseconds=value)).isoformat()  # noqa: DTZ001 (a local one)
        case "decimal(9, 2)":
            return str(value)
    return value


@st.composite
def leaves(draw: st.DrawFn) -> dict[str, Any]:
    """One predicate, now and then about a transformed column."""
    name = draw(st.sampled_from(sorted(KINDS)))
    values = [value for value in DOMAINS[name] if value is not None and not is_nan(value)]
    transform = draw(st.sampled_from((None, None, None, *TRANSFORMS[name])))
    if transform is not None and transform.startswith("bucket"):
        term = {"type": "transform", "transform": transform, "term": name}
        return {"type": draw(st.sampled_from(("eq", "not-eq", "lt"))), "term": term, "value": draw(st.integers(0, 2))}
    ops = [*_UNARY, *_COMPARED, "not-eq", "in", "not-in"]
    ops += ["starts-with", "not-starts-with"] if name == "s" else ["is-nan", "not-nan"] if name == "x" else []
    op = draw(st.sampled_from(ops))
    if op in (*_UNARY, "is-nan", "not-nan"):
        return {"type": op, "term": name}
    if op in ("in", "not-in"):
        chosen = draw(st.lists(st.sampled_from(values), max_size=3))
        return {"type": op, "term": name, "values": [literal_json(name, value) for value in chosen]}
    return {"type": op, "term": name, "value": literal_json(name, draw(st.sampled_from(values)))}


FILTERS: st.SearchStrategy[Any] = st.recursive(
    leaves() | st.booleans(),
    lambda inner: (
        st.fixed_dictionaries({"type": st.sampled_from(("and", "or")), "left": inner, "right": inner})
        | st.fixed_dictionaries({"type": st.just("not"), "child": inner})
    ),
    max_leaves=4,
)


def says(filter: Any, row: Row, *, negated: bool = False) -> bool:
    """Whether the row matches.

    A comparison with null is false, and so is its negation, which is another comparison; but null is unequal to all.
    """
    if isinstance(filter, bool):
        return filter is not negated
    match filter["type"]:
        case "not":
            return says(filter["child"], row, negated=not negated)
        case "and" | "or" as kind:
            sides = [says(filter[side], row, negated=negated) for side in ("left", "right")]
            return all(sides) if (kind == "and") is not negated else any(sides)
    op = filter["type"]
    return _predicate(_NEGATED[op] if negated else op, filter, row)


def _predicate(op: str, filter: Mapping[str, Any], row: Row) -> bool:
    if op in _OPPOSITE:
        return not _predicate(_OPPOSITE[op], filter, row)
    value, literals = _operands(filter, row)
    match op:
        case "is-null":
            return value is None
        case "not-null":
            return value is not None
        case "is-nan":
            return is_nan(value)
        case "in":
            return value in literals
        case "starts-with":
            return value is not None and str(value).startswith(literals[0])
    return value is not None and _COMPARED[op](value, literals[0])


def _operands(filter: Mapping[str, Any], row: Row) -> tuple[Any, list[Any]]:
    term = filter["term"]
    written = filter["values"] if "values" in filter else [filter["value"]] if "value" in filter else []
    if isinstance(term, str):
        known = {literal_json(term, value): value for value in DOMAINS[term] if value is not None}
        return row[term], [known[value] for value in written]
    name = term["term"]
    return parse_transform(term["transform"]).transform(parse_primitive_type(KINDS[name]))(row[name]), list(written)
