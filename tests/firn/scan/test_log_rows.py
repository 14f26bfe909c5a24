"""Records of a log become changes in Arrow, or are refused where Spark may read another value."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
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
    UUIDType,
)

from firn.errors import Refused
from firn.log_tail import TailRecord
from firn.scan.lineage import LINEAGE_FIELDS, ROW_ID, SEQUENCE
from firn.scan.log_rows import ABOVE, RecordLayout, decode_tail
from firn.scan.newest import OP

_OP = NestedField(100, OP, StringType(), required=False)


_LONG = LongType()


def layout(kind: IcebergType = _LONG, **more: Any) -> RecordLayout:
    columns = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "v", kind, required=False))
    settings = {"sequence_field": None, "delete_columns": ["id"], "format": "firn-json", "deletes": "apply"}
    return RecordLayout(columns=columns, primary_key=["id"], partitions=2, **(settings | more))


def decode(values: list[bytes | None], of: RecordLayout, keys: list[bytes | None] | None = None) -> pa.Table:
    target = schema_to_pyarrow(Schema(*of.columns.fields, _OP, *LINEAGE_FIELDS), include_field_ids=False)
    records = [TailRecord(1, n, None if keys is None else keys[n], value) for n, value in enumerate(values)]
    return decode_tail(records, of, target)


def text(value: Any) -> bytes:
    return json.dumps({"id": 1, "v": value}).encode()


STRUCT = StructType(NestedField(3, "a", LongType(), required=False), NestedField(4, "b", StringType(), required=False))
FITTING: list[tuple[IcebergType, str, Any]] = [
    (LongType(), "-9223372036854775808", -(2**63)),
    (IntegerType(), "null", None),
    (DoubleType(), "1", 1.0),
    (DoubleType(), "2.5e3", 2500.0),
    (BooleanType(), "true", True),
    (StringType(), '"\\u00e9 x"', "é x"),
    (DecimalType(9, 2), "1.005", Decimal("1.01")),  # Spark rounds half up, too
    (DecimalType(38, 0), "9" * 38, Decimal("9" * 38)),
    (DateType(), '"2026-02-28"', date(2026, 2, 28)),
    (TimestampType(), '"2026-02-28 01:02:03.5"', datetime.fromisoformat("2026-02-28 01:02:03.5")),
    (TimestamptzType(), '"2026-02-28T01:02:03+01:00"', datetime(2026, 2, 28, 0, 2, 3, tzinfo=UTC)),
    (BinaryType(), '"AQI="', b"\x01\x02"),
    (ListType(3, LongType(), element_required=False), "[1, null]", [1, None]),
    (MapType(3, StringType(), 4, LongType(), value_required=False), '{"a": 1, "b": null}', [("a", 1), ("b", None)]),
    (STRUCT, '{"a": 1, "other": 2}', {"a": 1, "b": None}),
]
UNFIT: list[tuple[IcebergType, str]] = [
    (LongType(), '"5"'),
    (LongType(), "1.0"),
    (LongType(), "true"),
    (LongType(), str(2**63)),
    (IntegerType(), str(2**31)),
    (DoubleType(), "NaN"),
    (DoubleType(), '"NaN"'),
    (BooleanType(), "1"),
    (StringType(), "1.50"),
    (DecimalType(4, 2), "100"),
    (DateType(), '"2026-02-30"'),
    (DateType(), '"2026"'),
    (TimestampType(), '"2026-02-28T01:02:03Z"'),
    (TimestamptzType(), '"2026-02-28T01:02:03"'),  # in the zone of the session, which this module does not know
    (TimestamptzType(), "1700000000"),
    (BinaryType(), '"?"'),
    (FixedType(3), '"AQI="'),
    (UUIDType(), '"f79c3e09-677c-4bbd-a479-3f349cb785e7"'),
    (MapType(3, LongType(), 4, LongType(), value_required=False), '{"1": 1}'),
    (STRUCT, "[1]"),
    (ListType(3, LongType(), element_required=False), "5"),
]


@pytest.mark.parametrize(("kind", "value", "expected"), FITTING, ids=str)
def test_values(kind: IcebergType, value: str, expected: Any) -> None:
    rows = decode([f'{{"id": 1, "v": {value}}}'.encode()], layout(kind))
    assert rows["v"].to_pylist() == [expected]


@pytest.mark.parametrize(("kind", "value"), UNFIT, ids=str)
def test_values_that_do_not_fit_or_that_only_spark_reads_are_refused(kind: IcebergType, value: str) -> None:
    with pytest.raises(Refused, match=r"partition 1, offset 0: its (value does not fit column v|value is no JSON)"):
        decode([f'{{"id": 1, "v": {value}}}'.encode()], layout(kind))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "it has no value"),
        (b"\xff", "its value is no JSON text"),
        (b"[1]", "its value is no JSON object"),
        (b"{" * 100_000, "its value is no JSON text"),
        (b'{"v": 1}', "column id must not be null"),
        (b'{"id": 1, "_op": "X"}', "_op is not I, U or D"),
        (b'{"id": 1, "_op": ["U"]}', "_op is not I, U or D"),
    ],
)
def test_records_that_are_no_changes_are_refused(value: bytes | None, message: str) -> None:
    with pytest.raises(Refused, match=message) as refused:
        decode([text(1), value], layout())
    assert "firn.spark.read" in (refused.value.hint or "")


def test_each_record_has_a_row_id_of_its_own_above_all_of_the_table() -> None:
    rows = decode([text(1), b'{"id": 2, "_op": "D"}', b'{"id": 3, "_op": null, "more": 1}'], layout())
    assert rows.select(["id", "v", OP, ROW_ID, SEQUENCE]).to_pylist() == [
        {"id": key, "v": v, OP: op, ROW_ID: ABOVE + 2 * offset + 1, SEQUENCE: ABOVE}
        for offset, (key, v, op) in enumerate([(1, 1, "U"), (2, None, "D"), (3, None, "U")])
    ]


def test_deletes() -> None:
    delete = b'{"id": 1, "_op": "D"}'
    assert len(decode([delete, text(1)], layout(deletes="ignore"))) == 1
    with pytest.raises(Refused, match=r"firn\.log\.deletes is stop"):
        decode([delete], layout(deletes="stop"))
    with pytest.raises(Refused, match="column v must not be null"):
        decode([delete], layout(delete_columns=["id", "v"]))
    with pytest.raises(Refused, match="column v must not be null"):
        decode([text(None)], layout(sequence_field="v"))


def test_upserts_of_flink() -> None:
    of = layout(format="upsert-json")
    rows = decode([text(5), None], of, keys=[None, b'{"id": 1}'])
    assert [(row["id"], row["v"], row[OP]) for row in rows.to_pylist()] == [(1, 5, "U"), (1, None, "D")]
    with pytest.raises(Refused, match="it has no key"):
        decode([None], of, keys=[None])


def test_other_formats_are_for_spark() -> None:
    with pytest.raises(Refused, match="records of the format debezium-json are decoded in Spark only"):
        decode([], layout(format="debezium-json"))


def test_an_insert_only_table_takes_inserts_only() -> None:
    assert decode([b'{"id": 1}', b'{"id": 2, "_op": "I"}'], layout(insert_only=True))[OP].to_pylist() == ["I", "I"]
    flink = layout(insert_only=True, format="upsert-json", deletes="ignore")
    assert decode([b'{"id": 1}', None], flink, [b'{"id": 1}', b'{"id": 1}'])[OP].to_pylist() == ["I"]
    for op in "UD":
        with pytest.raises(Refused, match="insert-only, and the record is no insert"):
            decode([f'{{"id": 1, "_op": "{op}"}}'.encode()], layout(insert_only=True))
