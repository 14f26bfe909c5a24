"""Hive's partition names, such as `hour=2024-01-05 10%3A00/city=São Paulo`, their values, and Iceberg's for them.

Hive escapes what a file system or its own name syntax could trip over as `%` and two upper-case hex digits; everything
else, spaces and letters of any alphabet included, stands as it is.  A null is called `__HIVE_DEFAULT_PARTITION__`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from catalog.errors import Invalid
from catalog.hive.model import HiveColumn
from catalog.hive.types import Named, iceberg_type, parse_type

NULL_NAME = "__HIVE_DEFAULT_PARTITION__"

_ESCAPES = {ord(char): f"%{ord(char):02X}" for char in [*map(chr, range(1, 0x20)), *"\"#%'*/:=?\\\x7f{[]^"]}
_CODE = re.compile(r"%([0-9A-Fa-f]{2})")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_EPOCH = date(1970, 1, 1)
_RANGES = {"tinyint": 8, "smallint": 16, "int": 32, "integer": 32, "bigint": 64}
_BOOLEANS = {"true": True, "t": True, "yes": True, "y": True, "1": True} | {
    "false": False, "f": False, "no": False, "n": False, "0": False
}  # fmt: skip
PARTITION_TYPES = frozenset(
    ["boolean", *_RANGES, "date", "string", "char", "varchar", "decimal", "float", "double"]
)  # fmt: skip
"""Types whose partition values mean the same to everybody.  A timestamp's text depends on the reader's time zone."""

PartitionValue = bool | int | float | str | Decimal | None
"""A value of Iceberg's partition record; dates are days since 1970."""


class BadPartitionValue(Invalid):
    """A partition whose name is no value of its column's type; Hive shows a null where Iceberg can say nothing."""


def escape_value(text: str) -> str:
    """A column name or value as Hive writes it into a directory name."""
    return text.translate(_ESCAPES)


def unescape_value(text: str) -> str:
    """What `escape_value` was given.  A `%` without two hex digits after it stands for itself."""
    return _CODE.sub(lambda code: chr(int(code[1], 16)), text)


def format_partition_name(columns: Sequence[HiveColumn], values: Sequence[str]) -> str:
    """The metastore's name of a partition, which is its default path below the table; an empty value is a null."""
    parts = zip(columns, values, strict=True)
    return "/".join(
        f"{escape_value(column.name.lower())}={escape_value(value) or NULL_NAME}" for column, value in parts
    )


def parse_partition_name(columns: Sequence[HiveColumn], name: str) -> tuple[str, ...]:
    """The values in a partition's name, in the order of the columns; Invalid when the name belongs to another table."""
    parts = [part.partition("=") for part in name.split("/")]
    names = [unescape_value(column).lower() for column, _, _ in parts]
    if names != [column.name.lower() for column in columns]:
        expected = "/".join(f"{column.name}=…" for column in columns)
        raise Invalid(f"partition name {name!r} does not look like {expected}")
    return tuple(unescape_value(value) for _, _, value in parts)


def to_partition_record(columns: Sequence[HiveColumn], values: Sequence[str]) -> tuple[PartitionValue, ...]:
    """Iceberg's partition values, in the order of the columns; BadPartitionValue names the one that makes no sense."""
    if len(values) != len(columns):
        raise Invalid(f"{len(values)} partition values {list(values)} for {len(columns)} partition columns")
    return tuple(parse_partition_value(column, value) for column, value in zip(columns, values, strict=True))


def to_partition_records(columns: Sequence[HiveColumn], names: Iterable[str]) -> dict[str, tuple[PartitionValue, ...]]:
    """Iceberg's partition values by a partition's name; a table without partition columns has one, without values."""
    return {
        name: to_partition_record(columns, parse_partition_name(columns, name)) if columns else () for name in names
    }


def format_record_name(columns: Sequence[HiveColumn], record: Sequence[PartitionValue]) -> str:
    """A name for a partition that Hive does not have, out of Iceberg's values."""
    texts = [_text(column, value) for column, value in zip(columns, record, strict=True)]
    return format_partition_name(columns, [NULL_NAME if text is None else text for text in texts])


def can_name(columns: Sequence[HiveColumn], record: Sequence[PartitionValue]) -> bool:
    """Whether Hive can have a partition of these values: an empty text is null to it, and its types may be narrower."""
    if not columns:
        return True
    try:
        parsed = to_partition_record(columns, parse_partition_name(columns, format_record_name(columns, record)))
    except BadPartitionValue:
        return False
    return parsed == tuple(record) and "" not in parsed


def _text(column: HiveColumn, value: PartitionValue) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    kind = parse_type(column.type)
    if isinstance(kind, Named) and kind.name == "date" and isinstance(value, int):
        return (_EPOCH + timedelta(days=value)).isoformat()
    return str(value)


def parse_partition_value(column: HiveColumn, text: str) -> PartitionValue:
    """The value that Iceberg identity-partitions this column by."""
    if text == NULL_NAME:
        return None
    kind = parse_type(column.type)
    if not isinstance(kind, Named) or kind.name not in PARTITION_TYPES:
        raise Invalid(f"partition column {column.name!r} has type {column.type}, which cannot be taken over")
    try:
        return _parsed(kind, text)
    except (ValueError, InvalidOperation, KeyError) as error:
        raise BadPartitionValue(f"partition value {column.name}={text!r} is not a {column.type}") from error


def _parsed(kind: Named, text: str) -> PartitionValue:
    match kind.name:
        case "boolean":
            return _BOOLEANS[text.lower()]
        case "date":
            return (date.fromisoformat(_spelled(_DATE, text)) - _EPOCH).days
        case "float" | "double":
            return float(text)
        case "decimal":
            return _decimal(kind, text)
        case name if name in _RANGES:
            return _integer(text, _RANGES[name])
        case _:
            return text


def _spelled(pattern: re.Pattern[str], text: str) -> str:
    """The text itself; Python would also read `1_0` and `2024W01`, Hive does not."""
    if not pattern.fullmatch(text):
        raise ValueError(text)
    return text


def _integer(text: str, bits: int) -> int:
    value = int(_spelled(_INTEGER, text))
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ValueError(text)
    return value


def _decimal(kind: Named, text: str) -> Decimal:
    decimal_type: Any = iceberg_type(kind, lambda: 0)
    precision, scale = (int(number) for number in decimal_type[len("decimal(") : -1].split(","))
    value = Decimal(text)
    exact = value.quantize(Decimal(1).scaleb(-scale))
    if exact != value or len(exact.as_tuple().digits) > precision:
        raise ValueError(text)
    return exact
