"""Filters of scans: the specification's JSON as a tree without NOT, bound to columns, and written back.

The parser pushes NOT down to the predicates, because the rules for files only hold for trees without it. A predicate
that cannot be evaluated counts as "may match"; under a NOT that would drop files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from textwrap import shorten
from typing import Any, TypeVar

from catalog.errors import Invalid
from catalog.iceberg.json import Json, flag, text
from catalog.iceberg.schema import Field, SchemaIndex

T = TypeVar("T")


class Op(StrEnum):
    """The operator of a predicate, in the specification's spelling."""

    IS_NULL = "is-null"
    NOT_NULL = "not-null"
    IS_NAN = "is-nan"
    NOT_NAN = "not-nan"
    LT = "lt"
    LT_EQ = "lt-eq"
    GT = "gt"
    GT_EQ = "gt-eq"
    EQ = "eq"
    NOT_EQ = "not-eq"
    STARTS_WITH = "starts-with"
    NOT_STARTS_WITH = "not-starts-with"
    IN = "in"
    NOT_IN = "not-in"


UNARY = frozenset({Op.IS_NULL, Op.NOT_NULL, Op.IS_NAN, Op.NOT_NAN})
SETS = frozenset({Op.IN, Op.NOT_IN})
PREFIXES = frozenset({Op.STARTS_WITH, Op.NOT_STARTS_WITH})
_OPPOSITE = {
    Op.IS_NULL: Op.NOT_NULL,
    Op.IS_NAN: Op.NOT_NAN,
    Op.LT: Op.GT_EQ,
    Op.GT: Op.LT_EQ,
    Op.EQ: Op.NOT_EQ,
    Op.STARTS_WITH: Op.NOT_STARTS_WITH,
    Op.IN: Op.NOT_IN,
}
NEGATED: Mapping[Op, Op] = _OPPOSITE | {negative: positive for positive, negative in _OPPOSITE.items()}
FLIPPED: Mapping[Op, Op] = {
    Op.LT: Op.GT,
    Op.GT: Op.LT,
    Op.LT_EQ: Op.GT_EQ,
    Op.GT_EQ: Op.LT_EQ,
    Op.EQ: Op.EQ,
    Op.NOT_EQ: Op.NOT_EQ,
}
"""The same comparison with its sides exchanged."""


@dataclass(frozen=True, slots=True)
class Always:
    """True or false for every row."""

    value: bool


@dataclass(frozen=True, slots=True)
class And:
    """Both sides hold."""

    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Or:
    """At least one side holds."""

    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A column by name or by id, optionally transformed."""

    name: str | None = None
    field_id: int | None = None
    transform: str | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Predicate:
    """A condition on one term; `literals` are as the client wrote them. It equals only itself, so it can be a key."""

    op: Op
    term: Term
    literals: tuple[Any, ...] = ()
    field: Field | None = None
    """The column of the term, once it is bound."""


Expression = Always | And | Or | Predicate
TRUE = Always(True)
FALSE = Always(False)

MAX_PREDICATES = 1_000
MAX_LITERALS = 10_000
MAX_DEPTH = 250
"""Limits, because the server evaluates each predicate for each file of a table, and converts each literal once for
every partition spec.
"""
_SMALLER = "ask for a range instead of single values, or let the client plan the scan"


def join_and(left: Expression, right: Expression) -> Expression:
    """And, simplified."""
    if FALSE in (left, right):
        return FALSE
    if left == TRUE:
        return right
    return left if right == TRUE else And(left, right)


def join_or(left: Expression, right: Expression) -> Expression:
    """Or, simplified."""
    if TRUE in (left, right):
        return TRUE
    if left == FALSE:
        return right
    return left if right == FALSE else Or(left, right)


def map_predicates(expression: Expression, change: Callable[[Predicate], Expression]) -> Expression:
    """The expression with each predicate replaced, simplified."""
    if isinstance(expression, Predicate):
        return change(expression)
    if isinstance(expression, Always):
        return expression
    join = join_and if isinstance(expression, And) else join_or
    return join(map_predicates(expression.left, change), map_predicates(expression.right, change))


def holds(expression: Expression, judge: Callable[[Predicate], bool]) -> bool:
    """The value of the expression if `judge` gives the value of each predicate. It evaluates no more predicates than
    necessary.
    """
    if isinstance(expression, Predicate):
        return judge(expression)
    if isinstance(expression, Always):
        return expression.value
    left = holds(expression.left, judge)
    if left is isinstance(expression, Or):
        return left
    return holds(expression.right, judge)


def list_predicates(expression: Expression) -> Iterator[Predicate]:
    """All predicates, from left to right."""
    if isinstance(expression, Predicate):
        yield expression
    elif not isinstance(expression, Always):
        yield from list_predicates(expression.left)
        yield from list_predicates(expression.right)


def parse_expression(value: object) -> Expression:
    """The specification's JSON as a tree without NOT; Invalid if it does not parse or is too large."""
    expression = _parse_node(value, negated=False, depth=0)
    predicates = list(list_predicates(expression))
    literals = sum(len(predicate.literals) for predicate in predicates)
    if len(predicates) > MAX_PREDICATES or literals > MAX_LITERALS:
        raise Invalid(
            f"the filter has {len(predicates):,} predicates with {literals:,} values; the server takes "
            f"{MAX_PREDICATES:,} predicates with {MAX_LITERALS:,} values",
            hint=_SMALLER,
        )
    return expression


def _parse_node(value: object, *, negated: bool, depth: int) -> Expression:
    if depth > MAX_DEPTH:
        raise Invalid(f"the filter is nested more than {MAX_DEPTH} levels deep", hint=_SMALLER)
    if isinstance(value, bool):
        return Always(value is not negated)
    if not isinstance(value, dict):
        raise Invalid(f"invalid filter: an expression must be an object, true or false, not {_shorten_value(value)}")
    kind = text(value, "type", "filter").lower().replace("_", "-")
    match kind:
        case "true" | "false":
            return Always((kind == "true") is not negated)
        case "literal":
            return Always(flag(value, "value", "filter") is not negated)
        case "not":
            return _parse_node(_read_part(value, "child"), negated=not negated, depth=depth + 1)
        case "and" | "or":
            left = _parse_node(_read_part(value, "left"), negated=negated, depth=depth + 1)
            right = _parse_node(_read_part(value, "right"), negated=negated, depth=depth + 1)
            return join_and(left, right) if (kind == "and") is not negated else join_or(left, right)
    try:
        op = Op(kind)
    except ValueError as error:
        raise Invalid(f"invalid filter: there is no expression of type {value['type']!r}") from error
    predicate = _parse_predicate(op, value)
    if not negated:
        return predicate
    return Predicate(op=NEGATED[predicate.op], term=predicate.term, literals=predicate.literals)


def _parse_predicate(op: Op, value: Json) -> Predicate:
    if op in UNARY:
        _refuse_keys(value, op, "value", "values")
        return Predicate(op=op, term=_parse_term(_read_operand(value, "child")))
    if op in SETS:
        _refuse_keys(value, op, "value")
        return Predicate(
            op=op,
            term=_parse_term(_read_operand(value, "child")),
            literals=_parse_literals(_read_part(value, "values")),
        )
    _refuse_keys(value, op, "values")
    if "term" in value:
        return Predicate(op=op, term=_parse_term(value["term"]), literals=(_parse_literal(_read_part(value, "value")),))
    left, right = _read_part(value, "left"), _read_part(value, "right")
    if _is_term(left):
        return Predicate(op=op, term=_parse_term(left), literals=(_parse_literal(right),))
    if op not in FLIPPED:
        raise Invalid(f"invalid filter: the left side of {op} must be a column")
    return Predicate(op=FLIPPED[op], term=_parse_term(right), literals=(_parse_literal(left),))


def _refuse_keys(value: Json, op: Op, *keys: str) -> None:
    for key in keys:
        if key in value:
            raise Invalid(f"invalid filter: {op} has no {key!r}")


def _read_part(value: Json, key: str) -> object:
    if key not in value:
        raise Invalid(f"invalid filter: {value.get('type')} without {key!r}")
    return value[key]


def _read_operand(value: Json, key: str) -> object:
    return value["term"] if "term" in value else _read_part(value, key)


def _is_term(value: object) -> bool:
    return isinstance(value, dict) and value.get("type") in ("reference", "transform", "apply")


def _parse_term(value: object) -> Term:
    if isinstance(value, str):
        return Term(name=value)
    if not isinstance(value, dict):
        raise Invalid(f"invalid filter: a term must be a name or an object, not {_shorten_value(value)}")
    match value.get("type"):
        case "reference" if isinstance(value.get("id"), int):
            return Term(field_id=value["id"])
        case "reference":
            return Term(name=text(value, "name" if "name" in value else "term", "reference of the filter"))
        case "transform":
            inner = _parse_term(_read_part(value, "term"))
            if inner.transform is not None:
                raise Invalid("invalid filter: a transform of a transform")
            return Term(name=inner.name, field_id=inner.field_id, transform=text(value, "transform", "filter's term"))
    raise Invalid(
        f"invalid filter: a term of type {_shorten_value(value.get('type'))} is not supported",
        hint="compare a column or one of the transforms of partitioning",
    )


def _parse_literals(value: object) -> tuple[Any, ...]:
    if isinstance(value, dict) and value.get("type") == "literals":
        value = value.get("values")
    if not isinstance(value, list):
        raise Invalid(f"invalid filter: values must be a list, not {_shorten_value(value)}")
    if len(value) > MAX_LITERALS:
        raise Invalid(f"the filter has {len(value):,} values, more than the {MAX_LITERALS:,} allowed", hint=_SMALLER)
    return tuple(_parse_literal(item) for item in value)


def _parse_literal(value: object) -> bool | int | float | str:
    if isinstance(value, dict) and str(value.get("type")).lower() == "literal":
        value = value.get("value")
    if isinstance(value, bool | int | float | str):
        return value
    raise Invalid(f"invalid filter: {_shorten_value(value)} is no literal")


def _shorten_value(value: object) -> str:
    return shorten(repr(value), 80)


def bind_expression(expression: Expression, fields: SchemaIndex, *, case_sensitive: bool) -> Expression:
    """The expression with every term's column; Invalid if a column is missing, ambiguous or unfit."""

    def bind(predicate: Predicate) -> Expression:
        field = _find_column(predicate.term, fields, case_sensitive=case_sensitive)
        _check_fit(predicate, field)
        return Predicate(op=predicate.op, term=predicate.term, literals=predicate.literals, field=field)

    return map_predicates(expression, bind)


def _find_column(term: Term, fields: SchemaIndex, *, case_sensitive: bool) -> Field:
    if term.name is None:
        fields_found = [] if term.field_id is None else [fields.by_id.get(term.field_id)]
    else:
        fields_found = [find_field(fields, term.name, case_sensitive=case_sensitive)]
    if not fields_found or fields_found[0] is None:
        raise Invalid(f"Cannot find field {term.name or term.field_id!r} of the filter in the table's schema")
    return fields_found[0]


def find_field(fields: SchemaIndex, name: str, *, case_sensitive: bool) -> Field | None:
    """The column of this name, or None; Invalid if several columns differ only in case."""
    if case_sensitive:
        return fields.by_name.get(name)
    matches = {field.id: field for full, field in fields.by_name.items() if full.lower() == name.lower()}
    if len(matches) > 1:
        raise Invalid(f"{name!r} may mean {' or '.join(sorted(field.name for field in matches.values()))}")
    return next(iter(matches.values()), None)


def _check_fit(predicate: Predicate, field: Field) -> None:
    if any(parent.root in ("list", "map") for parent in field.parents()):
        raise Invalid(f"{field.name} is inside a list or a map: a filter cannot use it")
    if not field.is_primitive and predicate.op not in (Op.IS_NULL, Op.NOT_NULL):
        raise Invalid(f"{field.name} is a {field.root}: {predicate.op} does not apply to it")
    if predicate.op in (Op.IS_NAN, Op.NOT_NAN) and field.root not in ("float", "double"):
        raise Invalid(f"{field.name} is a {field.root}: it cannot be NaN")
    if predicate.op in PREFIXES and field.root != "string":
        raise Invalid(f"{field.name} is a {field.root}: it has no prefixes")


def measure_expression(expression: Expression) -> int:
    """The approximate length of its JSON."""
    return sum(
        64 + sum(len(literal) if isinstance(literal, str) else 16 for literal in predicate.literals)
        for predicate in list_predicates(expression)
    )


def to_json(expression: Expression) -> bool | Json:
    """The specification's JSON, in the form that all clients read."""
    if isinstance(expression, Always):
        return expression.value
    if not isinstance(expression, Predicate):
        kind = "and" if isinstance(expression, And) else "or"
        return {"type": kind, "left": to_json(expression.left), "right": to_json(expression.right)}
    written: Json = {"type": str(expression.op), "term": _term_json(expression)}
    if expression.op in SETS:
        written["values"] = list(expression.literals)
    elif expression.literals:
        written["value"] = expression.literals[0]
    return written


def _term_json(predicate: Predicate) -> str | Json:
    name = predicate.field.name if predicate.field else predicate.term.name
    if predicate.term.transform is None:
        return str(name)
    return {"type": "transform", "transform": predicate.term.transform, "term": name}
