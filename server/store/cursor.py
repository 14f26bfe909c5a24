"""Opaque cursors: where the next page begins, as text that survives inserts before and after it."""

from __future__ import annotations

import base64
from typing import TypeVar

import orjson

from catalog.errors import Invalid

T = TypeVar("T", str, int)

_HINT = "use the cursor of the page before, unchanged"


def encode(*key: str | int) -> str:
    """The last row's sort key as a cursor."""
    return base64.urlsafe_b64encode(orjson.dumps(key)).decode().rstrip("=")


def decode_number(cursor: str) -> int:
    """The number in a cursor of a list that is ordered by one; Invalid when somebody has made it up."""
    (number,) = _decoded(cursor, 1, int)
    if not 0 <= number < 2**63:
        raise Invalid("invalid page cursor", hint=_HINT)
    return number


def decode_texts(cursor: str, parts: int) -> list[str]:
    """The names in a cursor of a list that is ordered by them; Invalid when somebody has made it up."""
    return _decoded(cursor, parts, str)


def _decoded(cursor: str, parts: int, kind: type[T]) -> list[T]:
    try:
        key = orjson.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except ValueError as error:
        raise Invalid("invalid page cursor", hint=_HINT) from error
    if not isinstance(key, list) or len(key) != parts or not all(type(part) is kind for part in key):
        raise Invalid("invalid page cursor", hint=_HINT)
    if any("\0" in str(part) for part in key):  # PostgreSQL has no such text
        raise Invalid("invalid page cursor", hint=_HINT)
    return key
