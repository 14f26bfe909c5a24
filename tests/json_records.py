"""Records of the format `firn-json`: which of them are changes, and which are bad, for both engines of drains."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

FITS = "the value does not fit the column"
OBJECT = "the value is not a JSON object"
BAD: list[tuple[bytes | None, str, str | None]] = [
    (b"not json", OBJECT, None),
    (b"[1]", OBJECT, None),
    (b"", OBJECT, None),
    (b"null", OBJECT, None),
    (b'{"id":1', OBJECT, None),
    (b"[" * 3000, OBJECT, None),
    (None, "the record has no value", None),
    (b'{"id":1,"name":"\xff"}', "the value is not UTF-8", None),
    (b'{"id":1,"n":"x"}', FITS, "n"),
    (b'{"id":1,"n":3000000000}', FITS, "n"),
    (b'{"id":1,"n":1.5}', FITS, "n"),
    (b'{"id":1,"amount":12345678901.5}', FITS, "amount"),
    (b'{"id":1,"day":"2026-13-40"}', FITS, "day"),
    (b'{"id":1,"ok":1}', FITS, "ok"),
    (b'{"id":1,"place":"text"}', FITS, "place"),
    (b'{"id":9223372036854775808}', FITS, "id"),
    (b'{"id":"7"}', FITS, "id"),
    (b'{"id":null}', "the column must not be null", "id"),
    (b"{}", "the column must not be null", "id"),
    (b'{"id":1,"_op":"X"}', "_op is not I, U or D", "_op"),
    (b'{"n":1,"_op":"D"}', "the column must not be null", "id"),
]
GOOD: list[tuple[bytes, dict[str, Any]]] = [
    (b'{"id":1,"n":2}', {"id": 1, "n": 2}),
    (b'{"id":1,"amount":1.5,"_op":"I"}', {"id": 1, "amount": Decimal("1.50"), "_op": "I"}),
    (b'{"id":1,"day":"2026-11-26"}', {"id": 1, "day": date(2026, 11, 26)}),
    (b'{"id":1,"unknown":[1],"list":[1,2]}', {"id": 1, "list": [1, 2]}),
    (b'{"_op":"D","id":1}', {"id": 1, "_op": "D"}),
]
