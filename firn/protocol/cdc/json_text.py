"""JSON of records. Numbers with a fraction become decimals, so that no digit is lost."""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

from firn.protocol.cdc.envelope import BadRecord


def parse_json(part: str, data: bytes | str) -> Any:
    """Parse the JSON text of a part of a record; BadRecord for anything else."""
    try:
        text = data.decode() if isinstance(data, bytes) else data
    except UnicodeDecodeError:
        raise BadRecord(f"the {part} is not UTF-8") from None
    try:
        return json.loads(text, parse_float=Decimal, parse_constant=_refuse_constant)
    except (ValueError, RecursionError, InvalidOperation):
        raise BadRecord(f"the {part} is not a JSON object") from None


def parse_object(part: str, data: bytes | str) -> dict[str, Any]:
    """Parse a JSON object; BadRecord for anything else."""
    return require_object(part, parse_json(part, data))


def require_object(part: str, value: Any) -> dict[str, Any]:
    """The value, which must be a JSON object."""
    if not isinstance(value, dict):
        raise BadRecord(f"the {part} is not a JSON object")
    return value


def write_json(value: Any) -> str:
    """The shortest JSON text of a parsed value, with all digits of its numbers. ValueError for what has none."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{write_json(str(key))}:{write_json(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(write_json, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _refuse_constant(_text: str) -> NoReturn:
    raise ValueError("NaN and Infinity are no JSON")
