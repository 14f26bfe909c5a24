"""Both engines decode the same records in the same way, or the light one leaves them to Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import (
    BinaryType,
    DoubleType,
    FloatType,
    TimestampNTZType,
    TimestampType,
)

from firn.drains.errors import NeedsSpark
from firn.drains.json_changes import JsonDecoder
from firn.spark.decoded import COLUMN, OFFSET, REASON
from firn.spark.log_records import decode_changes
from firn.spark.target import Target
from tests.firn.test_logs import log
from tests.integration.streams.decoding import FIELDS as COMMON_FIELDS
from tests.integration.streams.decoding import KAFKA, target_of
from tests.json_records import BAD, GOOD
from tests.light_records import TYPES, Message, make_layout
from tests.spark_fixtures import shared_spark

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
FIELDS = dict(COMMON_FIELDS) | {
    "ratio": DoubleType(),
    "small": FloatType(),
    "at": TimestampNTZType(),
    "seen": TimestampType(),
    "data": BinaryType(),
}
TARGET = target_of(FIELDS)
VALUES = (
    *("null", "true", "false", "0", "-0", "1", "-1", "2147483647", "2147483648", "9223372036854775807"),
    *("9223372036854775808", "1.0", "1.5", "1.005", "-1.005", "2.675", "1e2", "1e-9", "1e400", "123456789.5", "0.1"),
    *('""', '" "', '"1"', '"true"', '"a"', '"\\u00e4"', '"a\\u0000b"', '"NaN"', '"AAE="', '"AAE"', '"A A E ="'),
    *('"2026-02-28"', '"2026-02-30"', '"2026-2-3"', '"2026-01-01T00:00:00"', '"2026-01-01 23:59:59.123456"'),
    *('"2026-01-01T00:00:00Z"', '"2026-01-01T00:00:00.5+02:00"', '"1969-12-31T23:59:59.999999Z"', '"1582-10-10"'),
    *('"2026-01-01T24:00:00"', '"2026-01-01T00:00:00+25:00"', '"2026-03-29T02:30:00"', '"1999-12-31T23:59:60Z"'),
    *("[]", "[1]", '[1,null,"x"]', "[[1]]", "{}", '{"x":1}', '{"x":"1"}', '{"x":null,"y":1}'),
)
WHOLE = (
    *(b' {"id":1}', b'\n{"id":1}', b'{"id":1}\n', b'{"id":1} ', b'\t{"id":1}', b'{"id":1}{"id":2}', b'{"id":1},'),
    *(b'{"id":1,"id":2}', b'{"id":1,"id":null}', b'{"ID":1}', b'{"id":1,"_op":null}', b'{"id":1,"_op":5}'),
    *(b'{"id":1,"_op":""}', b'{"id":1,"_op":"u"}', b'{"id":1,"_op":["U"]}', b"{'id':1}", b'{"id":01}', b'{"id":+1}'),
    *(b'{"id":1,}', b'{"id":1/*c*/}', b'{"a":NaN,"id":1}', b'\xef\xbb\xbf{"id":1}', b'{"id":1,"name":"\xed\xa0\x80"}'),
    *(b'{"id":1,"name":"a\tb"}', b'{"id":1,"x":' + b"[" * 600 + b"]" * 600 + b"}", b" ", b"{", b"{}x", b'"{}"'),
)

UNKNOWN: tuple[bytes, ...] = (
    *(
        b'{"id":1,"b":1}',
        b'{"a":null,"id":1,"b":"x","c":2}',
        b'{"id":1,"b":""}',
        b'{"id":1,"b":[]}',
        b'{"id":1,"b":false}',
    ),
    *(b'{"b":{"x":null},"id":1}', b'{"id":1,"a":null}', b'{"id":1,"_op":"D","b":5}', b'{"id":1,"_op":null}'),
)


def list_records() -> list[bytes | None]:
    """Each value in each column, whole records, and those of other tests."""
    of_columns = [f'{{"id":1,"{name}":{value}}}'.encode() for name in FIELDS if name != "id" for value in VALUES]
    of_keys = [f'{{"id":{value}}}'.encode() for value in VALUES]
    return [*of_columns, *of_keys, *WHOLE, *(value for value, _, _ in BAD), *(value for value, _ in GOOD)]


def compare(decoder: JsonDecoder, records: list[bytes | None], target: Target) -> tuple[list[str], int]:
    """The records about which the engines disagree, and the number of those that the light one decides about."""
    rows: list[Any] = [(None, value, "orders", 0, number, None, []) for number, value in enumerate(records)]
    frame = decode_changes(shared_spark().createDataFrame(rows, KAFKA), decoder.log, target)
    names = [field.name for field in target.fields]
    in_spark = {
        row[OFFSET]: (row[REASON], row[COLUMN]) if row[REASON] else tuple(_plain(row[name]) for name in (*names, "_op"))
        for row in frame.collect()
    }
    different, decided = list[str](), 0
    for number, value in enumerate(records):
        try:
            changes = decoder.decode([Message(value, number)])
        except NeedsSpark:
            continue
        decided += 1
        light: Any = [(bad.reason, bad.column) for bad in changes.bad]
        light += [tuple(_plain(row[name]) for name in (*names, "_op")) for row in changes.rows.to_pylist()]
        if light != [in_spark[number]]:
            different.append(f"{value!r}: light {light}, Spark {in_spark[number]}")
    return different, decided


def _plain(value: Any) -> str:
    if hasattr(value, "asDict"):
        value = value.asDict()
    if hasattr(value, "tzinfo") and value.tzinfo is not None:
        value = value.replace(tzinfo=None)
    return repr(bytes(value)) if isinstance(value, bytes | bytearray) else repr(value)


def test_the_light_engine_decides_as_spark_does_or_not_at_all(tmp_path: Path) -> None:
    """With a decimal among the columns, and without, for which the light engine takes another parser."""
    assert [*FIELDS] == [*TYPES]
    records = list_records()
    different, decided = compare(JsonDecoder(make_layout(tmp_path), log()), records, TARGET)
    assert different == []
    assert decided > 200, "it leaves nearly everything to Spark"

    without = Target(**{**vars(TARGET), "fields": tuple(field for field in TARGET.fields if field.name != "amount")})
    others = [value for value in records if value is None or b"amount" not in value]
    names = [name for name in FIELDS if name != "amount"]
    assert compare(JsonDecoder(make_layout(tmp_path, *names), log()), others, without)[0] == []


def test_the_engines_agree_about_values_without_a_column(tmp_path: Path) -> None:
    records: list[bytes | None] = [*UNKNOWN, *(value for value, _, _ in BAD), *(value for value, _ in GOOD)]
    strict = JsonDecoder(make_layout(tmp_path), log(schema_changes="add"))
    different, decided = compare(strict, records, TARGET)
    assert different == []
    assert decided > 30, "it leaves nearly everything to Spark"
    bad = strict.decode([Message(value, number) for number, value in enumerate(UNKNOWN)]).bad
    assert [(record.reason, record.column) for record in bad] == [("the table lacks the column", "b")] * len(bad)
    assert [record.place[1] for record in bad] == [0, 1, 2, 3, 4, 5]
