from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.hive.model import HiveColumn
from catalog.hive.types import (
    HiveType,
    ListOf,
    MapOf,
    Named,
    StructOf,
    UnsupportedType,
    iceberg_fields,
    iceberg_type,
    parse_type,
)


def converted(text: str) -> object:
    return iceberg_type(parse_type(text), count(10).__next__)


@pytest.mark.parametrize(
    ("hive", "iceberg"),
    [
        ("boolean", "boolean"),
        ("tinyint", "int"),
        ("smallint", "int"),
        ("int", "int"),
        ("BIGINT", "long"),
        ("float", "float"),
        ("double", "double"),
        ("string", "string"),
        ("char(5)", "string"),
        ("varchar(65535)", "string"),
        ("binary", "binary"),
        ("date", "date"),
        ("timestamp", "timestamptz"),
        ("decimal", "decimal(10, 0)"),
        ("decimal(4)", "decimal(4, 0)"),
        ("decimal(38,18)", "decimal(38, 18)"),
        ("decimal( 10 , 2 )", "decimal(10, 2)"),
    ],
)
def test_a_primitive_has_one_counterpart(hive: str, iceberg: str) -> None:
    assert converted(hive) == iceberg


def test_nested_types_get_ids_level_by_level() -> None:
    assert converted("struct<a:int,b:array<decimal(10,2)>,c d:int>".replace("c d", "`c d`")) == {
        "type": "struct",
        "fields": [
            {"id": 10, "name": "a", "required": False, "type": "int"},
            {
                "id": 11,
                "name": "b",
                "required": False,
                "type": {"type": "list", "element-id": 13, "element": "decimal(10, 2)", "element-required": False},
            },
            {"id": 12, "name": "c d", "required": False, "type": "int"},
        ],
    }
    assert converted("map<string,array<int>>") == {
        "type": "map",
        "key-id": 10,
        "key": "string",
        "value-id": 11,
        "value": {"type": "list", "element-id": 12, "element": "int", "element-required": False},
        "value-required": False,
    }


def test_columns_get_the_first_ids_and_keep_their_comments() -> None:
    columns = [HiveColumn(name="a", type="array<int>", comment="many"), HiveColumn(name="b", type="string")]
    first, second = iceberg_fields(columns, count(1).__next__)
    assert (first["id"], first["doc"], first["type"]["element-id"]) == (1, "many", 3)
    assert second == {"id": 2, "name": "b", "required": False, "type": "string"}


@pytest.mark.parametrize(
    ("hive", "message"),
    [
        ("uniontype<int,string>", "no union type"),
        ("interval_day_time", "no interval type"),
        ("timestamp with local time zone", "no Parquet reader"),
        ("void", "nothing but nulls"),
        ("geometry", "not known"),
        ("decimal(39,2)", "outside decimal"),
        ("decimal(2,3)", "outside decimal"),
        ("array<int", "cannot be read"),
        ("array<int>>", "cannot be read"),
        ("struct<a int>", "cannot be read"),
        ("map<int>", "cannot be read"),
        ("decimal(a)", "cannot be read"),
        ("decimal(1,2,3)", "cannot be read"),
        ("", "cannot be read"),
        ("<", "cannot be read"),
    ],
)
def test_what_has_no_counterpart_is_named(hive: str, message: str) -> None:
    with pytest.raises(UnsupportedType, match=message):
        converted(hive)
    with pytest.raises(UnsupportedType, match="column 'x'"):
        iceberg_fields([HiveColumn(name="x", type=hive)], count().__next__)


def spelled(hive_type: HiveType) -> str:
    match hive_type:
        case Named(name, numbers):
            return f"{name}({','.join(map(str, numbers))})" if numbers else name
        case ListOf(element):
            return f"array<{spelled(element)}>"
        case MapOf(key, value):
            return f"map<{spelled(key)},{spelled(value)}>"
        case StructOf(fields):
            return f"struct<{','.join(f'{name}:{spelled(part)}' for name, part in fields)}>"


LEAVES = st.sampled_from([Named("int"), Named("string"), Named("decimal", (10, 2)), Named("char", (3,))])
TYPES = st.recursive(
    LEAVES,
    lambda inner: (
        st.builds(ListOf, inner)
        | st.builds(MapOf, inner, inner)
        | st.builds(
            StructOf,
            st.lists(st.tuples(st.text("abc_1é$", min_size=1, max_size=4), inner), min_size=1, max_size=3).map(tuple),
        )
    ),
)


@given(TYPES)
def test_every_type_that_can_be_spelled_is_read_back(hive_type: HiveType) -> None:
    assert parse_type(spelled(hive_type)) == hive_type
