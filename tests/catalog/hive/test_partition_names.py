from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.errors import Invalid
from catalog.hive.model import HiveColumn
from catalog.hive.partition_names import (
    NULL_NAME,
    BadPartitionValue,
    can_name,
    escape_value,
    format_partition_name,
    parse_partition_name,
    parse_partition_value,
    to_partition_record,
    unescape_value,
)

DAY_AND_CITY = (HiveColumn(name="day", type="date"), HiveColumn(name="city", type="string"))


@pytest.mark.parametrize(
    ("value", "escaped"),
    [
        ("2024-01-05 10:00:00", "2024-01-05 10%3A00%3A00"),
        ("a/b=c", "a%2Fb%3Dc"),
        ("50%", "50%25"),
        ("São Paulo", "São Paulo"),
        ("tab\there", "tab%09here"),
        ("{x}[y]^", "%7Bx}%5By%5D%5E"),
        ("~ ,;!@$&()+|<>.", "~ ,;!@$&()+|<>."),
    ],
)
def test_values_are_escaped_as_hive_does(value: str, escaped: str) -> None:
    assert escape_value(value) == escaped
    assert unescape_value(escaped) == value


def test_a_lone_percent_sign_stands_for_itself() -> None:
    assert unescape_value("100%") == "100%"
    assert unescape_value("%zz%2") == "%zz%2"


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1), min_size=2, max_size=2
    )
)
def test_every_name_leads_back_to_its_values(values: list[str]) -> None:
    name = format_partition_name(DAY_AND_CITY, values)
    assert name.count("/") == 1
    assert parse_partition_name(DAY_AND_CITY, name) == tuple(values)


def test_nulls_have_a_name() -> None:
    name = format_partition_name(DAY_AND_CITY, ["2024-01-05", NULL_NAME])
    assert name == "day=2024-01-05/city=__HIVE_DEFAULT_PARTITION__"
    assert format_partition_name(DAY_AND_CITY, ["2024-01-05", ""]) == name
    assert to_partition_record(DAY_AND_CITY, parse_partition_name(DAY_AND_CITY, name)) == (19727, None)


def test_a_name_of_another_table_is_refused() -> None:
    with pytest.raises(Invalid, match="does not look like day=…/city=…"):
        parse_partition_name(DAY_AND_CITY, "day=2024-01-05")


@pytest.mark.parametrize(
    ("hive_type", "text", "value"),
    [
        ("int", "7", 7),
        ("int", "-07", -7),
        ("bigint", str(2**62), 2**62),
        ("string", "07", "07"),
        ("char(3)", "ab", "ab"),
        ("date", "1969-12-31", -1),
        ("boolean", "true", True),
        ("double", "1.5", 1.5),
        ("decimal(4,2)", "1.5", Decimal("1.50")),
    ],
)
def test_values_have_their_column_s_type(hive_type: str, text: str, value: object) -> None:
    parsed = parse_partition_value(HiveColumn(name="p", type=hive_type), text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("hive_type", "text"),
    [
        ("int", "seven"),
        ("int", "1_0"),
        ("date", "20240105"),
        ("int", str(2**31)),
        ("tinyint", "128"),
        ("date", "2024-02-30"),
        ("boolean", "maybe"),
        ("decimal(4,2)", "1.555"),
        ("decimal(4,2)", "100"),
        ("decimal(4,2)", "x"),
    ],
)
def test_a_value_that_hive_would_show_as_null_is_named(hive_type: str, text: str) -> None:
    with pytest.raises(BadPartitionValue, match=f"p='{text}' is not a"):
        parse_partition_value(HiveColumn(name="p", type=hive_type), text)


@pytest.mark.parametrize("hive_type", ["timestamp", "binary", "array<int>"])
def test_types_whose_values_depend_on_the_reader_are_refused(hive_type: str) -> None:
    with pytest.raises(Invalid, match="cannot be taken over"):
        parse_partition_value(HiveColumn(name="p", type=hive_type), "x")


@pytest.mark.parametrize(
    ("kind", "value", "can"),
    [
        ("string", "a b/=", True),
        ("string", None, True),
        ("string", "", False),  # null to Hive
        ("string", NULL_NAME, False),
        ("tinyint", 127, True),
        ("tinyint", 128, False),
        ("date", 20_000, True),
        ("double", float("nan"), False),
        ("decimal(4,2)", Decimal("1.50"), True),
    ],
)
def test_hive_has_no_partition_of_some_values(kind: str, value: Any, *, can: bool) -> None:
    assert can_name([HiveColumn(name="p", type=kind)], [value]) is can


def test_a_table_without_partitions_needs_no_name() -> None:
    assert can_name([], [])
