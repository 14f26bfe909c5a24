"""Records of formats that drains decode in Python, for a look at a few of them: the same code decodes both."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any, Protocol

from catalog.kafka.cluster import KafkaRecord
from catalog.kafka.decoded_record import DecodedRecord, TableColumns
from catalog.policy.log_settings import LogSettings
from firn.protocol.cdc.envelope import BadRecord
from firn.protocol.cdc.rows import ADD, IGNORE, Row, RowColumns
from firn.protocol.cdc.sources import parse_sources


class RowDecoder(Protocol):
    """Decodes the records of one table."""

    def decode(self, key: bytes | None, value: bytes | None) -> list[Row]:
        """The rows of a record; BadRecord tells why it has none."""


def decode_rows(record: KafkaRecord, decoder: RowDecoder) -> DecodedRecord:
    """Decode one record. If it has several changes, the answer has the first one; it has none for a heartbeat."""
    try:
        rows = decoder.decode(record.key, record.value)
    except BadRecord as bad:
        return DecodedRecord(record=record, problem=str(bad))
    if not rows:
        return DecodedRecord(record=record)
    shown = {name: _to_json(value) for name, value in rows[0].values.items()}
    return DecodedRecord(record=record, op=rows[0].op, row=shown)


def build_row_columns(settings: LogSettings, columns: TableColumns) -> RowColumns:
    """The columns for which a table's records are decoded."""
    types: Mapping[str, Any] = {field["name"]: field["type"] for field in columns.fields}
    return RowColumns(
        types={name: type_ if isinstance(type_, str) else "nested" for name, type_ in types.items()},
        keys=columns.primary_key,
        needed_by_deletes=columns.needed_by_deletes,
        is_partial=columns.is_partial,
        is_insert_only=columns.is_insert_only,
        sources=parse_sources(settings.source_tables) if settings.source_tables else (),
        source_column=settings.source_column,
        # A look at a few records adds no columns: it shows them without.
        schema_changes=IGNORE if settings.schema == ADD else settings.schema,
        truncates=settings.truncates,
    )


def _to_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value) if isinstance(value, (date, Decimal, float)) else value
