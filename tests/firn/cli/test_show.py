"""Values of queries as JSON."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal

import pytest
from pyspark.sql import Row

from firn.cli.show import Show


def test_every_value_that_spark_gives_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    value = {
        "map": {1: "a"},
        "struct": Row(a=1, b=Row(c=2)),
        "bytes": bytearray(b"\x01\xff"),
        "day": date(2026, 11, 21),
    }
    Show(json=True).write_json([value, {"amount": Decimal("1.50"), "rows": [Row(a=1)]}])
    assert json.loads(capsys.readouterr().out) == [
        {"map": {"1": "a"}, "struct": {"a": 1, "b": {"c": 2}}, "bytes": "01ff", "day": "2026-11-21"},
        {"amount": "1.50", "rows": [{"a": 1}]},
    ]
