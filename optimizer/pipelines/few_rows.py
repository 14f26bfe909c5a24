"""Rows that are few enough for the driver, which compares and writes them without jobs of Spark.

Each job of Spark that joins, sorts or writes a few rows takes a tenth of a CPU second, whatever the rows are
(docs/decisions/0220-runs-with-few-changes-need-two-jobs.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    FractionalType,
    IntegralType,
    NumericType,
    StringType,
    StructField,
    TimestampNTZType,
    TimestampType,
)

from firn.spark.target import Target
from optimizer.pipelines.difference import DELETE, OP, UPSERT, find_identity

_FLAT = (NumericType, StringType, BinaryType, BooleanType, DateType, TimestampType, TimestampNTZType)

Row = tuple[object, ...]


def can_compare(fields: Sequence[StructField], identity: Sequence[str]) -> bool:
    """Whether Python compares rows of these columns as Spark does. `identity` names those of the key."""
    kinds = {field.name: field.dataType for field in fields}
    return all(map(_is_flat, kinds.values())) and not any(_is_fraction(kinds[name]) for name in identity)


def _is_flat(kind: DataType) -> bool:
    """Whether it is a type without parts. Text of other collations has other values that are equal."""
    is_collated = isinstance(kind, StringType) and kind != StringType()
    return isinstance(kind, _FLAT) and not is_collated


def _is_fraction(kind: DataType) -> bool:
    """Whether values that Spark takes for one are several in Python: those of NaN."""
    return isinstance(kind, FractionalType) and not isinstance(kind, (DecimalType, IntegralType))


@dataclass(frozen=True)
class FewChanges:
    """The difference between few computed rows and those of a keyed table: rows with their operation."""

    rows: pa.Table
    written: int
    deleted: int
    unchanged: int


def compare_few(computed: pa.Table, current: pa.Table, target: Target) -> FewChanges | None:
    """As `optimizer.pipelines.difference.compare_rows`; None if a computed row has no key, or one that another has."""
    places = [target.columns.index(name) for name in find_identity(target)]
    new, old = (_list_rows(rows, target.columns) for rows in (computed, current))
    keys, known = [_pick(row, places) for row in new], {_pick(row, places): row for row in old}
    if len({*keys}) < len(keys) or None in chain.from_iterable(keys):
        return None
    is_repeated = len(known) < len(old)  # rows of files that Hive wrote may share a key
    upserts = [
        number
        for number, key in enumerate(keys)
        if is_repeated or key not in known or not is_same(new[number], known[key])
    ]
    gone = {*known} - {*keys}
    deletes = [number for number, row in enumerate(old) if _pick(row, places) in gone]
    schema = pa.schema([pa.field(name, computed.schema.field(name).type) for name in target.columns])
    rows = pa.concat_tables([_take(computed, upserts, schema, UPSERT), _take(current, deletes, schema, DELETE)])
    return FewChanges(rows, len(upserts), len(deletes), len(keys) - len(upserts))


def is_same(new: Row, old: Row) -> bool:
    """Whether two rows are the same to Spark: null equals null, and NaN equals NaN."""
    return new == old or all(a == b or (a != a and b != b) for a, b in zip(new, old, strict=True))  # noqa: PLR0124


def _list_rows(rows: pa.Table, columns: Sequence[str]) -> list[Row]:
    return list(zip(*(rows[name].to_pylist() for name in columns), strict=True))


def _pick(row: Row, places: Sequence[int]) -> Row:
    return tuple(row[place] for place in places)


def _take(rows: pa.Table, numbers: Sequence[int], schema: pa.Schema, op: str) -> pa.Table:
    """Some rows with their operation. Rows of the table may have nulls where computed ones never have."""
    taken = pa.table([rows[name].cast(schema.field(name).type) for name in schema.names], schema=schema)
    taken = taken.take(pa.array(numbers, pa.int64()))
    return taken.append_column(OP, pa.array([op] * len(numbers), pa.string()))
