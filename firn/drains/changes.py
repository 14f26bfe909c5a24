"""The changes of a batch in Arrow, and its bad records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from firn.drains.errors import NeedsSpark
from firn.drains.layout import OP, ChangeLayout
from firn.protocol.answers.logs import LogOut

PARTITION, OFFSET = "_firn_partition", "_firn_offset"
PLACE_FIELDS = (pa.field(PARTITION, pa.int32()), pa.field(OFFSET, pa.int64()))


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that is no change. `reason` is one of few fixed sentences; `message` is that of Kafka's client."""

    message: Any
    reason: str
    column: str | None = None

    @property
    def place(self) -> tuple[int, int]:
        """The record's partition and offset."""
        return self.message.partition(), self.message.offset()


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of some records: the table's columns, `_op`, on partial tables `_set`, PARTITION and OFFSET."""

    rows: pa.Table
    bad: Sequence[BadRecord]


def build_changes(
    rows: Sequence[Mapping[str, Any]], messages: Sequence[Any], bad: Sequence[BadRecord], target: pa.Schema
) -> Changes:
    """Changes of rows and, for each, the message that it comes from."""
    columns = [to_array([row.get(field.name) for row in rows], field.type) for field in target]
    return build_from_arrays(columns, messages, bad, target)


def build_from_arrays(
    columns: Sequence[pa.Array], messages: Sequence[Any], bad: Sequence[BadRecord], target: pa.Schema
) -> Changes:
    """Changes of columns in the order of `target`, and the message of each row."""
    places = [
        pa.array([message.partition() for message in messages], pa.int32()),
        pa.array([message.offset() for message in messages], pa.int64()),
    ]
    return Changes(pa.table([*columns, *places], schema=pa.schema([*target, *PLACE_FIELDS])), bad)


def to_array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """An array of values that a decoder has fitted; NeedsSpark for one that Arrow does not take."""
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise NeedsSpark(f"a record has a value that is no {kind} in Arrow: {str(error)[:200]}") from error


def explain_row(op: Any, row: Mapping[str, Any], layout: ChangeLayout, log: LogOut) -> tuple[str, str | None] | None:
    """Why a decoded row is no change of the table, and its column; None if it is one.

    These are the rules of `firn.spark.log_records`, in the same order.
    """
    if op not in ("I", "U", "D"):
        return "_op is not I, U or D", OP
    if layout.is_insert_only and op != "I" and (op != "D" or log.deletes != "ignore"):
        return "the table is insert-only, and the record is no insert", OP
    for name in layout.needed:
        if row.get(name) is None:
            return "the column must not be null", name
    if op != "D":
        return None
    for name in layout.delete_columns:
        if row.get(name) is None:
            return "a delete needs the column", name
    return ("the record is a delete, and firn.log.deletes is stop", None) if log.deletes == "stop" else None
