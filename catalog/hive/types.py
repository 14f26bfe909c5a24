"""Hive's type strings as Iceberg types.

`timestamp` is an instant in Iceberg (`timestamptz`), because that is what Spark and Hive write into Parquet (INT96, or
microseconds adjusted to UTC): decision 2.  In ORC it is a wall-clock time: decision 40.  `char` and `varchar`
become `string`, small integers `int`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from catalog.errors import Invalid
from catalog.hive.model import WALL_CLOCK, HiveColumn

IcebergType = str | dict[str, Any]
"""A type as Iceberg's table metadata writes it in JSON."""

NextId = Callable[[], int]

PRIMITIVES = {
    "boolean": "boolean",
    "tinyint": "int",
    "smallint": "int",
    "int": "int",
    "integer": "int",
    "bigint": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamptz",
    WALL_CLOCK: "timestamp",
}
_BACK = {iceberg: hive for hive, iceberg in PRIMITIVES.items() if hive not in ("tinyint", "smallint", "integer")}
_PLAIN_NAME = re.compile(r"[a-z0-9_]+")
_UNSUPPORTED = {
    "uniontype": "Iceberg has no union type",
    "void": "it holds nothing but nulls",
    "interval_year_month": "Iceberg has no interval type",
    "interval_day_time": "Iceberg has no interval type",
    "timestamp with local time zone": "Hive has no Parquet reader or writer for it",
}
_MAX_PRECISION = 38
_TOKEN = re.compile(r"\s*(timestamp with local time zone|`[^`]*`|[^\s<>(),:`]+|[<>(),:])", re.IGNORECASE)


class UnsupportedType(Invalid):
    """A Hive type that has no counterpart in Iceberg, or a type string that makes no sense."""


@dataclass(frozen=True, slots=True)
class Named:
    """A type without parts: a keyword and, for decimals and strings of bounded length, its numbers."""

    name: str
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ListOf:
    element: HiveType


@dataclass(frozen=True, slots=True)
class MapOf:
    key: HiveType
    value: HiveType


@dataclass(frozen=True, slots=True)
class StructOf:
    fields: tuple[tuple[str, HiveType], ...]


HiveType = Named | ListOf | MapOf | StructOf


@lru_cache(maxsize=10_000)
def parse_type(text: str) -> HiveType:
    """The parts of a Hive type string; UnsupportedType if it cannot be read.

    A sync asks it for every value of every partition, of which there may be 100,000 with two types.
    """
    return _Parser(text).parse()


def iceberg_type(hive_type: HiveType, next_id: NextId) -> IcebergType:
    """The Iceberg type, nested ids taken from `next_id`; UnsupportedType names the part that has no counterpart."""
    match hive_type:
        case Named():
            return _primitive(hive_type)
        case ListOf(element):
            element_id = next_id()
            return {
                "type": "list",
                "element-id": element_id,
                "element": iceberg_type(element, next_id),
                "element-required": False,
            }
        case MapOf(key, value):
            key_id, value_id = next_id(), next_id()
            return {
                "type": "map",
                "key-id": key_id,
                "key": iceberg_type(key, next_id),
                "value-id": value_id,
                "value": iceberg_type(value, next_id),
                "value-required": False,
            }
        case StructOf(parts):
            ids = [next_id() for _ in parts]
            fields = [
                {"id": field_id, "name": name, "required": False, "type": iceberg_type(part, next_id)}
                for field_id, (name, part) in zip(ids, parts, strict=True)
            ]
            return {"type": "struct", "fields": fields}


def iceberg_fields(columns: Sequence[HiveColumn], next_id: NextId) -> list[dict[str, Any]]:
    """Top-level schema fields of these columns, all optional; ids go to the columns first, then to what they hold."""
    ids = [next_id() for _ in columns]
    return [iceberg_field(column, field_id, next_id) for column, field_id in zip(columns, ids, strict=True)]


def iceberg_field(column: HiveColumn, field_id: int, next_id: NextId) -> dict[str, Any]:
    """One top-level field; UnsupportedType names the column."""
    try:
        field_type = iceberg_type(parse_type(column.type), next_id)
    except UnsupportedType as error:
        raise UnsupportedType(f"column {column.name!r}: {error}") from error
    field: dict[str, Any] = {"id": field_id, "name": column.name, "required": False, "type": field_type}
    if column.comment:
        field["doc"] = column.comment
    return field


def hive_type(kind: IcebergType) -> HiveType | None:
    """The Hive type that becomes this Iceberg type; None where there is none, or none that can be written down."""
    if isinstance(kind, str):
        return _named(kind)
    match kind["type"]:
        case "list":
            element = hive_type(kind["element"])
            return None if element is None else ListOf(element)
        case "map":
            key, value = hive_type(kind["key"]), hive_type(kind["value"])
            return None if key is None or value is None else MapOf(key, value)
        case _:
            parts = [(field["name"].lower(), hive_type(field["type"])) for field in kind["fields"]]
            representable = tuple(
                (name, part) for name, part in parts if part is not None and _PLAIN_NAME.fullmatch(name)
            )
            return StructOf(representable) if parts and len(representable) == len(parts) else None


def format_hive_type(kind: HiveType) -> str:
    """As the metastore spells it."""
    match kind:
        case Named(name, numbers):
            return f"{name}({','.join(map(str, numbers))})" if numbers else name
        case ListOf(element):
            return f"array<{format_hive_type(element)}>"
        case MapOf(key, value):
            return f"map<{format_hive_type(key)},{format_hive_type(value)}>"
        case StructOf(parts):
            return f"struct<{','.join(f'{name}:{format_hive_type(part)}' for name, part in parts)}>"


def _named(kind: str) -> Named | None:
    if kind.startswith("decimal"):
        return Named("decimal", tuple(int(number) for number in re.findall(r"\d+", kind)))
    return Named(_BACK[kind]) if kind in _BACK else None


def _primitive(hive_type: Named) -> str:
    name, numbers = hive_type.name, hive_type.numbers
    if name in ("char", "varchar"):
        return "string"
    if name in ("decimal", "numeric", "dec"):
        precision, scale = (*numbers, *((10, 0)[len(numbers) :]))
        if not (0 < precision <= _MAX_PRECISION and 0 <= scale <= precision):
            raise UnsupportedType(f"decimal({precision},{scale}) is outside decimal(1..{_MAX_PRECISION}, 0..precision)")
        return f"decimal({precision}, {scale})"
    if name in PRIMITIVES:
        return PRIMITIVES[name]
    raise UnsupportedType(f"type {name!r} is not supported: {_UNSUPPORTED.get(name, 'it is not known')}")


class _Parser:
    """Recursive descent over the tokens of one type string."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _TOKEN.findall(text)
        self._at = 0
        if "".join(self._tokens).replace(" ", "") != re.sub(r"\s", "", text):
            raise self._unreadable()

    def parse(self) -> HiveType:
        parsed = self._type()
        if self._at != len(self._tokens):
            raise self._unreadable()
        return parsed

    def _type(self) -> HiveType:
        name = self._next().lower()
        if name == "array":
            (element,) = self._parameters(1)
            return ListOf(element)
        if name == "map":
            key, value = self._parameters(2)
            return MapOf(key, value)
        if name == "struct":
            return StructOf(self._struct())
        if name == "uniontype":
            raise UnsupportedType(f"type 'uniontype' is not supported: {_UNSUPPORTED['uniontype']}")
        if not name[0].isalpha():
            raise self._unreadable()
        return Named(name, self._numbers())

    def _parameters(self, count: int) -> list[HiveType]:
        self._expect("<")
        kinds = [self._type()]
        for _ in range(count - 1):
            self._expect(",")
            kinds.append(self._type())
        self._expect(">")
        return kinds

    def _struct(self) -> tuple[tuple[str, HiveType], ...]:
        self._expect("<")
        fields = []
        while True:
            name = self._next().strip("`")
            self._expect(":")
            fields.append((name, self._type()))
            if (separator := self._next()) == ">":
                return tuple(fields)
            if separator != ",":
                raise self._unreadable()

    def _numbers(self) -> tuple[int, ...]:
        if self._at == len(self._tokens) or self._tokens[self._at] != "(":
            return ()
        self._at += 1
        numbers = []
        while True:
            number = self._next()
            if not number.isdecimal():
                raise self._unreadable()
            numbers.append(int(number))
            if (separator := self._next()) == ")":
                return tuple(numbers)
            if separator != "," or len(numbers) == 2:
                raise self._unreadable()

    def _next(self) -> str:
        if self._at == len(self._tokens):
            raise self._unreadable()
        self._at += 1
        token: str = self._tokens[self._at - 1]
        return token

    def _expect(self, token: str) -> None:
        if self._next() != token:
            raise self._unreadable()

    def _unreadable(self) -> UnsupportedType:
        return UnsupportedType(f"Hive type {self._text!r} cannot be read")
