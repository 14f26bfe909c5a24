"""Avro schemas from a registry, checked before they read a record.

A schema comes from whoever may write to the registry, and a record from whoever may write to the topic. A few schemas
let a short record fill the memory or the stack: those that contain themselves, and those with values without bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import fastavro
import fastavro.read
import fastavro.schema

LARGEST_SCHEMA = 1024 * 1024
"""In characters, of a schema together with all schemas that it refers to."""
DEEPEST_SCHEMA = 64
HIGHEST_SCALE = 400
LONGEST_NAME = 256
"""In characters, of a field and of a symbol: a list of many in a short record is a text with all their names."""
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 -- a time without zone
_OWN_TYPES = {
    "decimal": "firn-decimal",
    "timestamp-nanos": "firn-timestamp-nanos",
    "local-timestamp-nanos": "firn-local-timestamp-nanos",
}


class BadSchemaError(ValueError):
    """Firn reads no records of this schema."""


def parse_schema(texts: Sequence[str]) -> Any:
    """The schema of the last text, for `fastavro.schemaless_reader`; the others are schemas that it refers to.

    Raises BadSchemaError with one sentence.
    """
    if not texts or sum(map(len, texts)) > LARGEST_SCHEMA:
        raise BadSchemaError(f"the schema has more than {LARGEST_SCHEMA:,} characters, or none")
    parsed: Any = None
    try:
        named: dict[str, Any] = {}
        for text in texts:
            parsed = fastavro.schema.parse_schema(_name_own_types(json.loads(text)), named_schemas=named)
        _Walk(named).check(parsed, ())
    except BadSchemaError:
        raise
    except Exception as error:
        raise BadSchemaError("the schema is not one of Avro") from error
    return parsed


def _name_own_types(schema: Any, depth: int = 0) -> Any:
    """The schema with Firn's own readers for types that fastavro reads with a loss, or not at all."""
    if depth > DEEPEST_SCHEMA:
        raise BadSchemaError("the schema is too deep")
    if isinstance(schema, list):
        return [_name_own_types(item, depth + 1) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if any(key.startswith("__") for key in schema):  # by which fastavro marks schemas that it has checked
        raise BadSchemaError("the schema has a key that begins with two underscores")
    renamed = {key: _name_own_types(value, depth + 1) for key, value in schema.items()}
    logical, scale = renamed.get("logicalType"), renamed.get("scale", 0)
    if logical == "decimal" and not (isinstance(scale, int) and 0 <= scale <= HIGHEST_SCALE):
        raise BadSchemaError(f"the schema has a decimal whose scale is not a number up to {HIGHEST_SCALE}")
    if isinstance(logical, str) and logical in _OWN_TYPES:
        renamed["logicalType"] = _OWN_TYPES[logical]
    return renamed


@dataclass
class _Walk:
    """Refuses schemas by which a short record is a large value: each value must have a byte of its own."""

    named: Mapping[str, Any]
    checked: set[str] = field(default_factory=set)

    def check(self, schema: Any, inside: tuple[str, ...]) -> None:
        """Check a schema; `inside` names the records around it."""
        if isinstance(schema, list):
            for branch in schema:
                if branch not in ("null", {"type": "null"}):
                    self.check(branch, inside)
        elif isinstance(schema, str):
            self._check_name(schema, inside)
        elif schema["type"] in ("record", "error"):
            self._check_record(schema["name"], schema["fields"], inside)
        elif schema["type"] in ("array", "map"):
            self.check(schema["items" if schema["type"] == "array" else "values"], inside)
        elif schema["type"] == "fixed":
            _require_bytes(schema["size"] > 0)
        elif schema["type"] == "enum":
            for symbol in schema["symbols"]:
                _require_short(symbol)
        else:
            self.check(schema["type"], inside)

    def _check_name(self, name: str, inside: tuple[str, ...]) -> None:
        _require_bytes(name != "null")
        if name in inside:
            raise BadSchemaError("the schema contains itself")
        if name not in self.checked and name in self.named:
            self.check(self.named[name], inside)

    def _check_record(self, name: str, fields: Sequence[Any], inside: tuple[str, ...]) -> None:
        if len(inside) > DEEPEST_SCHEMA:
            raise BadSchemaError("the schema is too deep")
        _require_bytes(len(fields) > 0)
        for entry in fields:
            _require_short(entry["name"])
            self.check(entry["type"], (*inside, name))
        self.checked.add(name)


def _require_short(name: str) -> None:
    if len(name) > LONGEST_NAME:
        raise BadSchemaError(f"the schema has a name of more than {LONGEST_NAME} characters")


def _require_bytes(has_bytes: bool) -> None:  # noqa: FBT001 -- the condition of a check
    if not has_bytes:
        raise BadSchemaError("the schema has a value without bytes")


def _read_decimal(data: bytes, schema: Any = None, _reader: Any = None) -> Decimal:
    """All digits of a decimal. fastavro rounds to the schema's precision."""
    number = int.from_bytes(data, "big", signed=True)
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -int(schema.get("scale", 0))))


def _read_nanos(zone: Callable[[datetime], datetime]) -> Callable[..., datetime]:
    def read(data: int, _schema: Any = None, _reader: Any = None) -> datetime:
        return zone(_EPOCH + timedelta(microseconds=data // 1000))

    return read


fastavro.read.LOGICAL_READERS.update(
    {
        "bytes-firn-decimal": _read_decimal,
        "fixed-firn-decimal": _read_decimal,
        "long-firn-timestamp-nanos": _read_nanos(lambda moment: moment.replace(tzinfo=UTC)),
        "long-firn-local-timestamp-nanos": _read_nanos(lambda moment: moment),
    }
)
