"""Values of Debezium by the schema part of a record: Kafka Connect's types, and the names that Debezium gives them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

from firn.protocol.cdc.geometry import write_wkt
from firn.protocol.cdc.json_text import write_json
from firn.protocol.cdc.values import Unfit

Field = Mapping[str, Any]
"""One field of a schema part: `type`, and perhaps `name` and `parameters`."""
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 -- a time without zone
_EPOCH_DAY = date(1970, 1, 1)
_LARGEST_PRECISION = 38
_LONGEST_BITS = 63
_EXACT = Context(prec=4000)
_SECOND, _MINUTE, _HOUR = 1_000_000, 60_000_000, 3_600_000_000
_UNSIGNED_LONG = "BIGINT UNSIGNED"
_PLAIN_TYPES = {
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float": "float",
    "float32": "float",
    "double": "double",
    "float64": "double",
    "boolean": "boolean",
    "string": "string",
    "bytes": "binary",
}


@dataclass(frozen=True, slots=True)
class _Logical:
    """A type with a name: the column's type, and how its values are read."""

    choose_type: Callable[[Field], str]
    read: Callable[[Any, Field], Any]


def choose_column_type(field: Field) -> str:
    """The column type for a field. Types that have no column of their own become text."""
    logical = _LOGICAL.get(field.get("name") or "")
    if logical is not None:
        return logical.choose_type(field)
    if field.get("type") == "int64" and _is_unsigned_long(field):
        return "decimal(20,0)"
    return _PLAIN_TYPES.get(field.get("type") or "", "string")


def read_value(value: Any, field: Field) -> Any:
    """The value as Python's type, such as a date for a number of days. Unfit if it contradicts its schema."""
    if value is None:
        return None
    logical = _LOGICAL.get(field.get("name") or "")
    try:
        if logical is not None:
            return logical.read(value, field)
        return _read_plain(value, field)
    except (ArithmeticError, ValueError, TypeError, KeyError, RecursionError):
        raise Unfit from None


def _read_plain(value: Any, field: Field) -> Any:
    type_ = field.get("type")
    if type_ == "bytes":
        return _read_bytes(value)
    if type_ == "int64" and _is_unsigned_long(field) and isinstance(value, int) and value < 0:
        return value + 2**64  # bigint.unsigned.handling.mode=long
    return value


def _is_unsigned_long(field: Field) -> bool:
    parameters = field.get("parameters")
    source_type = parameters.get("__debezium.source.column.type") if isinstance(parameters, dict) else None
    return isinstance(source_type, str) and source_type.upper().startswith(_UNSIGNED_LONG)


def _require_int(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise Unfit
    return value


def _read_bytes(value: Any) -> bytes:
    if not isinstance(value, str):
        raise Unfit
    return base64.b64decode(value, validate=True)


def _read_days(value: Any, _field: Field) -> date:
    return _EPOCH_DAY + timedelta(days=_require_int(value))


def _read_moment(per_second: int) -> Callable[[Any, Field], datetime]:
    def read(value: Any, _field: Field) -> datetime:
        return _EPOCH + timedelta(microseconds=_to_micros(value, per_second))

    return read


def _read_clock(per_second: int) -> Callable[[Any, Field], str]:
    """A time of day as text: MySQL's may be negative, and longer than a day."""

    def read(value: Any, _field: Field) -> str:
        micros = _to_micros(value, per_second)
        left = abs(micros)
        hours, minutes, seconds = left // _HOUR, left % _HOUR // _MINUTE, left % _MINUTE // _SECOND
        fraction = f".{left % _SECOND:06}" if left % _SECOND else ""
        return f"{'-' if micros < 0 else ''}{hours:02}:{minutes:02}:{seconds:02}{fraction}"

    return read


def _to_micros(value: Any, per_second: int) -> int:
    number = _require_int(value)
    return number // (per_second // _SECOND) if per_second > _SECOND else number * (_SECOND // per_second)


def _choose_decimal(field: Field) -> str:
    parameters = field.get("parameters")
    named = parameters if isinstance(parameters, dict) else {}
    precision, scale = _read_count(named.get("connect.decimal.precision", "38")), _read_count(named.get("scale"))
    if precision is None or scale is None or not 0 <= scale <= precision or not 0 < precision <= _LARGEST_PRECISION:
        return "string"  # such as PostgreSQL's numeric(100, 20): the text has all digits
    return f"decimal({precision},{scale})"


def _read_count(value: Any) -> int | None:
    text = str(value)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 5 else None


def _read_decimal(value: Any, field: Field) -> Decimal:
    parameters = field.get("parameters")
    scale = _read_count(parameters.get("scale")) if isinstance(parameters, dict) else None
    if scale is None:
        raise Unfit
    return _scale(_read_bytes(value), scale)


def _read_variable_decimal(value: Any, _field: Field) -> str:
    scale = _require_int(value["scale"])
    if not -1000 <= scale <= 20_000:
        raise Unfit
    return format(_scale(_read_bytes(value["value"]), scale), "f")


def _scale(unscaled: bytes, scale: int) -> Decimal:
    if len(unscaled) > 1000:
        raise Unfit
    number = int.from_bytes(unscaled, "big", signed=True)
    return Decimal(number).scaleb(-scale, context=_EXACT)


def _count_bits(field: Field) -> int | None:
    parameters = field.get("parameters")
    return _read_count(parameters.get("length")) if isinstance(parameters, dict) else None


def _choose_bits(field: Field) -> str:
    length = _count_bits(field)
    return "long" if length is not None and length <= _LONGEST_BITS else "string"


def _read_bits(value: Any, field: Field) -> int | str:
    """Bits are bytes with the lowest one first. Up to 63 become a number, more become text of 0 and 1."""
    data = _read_bytes(value)
    number = int.from_bytes(data, "little")
    if _choose_bits(field) == "long":
        return number
    return f"{number:0{_count_bits(field) or 8 * len(data)}b}"


def _read_geometry(value: Any, _field: Field) -> str:
    return write_wkt(_read_bytes(value["wkb"]), value.get("srid"))


def _always(type_: str) -> Callable[[Field], str]:
    return lambda _field: type_


def _as_is(value: Any, _field: Field) -> Any:
    return value


def _as_json(value: Any, _field: Field) -> str:
    return value if isinstance(value, str) else write_json(value)


_MILLIS, _MICROS, _NANOS = 1_000, 1_000_000, 1_000_000_000
_DAY = _Logical(_always("date"), _read_days)
_TEXT = _Logical(_always("string"), _as_json)
_GEOMETRY = _Logical(_always("string"), _read_geometry)


def _time(per_second: int) -> _Logical:
    return _Logical(_always("string"), _read_clock(per_second))


def _moment(per_second: int) -> _Logical:
    return _Logical(_always("timestamp"), _read_moment(per_second))


_LOGICAL: Mapping[str, _Logical] = {
    "io.debezium.time.Date": _DAY,
    "org.apache.kafka.connect.data.Date": _DAY,
    "io.debezium.time.Time": _time(_MILLIS),
    "io.debezium.time.MicroTime": _time(_MICROS),
    "io.debezium.time.NanoTime": _time(_NANOS),
    "org.apache.kafka.connect.data.Time": _time(_MILLIS),
    "io.debezium.time.Timestamp": _moment(_MILLIS),
    "io.debezium.time.MicroTimestamp": _moment(_MICROS),
    "io.debezium.time.NanoTimestamp": _moment(_NANOS),
    "org.apache.kafka.connect.data.Timestamp": _moment(_MILLIS),
    "io.debezium.time.ZonedTimestamp": _Logical(_always("timestamptz"), _as_is),
    "io.debezium.time.ZonedTime": _TEXT,
    "io.debezium.time.Year": _Logical(_always("int"), _as_is),
    "io.debezium.time.Interval": _TEXT,
    "io.debezium.time.MicroDuration": _Logical(_always("long"), _as_is),
    "io.debezium.time.NanoDuration": _Logical(_always("long"), _as_is),
    "org.apache.kafka.connect.data.Decimal": _Logical(_choose_decimal, _read_decimal),
    "io.debezium.data.VariableScaleDecimal": _Logical(_always("string"), _read_variable_decimal),
    "io.debezium.data.Bits": _Logical(_choose_bits, _read_bits),
    "io.debezium.data.geometry.Geometry": _GEOMETRY,
    "io.debezium.data.geometry.Geography": _GEOMETRY,
    "io.debezium.data.geometry.Point": _GEOMETRY,
    "io.debezium.data.Enum": _TEXT,
    "io.debezium.data.EnumSet": _TEXT,
    "io.debezium.data.Json": _TEXT,
    "io.debezium.data.Uuid": _TEXT,
    "io.debezium.data.Xml": _TEXT,
    "io.debezium.data.Ltree": _TEXT,
    "io.debezium.data.TsVector": _TEXT,
}
