"""Opaque cursors: where the next page begins, as text that survives inserts before and after it."""

from __future__ import annotations

import base64
import binascii
import json

from catalog.errors import Invalid

_HINT = "use the cursor of the page before, unchanged"


def encode(*key: str | int) -> str:
    """The last row's sort key as a cursor."""
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode().rstrip("=")


def decode_number(cursor: str) -> int:
    """The number in a cursor of a list that is ordered by one; Invalid when somebody has made it up."""
    (number,) = decode(cursor, 1)
    if not isinstance(number, int):
        raise Invalid("invalid page cursor", hint=_HINT)
    return number


def decode(cursor: str, parts: int) -> list[str | int]:
    """The sort key in a cursor; Invalid when somebody has made it up."""
    try:
        key = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (binascii.Error, ValueError) as error:
        raise Invalid("invalid page cursor", hint=_HINT) from error
    if not isinstance(key, list) or len(key) != parts or not all(isinstance(part, str | int) for part in key):
        raise Invalid("invalid page cursor", hint=_HINT)
    return key
