"""Records of AWS Database Migration Service for Kafka: one row each, and control records about tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firn.protocol.cdc.debezium import guess_type
from firn.protocol.cdc.envelope import NOTHING, BadRecord, Encoding, Envelope, Kind, RowChange, SourceTable
from firn.protocol.cdc.json_text import parse_object, require_object

_INSERTS = ("load", "insert")
_SCHEMA = ("create-table", "drop-table", "rename-table", "add-column", "drop-column", "rename-column")
_OWN_TABLES = "awsdms_"
_ENCODING = Encoding(bytes="hex")
_NO_RECORD = "the value is not a record of AWS DMS"


def read_dms(_key: bytes | None, value: bytes | None) -> Envelope:
    """Read one record. Its key is only for Kafka's partitions."""
    if value is None:
        return NOTHING
    record = parse_object("value", value)
    metadata = record.get("metadata")
    if not isinstance(metadata, dict):
        raise BadRecord(_NO_RECORD)
    operation = metadata.get("operation")
    schema, table = metadata.get("schema-name"), metadata.get("table-name")
    if isinstance(table, str) and table.startswith(_OWN_TABLES):
        return NOTHING
    match metadata.get("record-type"):
        case "control" if operation in _SCHEMA:
            return _read_control(record, _name_source(schema, table))
        case "data" if operation in (*_INSERTS, "update", "delete"):
            return _read_row(record, str(operation), _name_source(schema, table))
        case "control" | "data":
            raise BadRecord("the operation is unknown")
        case _:
            raise BadRecord(_NO_RECORD)


def _name_source(schema: Any, table: Any) -> SourceTable:
    """DMS names a schema and a table; the schema of MySQL is its database."""
    if not (isinstance(schema, str) and schema and isinstance(table, str) and table):
        raise BadRecord("the source names no table")
    return SourceTable(schema, None, table)


def _read_control(record: Mapping[str, Any], source: SourceTable) -> Envelope:
    """A statement about a table. With `IncludeControlDetails`, a new table names its key, which rows do not."""
    control = record.get("control")
    definition = control.get("table-def") if isinstance(control, dict) else None
    named = definition.get("primary-key") if isinstance(definition, dict) else None
    keys = tuple(name for name in named if isinstance(name, str)) if isinstance(named, list) else ()
    return Envelope(kind=Kind.SCHEMA, source=source if keys else None, keys=keys)


def _read_row(record: Mapping[str, Any], operation: str, source: SourceTable) -> Envelope:
    row = require_object("row", record.get("data"))
    before = record.get("before-image")
    change = RowChange(
        "D" if operation == "delete" else "U",
        row,
        is_insert=operation in _INSERTS,
        before=require_object("row before", before) if operation == "update" and before is not None else {},
    )
    return Envelope(
        kind=Kind.ROWS,
        source=source,
        changes=(change,),
        types={name: guess_type(item) for name, item in row.items() if item is not None},
        # Unless IncludeNullAndEmpty is set, a record leaves out nulls and empty texts alike.
        has_all_columns=False,
        encoding=_ENCODING,
    )
