"""Rows of JSON as Hive's serializers have them: an object a line, columns found by name in any case of letters.

Those serializers differ in what they make of a value that does not fit its column: one stops, another makes it null.
Here it stops, so that no value is lost on its way into the new table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

ROWS_PER_BATCH = 5_000
Convert = Callable[[Any], Any]
_BITS = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?")
_ROUNDED = Context(prec=76)


class Unfit(ValueError):
    """A value that is none of its column's type."""


class _Number(str):
    """A number as it is spelled."""

    __slots__ = ()


class _Object(list[tuple[str, Any]]):
    """The members of an object, in their order."""


def parse_lines(lines: DataFrame, line: str, number: str, columns: Sequence[StructField]) -> DataFrame:
    """The rows in these lines, with the number that came with each. A line that cannot be read fails whoever asks."""
    schema = StructType([*columns, StructField(number, IntegerType())])
    arrow, read = to_arrow_schema(schema), row_reader(columns)

    def parsed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            texts, numbers = batch.column(0).to_pylist(), batch.column(1).to_pylist()
            for at in range(0, len(texts), ROWS_PER_BATCH):
                some = zip(texts[at : at + ROWS_PER_BATCH], numbers[at : at + ROWS_PER_BATCH], strict=True)
                yield pa.RecordBatch.from_pylist(
                    [read(text) | {number: line_number} for text, line_number in some], schema=arrow
                )

    return lines.select(line, number).mapInArrow(parsed, schema)


def row_reader(columns: Sequence[StructField]) -> Callable[[str | None], dict[str, Any]]:
    """Build the function that converts a line to a row. Raises Unfit with the column's name if it cannot."""
    parts = [(field.name, field.name.lower(), converter(field.dataType)) for field in columns]

    def read(text: str | None) -> dict[str, Any]:
        try:
            value = json.loads(text or "", object_pairs_hook=_Object, parse_int=_Number, parse_float=_Number)
        except ValueError as error:
            raise Unfit(f"a line is no JSON: {error}") from error
        members = _members(value)
        row = {}
        for name, lower, convert in parts:
            try:
                row[name] = convert(members.get(lower))
            except Unfit as error:
                raise Unfit(f"column {name!r}: {error}") from error
        return row

    return read


def converter(kind: DataType) -> Convert:
    """Build the function that converts JSON to a value of this type."""
    convert = _converter(kind)
    return lambda value: None if value is None else convert(value)


def _converter(kind: DataType) -> Convert:
    match kind:
        case StructType():
            parts = [(field.name, field.name.lower(), converter(field.dataType)) for field in kind.fields]
            return lambda value: _struct(_members(value), parts)
        case ArrayType():
            element = converter(kind.elementType)
            return lambda value: [element(element_value) for element_value in _to_list(value)]
        case MapType():
            of_key, of_value = converter(kind.keyType), converter(kind.valueType)
            return lambda value: [(of_key(key), of_value(item)) for key, item in dict(_object(value)).items()]
        case DecimalType():
            return lambda value: _decimal(value, kind.precision, kind.scale)
        case ByteType() | ShortType() | IntegerType() | LongType():
            bits = _BITS[type(kind)]
            return lambda value: _integer(value, bits)
        case _:
            return _SIMPLE[type(kind)]


def _struct(members: dict[str, Any], parts: Sequence[tuple[str, str, Convert]]) -> dict[str, Any]:
    return {name: convert(members.get(lower)) for name, lower, convert in parts}


def _members(value: Any) -> dict[str, Any]:
    """By name in lower case; of several the last counts."""
    return {name.lower(): member for name, member in _object(value)}


def _object(value: Any) -> _Object:
    if not isinstance(value, _Object):
        raise Unfit(f"{_quote(value)} is no object")
    return value


def _to_list(value: Any) -> list[Any]:
    if isinstance(value, _Object) or not isinstance(value, list):
        raise Unfit(f"{_quote(value)} is no array")
    return value


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return str(value)
    raise Unfit(f"{_quote(value)} is no text")


def _boolean(value: Any) -> bool:
    text = _text(value).lower()
    if text not in ("true", "false"):
        raise Unfit(f"{_quote(value)} is neither true nor false")
    return text == "true"


def _exact(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, str):
        raise Unfit(f"{_quote(value)} is no number")
    try:
        number = Decimal(value.strip())
    except InvalidOperation as error:
        raise Unfit(f"{_quote(value)} is no number") from error
    if not number.is_finite():
        raise Unfit(f"{_quote(value)} is no number")
    return number


def _integer(value: Any, bits: int) -> int:
    if isinstance(value, bool) or not isinstance(value, str) or not _INTEGER.fullmatch(value.strip()):
        raise Unfit(f"{_quote(value)} is no integer")
    number = int(value)
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise Unfit(f"{_quote(value)} has more than {bits} bits")
    return number


def _floating(value: Any) -> float:
    if isinstance(value, float):  # NaN and the infinities, which are no JSON but are written
        return value
    if isinstance(value, str) and value.strip().lower() in ("nan", "infinity", "-infinity"):
        return float(value)
    return float(_exact(value))


def _decimal(value: Any, precision: int, scale: int) -> Decimal:
    """Rounded to the column's scale, as Hive does it; digits before the point have to fit."""
    rounded = _exact(value).quantize(Decimal(1).scaleb(-scale), rounding=ROUND_HALF_UP, context=_ROUNDED)
    if rounded.adjusted() + 1 > precision - scale and rounded:
        raise Unfit(f"{_quote(value)} does not fit a decimal({precision},{scale})")
    return rounded


def _day(value: Any) -> date:
    if not _DAY.fullmatch(text := _text(value)):
        raise Unfit(f"{_quote(value)} is no date such as 2026-11-21")
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise Unfit(f"{_quote(value)}: {error}") from error


def _moment(value: Any) -> datetime:
    """A wall-clock time; what is finer than a microsecond is cut."""
    if not _MOMENT.fullmatch(text := _text(value)):
        raise Unfit(f"{_quote(value)} is no timestamp such as 2026-11-21 10:00:00.5")
    seconds, _, fraction = text.partition(".")
    try:
        return datetime.fromisoformat(f"{seconds}.{fraction[:6]:0<6}")
    except ValueError as error:
        raise Unfit(f"{_quote(value)}: {error}") from error


def _quote(value: Any) -> str:
    """Enough to find it by; a file's whole content is not for a log."""
    text = "an object" if isinstance(value, _Object) else "an array" if isinstance(value, list) else repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"


_SIMPLE: dict[type[DataType], Convert] = {
    StringType: _text,
    BooleanType: _boolean,
    FloatType: _floating,
    DoubleType: _floating,
    DateType: _day,
    TimestampType: _moment,
    TimestampNTZType: _moment,
}
