"""Schemas and partitionings as people write them, and as they are shown to them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.errors import Invalid
from catalog.history.schema_text import format_iceberg_type, format_partitioning, parse_partition_spec, parse_schema
from catalog.iceberg.json import Json
from catalog.iceberg.table import build_table, current_schema

COLUMNS = parse_schema([("id", "bigint", None), ("at", "timestamp", "when"), ("name", "string", None)])


def table(schema: Json, spec: Json | None) -> Json:
    return build_table(
        uuid="11111111-1111-4111-8111-111111111111",
        location="file:/t",
        schema=schema,
        partition_spec=spec,
        sort_order=None,
        properties={"format-version": "3"},
        now_ms=1,
    )


def types(*texts: str) -> list[str]:
    schema = parse_schema([(f"c{at}", text, None) for at, text in enumerate(texts)])
    return [format_iceberg_type(field["type"]) for field in current_schema(table(schema, None))["fields"]]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("long", "long"),
        (" LONG ", "long"),
        ("bigint", "long"),
        ("integer", "int"),
        ("timestamp_ntz", "timestamp"),
        ("timestamp_ltz", "timestamptz"),
        ("timestamptz_ns", "timestamptz_ns"),
        ("decimal(10,2)", "decimal(10, 2)"),
        ("array<string>", "list<string>"),
        ("map<string,array<int>>", "map<string, list<int>>"),
        ("struct<a:int,b:array<struct<c:date>>>", "struct<a: int, b: list<struct<c: date>>>"),
    ],
)
def test_types_are_icebergs_or_sqls(written: str, shown: str) -> None:
    assert types(written) == [shown]


def test_every_field_has_an_id_of_its_own_nested_ones_too() -> None:
    schema = parse_schema([("a", "array<map<string,struct<x:int>>>", None), ("b", "int", "the second")])
    assert schema["fields"][1] == {"id": 6, "name": "b", "required": False, "type": "int", "doc": "the second"}
    assert table(schema, None)["last-column-id"] == 6


@pytest.mark.parametrize("kind", ["", "money", "array<", "decimal(10,2", "map<int>", "struct<a>", "decimal(99,2)"])
def test_a_type_that_does_not_parse_is_named_with_its_column(kind: str) -> None:
    with pytest.raises(Invalid, match="column 'price'"):
        parse_schema([("id", "int", None), ("price", kind, None)])


def test_a_table_has_columns_of_different_names() -> None:
    with pytest.raises(Invalid, match="at least one column"):
        parse_schema([])
    with pytest.raises(Invalid, match="'a' is named twice"):
        parse_schema([("a", "int", None), ("b", "int", None), ("a", "int", None)])


@pytest.mark.parametrize(
    ("part", "transform", "name", "shown"),
    [
        ("name", "identity", "name", "name"),
        (" name ", "identity", "name", "name"),
        ("days(at)", "day", "at_day", "days(at)"),
        ("day( at )", "day", "at_day", "days(at)"),
        ("hours(at)", "hour", "at_hour", "hours(at)"),
        ("bucket(16, id)", "bucket[16]", "id_bucket", "bucket(16, id)"),
        ("bucket(id, 16)", "bucket[16]", "id_bucket", "bucket(16, id)"),
        ("truncate(name, 4)", "truncate[4]", "name_trunc", "truncate(4, name)"),
    ],
)
def test_a_partition_is_a_column_or_a_function_of_one(part: str, transform: str, name: str, shown: str) -> None:
    spec = parse_partition_spec(COLUMNS, [part])
    assert spec is not None
    (field,) = spec["fields"]
    assert (field["transform"], field["name"], field["field-id"]) == (transform, name, 1000)
    assert format_partitioning(table(COLUMNS, spec)) == [shown]


@given(parts=st.lists(st.sampled_from(["name", "years(at)", "bucket(8, id)", "truncate(2, name)"]), unique=True))
def test_a_partitioning_that_is_shown_can_be_written_again(parts: list[str]) -> None:
    assert format_partitioning(table(COLUMNS, parse_partition_spec(COLUMNS, parts))) == parts


def test_a_field_that_partitions_no_more_is_not_shown() -> None:
    spec = {"spec-id": 0, "fields": [{"source-id": 1, "field-id": 1000, "transform": "void", "name": "id"}]}
    assert format_partitioning(table(COLUMNS, spec)) == []


@pytest.mark.parametrize(
    "part",
    [
        "days(at, 3)",
        "bucket(id)",
        "bucket(4, id, 8)",
        "void(id)",
        "days()",
        "days(at",
        "1 + id",
        "nowhere",
        "days(nowhere)",
    ],
)
def test_what_is_no_partition_is_refused_with_what_would_be(part: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_partition_spec(COLUMNS, [part])
    assert refused.value.hint
