"""The readers of all formats of change data capture, in JSON and in Avro."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, cast

from firn.protocol.avro.wire_format import DEBEZIUM_AVRO, read_schema_id
from firn.protocol.cdc.debezium import Reader
from firn.protocol.cdc.formats import CDC_JSON_FORMATS, read_envelope
from firn.protocol.cdc.rows import RowColumns

if TYPE_CHECKING:
    from firn.protocol.avro.debezium import DebeziumAvroDecoder
    from firn.protocol.avro.decoding import Schemas

CDC_FORMATS = (*CDC_JSON_FORMATS, DEBEZIUM_AVRO)
KeyAndValue = tuple[bytes | None, bytes | None]
UNKNOWN_SCHEMAS = ("stop", "quarantine")
"""What `firn cdc` does with a record whose schema the registry does not have."""
_NO_SCHEMAS: Mapping[int, Sequence[str]] = {}
_NO_COLUMNS = RowColumns(types={}, keys=(), needed_by_deletes=())
_AVRO_READERS = "firn.protocol.avro.debezium"
"""Loaded when it is needed: it needs fastavro, which a driver of Spark may lack."""


def build_reader(format: str, schemas: Schemas = _NO_SCHEMAS) -> Reader:
    """The reader of a format, which Spark's Python tasks can take. `schemas` are those of Avro records."""
    if format != DEBEZIUM_AVRO:
        return partial(read_envelope, format)
    decoder = cast("type[DebeziumAvroDecoder]", import_module(_AVRO_READERS).DebeziumAvroDecoder)
    return decoder(schemas, _NO_COLUMNS).read_envelope


def list_schema_ids(records: Iterable[KeyAndValue]) -> list[int]:
    """The schema ids that keys and values begin with, in ascending order; none for a tombstone's key."""
    parts = (part for key, value in records if value is not None for part in (key, value))
    numbers = (read_schema_id(part) for part in parts)
    return sorted({number for number in numbers if number is not None})
