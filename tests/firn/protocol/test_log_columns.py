"""Columns that a drain may add: names, types, and types that differ between records."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from firn.protocol.log_columns import (
    LONGEST_NAME,
    MOST_NEW_COLUMNS,
    explain_name,
    guess_json_type,
    is_column_type,
    merge_types,
)


@pytest.mark.parametrize(
    "name", ["note", "Größe", "a b", "x-y", "$ref", "_id", "n" * LONGEST_NAME, '"; DROP TABLE t --']
)
def test_a_usual_name_may_become_a_column(name: str) -> None:
    assert explain_name(name, ["id", "amount"]) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "printable"),
        (" note", "printable"),
        ("a\nb", "printable"),
        ("a\x00", "printable"),
        ("n" * (LONGEST_NAME + 1), "printable"),
        ("a.b", "dot"),
        ("a`b", "backtick"),
        ("_OP", "own columns"),
        ("_set", "own columns"),
        ("_row_id", "own columns"),
        ("_firn_why", "own columns"),
        ("ID", "differs in case"),
    ],
)
def test_a_name_that_engines_or_firn_would_misread_does_not(name: str, reason: str) -> None:
    assert reason in str(explain_name(name, ["id", "amount"]))


def test_types_of_columns() -> None:
    for type_ in ("long", "string", "timestamptz", "decimal(9,2)", "decimal(38,38)"):
        assert is_column_type(type_), type_
    for type_ in (
        "",
        "list",
        "struct<a: int>",
        "uuid",
        "decimal(39,2)",
        "decimal(2,9)",
        "decimal(٣,1)",
        "LONG",
        "long ",
    ):
        assert not is_column_type(type_), type_


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (True, "boolean"),
        (5, "long"),
        (2**63, "string"),
        (Decimal("1.5"), "double"),
        ("2026-01-01", "string"),
        ({"a": 1}, "string"),
        ([1], "string"),
    ],
)
def test_the_type_of_a_json_value(value: Any, type_: str) -> None:
    assert guess_json_type(value) == type_


def test_types_that_differ_become_one_that_has_both_and_names_have_a_bound() -> None:
    types = {"a": "long", "b": "long", "c": "long"}
    merge_types(types, {"a": "double", "b": "boolean", "d": "string"})
    assert types == {"a": "double", "b": "string", "c": "long", "d": "string"}
    merge_types(types, {f"n{number}": "long" for number in range(10_000)})
    assert len(types) == MOST_NEW_COLUMNS
