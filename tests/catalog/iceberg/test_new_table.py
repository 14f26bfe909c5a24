"""What a new table's metadata says, and what may not become a table."""

from __future__ import annotations

import pytest

from catalog.errors import Invalid
from catalog.iceberg.table import build_empty_table, build_table
from tests.catalog.iceberg.build import (
    CREATED_MS,
    LOCATION,
    OTHER_UUID,
    UUID,
    a_table,
    add,
    applied,
    column,
    move,
    order,
    part,
    schema,
    snapshot,
    sort,
    spec,
)
from tests.catalog.iceberg.nested_schema import NESTED


def test_column_ids_are_given_anew_level_by_level() -> None:
    fields = a_table(columns=NESTED)["schemas"][0]["fields"]
    assert [field["id"] for field in fields] == [1, 2, 3, 4]
    assert (fields[1]["type"]["key-id"], fields[1]["type"]["value-id"]) == (5, 6)
    assert fields[2]["type"]["element-id"] == 7
    assert [field["id"] for field in fields[2]["type"]["element"]["fields"]] == [8, 9]
    assert fields[3]["type"]["fields"][0]["id"] == 10


def test_the_last_column_id_is_the_highest_one_given() -> None:
    assert a_table(columns=NESTED)["last-column-id"] == 10


def test_identifier_fields_follow_their_columns() -> None:
    table = a_table(columns={**NESTED, "identifier-field-ids": [10]})
    assert table["schemas"][0]["identifier-field-ids"] == [1]


def test_partition_fields_follow_their_columns_and_count_from_1000() -> None:
    table = a_table(columns=NESTED, partition_spec=spec(part(10, "bucket[4]", "b", 7), part(41, "identity", "z", 9)))
    assert table["partition-specs"] == [
        {"spec-id": 0, "fields": [part(1, "bucket[4]", "b", 1000), part(10, "identity", "z", 1001)]}
    ]
    assert table["last-partition-id"] == 1001


def test_an_unpartitioned_table_has_given_out_no_partition_id() -> None:
    table = a_table()
    assert (table["partition-specs"], table["last-partition-id"]) == ([{"spec-id": 0, "fields": []}], 999)


def test_a_sort_order_follows_its_columns_and_gets_the_id_1() -> None:
    table = a_table(columns=NESTED, sort_order=order(sort(10), order_id=8))
    assert table["sort-orders"] == [{"order-id": 1, "fields": [sort(1)]}]
    assert table["default-sort-order-id"] == 1


def test_an_unsorted_table_has_the_order_0() -> None:
    assert (a_table()["sort-orders"], a_table()["default-sort-order-id"]) == ([{"order-id": 0, "fields": []}], 0)


def test_the_format_version_is_2_unless_asked() -> None:
    table = build_table(
        uuid=UUID,
        location=LOCATION,
        schema=NESTED,
        partition_spec=None,
        sort_order=None,
        properties={},
        now_ms=CREATED_MS,
    )
    assert table["format-version"] == 2


def test_reserved_properties_are_not_stored() -> None:
    table = a_table(properties={"uuid": "x", "current-snapshot-id": "7", "owner": "ann"})
    assert table["properties"] == {"owner": "ann", "write.parquet.compression-codec": "zstd"}


def test_a_codec_that_was_asked_for_is_kept() -> None:
    table = a_table(properties={"write.parquet.compression-codec": "gzip"})
    assert table["properties"] == {"write.parquet.compression-codec": "gzip"}


def test_v1_keeps_the_schema_and_the_spec_where_old_readers_look() -> None:
    table = a_table(1, partition_spec=spec(part(2, "day", "d")))
    assert table["schema"] == table["schemas"][0]
    assert table["partition-spec"] == table["partition-specs"][0]["fields"]
    assert "last-sequence-number" not in table


def test_v3_starts_with_row_id_0_and_no_current_snapshot() -> None:
    assert (a_table(3)["next-row-id"], a_table(3)["current-snapshot-id"]) == (0, None)


def test_v2_writes_no_current_snapshot_as_minus_1() -> None:
    assert a_table(2)["current-snapshot-id"] == -1
    assert "next-row-id" not in a_table(2)


def test_a_slash_at_the_end_of_the_location_is_dropped() -> None:
    table = build_table(
        uuid=UUID,
        location="s3://bucket/t/",
        schema=NESTED,
        partition_spec=None,
        sort_order=None,
        properties={},
        now_ms=CREATED_MS,
    )
    assert table["location"] == "s3://bucket/t"


def test_defaults_and_docs_of_columns_are_kept() -> None:
    table = a_table(3, columns=schema(column(1, "n", "int", initial_default=5, doc="how many", x_ours=1)))
    assert table["schemas"][0]["fields"] == [column(1, "n", "int", initial_default=5, doc="how many", x_ours=1)]


@pytest.mark.parametrize("version", ["0", "4", "two", "-1", "²"])
def test_an_unknown_format_version_is_invalid(version: str) -> None:
    with pytest.raises(Invalid, match="Unsupported format version"):
        a_table(properties={"format-version": version})


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (schema(column(1, "a"), column(1, "b")), "a and b have the same id 1"),
        (schema(column(1, "a"), column(2, "a")), "both named a"),
        (schema(column(1, "a", "money")), "unknown type 'money'"),
        (schema(column(1, "a", {"type": "set"})), "unknown type 'set'"),
        (schema(column(1, "t", "timestamp_ns")), "timestamp_ns of t is not supported until v3"),
        (schema(column(1, "v", "variant")), "variant of v is not supported until v3"),
        (schema(column(1, "n", "int", initial_default=1)), "initial default 1 of n is not supported until v3"),
        (schema({"id": 1, "name": "a", "type": "int"}), "'required' is missing"),
        (
            schema({"id": "1", "name": "a", "type": "int", "required": True}),
            "'id' must be an integer of 64 bits",
        ),
        ({"fields": []}, "type must be 'struct'"),
        (
            schema(column(1, "a"), identifier_field_ids=[1]),
            "a cannot be an identifier field: it is not required",
        ),
        (schema(column(1, "a"), identifier_field_ids=[9]), "field 9 cannot be an identifier field"),
        (
            schema(column(1, "a", "double", required=True), identifier_field_ids=[1]),
            "a cannot be an identifier field: its type is double",
        ),
        (
            schema(
                column(1, "s", {"type": "struct", "fields": [column(2, "a", required=True)]}),
                identifier_field_ids=[2],
            ),
            "s is not a required struct",
        ),
    ],
)
def test_a_schema_that_no_reader_would_take_is_invalid(columns: dict[str, object], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        a_table(columns=columns)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (part(99, "identity", "p"), "cannot find source column 99"),
        (part(3, "identity", "id"), "has the name of a column that it is not made from"),
        (part(2, "hour", "h"), "hour does not take the type date"),
        (part(3, "day", "d"), "day does not take the type string"),
        (part(1, "bucket[0]", "b"), "width must be positive"),
        (part(1, "identity", ""), "empty name"),
        ({"transform": "identity", "name": "p"}, "'source-id' is missing"),
    ],
)
def test_a_partition_field_that_cannot_work_is_invalid(field: dict[str, object], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        a_table(partition_spec=spec(field))


def test_a_partition_name_cannot_be_used_twice() -> None:
    with pytest.raises(Invalid, match="more than once: p"):
        a_table(partition_spec=spec(part(1, "bucket[2]", "p"), part(3, "truncate[2]", "p")))


def test_a_column_inside_a_list_cannot_partition() -> None:
    with pytest.raises(Invalid, match=r"lines\.element\.sku: it is inside a list"):
        a_table(columns=NESTED, partition_spec=spec(part(32, "identity", "sku")))


def test_a_struct_cannot_partition() -> None:
    with pytest.raises(Invalid, match="its type is struct"):
        a_table(columns=NESTED, partition_spec=spec(part(40, "identity", "a")))


def test_a_transform_from_the_future_is_let_pass() -> None:
    table = a_table(partition_spec=spec(part(1, "zorder[3]", "z")))
    assert table["partition-specs"][0]["fields"][0]["transform"] == "zorder[3]"


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (sort(99), "cannot find source column 99"),
        (sort(1, direction="up"), "unknown direction 'up'"),
        (sort(1, nulls="middle"), "unknown null order 'middle'"),
        (sort(1, transform="day"), "day does not take the type long"),
    ],
)
def test_a_sort_field_that_cannot_work_is_invalid(field: dict[str, object], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        a_table(sort_order=order(field))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("commit.retry.num-retries", "often", "must be a non-negative integer"),
        ("commit.retry.num-retries", "-1", "must be a non-negative integer"),
        ("write.metadata.metrics.column.ghost", "full", "names the column 'ghost'"),
        ("encryption.key-id", "k", "not supported until v3"),
    ],
)
def test_a_property_that_would_break_later_commits_is_invalid(name: str, value: str, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        a_table(properties={name: value})


@pytest.mark.parametrize("location", ["", "/", "file:///"])
def test_a_location_must_lead_somewhere(location: str) -> None:
    with pytest.raises(Invalid, match="invalid location"):
        build_empty_table(uuid=UUID, location=location)


def create_updates(version: int) -> list[dict[str, object]]:
    """What clients send to commit a create transaction."""
    return [
        {"action": "assign-uuid", "uuid": OTHER_UUID},
        {"action": "upgrade-format-version", "format-version": version},
        {"action": "add-schema", "schema": a_table()["schemas"][0], "last-column-id": 3},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": spec(part(2, "day", "d", 1000))},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": order(order_id=0)},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": "file:/elsewhere/"},
        {"action": "set-properties", "updates": {"owner": "ann"}},
    ]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_create_transaction_builds_the_same_table_as_a_create_request(version: int) -> None:
    built = applied(build_empty_table(uuid=UUID, location=LOCATION), *create_updates(version), now_ms=CREATED_MS)
    created = build_table(
        uuid=OTHER_UUID,
        location="file:/elsewhere",
        schema=a_table()["schemas"][0],
        partition_spec=spec(part(2, "day", "d")),
        sort_order=None,
        properties={"format-version": str(version), "owner": "ann"},
        now_ms=CREATED_MS,
    )
    codec = {"write.parquet.compression-codec": "zstd"}
    assert {**built, "properties": {**codec, **built["properties"]}} == created


def test_a_create_transaction_may_bring_data() -> None:
    empty = build_empty_table(uuid=UUID, location=LOCATION)
    built = applied(empty, *create_updates(2), add(snapshot(1)), move(1))
    assert built["current-snapshot-id"] == 1
    assert built["metadata-log"] == []


def test_a_snapshot_before_a_schema_is_invalid() -> None:
    with pytest.raises(Invalid, match="before a schema"):
        applied(build_empty_table(uuid=UUID, location=LOCATION), add(snapshot(1)))


@pytest.mark.parametrize("unrepresentable", ["schema", "spec", "sort-order"])
def test_a_create_transaction_that_leaves_out_a_part_is_invalid(unrepresentable: str) -> None:
    updates = [update for update in create_updates(2) if unrepresentable not in str(update["action"])]
    if unrepresentable == "schema":
        updates = updates[:2] + updates[-2:]
    with pytest.raises(Invalid, match="has no such entry"):
        applied(build_empty_table(uuid=UUID, location=LOCATION), *updates)
