"""Parses filters, and gives them the meaning of SQL's WHERE."""

from __future__ import annotations

import re
from decimal import Context, Decimal

import pyarrow as pa
from pyiceberg.exceptions import ValidationError
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    LiteralPredicate,
    NotNull,
    Or,
    Reference,
    SetPredicate,
)
from pyiceberg.expressions.literals import DecimalLiteral
from pyiceberg.expressions.parser import parse
from pyiceberg.expressions.visitors import bind, extract_field_ids, rewrite_not
from pyiceberg.io.pyarrow import expression_to_pyarrow, schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType
from pyparsing import ParseException

from firn.errors import Invalid

_HOW = "write it like SQL's WHERE: day = '2026-11-21' and amount > 10 and not (city in ('a', 'b') or note is null)"

_WILDCARD = re.compile(r"\blike\s+'[^']*_", re.IGNORECASE)
_WIDEST_DECIMAL = 76


def parse_filter(text: str | None, schema: Schema) -> BooleanExpression:
    """Parse a filter and check it against the schema; raise Invalid if it does not fit."""
    if text is None:
        return AlwaysTrue()
    if _WILDCARD.search(text):
        # PyIceberg would read it as a plain character and find other rows than SQL does.
        raise Invalid(f"the filter {text!r} has _ in LIKE: only % at the end of a pattern is supported", hint=_HOW)
    try:
        expression = _as_sql(rewrite_not(parse(text)), schema)
    except ParseException as error:
        raise Invalid(f"the filter {text!r} does not parse at character {error.loc + 1}", hint=_HOW) from error
    except ValueError as error:
        raise Invalid(f"the filter {text!r} is not supported: {error}", hint=_HOW) from error
    try:
        apply_filter(schema_to_pyarrow(schema, include_field_ids=False).empty_table(), expression, schema)
    except pa.ArrowNotImplementedError as error:
        raise Invalid(f"the filter {text!r} compares types that Arrow cannot compare: {error}") from error
    except (ValueError, TypeError, ValidationError) as error:
        columns = ", ".join(field.name for field in schema.fields)
        raise Invalid(
            f"the filter {text!r} does not fit the table: {error}", hint=f"the columns are {columns}"
        ) from error
    return expression


def list_filter_columns(expression: BooleanExpression, schema: Schema) -> set[str]:
    """List the top-level columns that the filter uses."""
    names = (schema.find_column_name(field_id) or "" for field_id in _ids(expression, schema))
    return {name.partition(".")[0] for name in names}


def apply_filter(rows: pa.Table, expression: BooleanExpression, schema: Schema) -> pa.Table:
    """The rows that the filter keeps."""
    if isinstance(expression, AlwaysTrue):
        return rows
    return rows.filter(expression_to_pyarrow(bind(schema, expression, case_sensitive=True), schema))


def _as_sql(expression: BooleanExpression, schema: Schema) -> BooleanExpression:
    """Add SQL's rule that no comparison with null is true.

    To Arrow, null is not in (1, 2). To Iceberg, a value outside of the column's range differs from all rows.
    """
    match expression:
        case And():
            return And(_as_sql(expression.left, schema), _as_sql(expression.right, schema))
        case Or():
            return Or(_as_sql(expression.left, schema), _as_sql(expression.right, schema))
        case LiteralPredicate():
            return And(_rescaled(expression, schema), NotNull(term=expression.term))
        case SetPredicate():
            return And(expression, NotNull(term=expression.term))
        case _:
            return expression


def _rescaled(predicate: LiteralPredicate, schema: Schema) -> LiteralPredicate:
    """Rescale the literal of `amount = 1.5` over decimal(10,2): Iceberg compares only numbers of the column's scale."""
    term, literal = predicate.term, predicate.literal
    if not isinstance(term, Reference) or not isinstance(literal, DecimalLiteral):
        return predicate
    kind = next((field.field_type for field in schema.fields if field.name == term.name), None)
    if not isinstance(kind, DecimalType):
        return predicate
    step = Decimal(1).scaleb(-kind.scale)
    same = literal.value.quantize(step, context=Context(prec=_WIDEST_DECIMAL))
    return type(predicate)(term, same) if same == literal.value else predicate


def _ids(expression: BooleanExpression, schema: Schema) -> set[int]:
    return extract_field_ids(bind(schema, expression, case_sensitive=True))
