"""Maxwell's records: changes of MySQL, one row each, with its bootstraps and DDL records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firn.protocol.cdc.canal import list_changes
from firn.protocol.cdc.debezium import guess_type
from firn.protocol.cdc.envelope import NOTHING, BadRecord, Envelope, Kind, RowChange, SourceTable
from firn.protocol.cdc.json_text import parse_json, parse_object, require_object

_ROWS = ("insert", "update", "delete", "bootstrap-insert")
_QUIET = ("bootstrap-start", "bootstrap-complete", "heartbeat")
_SCHEMA = (
    "table-create",
    "table-alter",
    "table-drop",
    "database-create",
    "database-alter",
    "database-drop",
)
_KEY_PREFIX = "pk."


def read_maxwell(key: bytes | None, value: bytes | None) -> Envelope:
    """Read one record: a row, a mark of a bootstrap, or a DDL statement. A tombstone follows a delete."""
    if value is None:
        return NOTHING
    record = parse_object("value", value)
    kind = record.get("type")
    if kind in _QUIET:
        return NOTHING
    if kind in _SCHEMA:
        return Envelope(kind=Kind.SCHEMA)
    if kind not in _ROWS:
        raise BadRecord("the value is not a record of Maxwell")
    database, table = record.get("database"), record.get("table")
    if not (isinstance(database, str) and isinstance(table, str)):
        raise BadRecord("the source names no table")
    row, before = require_object("row", record.get("data")), record.get("old")
    keys = _read_keys(key, record)
    return Envelope(
        kind=Kind.ROWS,
        source=SourceTable(database, None, table),
        changes=tuple(_list_changes(str(kind), row, before, keys)),
        keys=keys,
        types={name: guess_type(item) for name, item in row.items() if item is not None},
        has_all_columns=kind in ("insert", "bootstrap-insert"),
    )


def _list_changes(kind: str, row: Mapping[str, Any], before: Any, keys: tuple[str, ...]) -> list[RowChange]:
    return list_changes(kind, row, [] if before is None else [before], keys)


def _read_keys(key: bytes | None, record: Mapping[str, Any]) -> tuple[str, ...]:
    """The key columns: in the record, if Maxwell writes them there, or in the record's key."""
    named = record.get("primary_key_columns")
    if isinstance(named, list) and named and all(isinstance(name, str) for name in named):
        return tuple(named)
    if key is None:
        return ()
    parsed = parse_json("key", key)
    parts = parsed if isinstance(parsed, dict) else _read_array_key(parsed)
    return tuple(name.removeprefix(_KEY_PREFIX) for name in parts if name.startswith(_KEY_PREFIX))


def _read_array_key(parsed: Any) -> Mapping[str, Any]:
    """`kafka_key_format=array`: database, table, and an array of objects with one column each."""
    columns = parsed[2] if isinstance(parsed, list) and len(parsed) > 2 else []
    objects = [column for column in columns if isinstance(column, dict)] if isinstance(columns, list) else []
    return {f"{_KEY_PREFIX}{name}": value for column in objects for name, value in column.items()}
