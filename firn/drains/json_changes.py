"""Records of JSON objects as changes in Arrow: column by column, and record by record where one is unusual.

Spark's parser reads more forms of JSON and of values than the usual ones. This module knows which records Spark refuses
for certain. A record that Spark might read in its own way goes to Spark with its batch, so the engines never disagree.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from operator import itemgetter
from typing import Any, cast

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from firn.drains.changes import BadRecord, Changes, build_from_arrays, explain_row, to_array
from firn.drains.decoders import UPSERT_JSON
from firn.drains.errors import NeedsSpark
from firn.drains.layout import OP, SET, ChangeLayout
from firn.protocol.answers.logs import LogOut
from firn.protocol.cdc.rows import IGNORE, LACKS_COLUMN
from firn.scan.log_rows import build_converter

_NONE = type(None)
_PLAIN: Mapping[type[IcebergType], frozenset[type]] = {
    BooleanType: frozenset({bool, _NONE}),
    IntegerType: frozenset({int, _NONE}),
    LongType: frozenset({int, _NONE}),
    DoubleType: frozenset({float, int, _NONE}),
    StringType: frozenset({str, _NONE}),
}
"""JSON's types whose values Arrow takes as they are, by the column's type. Python counts a bool as no int here."""
_TEXTS: Mapping[type[IcebergType], str] = {
    DateType: r"^[12]\d{3}-\d{2}-\d{2}$",
    TimestampType: r"^[12]\d{3}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,6})?$",
    TimestamptzType: r"^[12]\d{3}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,6})?(Z|[+-]\d{2}:\d{2})$",
}
"""Texts that Arrow and Spark read alike."""
_OP_TYPES = frozenset({str, _NONE})


class _NoChangeError(Exception):
    """The record is no change for certain."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class JsonDecoder:
    """Decodes records of the formats `firn-json` and `upsert-json` of one table."""

    layout: ChangeLayout
    log: LogOut

    def decode(self, messages: Sequence[Any]) -> Changes:
        """Decode some records; NeedsSpark if one of them is neither a change nor bad for certain."""
        bad = list[BadRecord]()
        records, objects = self._parse(messages, bad)
        usual = self._read_usual(objects)
        columns, good = self._convert(records, self._read_columns(objects) if usual is None else usual, bad)
        ops = self._read_ops(records, objects)
        if usual is None:
            good = self._leave_out_unknown(records, objects, ops, good, bad)
        if self._may_have_bad_rows(ops, columns):
            good = self._check(records, ops, columns, good, bad)
        kept = [number for number in good if ops[number] != "D" or self.log.deletes != "ignore"]
        arrays = [*columns.values(), pa.array(ops, pa.string())]
        if len(kept) < len(records):
            at = pa.array(kept, pa.int64())
            arrays, records = [array.take(at) for array in arrays], [records[number] for number in kept]
        if self.layout.is_partial:
            arrays.append(pa.nulls(len(records), self.layout.target.field(SET).type))
        target = self.layout.target
        return build_from_arrays(
            [array.cast(f.type) for array, f in zip(arrays, target, strict=True)], records, bad, target
        )

    @property
    def _is_upsert(self) -> bool:
        return self.log.format == UPSERT_JSON

    def _parse(self, messages: Sequence[Any], bad: list[BadRecord]) -> tuple[list[Any], list[dict[str, Any]]]:
        """The records that are JSON objects, and the objects."""
        records, objects, load = list[Any](), list[dict[str, Any]](), self._load
        for message in messages:
            data = message.value()
            try:
                if data is not None and data[:1] == b"{":
                    objects.append(load(data))
                else:
                    objects.append(self._parse_unusual(message))
            except ValueError:
                fault = _find_fault("value", data)
            except _NoChangeError as error:
                fault = error
            else:
                records.append(message)
                continue
            bad.append(BadRecord(message, fault.reason))
        return records, objects

    def _parse_unusual(self, message: Any) -> dict[str, Any]:
        """An object with spaces before it, or the key of a delete."""
        is_delete = message.value() is None and self._is_upsert
        part, data = ("key", message.key()) if is_delete else ("value", message.value())
        if data is None:
            raise _NoChangeError(f"the record has no {part}")
        try:
            parsed = self._load(data)
        except ValueError:
            raise _find_fault(part, data) from None
        if not data.lstrip(b" ").startswith(b"{"):
            raise _NoChangeError(f"the {part} is not a JSON object")
        return cast("dict[str, Any]", parsed)

    @cached_property
    def _load(self) -> Callable[[bytes], Any]:
        """A strict parser. Decimals need the digits of the text, which the fast one does not keep."""
        return _load_exactly if any(map(_has_decimals, (c.field_type for c in self.layout.columns))) else orjson.loads

    def _read_ops(self, records: Sequence[Any], objects: Sequence[Mapping[str, Any]]) -> list[Any]:
        default = self.layout.default_op
        if self._is_upsert:
            return ["D" if record.value() is None else default for record in records]
        ops = [values.get(OP) for values in objects]
        if set(map(type, ops)) <= _OP_TYPES:
            return [default if op is None else op for op in ops]
        return [default if op is None else op if isinstance(op, str) else "no text" for op in ops]

    def _read_usual(self, objects: Sequence[Mapping[str, Any]]) -> list[Sequence[Any]] | None:
        """The values by column if each object has all columns and no field that is none; None for other objects."""
        names = [column.name for column in self.layout.columns]
        fields = len(names) + (OP in objects[0] if objects else 0)
        if sum(map(len, objects)) != len(objects) * fields:
            return None
        if fields > len(names) and not all(OP in values for values in objects):
            return None
        try:
            return [[*map(itemgetter(name), objects)] for name in names]  # half the time of `get` for each value
        except KeyError:
            return None

    def _read_columns(self, objects: Sequence[Mapping[str, Any]]) -> list[Sequence[Any]]:
        """The values by column; a field that an object lacks is null."""
        return [[values.get(column.name) for values in objects] for column in self.layout.columns]

    def _convert(
        self, records: Sequence[Any], values_of_columns: Sequence[Sequence[Any]], bad: list[BadRecord]
    ) -> tuple[dict[str, pa.Array], list[int]]:
        """The columns of all objects, and the numbers of those that fit them; values that do not fit are null."""
        columns, faults = dict[str, pa.Array](), dict[int, str]()
        is_delete = [record.value() is None for record in records] if self._is_upsert else []
        has_deletes = any(is_delete)
        for column, kind, given in zip(self.layout.columns, self.layout.target, values_of_columns, strict=False):
            values = given
            if has_deletes and column.name not in self.layout.key:
                values = [None if gone else value for value, gone in zip(given, is_delete, strict=True)]
            array = _convert_plain(values, column.field_type, kind.type)
            columns[column.name] = _convert_each(values, column, kind.type, faults) if array is None else array
        for number, name in faults.items():
            part = "key" if has_deletes and is_delete[number] else "value"
            bad.append(BadRecord(records[number], f"the {part} does not fit the column", name))
        return columns, [number for number in range(len(records)) if number not in faults]

    def _leave_out_unknown(
        self,
        records: Sequence[Any],
        objects: Sequence[Mapping[str, Any]],
        ops: Sequence[str],
        good: Sequence[int],
        bad: list[BadRecord],
    ) -> list[int]:
        """The numbers of records without values that the table lacks a column for. Deletes need none."""
        known = {OP, *(column.name for column in self.layout.columns)}
        if self.log.schema_changes == IGNORE or set[str]().union(*objects) <= known:
            return [*good]
        kept = list[int]()
        for number in good:
            lacking = (name for name, value in objects[number].items() if value is not None and name not in known)
            name = None if ops[number] == "D" else next(lacking, None)
            if name is None:
                kept.append(number)
            else:
                bad.append(BadRecord(records[number], LACKS_COLUMN, name))
        return kept

    def _may_have_bad_rows(self, ops: Sequence[str], columns: Mapping[str, pa.Array]) -> bool:
        usual = {"I"} if self.layout.is_insert_only else {"I", "U"}
        return not set(ops) <= usual or any(columns[name].null_count for name in self.layout.needed)

    def _check(
        self,
        records: Sequence[Any],
        ops: Sequence[str],
        columns: Mapping[str, pa.Array],
        good: Sequence[int],
        bad: list[BadRecord],
    ) -> list[int]:
        """The numbers of the rows that are changes of the table."""
        names = [*dict.fromkeys([*self.layout.needed, *self.layout.delete_columns])]
        needed = {name: pc.is_valid(columns[name]).to_pylist() for name in names}
        kept = list[int]()
        for number in good:
            row = {name: True if valid[number] else None for name, valid in needed.items()}
            fault = explain_row(ops[number], row, self.layout, self.log)
            if fault is None:
                kept.append(number)
            else:
                bad.append(BadRecord(records[number], *fault))
        return kept


def _load_exactly(data: bytes) -> Any:
    try:
        return json.loads(data.decode(), parse_float=Decimal, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _refuse_constant(text: str) -> Any:
    raise ValueError(text)


def _find_fault(part: str, data: bytes) -> _NoChangeError:
    """Why a strict parser does not take a key or value; NeedsSpark if Spark's parser might."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return _NoChangeError(f"the {part} is not UTF-8")
    if not text.lstrip(" ").startswith("{"):
        return _NoChangeError(f"the {part} is not a JSON object")
    raise NeedsSpark(f"a record's {part} is JSON that only Spark may read")


def _convert_plain(values: Sequence[Any], kind: IcebergType, target: pa.DataType) -> pa.Array | None:
    """All values at once; None if one of them is unusual."""
    types = set(map(type, values))
    try:
        if (pattern := _TEXTS.get(type(kind))) is not None:
            return _convert_texts(values, pattern, target) if types <= _PLAIN[StringType] else None
        if not types <= _PLAIN.get(type(kind), frozenset({_NONE})):
            return None
        return pa.array(values, target)
    except (pa.ArrowException, ValueError, OverflowError):  # a number out of range, half a surrogate pair
        return None


def _convert_texts(values: Sequence[Any], pattern: str, target: pa.DataType) -> pa.Array | None:
    texts = pa.array(values, pa.string())
    if not pc.all(pc.match_substring_regex(texts, pattern), min_count=0).as_py():
        return None
    return texts.cast(target)


def _convert_each(values: Sequence[Any], column: NestedField, target: pa.DataType, faults: dict[int, str]) -> pa.Array:
    """Convert one value after the other. `faults` gets the numbers of records that are bad for certain."""
    convert, converted = build_converter(column.field_type), list[Any]()
    for number, value in enumerate(values):
        try:
            fitted = None if value is None else convert(value)
        except (ValueError, TypeError, ArithmeticError) as error:
            if not _is_certainly_bad(value, column.field_type):
                raise NeedsSpark(f"a record has a value of column {column.name} that only Spark may read") from error
            faults.setdefault(number, column.name)
            fitted = None
        converted.append(fitted)
    return to_array(converted, target)


def _is_certainly_bad(value: Any, kind: IcebergType) -> bool:
    """Whether Spark does not take this value either, which has no usual form."""
    match kind:
        case IntegerType() | LongType():
            return isinstance(value, bool | int | float | Decimal) or (isinstance(value, str) and value != "")
        case BooleanType():
            return isinstance(value, int | float | Decimal)
        case _:
            return False


def _has_decimals(kind: IcebergType) -> bool:
    match kind:
        case StructType():
            return any(_has_decimals(field.field_type) for field in kind.fields)
        case ListType():
            return _has_decimals(kind.element_type)
        case MapType():
            return _has_decimals(kind.value_type)
        case _:
            return isinstance(kind, DecimalType)
