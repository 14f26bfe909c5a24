"""The result of reading one record of change data capture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any, Final


class BadRecord(Exception):
    """The record is no change. `reason` is one of few fixed sentences, without values of the record."""

    def __init__(self, reason: str, column: str | None = None) -> None:
        super().__init__(reason if column is None else f"{reason} (column {column})")
        self.reason = reason
        self.column = column


class NotGiven(Enum):
    """The type of NOT_GIVEN."""

    NOT_GIVEN = "not given"


NOT_GIVEN: Final = NotGiven.NOT_GIVEN
"""The value of a column that the source has not sent although it has one, such as an unchanged TOAST value."""


class Kind(StrEnum):
    """What a record tells."""

    ROWS = "rows"
    TRUNCATE = "truncate"  # all rows of the table are gone
    SCHEMA = "schema"  # a DDL statement; columns also come with the rows themselves
    NOTHING = "nothing"  # tombstones, heartbeats, marks of transactions and snapshots


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table of the source. `schema` is there for sources that have schemas inside of databases."""

    database: str
    schema: str | None
    table: str

    @property
    def name(self) -> str:
        """DATABASE.TABLE or DATABASE.SCHEMA.TABLE."""
        parts = (self.database, self.schema, self.table)
        return ".".join(part for part in parts if part is not None)


@dataclass(frozen=True, slots=True)
class RowChange:
    """One change: `op` is `U` (insert or update) or `D` (delete). A delete may have its key columns only."""

    op: str
    values: Mapping[str, Any]
    has_new_key: bool = False
    """Whether the row had another key before, so that the table has no older values of it."""
    is_insert: bool = False
    """Whether the source says that the row is new, or that a snapshot of the source has it."""
    before: Mapping[str, Any] = field(default_factory=dict)
    """Values that an update has replaced, from sources that do not say which columns are the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """How a format writes values that JSON has no type for."""

    bytes: str = "base64"
    """`base64`, `latin-1` or `hex`."""
    numbers_are_days: bool = False
    """Whether a number in a date column counts days since 1970-01-01."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """A record: the table of the source, and the changes in the order in which they take effect."""

    kind: Kind
    source: SourceTable | None = None
    changes: tuple[RowChange, ...] = ()
    keys: tuple[str, ...] = ()
    """The key columns, if the record names them."""
    types: Mapping[str, str] = field(default_factory=dict)
    """The types of columns as Iceberg writes them, as far as the record tells."""
    has_all_columns: bool = True
    """Whether a column that the record lacks does not exist at the source. Otherwise it may be unchanged."""
    is_document: bool = False
    """Whether `types` are the columns, and the values have fields of a document besides."""
    encoding: Encoding = field(default_factory=Encoding)


NOTHING: Final = Envelope(kind=Kind.NOTHING)
