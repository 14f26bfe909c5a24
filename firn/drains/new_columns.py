"""Finds the columns that records of a log have and the table lacks, and lets the server add them.

See docs/streams.md#new-columns. A drain adds columns before it writes the first record that has a value for them. If it
dies in between, the next one finds the columns there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from firn.client import TableHandle
from firn.drains.decoders import JSON_FORMATS, build_decoder
from firn.protocol.answers.logs import LogOut
from firn.protocol.avro.wire_format import AVRO_FORMATS
from firn.protocol.cdc.envelope import BadRecord, Envelope, Kind
from firn.protocol.cdc.formats import read_envelope
from firn.protocol.cdc.json_text import parse_object
from firn.protocol.cdc.rows import ADD, RowColumns, list_unknown
from firn.protocol.cdc.sources import matches_source
from firn.protocol.log_columns import explain_name, guess_json_type, is_column_type, merge_types

if TYPE_CHECKING:
    from firn.protocol.avro.decoding import AvroDecoder, Schemas

OP = "_op"
KeyAndValue = tuple[bytes | None, bytes | None]


@dataclass(frozen=True)
class ColumnFinder:
    """Looks at records for columns that the table lacks. It travels to Spark's Python tasks.

    `decoder` is that of Avro records; None for other formats.
    """

    format: str
    columns: RowColumns
    decoder: AvroDecoder | None = None

    @classmethod
    def of(cls, log: LogOut, columns: RowColumns, schemas: Schemas) -> ColumnFinder:
        """A finder for the records of a log. `schemas` are those of Avro records."""
        columns = replace(columns, schema_changes=ADD)
        decoder: Any = build_decoder(log, columns, schemas) if log.format in AVRO_FORMATS else None
        return cls(log.format, columns, decoder)

    def find(self, records: Iterable[KeyAndValue]) -> dict[str, str]:
        """The types by column. A bad record tells nothing."""
        types: dict[str, str] = {}
        for key, value in records:
            try:
                merge_types(types, dict(self._describe(key, value)))
            except BadRecord:
                continue
        return types

    def _describe(self, key: bytes | None, value: bytes | None) -> Iterator[tuple[str, str]]:
        pairs = self._describe_json(value) if self.format in JSON_FORMATS else self._describe_envelope(key, value)
        for name, type_ in pairs:
            if explain_name(name, self.columns.types) is None and is_column_type(type_):
                yield name, type_

    def _describe_json(self, value: bytes | None) -> Iterator[tuple[str, str]]:
        values = {} if value is None else parse_object("value", value)
        for name, item in values.items():
            if item is not None and name not in self.columns.types:
                yield name, guess_json_type(item)

    def _describe_envelope(self, key: bytes | None, value: bytes | None) -> Iterator[tuple[str, str]]:
        envelope = self._read(key, value)
        if envelope.kind is not Kind.ROWS or envelope.source is None:
            return
        if not matches_source(envelope.source.name, self.columns.sources):
            return
        for change in envelope.changes:
            names = [] if change.op == "D" else list_unknown(change.values, envelope, self.columns)
            for name in names:
                yield name, envelope.types.get(name) or guess_json_type(change.values[name])

    def _read(self, key: bytes | None, value: bytes | None) -> Envelope:
        return read_envelope(self.format, key, value) if self.decoder is None else self.decoder.describe(key, value)


@dataclass
class NewColumns:
    """The columns that a drain adds to its table. `added` names them in order."""

    handle: TableHandle
    stream_lease: str | None = field(default=None, repr=False)
    """The lease of the table's stream, if an optimizer runs the drain."""
    added: list[str] = field(default_factory=list)

    def add(self, types: dict[str, str]) -> bool:
        """Let the server add columns; whether it has added one.

        The records of names that a table cannot have stay bad. Raises FirnError if nobody may alter the table now, such
        as during its downgrade: such records are not bad, and the next drain brings them.
        """
        if not types:
            return False
        added = self.handle.log.add_columns(types, stream_lease=self.stream_lease).added
        self.added += [name for name in added if name not in self.added]
        return bool(added)
