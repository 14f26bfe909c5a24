"""Records of a log as changes of a table, in Arrow. `firn/spark/log_records` has the same rules for drains.

Where Spark reads more forms of a value than the one that producers usually write, this module refuses the record, and
names the read that decodes it. So the two never disagree about a value.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from firn.errors import Refused
from firn.log_tail import TailRecord
from firn.protocol.cdc.rows import IGNORE, LACKS_COLUMN
from firn.protocol.partial import SET
from firn.scan.lineage import ROW_ID, SEQUENCE
from firn.scan.newest import OP

ABOVE = 2**62
"""Above all row ids and sequence numbers of a table: records of its log are newer than its changes."""
FIRN_JSON, UPSERT_JSON = "firn-json", "upsert-json"
_OPERATIONS = ("I", "U", "D")
_PART_RECORDS = 50_000
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,6})?(Z|[+-]\d{2}:\d{2})?", re.ASCII)
_WIDEST_DECIMAL = 76
Convert = Callable[[Any], Any]


class _BadRecordError(Exception):
    """The record is no change, or none that this module decodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLayout:
    """What a record must fit: the table's columns, and which of them a change needs."""

    columns: Schema
    primary_key: Sequence[str]
    sequence_field: str | None
    delete_columns: Sequence[str]
    format: str
    deletes: str
    """`apply`, `ignore` or `stop`, as `firn.log.deletes` says."""
    partitions: int
    insert_only: bool = False
    schema_changes: str = IGNORE
    """`add`, `ignore` or `stop`, as `firn.log.schema` says."""

    @property
    def default_op(self) -> str:
        """The operation of a record that names none."""
        return "I" if self.insert_only else "U"


def decode_tail(records: Iterable[TailRecord], layout: RecordLayout, target: pa.Schema) -> pa.Table:
    """Decode records as changes that are newer than all of the table's, in the columns `target` of its change store.

    Refused for a record that is no change of the table, for a format and for a value that Firn decodes in Spark only.
    """
    if layout.format not in (FIRN_JSON, UPSERT_JSON):
        raise Refused(f"records of the format {layout.format} are decoded in Spark only", hint=_IN_SPARK)
    convert = {field.name: build_converter(field.field_type) for field in layout.columns.fields}
    parts, rows = [target.empty_table()], list[dict[str, Any]]()
    for record in records:
        if (row := _decode(record, layout, convert)) is not None:
            rows.append(row)
        if len(rows) >= _PART_RECORDS:
            parts.append(_build_table(rows, target))
            rows = []
    return pa.concat_tables([*parts, _build_table(rows, target)])


_IN_SPARK = "read the table with firn.spark.read(table, log=True), or drain the log first"


def _decode(record: TailRecord, layout: RecordLayout, convert: Mapping[str, Convert]) -> dict[str, Any] | None:
    try:
        op, values = _READERS[layout.format](record, layout.default_op)
        read = layout.primary_key if layout.format == UPSERT_JSON and op == "D" else convert
        row = {name: _convert(name, values.get(name), convert[name]) for name in read}
        _check(op, row, layout)
        _check_unknown(op, values, layout, convert)
    except _BadRecordError as error:
        where = f"partition {record.partition}, offset {record.offset}"
        raise Refused(
            f"the log has a record that Firn does not read as a change: {where}: {error}", hint=_IN_SPARK
        ) from error
    if op == "D" and layout.deletes == "ignore":
        return None
    # A row id of its own: two records of one key in two partitions would otherwise both count as the newest.
    row_id = ABOVE + record.offset * layout.partitions + record.partition
    return {**row, OP: op, SET: None, ROW_ID: row_id, SEQUENCE: ABOVE}


def _read_change(record: TailRecord, default: str) -> tuple[str, dict[str, Any]]:
    values = _parse("value", record.value)
    op = values.pop(OP, None)
    return default if op is None else op, values


def _read_upsert(record: TailRecord, default: str) -> tuple[str, dict[str, Any]]:
    """Flink's `upsert-kafka`: a record without a value deletes the key."""
    return ("D", _parse("key", record.key)) if record.value is None else (default, _parse("value", record.value))


_READERS = {FIRN_JSON: _read_change, UPSERT_JSON: _read_upsert}


def _parse(part: str, data: bytes | None) -> dict[str, Any]:
    if data is None:
        raise _BadRecordError(f"it has no {part}")
    try:
        parsed = json.loads(data.decode(), parse_float=Decimal, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise _BadRecordError(f"its {part} is no JSON text") from error
    if not isinstance(parsed, dict):
        raise _BadRecordError(f"its {part} is no JSON object")
    return parsed


def _refuse_constant(text: str) -> Any:
    raise ValueError(text)


def _convert(name: str, value: Any, convert: Convert) -> Any:
    if value is None:
        return None
    try:
        return convert(value)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise _BadRecordError(f"its value does not fit column {name}, or has a form that only Spark reads") from error


def _check(op: str, row: Mapping[str, Any], layout: RecordLayout) -> None:
    if op not in _OPERATIONS:
        raise _BadRecordError("_op is not I, U or D")
    if layout.insert_only and op != "I" and (op != "D" or layout.deletes != "ignore"):
        raise _BadRecordError("the table is insert-only, and the record is no insert")
    if op == "D" and layout.deletes == "stop":
        raise _BadRecordError("it is a delete, and firn.log.deletes is stop")
    needed = [*layout.primary_key, *([layout.sequence_field] if layout.sequence_field else [])]
    missing = [name for name in [*needed, *(layout.delete_columns if op == "D" else ())] if row.get(name) is None]
    if missing:
        raise _BadRecordError(f"column {missing[0]} must not be null")


def _check_unknown(op: str, values: Mapping[str, Any], layout: RecordLayout, columns: Mapping[str, Convert]) -> None:
    """Raise for a value without a column: a drain adds the column, or quarantines the record. A null is no loss."""
    if op == "D" or layout.schema_changes == IGNORE:
        return
    lacking = [name for name, value in values.items() if value is not None and name not in columns and name != OP]
    if lacking:
        raise _BadRecordError(f"{LACKS_COLUMN} {lacking[0][:80]}")


def _build_table(rows: Sequence[Mapping[str, Any]], target: pa.Schema) -> pa.Table:
    arrays = [pa.array([row.get(field.name) for row in rows], field.type) for field in target]
    return pa.table(arrays, schema=target)


def build_converter(kind: IcebergType) -> Convert:
    """A function from a JSON value that is not null to the value in Arrow; ValueError for a value that does not fit."""
    match kind:
        case DecimalType():
            return lambda value: _to_decimal(value, kind)
        case StructType():
            fields = {field.name: build_converter(field.field_type) for field in kind.fields}
            return lambda value: _to_struct(value, fields)
        case ListType():
            element = build_converter(kind.element_type)
            return lambda value: [_or_null(item, element) for item in _require(value, list)]
        case MapType():
            return _build_map_converter(kind)
        case FixedType():
            return lambda value: _to_bytes(value, len(kind))
        case _:
            return _SIMPLE.get(type(kind), _refuse)


def _build_map_converter(kind: MapType) -> Convert:
    if not isinstance(kind.key_type, StringType):
        return _refuse
    values = build_converter(kind.value_type)
    return lambda value: [(key, _or_null(item, values)) for key, item in _require(value, dict).items()]


def _or_null(value: Any, convert: Convert) -> Any:
    return None if value is None else convert(value)


def _require(value: Any, kind: type) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(value)
    return value


def _refuse(value: Any) -> Any:
    raise ValueError(value)


def _to_integer(value: Any, bits: int) -> int:
    number: int = _require(value, int)
    if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise ValueError(value)
    return number


def _to_double(value: Any) -> float:
    return float(value if isinstance(value, Decimal | float) else _require(value, int))


def _to_decimal(value: Any, kind: DecimalType) -> Decimal:
    number = value if isinstance(value, Decimal) else Decimal(_require(value, int))
    with localcontext() as context:
        context.prec = _WIDEST_DECIMAL
        rounded = number.quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP)
    if len(rounded.as_tuple().digits) > kind.precision:
        raise ValueError(value)
    return rounded


def _to_date(value: Any) -> date:
    if not _DATE.fullmatch(_require(value, str)):
        raise ValueError(value)
    return date.fromisoformat(value)


def _to_timestamp(value: Any, *, has_zone: bool) -> datetime:
    match = _TIMESTAMP.fullmatch(_require(value, str))
    if match is None or (match[2] is not None) is not has_zone:
        raise ValueError(value)
    moment = datetime.fromisoformat(value)
    return moment.astimezone(UTC) if has_zone else moment


def _to_bytes(value: Any, length: int | None = None) -> bytes:
    try:
        data = base64.b64decode(_require(value, str), validate=True)
    except binascii.Error as error:
        raise ValueError(value) from error
    if length is not None and len(data) != length:
        raise ValueError(value)
    return data


def _to_struct(value: Any, fields: Mapping[str, Convert]) -> dict[str, Any]:
    struct = _require(value, dict)
    return {name: _or_null(struct.get(name), convert) for name, convert in fields.items()}


_SIMPLE: Mapping[type[IcebergType], Convert] = {
    BooleanType: lambda value: _require(value, bool),
    IntegerType: lambda value: _to_integer(value, 32),
    LongType: lambda value: _to_integer(value, 64),
    FloatType: _to_double,
    DoubleType: _to_double,
    StringType: lambda value: _require(value, str),
    DateType: _to_date,
    TimestampType: lambda value: _to_timestamp(value, has_zone=False),
    TimestamptzType: lambda value: _to_timestamp(value, has_zone=True),
    BinaryType: _to_bytes,
}
