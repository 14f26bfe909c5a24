"""Filters as people type them, and which part of one may be applied before the merge.

A condition on key columns alone is true for all versions of a row or for none, so it may go first.  Any other must
wait: the newest version decides, and it may be one that the filter leaves out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyiceberg.exceptions import ValidationError
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, NotIn, NotNull, Or
from pyiceberg.expressions.parser import parse
from pyiceberg.expressions.visitors import bind, extract_field_ids, rewrite_not
from pyiceberg.io.pyarrow import expression_to_pyarrow
from pyiceberg.schema import Schema
from pyparsing import ParseException

from firn.errors import Invalid

_HOW = "write it like SQL's WHERE: day = '2026-11-21' and amount > 10 and not (city in ('a', 'b') or note is null)"


def parsed(text: str | None, schema: Schema) -> BooleanExpression:
    """The filter, checked against the schema; Invalid says what in it does not fit."""
    if text is None:
        return AlwaysTrue()
    try:
        expression = _as_sql(rewrite_not(parse(text)))
    except ParseException as error:
        raise Invalid(f"the filter {text!r} does not parse at character {error.loc + 1}", hint=_HOW) from error
    try:
        bind(schema, expression, case_sensitive=True)
    except (ValueError, TypeError, ValidationError) as error:
        columns = ", ".join(field.name for field in schema.fields)
        raise Invalid(
            f"the filter {text!r} does not fit the table: {error}", hint=f"the columns are {columns}"
        ) from error
    return expression


def on_columns(expression: BooleanExpression, schema: Schema, columns: Sequence[str]) -> BooleanExpression:
    """The part of the filter that can be judged by these columns alone: it leaves out no row that the whole keeps."""
    allowed = {schema.find_field(column).field_id for column in columns}
    safe: BooleanExpression = AlwaysTrue()
    for part in _conjuncts(expression):
        if _ids(part, schema) <= allowed:
            safe = And(safe, part)
    return safe


def columns_of(expression: BooleanExpression, schema: Schema) -> set[str]:
    """The top-level columns that the filter looks at."""
    names = (schema.find_column_name(field_id) or "" for field_id in _ids(expression, schema))
    return {name.partition(".")[0] for name in names}


def filtered(rows: pa.Table, expression: BooleanExpression, schema: Schema) -> pa.Table:
    """The rows that the filter keeps."""
    if isinstance(expression, AlwaysTrue):
        return rows
    return rows.filter(expression_to_pyarrow(bind(schema, expression, case_sensitive=True), schema))


def _as_sql(expression: BooleanExpression) -> BooleanExpression:
    """`null NOT IN (1, 2)` is not true in SQL, while Arrow says that null is none of them."""
    match expression:
        case And():
            return And(_as_sql(expression.left), _as_sql(expression.right))
        case Or():
            return Or(_as_sql(expression.left), _as_sql(expression.right))
        case NotIn():
            return And(expression, NotNull(term=expression.term))
        case _:
            return expression


def _conjuncts(expression: BooleanExpression) -> Iterator[BooleanExpression]:
    if isinstance(expression, And):
        yield from _conjuncts(expression.left)
        yield from _conjuncts(expression.right)
    else:
        yield expression


def _ids(expression: BooleanExpression, schema: Schema) -> set[int]:
    return extract_field_ids(bind(schema, expression, case_sensitive=True))
