"""Rows as the JSON of a log's records, checked against the table's columns before they are sent.

A record that does not fit is found by the drain only, and goes to the quarantine. The producer knows earlier.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")
_FIXED = re.compile(r"fixed\[(\d+)\]")
_BITS = {"int": 32, "long": 64}
_FIRST_YEAR, _LAST_YEAR = 1000, 2999
"""Other years only Spark reads."""


class UnfitValueError(ValueError):
    """The value does not fit its column; the message says why, without the value."""


def encode_object(values: Iterable[tuple[str, str, Any]]) -> str:
    """A JSON object from (column, type, value), in this order and without spaces: equal rows have equal texts."""
    parts = []
    for name, kind, value in values:
        try:
            parts.append(f"{json.dumps(name)}:{encode_value(kind, value)}")
        except UnfitValueError as error:
            raise UnfitValueError(f"the value of column {name} {error}") from None
    return f"{{{','.join(parts)}}}"


def encode_value(kind: str, value: Any) -> str:
    """The JSON text of a value of a column of this type; UnfitValueError if it does not fit."""
    if value is None:
        return "null"
    check = _CHECKS.get(kind) or _find_check(kind)
    if check is not None and not check(value):
        raise UnfitValueError(f"is no {kind}, or is out of its range")
    return _write(value, 0)


def _find_check(kind: str) -> Callable[[Any], bool] | None:
    if (match := _DECIMAL.fullmatch(kind)) is not None:
        precision, scale = int(match[1]), int(match[2])
        return lambda value: _is_decimal(value, precision, scale)
    if (match := _FIXED.fullmatch(kind)) is not None:
        length = int(match[1])
        return lambda value: isinstance(value, bytes) and len(value) == length
    if kind.startswith(("array<", "map<", "struct<", "list<")):
        return None
    raise UnfitValueError(f"has the type {kind}, of which Firn writes no records")


def _is_integer(bits: int) -> Callable[[Any], bool]:
    def check(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)

    return check


def _is_float(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_decimal(value: Any, precision: int, scale: int) -> bool:
    """Whether no digit would be lost: drains round."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return False
    number = Decimal(value)
    if not number.is_finite():
        return False
    _, digits, exponent = number.as_tuple()
    places = max(0, -int(exponent))
    whole = len(digits) + int(exponent) if any(digits) else 0
    return places <= scale and whole <= precision - scale


def _is_date(value: Any) -> bool:
    return isinstance(value, date) and not isinstance(value, datetime) and _FIRST_YEAR <= value.year <= _LAST_YEAR


def _is_moment(*, has_zone: bool) -> Callable[[Any], bool]:
    def check(value: Any) -> bool:
        is_near = isinstance(value, datetime) and _FIRST_YEAR < value.year < _LAST_YEAR
        return is_near and (value.tzinfo is not None) is has_zone

    return check


_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    "boolean": lambda value: isinstance(value, bool),
    "int": _is_integer(_BITS["int"]),
    "long": _is_integer(_BITS["long"]),
    "float": _is_float,
    "double": _is_float,
    "string": lambda value: isinstance(value, str),
    "date": _is_date,
    "timestamp": _is_moment(has_zone=False),
    "timestamptz": _is_moment(has_zone=True),
    "binary": lambda value: isinstance(value, bytes),
    "uuid": lambda value: isinstance(value, UUID),
}
_DEEPEST = 32


def _write(value: Any, depth: int) -> str:
    """The JSON text of a value, as drains read it: all digits of decimals, times in ISO 8601, bytes in base64."""
    if value is None:
        return "null"
    if depth > _DEEPEST:
        raise UnfitValueError("is too deep")
    if isinstance(value, Mapping):
        return _write_mapping(value, depth)
    if isinstance(value, list | tuple):
        return f"[{','.join(_write(item, depth + 1) for item in value)}]"
    for kinds, write in _WRITERS:
        if isinstance(value, kinds):
            return write(value)
    raise UnfitValueError(f"has the type {type(value).__name__}, of which Firn writes no records")


def _write_number(value: float | Decimal) -> str:
    if not math.isfinite(value):
        raise UnfitValueError("is no number of JSON")
    return format(value, "f") if isinstance(value, Decimal) else json.dumps(value)


def _write_moment(value: datetime) -> str:
    return json.dumps((value if value.tzinfo is None else value.astimezone(UTC)).isoformat())


def _write_mapping(value: Mapping[Any, Any], depth: int) -> str:
    if not all(isinstance(key, str) for key in value):
        raise UnfitValueError("has a key that is no text")
    return f"{{{','.join(f'{_write_text(key)}:{_write(item, depth + 1)}' for key, item in value.items())}}}"


def _write_text(text: str) -> str:
    """JSON with the characters themselves, as other producers write it; lone surrogates are no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UnfitValueError("has half of a character") from None
    return json.dumps(text, ensure_ascii=False)


_WRITERS: Sequence[tuple[tuple[type, ...], Callable[[Any], str]]] = (
    ((str,), _write_text),
    ((bool, int), json.dumps),
    ((float, Decimal), _write_number),
    ((datetime,), _write_moment),
    ((date, UUID), lambda value: json.dumps(str(value))),
    ((bytes,), lambda value: json.dumps(base64.b64encode(value).decode())),
)
