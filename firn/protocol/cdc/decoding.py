"""Decodes the records of one table."""

from __future__ import annotations

from dataclasses import dataclass

from firn.protocol.cdc.envelope import BadRecord
from firn.protocol.cdc.formats import read_envelope
from firn.protocol.cdc.rows import Row, RowColumns, build_rows

MOST_ROWS = 2**16
"""The number of rows that one record may have: reads of the log number them."""


@dataclass(frozen=True, slots=True)
class EnvelopeDecoder:
    """A format, and the columns of the table."""

    format: str
    columns: RowColumns

    def decode(self, key: bytes | None, value: bytes | None) -> list[Row]:
        """The rows of a record; none for records of other tables, and for those without rows. BadRecord tells why."""
        return require_few(build_rows(read_envelope(self.format, key, value), self.columns))


def require_few(rows: list[Row]) -> list[Row]:
    """The rows of one record; BadRecord for more than MOST_ROWS."""
    if len(rows) > MOST_ROWS:
        raise BadRecord("the record has too many rows")
    return rows
