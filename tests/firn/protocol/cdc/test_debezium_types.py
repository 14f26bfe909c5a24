"""Types of Debezium: the column for each, and the value in it."""

from __future__ import annotations

import base64
import struct
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from firn.protocol.cdc.debezium_types import choose_column_type, read_value
from firn.protocol.cdc.values import Unfit
from tests.cdc_envelopes import field

at = datetime.fromisoformat
DEBEZIUM, CONNECT = "io.debezium", "org.apache.kafka.connect.data"


def encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def number(value: int, size: int = 8) -> str:
    return encode(value.to_bytes(size, "big", signed=True))


POINT = struct.pack("<BIdd", 1, 1, 1.5, -2)
LINE = struct.pack(">BIIdddd", 0, 2, 2, 0, 0, 1, 1)
SQUARE = struct.pack("<BIII8d", 1, 3, 1, 4, 0, 0, 1, 0, 1, 1, 0, 0)
WITH_SRID = struct.pack("<BIIdd", 1, 1 | 0x20000000, 4326, 1, 2)
MULTI = struct.pack("<BII", 1, 4, 2) + POINT + POINT
CASES: list[tuple[dict[str, Any], str, Any, Any]] = [
    (field("x", "int16"), "int", 5, 5),
    (field("x", "int64"), "long", 5, 5),
    (field("x", "float"), "float", 1.5, 1.5),
    (field("x", "double"), "double", 1.5, 1.5),
    (field("x", "boolean"), "boolean", True, True),
    (field("x", "string"), "string", "a", "a"),
    (field("x", "bytes"), "binary", encode(b"\x00\xff"), b"\x00\xff"),
    (field("x", "int32", f"{DEBEZIUM}.time.Date"), "date", 20783, date(2026, 11, 26)),
    (field("x", "int32", f"{CONNECT}.Date"), "date", -1, date(1969, 12, 31)),
    (field("x", "int64", f"{DEBEZIUM}.time.Timestamp"), "timestamp", 1500, at("1970-01-01T00:00:01.5")),
    (field("x", "int64", f"{DEBEZIUM}.time.MicroTimestamp"), "timestamp", -1, at("1969-12-31T23:59:59.999999")),
    (field("x", "int64", f"{DEBEZIUM}.time.NanoTimestamp"), "timestamp", 1999, at("1970-01-01T00:00:00.000001")),
    (field("x", "int64", f"{CONNECT}.Timestamp"), "timestamp", 0, at("1970-01-01")),
    (field("x", "string", f"{DEBEZIUM}.time.ZonedTimestamp"), "timestamptz", "2026-11-26", "2026-11-26"),
    (field("x", "int32", f"{DEBEZIUM}.time.Time"), "string", 3_600_001, "01:00:00.001000"),
    (field("x", "int64", f"{DEBEZIUM}.time.MicroTime"), "string", -90_061_000_001, "-25:01:01.000001"),
    (field("x", "int64", f"{DEBEZIUM}.time.NanoTime"), "string", 1_000_000_000, "00:00:01"),
    (field("x", "int32", f"{CONNECT}.Time"), "string", 0, "00:00:00"),
    (field("x", "int32", f"{DEBEZIUM}.time.Year"), "int", 2026, 2026),
    (
        field("x", "bytes", f"{CONNECT}.Decimal", **{"scale": "2", "connect.decimal.precision": "9"}),
        "decimal(9,2)",
        number(-1250),
        Decimal("-12.50"),
    ),
    (field("x", "bytes", f"{CONNECT}.Decimal", scale="0"), "decimal(38,0)", number(2**64 - 1, 9), Decimal(2**64 - 1)),
    (
        field("x", "bytes", f"{CONNECT}.Decimal", **{"scale": "20", "connect.decimal.precision": "65"}),
        "string",
        number(10**20, 10),
        Decimal("1.00000000000000000000"),
    ),
    (
        field("x", "struct", f"{DEBEZIUM}.data.VariableScaleDecimal"),
        "string",
        {"scale": 3, "value": number(1)},
        "0.001",
    ),
    (field("x", "int64", **{"__debezium.source.column.type": "BIGINT UNSIGNED"}), "decimal(20,0)", -1, 2**64 - 1),
    (field("x", "bytes", f"{DEBEZIUM}.data.Bits", length="10"), "long", encode(b"\x01\x02"), 513),
    (field("x", "bytes", f"{DEBEZIUM}.data.Bits", length="64"), "string", encode(b"\x05"), f"{5:064b}"),
    (field("x", "string", f"{DEBEZIUM}.data.Enum", allowed="a,b"), "string", "b", "b"),
    (field("x", "string", f"{DEBEZIUM}.data.EnumSet", allowed="a,b"), "string", "a,b", "a,b"),
    (field("x", "string", f"{DEBEZIUM}.data.Json"), "string", '{"a": 1}', '{"a": 1}'),
    (field("x", "string", f"{DEBEZIUM}.data.Uuid"), "string", "9a6f", "9a6f"),
    (field("x", "struct", f"{DEBEZIUM}.data.geometry.Point"), "string", {"wkb": encode(POINT)}, "POINT (1.5 -2)"),
    (
        field("x", "struct", f"{DEBEZIUM}.data.geometry.Geometry"),
        "string",
        {"wkb": encode(LINE), "srid": 4326},
        "SRID=4326;LINESTRING (0 0, 1 1)",
    ),
    (
        field("x", "struct", f"{DEBEZIUM}.data.geometry.Geometry"),
        "string",
        {"wkb": encode(SQUARE)},
        "POLYGON ((0 0, 1 0, 1 1, 0 0))",
    ),
    (
        field("x", "struct", f"{DEBEZIUM}.data.geometry.Geography"),
        "string",
        {"wkb": encode(WITH_SRID)},
        "SRID=4326;POINT (1 2)",
    ),
    (
        field("x", "struct", f"{DEBEZIUM}.data.geometry.Geometry"),
        "string",
        {"wkb": encode(MULTI)},
        "MULTIPOINT ((1.5 -2), (1.5 -2))",
    ),
    (field("x", "array"), "string", [1, 2], [1, 2]),
    (field("x", "map"), "string", {"a": "b"}, {"a": "b"}),
]


@pytest.mark.parametrize(("column", "type_", "sent", "value"), CASES)
def test_a_type_has_its_column_and_its_value(column: dict[str, Any], type_: str, sent: Any, value: Any) -> None:
    assert choose_column_type(column) == type_
    assert read_value(sent, column) == value
    assert read_value(None, column) is None


LOGICAL = [column for column, *_ in CASES if "name" in column]
HOSTILE: list[Any] = [
    True,
    2**200,
    -(2**200),
    "",
    "é",
    "x" * 4001,
    [],
    [[]],
    {},
    {"wkb": 5},
    {"scale": 2**90, "value": "AA=="},
]


@pytest.mark.parametrize("column", LOGICAL, ids=lambda column: column["name"])
@pytest.mark.parametrize("sent", HOSTILE, ids=lambda sent: str(sent)[:12])
def test_values_that_contradict_their_schema_raise_unfit_only(column: dict[str, Any], sent: Any) -> None:
    try:
        read_value(sent, column)
    except Unfit:
        return


@pytest.mark.parametrize("length", range(len(MULTI)))
def test_a_geometry_that_is_cut_off_is_unfit(length: int) -> None:
    column = field("x", "struct", f"{DEBEZIUM}.data.geometry.Geometry")
    with pytest.raises(Unfit):
        read_value({"wkb": encode(MULTI[:length])}, column)


def test_a_geometry_that_claims_many_parts_takes_no_memory() -> None:
    column = field("x", "struct", f"{DEBEZIUM}.data.geometry.Geometry")
    for kind in (2, 3, 4, 7):
        with pytest.raises(Unfit):
            read_value({"wkb": encode(struct.pack("<BII", 1, kind, 2**32 - 1))}, column)
