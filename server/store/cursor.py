"""Opaque cursors: the start of the next page as text, which inserts before or after it do not affect."""

from __future__ import annotations

import base64
from typing import Any, TypeVar

import orjson

from catalog.errors import Invalid

T = TypeVar("T", str, int)

_HINT = "use the cursor of the previous page unchanged"


def encode(*key: str | int) -> str:
    """Encode the last row's sort key as a cursor."""
    return base64.urlsafe_b64encode(orjson.dumps(key)).decode().rstrip("=")


def decode_number(cursor: str) -> int:
    """Decode the number in the cursor of a list that is ordered by number; Invalid for another text."""
    (number,) = _decode(cursor, 1, int)
    if not 0 <= number < 2**63:
        raise Invalid("invalid page cursor", hint=_HINT)
    return number


def decode_texts(cursor: str, parts: int) -> list[str]:
    """Decode the texts in the cursor of a list that is ordered by texts; Invalid for another text."""
    return _decode(cursor, parts, str)


def decode_ordered(cursor: str, kind: type[int | str]) -> tuple[int | str, str, str]:
    """Decode a value and two names from the cursor of a list that is ordered by the value; Invalid for another text."""
    key = _load(cursor)
    if [type(part) for part in key] != [kind, str, str]:
        raise Invalid("invalid page cursor", hint=_HINT)
    value, first, second = key
    if isinstance(value, int) and not -1 <= value < 2**63:
        raise Invalid("invalid page cursor", hint=_HINT)
    return value, first, second


def _decode(cursor: str, parts: int, kind: type[T]) -> list[T]:
    key = _load(cursor)
    if len(key) != parts or not all(type(part) is kind for part in key):
        raise Invalid("invalid page cursor", hint=_HINT)
    return key


def _load(cursor: str) -> list[Any]:
    try:
        key = orjson.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except ValueError as error:
        raise Invalid("invalid page cursor", hint=_HINT) from error
    if not isinstance(key, list) or not key:
        raise Invalid("invalid page cursor", hint=_HINT)
    if any("\0" in str(part) for part in key):  # PostgreSQL cannot store such text
        raise Invalid("invalid page cursor", hint=_HINT)
    return key
