"""Documents of MongoDB in Debezium's envelopes: texts of extended JSON.

A table has the columns `_id` and `document`, the whole document as JSON. Further columns of the table take the
document's fields of their names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from firn.protocol.cdc.envelope import BadRecord
from firn.protocol.cdc.json_text import parse_json, parse_object, write_json

DOCUMENT = "document"
_ID = "_id"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_NUMBER = 40


def read_document_key(payload: Mapping[str, Any] | None) -> str:
    """The `_id` of a record's key as text: an ObjectId as 24 digits, a text as it is, anything else as JSON."""
    if payload is None:
        raise BadRecord("the record has no key")
    identity = payload.get("id", payload.get(_ID))
    if not isinstance(identity, str):
        raise BadRecord("the key has no id")
    return format_id(parse_json("key", identity))


def format_id(identity: Any) -> str:
    """The text of an `_id`."""
    value = read_extended(identity)
    if value is None:
        raise BadRecord("the key has no id")
    return value if isinstance(value, str) else write_json(_to_json(value))


def read_document(document: Any, identity: str) -> dict[str, Any]:
    """The columns of a document, which Debezium sends as text."""
    if not isinstance(document, str):
        raise BadRecord("the document is not text")
    fields = parse_object("document", document)
    columns = {name: read_extended(value) for name, value in fields.items()}
    return {**columns, DOCUMENT: document, _ID: identity}


def choose_types(row: Mapping[str, Any]) -> dict[str, str]:
    """The columns of a new table."""
    return {name: "string" for name in (_ID, DOCUMENT) if name in row}


def read_extended(value: Any) -> Any:
    """The value of extended JSON, such as an integer for `{"$numberLong": "5"}`; other objects stay as they are."""
    if not isinstance(value, dict) or len(value) != 1:
        return value
    ((name, inner),) = value.items()
    read = _EXTENDED.get(name)
    if read is None:
        return value
    try:
        return read(inner)
    except (ValueError, OverflowError, InvalidOperation):
        return value


def _require_text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST_NUMBER:
        raise ValueError
    return value


def _read_date(value: Any) -> datetime:
    """Milliseconds as a number, as `$numberLong`, or an ISO text."""
    value = read_extended(value)
    if isinstance(value, int):
        return _EPOCH + timedelta(milliseconds=value)
    return datetime.fromisoformat(_require_text(value)).astimezone(UTC)


def _to_json(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


_EXTENDED: Mapping[str, Callable[[Any], Any]] = {
    "$oid": _require_text,
    "$numberInt": lambda value: int(_require_text(value)),
    "$numberLong": lambda value: int(_require_text(value)),
    "$numberDouble": lambda value: Decimal(_require_text(value)),
    "$numberDecimal": lambda value: Decimal(_require_text(value)),
    "$date": _read_date,
}
