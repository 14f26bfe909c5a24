"""Decodes Avro records of one table, by the rules of `upsert-json`: a record without a value deletes its key."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time
from typing import Any
from uuid import UUID

import fastavro

from firn.protocol.avro.column_types import list_column_types
from firn.protocol.avro.schemas import BadSchemaError, parse_schema
from firn.protocol.avro.wire_format import PREFIX_BYTES, read_schema_id
from firn.protocol.cdc.envelope import BadRecord, Encoding, Envelope, Kind, RowChange, SourceTable
from firn.protocol.cdc.rows import Row, RowColumns, build_rows

_TOPIC = SourceTable("", None, "")
"""Records of this format name no table of a source."""
_ENCODING = Encoding()

Schemas = Mapping[int, Sequence[str]]
"""The texts of each schema, with those that it refers to first; ids that the registry does not have are missing."""


@dataclass(frozen=True)
class AvroDecoder:
    """The schemas of a batch, and the columns of the table. It travels to Spark's Python tasks."""

    schemas: Schemas
    columns: RowColumns
    _parsed: dict[int, Any] = field(default_factory=dict, repr=False, compare=False)

    def decode(self, key: bytes | None, value: bytes | None) -> list[Row]:
        """The row of a record; BadRecord tells why it has none."""
        return build_rows(self.read_envelope(key, value), self.columns)

    def read_envelope(self, key: bytes | None, value: bytes | None) -> Envelope:
        """What a record tells, without the types of its columns. BadRecord if it is no record of the format."""
        if value is None:
            change = RowChange("D", self._read_key(key))
        else:
            row = self._read_row(value)
            known = {name.casefold() for name in row}
            lacks_key = any(name.casefold() not in known for name in self.columns.keys)
            change = RowChange("U", {**self._select_key(key), **row} if lacks_key else row, is_insert=True)
        return Envelope(kind=Kind.ROWS, source=_TOPIC, changes=(change,), encoding=_ENCODING)

    def describe(self, key: bytes | None, value: bytes | None) -> Envelope:
        """What a record tells, with the types of its columns as its schema has them."""
        envelope, number = self.read_envelope(key, value), read_schema_id(value)
        return envelope if number is None else replace(envelope, types=list_column_types(self._find_schema(number)))

    def _read_row(self, value: bytes) -> dict[str, Any]:
        row = self._read("value", value)
        if not isinstance(row, dict):
            raise BadRecord("the schema of the value is no record")
        return {name: _to_column(item) for name, item in row.items()}

    def _select_key(self, key: bytes | None) -> dict[str, Any]:
        """The key columns of a record whose value lacks some. Other fields of the key are no columns."""
        names = {name.casefold() for name in self.columns.keys}
        return {name: value for name, value in self._read_key(key).items() if name.casefold() in names}

    def _read_key(self, key: bytes | None) -> dict[str, Any]:
        """The key columns: those of a record, or a single value if the table's key has one column."""
        if key is None:
            raise BadRecord("the record has no key")
        values = self._read("key", key)
        if isinstance(values, dict):
            return {name: _to_column(item) for name, item in values.items()}
        if len(self.columns.keys) != 1:
            raise BadRecord("the schema of the key is no record")
        return {self.columns.keys[0]: _to_column(values)}

    def _read(self, part: str, data: bytes) -> Any:
        number = read_schema_id(data)
        if number is None:
            raise BadRecord(f"the {part} does not begin with the id of a schema")
        schema = self._find_schema(number)
        payload = io.BytesIO(data)
        payload.seek(PREFIX_BYTES)
        try:
            read = fastavro.schemaless_reader(payload, schema, None)
        except Exception:  # noqa: BLE001 -- fastavro raises many types for bytes that are no value of the schema
            raise BadRecord(f"the {part} does not fit its schema") from None
        if payload.tell() != len(data):
            raise BadRecord(f"the {part} is longer than its schema says")
        return read

    def _find_schema(self, number: int) -> Any:
        if number not in self._parsed:
            self._parsed[number] = self._parse(number)
        schema = self._parsed[number]
        if isinstance(schema, BadRecord):
            raise BadRecord(schema.reason)
        return schema

    def _parse(self, number: int) -> Any:
        texts = self.schemas.get(number)
        if texts is None:
            return BadRecord("the schema registry has no Avro schema of this id")
        try:
            return self._parse_texts(number, texts)
        except BadSchemaError as error:
            return BadRecord(str(error))

    def _parse_texts(self, _number: int, texts: Sequence[str]) -> Any:
        return parse_schema(texts)


def _to_column(value: Any) -> Any:
    """A value of Avro as one that columns take: parts of records, lists and maps as JSON has them."""
    if isinstance(value, (dict, list)):
        return _to_json(value)
    return value.isoformat() if isinstance(value, time) else str(value) if isinstance(value, UUID) else value


def _to_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _to_json(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_to_json(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, (date, datetime, time)):
        return value.isoformat()
    return str(value) if isinstance(value, UUID) else value
