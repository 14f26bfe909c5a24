"""Producers of a log without a broker: what they send, and what they refuse before they send it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from firn.errors import Invalid, Refused
from firn.log import RecordRules
from firn.log_values import UnfitValueError, encode_value

TYPES = {"region": "string", "id": "long", "amount": "decimal(9,2)", "at": "timestamptz"}
RULES = RecordRules(
    table="shop.orders",
    format="firn-json",
    types=TYPES,
    primary_key=["id", "region"],
    needed=["id", "region", "at"],
    needed_by_deletes=["id", "region", "at"],
    no_deletes=None,
)
AT = datetime(2026, 11, 28, 10, 0, 0, 5, tzinfo=timezone(timedelta(hours=1)))
ROW = {"at": AT, "amount": Decimal("10.50"), "region": "Zürich", "id": 7}


def test_equal_keys_have_equal_texts_whatever_the_order_of_the_row() -> None:
    key, value = RULES.encode_upsert(ROW)
    assert key == '{"id":7,"region":"Zürich"}', "as Flink writes it, so that both find the same partition"
    assert value == '{"region":"Zürich","id":7,"amount":10.50,"at":"2026-11-28T09:00:00.000005+00:00"}'
    assert (
        RULES.encode_upsert({**ROW, "amount": None})[1]
        == RULES.encode_upsert({"id": 7, "region": "Zürich", "at": AT})[1]
    )


def test_deletes_have_the_form_of_the_format() -> None:
    key, value = RULES.encode_delete(ROW)
    assert json.loads(value or "") == {
        "id": 7,
        "region": "Zürich",
        "at": "2026-11-28T09:00:00.000005+00:00",
        "_op": "D",
    }
    upserts = replace(RULES, format="upsert-json", needed_by_deletes=["id", "region"])
    assert upserts.encode_delete({"id": 7, "region": "Zürich"}) == (key, None)
    with pytest.raises(Refused, match="takes no deletes: the table is insert-only"):
        replace(RULES, no_deletes="the table is insert-only").encode_delete(ROW)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({**ROW, "_op": "D"}, "has no column _op"),
        ({**ROW, "Amount": 1}, "has no column Amount"),
        ({**ROW, "id": None}, "column id of shop.orders must not be null"),
        ({"id": 1, "region": "x"}, "column at of shop.orders must not be null"),
        ({**ROW, "id": 2**63}, "column id is no long, or is out of its range"),
        ({**ROW, "id": True}, "column id is no long"),
        ({**ROW, "amount": Decimal("1.005")}, "column amount is no decimal"),
        ({**ROW, "at": datetime(2026, 1, 1)}, "column at is no timestamptz"),  # noqa: DTZ001
        ({**ROW, "region": "\ud800"}, "has half of a character"),
    ],
)
def test_rows_that_would_go_to_the_quarantine_are_refused(row: dict[str, Any], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        RULES.encode_upsert(row)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("decimal(4,2)", Decimal("1E+1"), "10"),
        ("decimal(38,0)", 10**37, "1" + "0" * 37),
        ("date", date(2026, 2, 3), '"2026-02-03"'),
        ("timestamp", datetime(2026, 2, 3, 4, 5), '"2026-02-03T04:05:00"'),  # noqa: DTZ001
        ("binary", b"\x00\xff", '"AP8="'),
        ("uuid", UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        ("string", '"\n', '"\\"\\n"'),
        ("array<long>", [1, None], "[1,null]"),
        ("map<string,date>", {"a": date(2026, 2, 3)}, '{"a":"2026-02-03"}'),
        ("double", 0.1, "0.1"),
    ],
)
def test_values(kind: str, value: Any, text: str) -> None:
    assert encode_value(kind, value) == text


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("double", float("nan")),
        ("decimal(4,2)", Decimal("NaN")),
        ("decimal(4,2)", Decimal(100)),
        ("decimal(4,2)", 1.5),
        ("int", 2**31),
        ("date", datetime(2026, 1, 1, tzinfo=UTC)),
        ("date", date(999, 1, 1)),
        ("string", b"x"),
        ("fixed[4]", b"12345"),
        ("time", "10:00"),
        ("variant", {}),
        ("array<long>", [object()]),
        ("array<double>", [Decimal("Infinity")]),
        ("map<long,long>", {1: 1}),
    ],
)
def test_values_that_do_not_fit(kind: str, value: Any) -> None:
    with pytest.raises(UnfitValueError):
        encode_value(kind, value)


def test_a_value_that_is_too_deep_is_refused() -> None:
    value: Any = 1
    for _ in range(5_000):
        value = [value]
    with pytest.raises(UnfitValueError, match="too deep"):
        encode_value("array<long>", value)
