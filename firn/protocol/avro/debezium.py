"""Decodes Debezium's envelopes in Avro, by the rules of `debezium-json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from firn.protocol.avro.connect import Field, build_fields, strip_schema, to_json_value
from firn.protocol.avro.decoding import AvroDecoder
from firn.protocol.avro.schemas import parse_schema
from firn.protocol.avro.wire_format import read_schema_id
from firn.protocol.cdc.debezium import Part, read_parts
from firn.protocol.cdc.decoding import require_few
from firn.protocol.cdc.envelope import NOTHING, BadRecord, Envelope
from firn.protocol.cdc.rows import Row, build_rows


@dataclass(frozen=True)
class DebeziumAvroDecoder(AvroDecoder):
    """The schemas of a batch, and the columns of the table. It travels to Spark's Python tasks."""

    _fields: dict[int, Mapping[str, Field]] = field(default_factory=dict, repr=False, compare=False)

    def decode(self, key: bytes | None, value: bytes | None) -> list[Row]:
        """The rows of a record; none for records of other tables, and for those without rows. BadRecord tells why."""
        return require_few(build_rows(self.read_envelope(key, value), self.columns))

    def read_envelope(self, key: bytes | None, value: bytes | None) -> Envelope:
        """What a record tells. BadRecord if it is no envelope of Debezium."""
        if value is None:
            return NOTHING
        return read_parts(lambda: None if key is None else self._read_part("key", key), self._read_part("value", value))

    def describe(self, key: bytes | None, value: bytes | None) -> Envelope:
        """What a record tells, with the types of its columns: an envelope has them already."""
        return self.read_envelope(key, value)

    def _read_part(self, name: str, data: bytes) -> Part:
        payload = to_json_value(self._read(name, data))
        if not isinstance(payload, dict):
            raise BadRecord(f"the schema of the {name} is no record")
        number = read_schema_id(data)
        return Part(payload, {} if number is None else self._fields[number])

    def _parse_texts(self, number: int, texts: Sequence[str]) -> Any:
        parsed = parse_schema(strip_schema(texts))
        self._fields[number] = build_fields(texts)
        return parsed
