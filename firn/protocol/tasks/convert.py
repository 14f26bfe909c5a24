"""The task of a conversion: the location and storage of a Hive table's rows, and the table that they fill."""

from __future__ import annotations

from enum import StrEnum

from firn.protocol.base import Message, Task


class Column(Message):
    """A column as Hive spells it."""

    name: str
    type: str


class Reader(StrEnum):
    """The code that turns files into rows."""

    SERDE = "serde"  # Hive's own classes inside Spark
    PARQUET = "parquet"  # Spark, by the names of columns
    JSON = "json"  # Firn


class Layout(Message):
    """The storage of files: the Hive classes and settings that read them, and their columns."""

    reader: Reader
    serde: str
    input_format: str
    parameters: dict[str, str]
    columns: list[Column]


class Unit(Message):
    """A partition, or a table without partitions. Values have Hive's spelling, None for null; `layout` is an index."""

    location: str
    values: list[str | None]
    layout: int


class ConvertTask(Task):
    """One conversion. `columns` have the types of the new table; `table` is the storage that the metastore names.

    The first `header_lines` of each file are no rows. `parameters` are those of the Hive table. Every row needs a value
    in the columns of the `primary_key`; if `unique`, each key may occur once.
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
