"""Records of a log as changes of a table, for a look at a few of them. Drains decode by the same rules in Spark.

`firn-json`   the value is an object of the table's columns; `_op` is `I`, `U` (the default) or `D`.
`debezium-json`, `canal-json`, `maxwell-json`: see catalog/kafka/envelopes.py.
`upsert-json` Flink's `upsert-kafka`: the key is an object of the key columns, the value one of all columns, or null for
              a delete.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from catalog.kafka.cluster import KafkaRecord
from catalog.kafka.decoded_record import DecodedRecord, TableColumns
from catalog.kafka.envelopes import decode_envelope
from catalog.keyed.schema import OP
from catalog.policy.log_settings import UPSERT_JSON, LogSettings
from firn.protocol.cdc.formats import CDC_FORMATS

_OPERATIONS = ("I", "U", "D")
_NUMBERS = ("float", "double", "decimal")


def decode_record(record: KafkaRecord, settings: LogSettings, columns: TableColumns) -> DecodedRecord:
    """Decode one record; every problem of it is part of the answer."""
    if settings.format in CDC_FORMATS:
        return decode_envelope(record, settings, columns)
    try:
        op, row = _read_upsert(record) if settings.format == UPSERT_JSON else _read_change(record)
    except _BadRecordError as bad:
        return DecodedRecord(record=record, problem=str(bad))
    names = {field["name"] for field in columns.fields}
    problem = _find_problem(op, row, columns)
    unknown = tuple(sorted(row.keys() - names))
    known = {name: value for name, value in row.items() if name in names}
    return DecodedRecord(record=record, op=op, row=known, problem=problem, unknown=unknown)


class _BadRecordError(Exception):
    """The record is no change."""


def _read_change(record: KafkaRecord) -> tuple[str, dict[str, Any]]:
    row = _parse_object("value", record.value)
    op = row.pop(OP, "U")
    if op not in _OPERATIONS:
        raise _BadRecordError(f"{OP} is {json.dumps(op)[:40]}, not one of {', '.join(_OPERATIONS)}")
    return op, row


def _read_upsert(record: KafkaRecord) -> tuple[str, dict[str, Any]]:
    if record.value is None:
        return "D", _parse_object("key", record.key)
    return "U", _parse_object("value", record.value)


def _parse_object(part: str, data: bytes | None) -> dict[str, Any]:
    if data is None:
        raise _BadRecordError(f"the record has no {part}")
    try:
        parsed = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _BadRecordError(f"the {part} is no JSON text: {error}") from error
    if not isinstance(parsed, dict):
        raise _BadRecordError(f"the {part} is no JSON object")
    return parsed


def _find_problem(op: str, row: Mapping[str, Any], columns: TableColumns) -> str | None:
    needed = columns.needed_by_deletes if op == "D" else columns.primary_key
    missing = [name for name in needed if row.get(name) is None]
    if missing:
        return f"{', '.join(missing)} must not be null"
    for field in columns.fields:
        value = row.get(field["name"])
        if value is not None and not _fits(value, field["type"]):
            return f"{field['name']} is {json.dumps(value)[:40]}, which is no {field['type']}"
    return None


def _fits(value: Any, type_: Any) -> bool:
    """Whether a JSON value may be of this type. Texts of dates and times are parsed by the drain only."""
    if not isinstance(type_, str):
        return isinstance(value, (dict, list))
    if type_ == "boolean":
        return isinstance(value, bool)
    if type_ in ("int", "long"):
        limit = 2 ** (31 if type_ == "int" else 63)
        return isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit
    if type_.startswith(_NUMBERS):
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, str)
