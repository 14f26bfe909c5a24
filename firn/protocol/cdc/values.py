"""A value of a record as a value of a column's type, without loss.

A value that does not fit is an error, never cut off or rounded, except for fractions of a microsecond.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from math import isfinite
from typing import Any

from firn.protocol.cdc.envelope import Encoding
from firn.protocol.cdc.json_text import write_json

_EPOCH_DAY = date(1970, 1, 1)
_DECIMAL_TYPE = re.compile(r"decimal\((\d{1,2}),\s*(\d{1,2})\)")
_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")
_NUMBER = re.compile(r"[+-]?[0-9]{1,400}(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,4})?|[+-]?\.[0-9]{1,400}")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIMESTAMP = re.compile(
    r"(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}(?::\d{2})?)(?:\.(\d{1,9}))?\s?(Z|[+-]\d{2}(?::?\d{2})?)?", re.ASCII
)
_WIDE = Context(prec=100)
_SAFE_DIGITS, _LONGEST_DOUBLE = 15, 17
_MOST_DIGITS = 400
"""Numbers with larger exponents are written as they came: their digits would fill the memory."""
_ZERO_DATE = "0000-00-00"


class Unfit(ValueError):
    """The value does not fit the type."""


def fit_value(value: Any, type_: str, encoding: Encoding) -> Any:
    """The value for a column of an Iceberg type, such as `decimal(9,2)`; Unfit if it has none. Null stays null."""
    if value is None:
        return None
    match = _DECIMAL_TYPE.fullmatch(type_)
    if match:
        return _fit_decimal(value, int(match[1]), int(match[2]))
    fit = _FITS.get(type_)
    if fit is None:
        raise Unfit
    try:
        return fit(value, encoding)
    except (OverflowError, InvalidOperation, UnicodeEncodeError, RecursionError):
        raise Unfit from None


def parse_timestamp(text: str) -> datetime:
    """Parse a time with or without a zone; Unfit for other texts. Fractions of a microsecond are left out."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise Unfit
    day, clock, fraction, zone = match.groups()
    seconds = "" if clock.count(":") == 2 else ":00"
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}{seconds}.{(fraction or '0')[:6]:0<6}{zone or ''}")
        return moment if zone is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise Unfit from None


def _fit_boolean(value: Any, _encoding: Encoding) -> bool:
    known = {True: True, False: False, "1": True, "0": False, "true": True, "false": False}  # True equals 1
    if isinstance(value, (bool, int, str)) and value in known:
        return known[value]
    raise Unfit


def _fit_integer(bits: int) -> Callable[[Any, Encoding], int]:
    limit = 2 ** (bits - 1)

    def fit(value: Any, _encoding: Encoding) -> int:
        number = _read_integer(value)
        if not -limit <= number < limit:
            raise Unfit
        return number

    return fit


def _read_integer(value: Any) -> int:
    if isinstance(value, int):  # true and false are 1 and 0
        return int(value)
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        return int(value)
    if isinstance(value, Decimal) and value.is_finite() and value.adjusted() < _WIDE.prec and value == int(value):
        return int(value)
    raise Unfit


def _fit_float(value: Any, encoding: Encoding) -> float:
    number = _fit_double(value, encoding)
    if isfinite(number):
        struct.pack("<f", number)  # OverflowError beyond its range
    return number


def _fit_double(value: Any, _encoding: Encoding) -> float:
    if isinstance(value, str):
        if value in ("NaN", "Infinity", "-Infinity"):
            return float(value)
        value = _read_number(value)
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise Unfit
    number = float(value)
    if not isinstance(value, float) and (not isfinite(number) or not _keeps_digits(Decimal(value), number)):
        raise Unfit
    return number


def _keeps_digits(value: Decimal, number: float) -> bool:
    """Whether the double, written with as many digits as the value has, is the value."""
    digits = len(value.normalize(_WIDE).as_tuple().digits)
    return digits <= _SAFE_DIGITS or (digits <= _LONGEST_DOUBLE and Decimal(f"{number:.{digits - 1}e}") == value)


def _fit_decimal(value: Any, precision: int, scale: int) -> Decimal:
    if isinstance(value, str):
        value = _read_number(value)
    if isinstance(value, float):
        value = Decimal(repr(value))
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        raise Unfit
    try:
        number = Decimal(value)
        if not number.is_finite() or (number and number.adjusted() >= precision - scale):
            raise Unfit
        fitted = number.quantize(Decimal(1).scaleb(-scale), context=_WIDE)
    except InvalidOperation:
        raise Unfit from None
    if fitted != number:
        raise Unfit
    return fitted


def _read_number(text: str) -> Decimal:
    if _NUMBER.fullmatch(text) is None:
        raise Unfit
    return Decimal(text)


def _fit_date(value: Any, encoding: Encoding) -> date | None:
    if isinstance(value, datetime):
        raise Unfit
    if isinstance(value, date):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and encoding.numbers_are_days:
        return _EPOCH_DAY + timedelta(days=value)
    if not isinstance(value, str) or _DATE.fullmatch(value) is None:
        raise Unfit
    if value == _ZERO_DATE:  # MySQL's date that is none
        return None
    try:
        return date.fromisoformat(value)
    except ValueError:
        raise Unfit from None


def _fit_timestamp(value: Any, _encoding: Encoding) -> datetime | None:
    moment = _read_moment(value)
    if moment is not None and moment.tzinfo is not None:
        raise Unfit
    return moment


def _fit_timestamptz(value: Any, _encoding: Encoding) -> datetime | None:
    moment = _read_moment(value)
    if moment is not None and moment.tzinfo is None:
        raise Unfit
    return moment


def _read_moment(value: Any) -> datetime | None:
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str):
        raise Unfit
    return None if value.startswith(f"{_ZERO_DATE} ") else parse_timestamp(value)


def _fit_binary(value: Any, encoding: Encoding) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise Unfit
    if encoding.bytes == "latin-1":
        return value.encode("latin-1")
    if encoding.bytes == "hex":
        return _parse_hex(value)
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        raise Unfit from None


def _parse_hex(text: str) -> bytes:
    digits = text.removeprefix("0x")
    if digits and not digits.isalnum():  # bytes.fromhex skips spaces
        raise Unfit
    try:
        return bytes.fromhex(digits)
    except ValueError:
        raise Unfit from None


def _fit_string(value: Any, _encoding: Encoding) -> str:
    text = _write_text(value)
    text.encode()  # half of a surrogate pair has no UTF-8
    return text


def _write_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Decimal):
        is_short = value.is_finite() and -_MOST_DIGITS < value.adjusted() < _MOST_DIGITS
        return format(value, "f") if is_short and value.as_tuple().exponent > -_MOST_DIGITS else str(value)  # type: ignore[operator]
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    if isinstance(value, (bool, int, float, list, dict)):
        return write_json(value)
    raise Unfit


_FITS: Mapping[str, Callable[[Any, Encoding], Any]] = {
    "boolean": _fit_boolean,
    "int": _fit_integer(32),
    "long": _fit_integer(64),
    "float": _fit_float,
    "double": _fit_double,
    "date": _fit_date,
    "timestamp": _fit_timestamp,
    "timestamptz": _fit_timestamptz,
    "binary": _fit_binary,
    "string": _fit_string,
}
