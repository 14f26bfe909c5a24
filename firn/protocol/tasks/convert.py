"""The task of a conversion: where a Hive table's rows lie, how they are stored, and what they fill."""

from __future__ import annotations

from enum import StrEnum

from firn.protocol.base import Message, Task


class Column(Message):
    """A column as Hive spells it."""

    name: str
    type: str


class Reader(StrEnum):
    """What turns lines or records into rows."""

    SERDE = "serde"  # Hive's own classes inside Spark
    JSON = "json"  # Firn


class Layout(Message):
    """How files are stored: the classes and settings of Hive's that read them, and the columns that are in them."""

    reader: Reader
    serde: str
    input_format: str
    parameters: dict[str, str]
    columns: list[Column]


class Unit(Message):
    """A partition, or a table without: its values as Hive spells them, None for null, and the number of its layout."""

    location: str
    values: list[str | None]
    layout: int


class ConvertTask(Task):
    """One conversion. `columns` have the types that rows get, `table` is how the metastore says that rows are stored.

    The first `header_lines` of each file are no rows. `parameters` are the Hive table's. No row may lack a value in the
    columns of the `primary_key`, and if `unique` none may have another's key.
    """

    parts: list[str]
    source: str
    columns: list[Column]
    partition_columns: list[Column]
    table: Layout
    parameters: dict[str, str]
    header_lines: int
    layouts: list[Layout]
    units: list[Unit]
    writer: str
    batch: str
    primary_key: list[str]
    unique: bool
