"""Canal's flat messages (`canal.mq.flatMessage = true`): changes of MySQL, several rows in a record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firn.protocol.cdc.envelope import NOTHING, BadRecord, Encoding, Envelope, Kind, RowChange, SourceTable
from firn.protocol.cdc.json_text import parse_object, require_object
from firn.protocol.cdc.mysql_types import choose_column_type

_ENCODING = Encoding(bytes="latin-1")
_ROWS = ("INSERT", "UPDATE", "DELETE")
_SCHEMA = ("CREATE", "ALTER", "ERASE", "RENAME", "CINDEX", "DINDEX", "QUERY")
_QUIET = ("XACOMMIT", "XAROLLBACK", "MHEARTBEAT", "GTID")


def read_canal(_key: bytes | None, value: bytes | None) -> Envelope:
    """Read one record: rows, or a DDL statement."""
    if value is None:
        return NOTHING
    record = parse_object("value", value)
    kind = record.get("type")
    if kind in _QUIET:
        return NOTHING
    if kind == "TRUNCATE":
        return Envelope(kind=Kind.TRUNCATE, source=_read_source(record))
    if record.get("isDdl") is True or kind in _SCHEMA:
        return Envelope(kind=Kind.SCHEMA)
    if kind not in _ROWS:
        raise BadRecord("the value is not a message of Canal")
    return _read_rows(record, str(kind))


def _read_source(record: Mapping[str, Any]) -> SourceTable:
    database, table = record.get("database"), record.get("table")
    if not (isinstance(database, str) and isinstance(table, str) and table):
        raise BadRecord("the source names no table")
    return SourceTable(database, None, table)


def _read_rows(record: Mapping[str, Any], kind: str) -> Envelope:
    rows, before = record.get("data"), record.get("old")
    if not isinstance(rows, list):
        raise BadRecord("the message has no rows")
    named = record.get("pkNames")
    keys = tuple(name for name in named if isinstance(name, str)) if isinstance(named, list) else ()
    earlier = before if isinstance(before, list) else []
    changes = [
        change
        for number, row in enumerate(rows)
        for change in list_changes(kind, require_object("row", row), earlier[number : number + 1], keys)
    ]
    types = record.get("mysqlType")
    columns = {name: choose_column_type(text) for name, text in types.items()} if isinstance(types, dict) else {}
    return Envelope(
        kind=Kind.ROWS,
        source=_read_source(record),
        changes=tuple(changes),
        keys=keys,
        types=columns,
        has_all_columns=kind == "INSERT",
        encoding=_ENCODING,
    )


def list_changes(kind: str, row: Mapping[str, Any], before: list[Any], keys: tuple[str, ...]) -> list[RowChange]:
    """The changes of one row. If an update changes the key, the row of the old key is deleted first.

    `before` has the old values of the columns that an update changes, if the record has them.
    """
    if kind.upper() == "DELETE":
        return [RowChange("D", row)]
    if before and isinstance(before[0], dict) and kind.upper() == "UPDATE":
        old = before[0]
        moved = {name: old[name] for name in keys if name in old and old[name] != row.get(name)}
        if moved:
            return [RowChange("D", {**row, **old}), RowChange("U", row, has_new_key=True)]
    return [RowChange("U", row, is_insert="INSERT" in kind.upper())]
