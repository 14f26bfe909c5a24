"""Records of a log as changes of a table, for a look at a few of them. Drains decode by the same rules in Spark.

`firn-json`   the value is an object of the table's columns; `_op` is `I`, `U` (the default) or `D`; of an insert-only
              table `I`.
`avro`        see firn/protocol/avro/decoding.py.
`debezium-json`, `canal-json`, `maxwell-json`: see catalog/kafka/envelopes.py.
`upsert-json` Flink's `upsert-kafka`: the key is an object of the key columns, the value one of all columns, or null for
              a delete.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from catalog.kafka.cluster import KafkaRecord
from catalog.kafka.decoded_record import NO_INSERT, DecodedRecord, TableColumns
from catalog.kafka.envelopes import RowDecoder, build_row_columns, decode_rows
from catalog.keyed.schema import OP
from catalog.policy.log_settings import UPSERT_JSON, LogSettings
from firn.protocol.avro.debezium import DebeziumAvroDecoder
from firn.protocol.avro.decoding import AvroDecoder, Schemas
from firn.protocol.avro.wire_format import AVRO, DEBEZIUM_AVRO
from firn.protocol.cdc.decoding import EnvelopeDecoder
from firn.protocol.cdc.formats import CDC_JSON_FORMATS
from firn.protocol.cdc.rows import IGNORE, LACKS_COLUMN, STOP
from firn.protocol.log_columns import explain_name

_OPERATIONS = ("I", "U", "D")
_NUMBERS = ("float", "double", "decimal")


@dataclass(frozen=True)
class RecordDecoder:
    """Decodes records of one table. `schemas` are those of Avro records."""

    settings: LogSettings
    columns: TableColumns
    schemas: Schemas = field(default_factory=dict)

    def decode(self, record: KafkaRecord) -> DecodedRecord:
        """Decode one record; every problem of it is part of the answer."""
        own_decoder = self._row_decoder
        decoded = self._decode_json(record) if own_decoder is None else decode_rows(record, own_decoder)
        is_left_out = decoded.op == "D" and self.settings.deletes == "ignore"
        if self.columns.is_insert_only and decoded.op in ("U", "D") and not is_left_out and decoded.problem is None:
            return replace(decoded, problem=NO_INSERT)
        return decoded

    @cached_property
    def _row_decoder(self) -> RowDecoder | None:
        """The decoder of a format that Python tasks decode; None for the others."""
        if self.settings.format == AVRO:
            return AvroDecoder(self.schemas, build_row_columns(self.settings, self.columns))
        if self.settings.format == DEBEZIUM_AVRO:
            return DebeziumAvroDecoder(self.schemas, build_row_columns(self.settings, self.columns))
        if self.settings.format in CDC_JSON_FORMATS:
            return EnvelopeDecoder(self.settings.format, build_row_columns(self.settings, self.columns))
        return None

    def _decode_json(self, record: KafkaRecord) -> DecodedRecord:
        read = _read_upsert if self.settings.format == UPSERT_JSON else _read_change
        try:
            op, row = read(record, "I" if self.columns.is_insert_only else "U")
        except _BadRecordError as bad:
            return DecodedRecord(record=record, problem=str(bad))
        names = {column["name"] for column in self.columns.fields}
        unknown = tuple(sorted(row.keys() - names))
        problem = _find_problem(op, row, self.columns)
        if problem is None and op != "D":
            problem = self._explain_unknown(row, unknown)
        known = {name: value for name, value in row.items() if name in names}
        return DecodedRecord(record=record, op=op, row=known, problem=problem, unknown=unknown)

    def _explain_unknown(self, row: Mapping[str, Any], unknown: Sequence[str]) -> str | None:
        """Why a record with values without a column is bad; None if a drain adds the columns, or leaves them out."""
        if self.settings.schema == IGNORE:
            return None
        names = [column["name"] for column in self.columns.fields]
        for name in unknown:
            is_lost = row[name] is not None
            if is_lost and (self.settings.schema == STOP or explain_name(name, names) is not None):
                return f"{LACKS_COLUMN} {name[:80]}"
        return None


class _BadRecordError(Exception):
    """The record is no change."""


def _read_change(record: KafkaRecord, default: str) -> tuple[str, dict[str, Any]]:
    row = _parse_object("value", record.value)
    op = row.pop(OP, default)
    if op not in _OPERATIONS:
        raise _BadRecordError(f"{OP} is {json.dumps(op)[:40]}, not one of {', '.join(_OPERATIONS)}")
    return op, row


def _read_upsert(record: KafkaRecord, default: str) -> tuple[str, dict[str, Any]]:
    if record.value is None:
        return "D", _parse_object("key", record.key)
    return default, _parse_object("value", record.value)


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
    for column in columns.fields:
        value = row.get(column["name"])
        if value is not None and not _fits(value, column["type"]):
            return f"{column['name']} is {json.dumps(value)[:40]}, which is no {column['type']}"
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
