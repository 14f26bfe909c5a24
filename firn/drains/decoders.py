"""The decoders of records in Python, which Spark's tasks and the light engine share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from firn.lazy_names import load_name
from firn.protocol.answers.logs import LogOut
from firn.protocol.avro.wire_format import AVRO_FORMATS, DEBEZIUM_AVRO
from firn.protocol.cdc.decoding import EnvelopeDecoder
from firn.protocol.cdc.rows import EMPTY, STOP, Row, RowColumns
from firn.protocol.cdc.sources import parse_sources

if TYPE_CHECKING:
    from firn.protocol.avro.decoding import AvroDecoder, Schemas

__all__ = ["EMPTY", "JSON_FORMATS", "build_columns", "build_decoder", "name_set"]

FIRN_JSON, UPSERT_JSON = "firn-json", "upsert-json"
JSON_FORMATS = (FIRN_JSON, UPSERT_JSON)
"""Formats whose rows are JSON objects of the table's columns. They have decoders of their own in each engine."""
_AVRO_DECODERS = {
    "firn.protocol.avro.debezium": ("DebeziumAvroDecoder",),
    "firn.protocol.avro.decoding": ("AvroDecoder",),
}
"""They need fastavro, which a driver may lack."""


def build_columns(
    log: LogOut,
    types: Mapping[str, str],
    *,
    key: Sequence[str],
    needed_by_deletes: Sequence[str],
    is_partial: bool,
    is_insert_only: bool,
) -> RowColumns:
    """The columns for which a table's records are decoded. A truncate is bad in a batch: it has one of its own."""
    return RowColumns(
        types=types,
        keys=key,
        needed_by_deletes=needed_by_deletes,
        is_partial=is_partial,
        is_insert_only=is_insert_only,
        sources=parse_sources(log.source_tables) if log.source_tables else (),
        source_column=log.source_column,
        schema_changes=log.schema_changes,
        truncates=STOP if log.truncates == EMPTY else log.truncates,
    )


def build_decoder(log: LogOut, columns: RowColumns, schemas: Schemas) -> EnvelopeDecoder | AvroDecoder:
    """The decoder of the log's format, which is none of JSON_FORMATS. `schemas` are those of Avro records."""
    if log.format not in AVRO_FORMATS:
        return EnvelopeDecoder(log.format, columns)
    name = "DebeziumAvroDecoder" if log.format == DEBEZIUM_AVRO else "AvroDecoder"
    decoder = cast("type[AvroDecoder]", load_name(__name__, _AVRO_DECODERS, name))
    return decoder(schemas, columns)


def name_set(row: Row, field_ids: Mapping[str, int], key: Sequence[str]) -> str | None:
    """The ids of the columns that a row sets; None for all."""
    if row.set_columns is None:
        return None
    return ",".join(str(field_ids[name]) for name in row.set_columns if name not in key)
