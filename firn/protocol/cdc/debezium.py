"""Debezium's envelopes as JSON, with and without their schema part: MySQL, MariaDB, PostgreSQL and other databases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from firn.protocol.cdc.debezium_types import choose_column_type, read_value
from firn.protocol.cdc.envelope import (
    NOT_GIVEN,
    NOTHING,
    BadRecord,
    Encoding,
    Envelope,
    Kind,
    RowChange,
    SourceTable,
)
from firn.protocol.cdc.json_text import parse_object, require_object
from firn.protocol.cdc.mongodb import choose_types, read_document, read_document_key
from firn.protocol.cdc.values import Unfit

_UNAVAILABLE = "__debezium_unavailable_value"
_UNAVAILABLE_TEXTS = (_UNAVAILABLE, "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==")  # the second one is base64
_UPSERTS = ("c", "r", "u")
_INSERTS = ("c", "r")
_MONGODB = "mongodb"
_ENCODING = Encoding(numbers_are_days=True)
_NO_ENVELOPE = "the value is not an envelope of Debezium"


@dataclass(frozen=True, slots=True)
class Part:
    """The payload of a key or a value, and the fields of its schema by name; none without a schema part."""

    payload: Mapping[str, Any]
    fields: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def read_debezium(key: bytes | None, value: bytes | None) -> Envelope:
    """Read one record. A tombstone and a heartbeat tell nothing; a delete comes as an envelope before its tombstone."""
    if value is None:
        return NOTHING
    return read_parts(lambda: None if key is None else _split_key(key), _split("value", parse_object("value", value)))


def read_parts(load_key: Callable[[], Part | None], part: Part) -> Envelope:
    """Read a record whose parts are parsed: values as Kafka Connect's JSON converter writes them."""
    payload = part.payload
    if "op" not in payload:
        return _read_other(payload)
    source = require_object("source", payload.get("source"))
    table = _read_source(source)
    if payload["op"] == "m":  # a message that a program has written into PostgreSQL's log
        return NOTHING
    if payload["op"] == "t":
        return Envelope(kind=Kind.TRUNCATE, source=table)
    if source.get("connector") == _MONGODB:
        return _read_mongodb(load_key(), payload, table)
    return _read_rows(load_key() or Part({}), part, table)


def _split(name: str, record: dict[str, Any]) -> Part:
    if "payload" not in record or "op" in record:
        return Part(record)
    payload = require_object(name, record["payload"])
    schema = record.get("schema")
    return Part(payload, {} if schema is None else _index_fields(schema))


def _index_fields(schema: Any) -> dict[str, Mapping[str, Any]]:
    fields = schema.get("fields") if isinstance(schema, dict) else None
    if not isinstance(fields, list):
        return {}
    named = [entry for entry in fields if isinstance(entry, dict) and isinstance(entry.get("field"), str)]
    return {entry["field"]: entry for entry in named}


def _read_other(payload: Mapping[str, Any]) -> Envelope:
    """Heartbeats, marks of transactions and DDL have no `op`."""
    if "ddl" in payload and "source" in payload:
        return Envelope(kind=Kind.SCHEMA)
    if {*payload} == {"ts_ms"} or payload.get("status") in ("BEGIN", "END"):
        return NOTHING
    raise BadRecord(_NO_ENVELOPE)


def _read_source(source: Mapping[str, Any]) -> SourceTable:
    database, schema = source.get("db"), source.get("schema")
    table = source.get("table", source.get("collection"))
    if not (isinstance(database, str) and isinstance(table, str) and isinstance(schema, (str, type(None)))):
        raise BadRecord("the source names no table")
    return SourceTable(database, schema, table)


def _read_rows(key_part: Part, part: Part, table: SourceTable) -> Envelope:
    before, after = part.payload.get("before"), part.payload.get("after")
    fields = _index_fields(part.fields.get("after") or part.fields.get("before"))
    changes = _list_changes(part.payload["op"], _read_row(before, fields), _read_row(after, fields), key_part)
    types = {name: choose_column_type(entry) for name, entry in fields.items()} or _guess_types(before, after)
    return Envelope(
        kind=Kind.ROWS, source=table, changes=changes, keys=tuple(key_part.payload), types=types, encoding=_ENCODING
    )


def _split_key(key: bytes) -> Part:
    """The key; a table without primary key has a null one."""
    text = key.strip()
    if text in (b"null", b"") or text.replace(b" ", b"") == b'{"schema":null,"payload":null}':
        return Part({})
    return _split("key", parse_object("key", key))


def _list_changes(
    op: Any, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, key: Part
) -> tuple[RowChange, ...]:
    if op == "d":
        sent = _read_row(key.payload, key.fields)
        return (RowChange("D", {**(before or {}), **(sent or {})}),)
    if op not in _UPSERTS:
        raise BadRecord("the operation is unknown")
    if after is None:
        raise BadRecord("the change has no row")
    row = _fill_from(before, after)
    old = before if before is not None and _has_moved(before, after, key) else None
    if op != "u" or old is not None:
        _require_all(row)
    if old is not None:
        return RowChange("D", old), RowChange("U", row, has_new_key=True)
    return (RowChange("U", row, is_insert=op in _INSERTS),)


def _has_moved(before: Mapping[str, Any], after: Mapping[str, Any], key: Part) -> bool:
    return any(before.get(name) is not None and before[name] != after.get(name) for name in key.payload)


def _require_all(row: Mapping[str, Any]) -> None:
    """Raise BadRecord if a row that is new under its key lacks a value: the table has no older one to keep.

    After a change of the key, PostgreSQL does not send unchanged TOAST values of the new row.
    """
    for name, value in row.items():
        if value is NOT_GIVEN:
            raise BadRecord("a new row lacks the value: set REPLICA IDENTITY FULL at the source", name)


def _fill_from(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row, with values that are not given taken from the row before, if that has them.

    A row before may have its key only, and null in all other columns. So its nulls tell nothing.
    """
    if before is None or NOT_GIVEN not in after.values():
        return after
    known = {name: value for name, value in before.items() if value is not None}
    return {name: known.get(name, value) if value is NOT_GIVEN else value for name, value in after.items()}


def _read_row(row: Any, fields: Mapping[str, Mapping[str, Any]]) -> dict[str, Any] | None:
    if row is None:
        return None
    return {name: _read_column(value, name, fields) for name, value in require_object("row", row).items()}


def _read_column(value: Any, name: str, fields: Mapping[str, Mapping[str, Any]]) -> Any:
    if _is_unavailable(value):
        return NOT_GIVEN
    if name not in fields:
        return value
    try:
        return read_value(value, fields[name])
    except Unfit:
        raise BadRecord("the value contradicts its schema", name) from None


def _is_unavailable(value: Any) -> bool:
    """Whether PostgreSQL has not written the value to its log, because the update left it as it was (TOAST)."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return isinstance(value, str) and value in _UNAVAILABLE_TEXTS


_GUESSES: Mapping[type, str] = {bool: "boolean", int: "long", str: "string"}


def _guess_types(before: Any, after: Any) -> dict[str, str]:
    """Types of a record without a schema part. A null tells nothing; numbers with a fraction are doubles."""
    row = after if isinstance(after, dict) else before if isinstance(before, dict) else {}
    return {name: guess_type(value) for name, value in row.items() if value is not None}


def guess_type(value: Any) -> str:
    """The column type of a JSON value."""
    if isinstance(value, (dict, list)):
        return "string"
    return _GUESSES.get(type(value), "double")


def _read_mongodb(key: Part | None, payload: Mapping[str, Any], table: SourceTable) -> Envelope:
    identity = read_document_key(None if key is None else key.payload)
    op, document = payload["op"], payload.get("after")
    if op == "d":
        row: Mapping[str, Any] = {"_id": identity}
        return _build_mongodb(table, RowChange("D", row), row)
    if op not in _UPSERTS:
        raise BadRecord("the operation is unknown")
    if document is None:
        raise BadRecord("the update has no document: set capture.mode to change_streams_update_full")
    row = read_document(document, identity)
    return _build_mongodb(table, RowChange("U", row, is_insert=op in _INSERTS), row)


def _build_mongodb(table: SourceTable, change: RowChange, row: Mapping[str, Any]) -> Envelope:
    return Envelope(
        kind=Kind.ROWS, source=table, changes=(change,), keys=("_id",), types=choose_types(row), is_document=True
    )


Reader = Callable[[bytes | None, bytes | None], Envelope]
"""Reads key and value of a record; BadRecord if it is no envelope of the format."""
