"""Records of the formats that `firn.protocol` decodes, change data capture and Avro, as changes in Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from firn.drains.changes import BadRecord, Changes, build_changes, explain_row
from firn.drains.decoders import build_columns, build_decoder, name_set
from firn.drains.layout import OP, SET, ChangeLayout
from firn.drains.new_columns import ColumnFinder
from firn.errors import NotFound, Refused
from firn.logs import TableLog
from firn.protocol.answers.logs import LogOut
from firn.protocol.avro.wire_format import AVRO_FORMATS, read_schema_id
from firn.protocol.cdc.envelope import BadRecord as NoChange

MOST_SCHEMAS = 1_000
"""The largest number of schemas in one batch."""


@dataclass
class KnownSchemas:
    """The Avro schemas of a log. It asks for each one once: the schema of an id never changes."""

    log: TableLog
    _texts: dict[int, Sequence[str]] = field(default_factory=dict)

    def load(self, messages: Iterable[Any]) -> Mapping[int, Sequence[str]]:
        """The schemas that the records name; ids that the registry does not have are missing.

        Raises Refused for more than 1,000 schemas, and FirnError if the registry does not answer.
        """
        ids = {read_schema_id(part) for message in messages for part in (message.key(), message.value())} - {None}
        if len(ids) > MOST_SCHEMAS:
            raise Refused(
                f"the records have more than {MOST_SCHEMAS:,} schemas",
                hint="check that the topic has records in the wire format of a schema registry: firn log check",
            )
        for number in ids:
            if number is not None and number not in self._texts:
                try:
                    self._texts[number] = self.log.schema(number).texts
                except NotFound:  # it may be registered later
                    continue
        return {number: self._texts[number] for number in ids if number in self._texts}


@dataclass(frozen=True)
class RowsDecoder:
    """Decodes the records of one table."""

    layout: ChangeLayout
    log: LogOut
    schemas: KnownSchemas

    def decode(self, messages: Sequence[Any]) -> Changes:
        """Decode some records. A record with a bad change is bad as a whole."""
        schemas = self.load_schemas(messages)
        decoder, bad = build_decoder(self.log, self._columns, schemas), list[BadRecord]()
        rows, sources = list[dict[str, Any]](), list[Any]()
        for message in messages:
            try:
                decoded = decoder.decode(message.key(), message.value())
            except NoChange as error:
                bad.append(BadRecord(message, error.reason, error.column))
                continue
            faults = (explain_row(row.op, row.values, self.layout, self.log) for row in decoded)
            fault = next((why for why in faults if why is not None), None)
            if fault is not None:
                bad.append(BadRecord(message, *fault))
                continue
            kept = [row for row in decoded if row.op != "D" or self.log.deletes != "ignore"]
            rows += [{**row.values, OP: row.op, SET: self._name_set(row)} for row in kept]
            sources += [message] * len(kept)
        return build_changes(rows, sources, bad, self.layout.target)

    def load_schemas(self, messages: Iterable[Any]) -> Mapping[int, Sequence[str]]:
        """The schemas of Avro records; none for other formats."""
        return self.schemas.load(messages) if self.log.format in AVRO_FORMATS else {}

    def find_columns(self, messages: Sequence[Any]) -> dict[str, str]:
        """The types of columns that records have and the table lacks."""
        finder = ColumnFinder.of(self.log, self._columns, self.load_schemas(messages))
        return finder.find((message.key(), message.value()) for message in messages)

    def _name_set(self, row: Any) -> str | None:
        return name_set(row, self._field_ids, self.layout.key) if self.layout.is_partial else None

    @cached_property
    def _field_ids(self) -> Mapping[str, int]:
        return {column.name: column.field_id for column in self.layout.columns}

    @cached_property
    def _columns(self) -> Any:
        layout = self.layout
        return build_columns(
            self.log,
            layout.types,
            key=layout.key,
            needed_by_deletes=layout.delete_columns,
            is_partial=layout.is_partial,
            is_insert_only=layout.is_insert_only,
        )
