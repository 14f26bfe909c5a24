"""Updates of schemas, specs, sort orders, format version, identity, location and properties."""

from __future__ import annotations

import pytest

from catalog.errors import Invalid
from catalog.iceberg.json import Json
from catalog.iceberg.table import current_schema
from tests.catalog.iceberg.build import (
    ORDERS,
    OTHER_UUID,
    UUID,
    a_table,
    applied,
    column,
    order,
    part,
    schema,
    sort,
    spec,
    with_history,
)

WIDER = schema(*ORDERS["fields"], column(4, "price", "decimal(9, 2)"), schema_id=77)


def add_schema(added: Json) -> Json:
    return {"action": "add-schema", "schema": added}


def use_schema(schema_id: int) -> Json:
    return {"action": "set-current-schema", "schema-id": schema_id}


def add_spec(*fields: Json) -> Json:
    return {"action": "add-spec", "spec": spec(*fields)}


def use_spec(spec_id: int) -> Json:
    return {"action": "set-default-spec", "spec-id": spec_id}


def add_order(*fields: Json) -> Json:
    return {"action": "add-sort-order", "sort-order": order(*fields)}


def use_order(order_id: int) -> Json:
    return {"action": "set-default-sort-order", "sort-order-id": order_id}


def upgrade(version: int) -> Json:
    return {"action": "upgrade-format-version", "format-version": version}


def set_properties(**updates: str) -> Json:
    return {"action": "set-properties", "updates": updates}


# --- schemas ---------------------------------------------------------------------------------------------------------


def test_an_added_schema_gets_the_next_id_whatever_it_says_of_itself() -> None:
    table = applied(a_table(), add_schema(WIDER))
    assert table["schemas"][1] == {**WIDER, "schema-id": 1}
    assert table["current-schema-id"] == 0


def test_minus_1_makes_the_last_added_schema_current() -> None:
    table = applied(a_table(), add_schema(WIDER), use_schema(-1))
    assert current_schema(table)["fields"][-1]["name"] == "price"


def test_the_last_column_id_follows_the_schema_and_not_what_the_client_says() -> None:
    table = applied(a_table(), {**add_schema(WIDER), "last-column-id": 900})
    assert table["last-column-id"] == 4


def test_the_last_column_id_never_goes_down() -> None:
    table = applied(a_table(), add_schema(WIDER), add_schema(schema(column(1, "id", required=True))))
    assert table["last-column-id"] == 4


def test_an_equal_schema_is_reused() -> None:
    table = applied(a_table(), add_schema(WIDER))
    again = {**WIDER, "fields": [*ORDERS["fields"], column(4, "price", "DECIMAL(9,2)", doc=None)]}
    assert applied(table, add_schema(again)) is table


def test_minus_1_also_means_an_equal_schema_that_was_there_before() -> None:
    table = applied(a_table(), add_schema(WIDER), use_schema(-1), add_schema(ORDERS), use_schema(-1))
    assert table["current-schema-id"] == 0


@pytest.mark.parametrize(
    "other",
    [
        schema(column(1, "id"), *ORDERS["fields"][1:]),
        schema(*ORDERS["fields"], identifier_field_ids=[1]),
        schema({**ORDERS["fields"][0], "doc": "the key"}, *ORDERS["fields"][1:]),
        schema({**ORDERS["fields"][0], "x-ours": 1}, *ORDERS["fields"][1:]),
        schema(*reversed(ORDERS["fields"])),
    ],
)
def test_a_schema_that_differs_in_anything_is_a_new_one(other: Json) -> None:
    assert len(applied(a_table(), add_schema(other))["schemas"]) == 2


def test_minus_1_without_an_added_schema_is_invalid() -> None:
    with pytest.raises(Invalid, match="Cannot set last added schema: no schema has been added"):
        applied(a_table(), use_schema(-1))


def test_an_unknown_schema_cannot_become_current() -> None:
    with pytest.raises(Invalid, match="unknown schema: 5"):
        applied(a_table(), use_schema(5))


def test_a_schema_too_new_for_the_format_is_invalid() -> None:
    with pytest.raises(Invalid, match="not supported until v3"):
        applied(a_table(2), add_schema(schema(column(1, "v", "variant"))))


def test_an_upgrade_earlier_in_the_request_makes_room_for_new_types() -> None:
    table = applied(a_table(2), upgrade(3), add_schema(schema(*ORDERS["fields"], column(4, "v", "variant"))))
    assert table["schemas"][1]["fields"][-1]["type"] == "variant"


def test_a_schema_without_a_partition_column_cannot_become_current() -> None:
    table = a_table(partition_spec=spec(part(2, "day", "d")))
    with pytest.raises(Invalid, match="cannot find source column 2 for partition field d"):
        applied(table, add_schema(schema(ORDERS["fields"][0])), use_schema(-1))


def test_a_schema_without_a_sort_column_cannot_become_current() -> None:
    with pytest.raises(Invalid, match="cannot find source column 2 for sort field"):
        applied(a_table(sort_order=order(sort(2))), add_schema(schema(ORDERS["fields"][0])), use_schema(-1))


def test_a_dropped_partition_column_is_fine_once_the_default_spec_is_another() -> None:
    table = a_table(partition_spec=spec(part(2, "day", "d")))
    table = applied(table, add_spec(), use_spec(-1), add_schema(schema(ORDERS["fields"][0])), use_schema(-1))
    assert (table["current-schema-id"], table["default-spec-id"]) == (1, 1)


def test_removed_schemas_are_gone() -> None:
    table = applied(a_table(), add_schema(WIDER), use_schema(-1))
    table = applied(table, {"action": "remove-schemas", "schema-ids": [0, 99]})
    assert [known["schema-id"] for known in table["schemas"]] == [1]


def test_a_schema_that_the_request_removed_cannot_become_current_nor_be_reused() -> None:
    table = applied(a_table(), add_schema(WIDER), use_schema(-1))
    gone = {"action": "remove-schemas", "schema-ids": [0]}
    with pytest.raises(Invalid, match="unknown schema: 0"):
        applied(table, gone, use_schema(0))
    assert [known["schema-id"] for known in applied(table, gone, add_schema(ORDERS))["schemas"]] == [1, 2]


def test_the_current_schema_cannot_be_removed() -> None:
    with pytest.raises(Invalid, match="Cannot remove the current schema"):
        applied(a_table(), {"action": "remove-schemas", "schema-ids": [0]})


def test_an_id_is_not_given_again_while_a_higher_one_is_in_use() -> None:
    table = applied(a_table(), add_schema(WIDER), use_schema(-1), {"action": "remove-schemas", "schema-ids": [0]})
    table = applied(table, add_schema(schema(*WIDER["fields"], column(5, "more"))))
    assert [known["schema-id"] for known in table["schemas"]] == [1, 2]


# --- partition specs -------------------------------------------------------------------------------------------------


def test_an_added_spec_becomes_the_default_by_minus_1() -> None:
    table = applied(a_table(), add_spec(part(2, "day", "d", 1000)), use_spec(-1))
    assert table["partition-specs"][1] == {"spec-id": 1, "fields": [part(2, "day", "d", 1000)]}
    assert (table["default-spec-id"], table["last-partition-id"]) == (1, 1000)


def test_a_spec_that_partitions_alike_is_reused() -> None:
    table = a_table(partition_spec=spec(part(2, "day", "d")))
    assert applied(table, add_spec(part(2, "DAY", "d", 1044)), use_spec(-1)) is table


def test_a_spec_with_another_name_for_the_same_values_is_a_new_one() -> None:
    table = applied(a_table(partition_spec=spec(part(2, "day", "d"))), add_spec(part(2, "day", "e", 1000)))
    assert [known["spec-id"] for known in table["partition-specs"]] == [0, 1]


def test_fields_without_ids_keep_the_id_of_the_same_field_and_get_new_ones_otherwise() -> None:
    table = a_table(partition_spec=spec(part(2, "day", "d"), part(1, "bucket[4]", "b")))
    table = applied(table, add_spec(part(1, "bucket[4]", "b"), part(3, "identity", "note")))
    assert [field["field-id"] for field in table["partition-specs"][1]["fields"]] == [1001, 1002]
    assert table["last-partition-id"] == 1002


def test_ids_for_some_fields_only_are_invalid() -> None:
    with pytest.raises(Invalid, match="1 of 2 fields have no 'field-id'"):
        applied(a_table(), add_spec(part(2, "day", "d", 1000), part(1, "bucket[4]", "b")))


def test_v1_numbers_partition_fields_by_position() -> None:
    table = applied(a_table(1), add_spec(part(2, "day", "d"), part(1, "bucket[4]", "b")))
    assert [field["field-id"] for field in table["partition-specs"][1]["fields"]] == [1000, 1001]


def test_v1_refuses_a_gap_in_partition_ids() -> None:
    with pytest.raises(Invalid, match="v1 requires sequential field ids"):
        applied(a_table(1), add_spec(part(2, "day", "d", 1005)))


def test_v1_keeps_the_old_place_of_the_default_spec_up_to_date() -> None:
    table = applied(a_table(1), add_spec(part(2, "day", "d", 1000)), use_spec(-1))
    assert table["partition-spec"] == [part(2, "day", "d", 1000)]


def test_a_void_field_needs_no_column() -> None:
    table = applied(a_table(1), add_spec(part(44, "void", "gone", 1000)), use_spec(-1))
    assert table["default-spec-id"] == 1


def test_an_unknown_spec_cannot_become_the_default() -> None:
    with pytest.raises(Invalid, match="default-spec-id is 3, but partition-specs has no such entry"):
        applied(a_table(), use_spec(3))


def test_minus_1_without_an_added_spec_is_invalid() -> None:
    with pytest.raises(Invalid, match="no partition spec has been added"):
        applied(a_table(), use_spec(-1))


def test_a_spec_may_use_a_column_that_the_request_adds() -> None:
    table = applied(a_table(), add_schema(WIDER), use_schema(-1), add_spec(part(4, "bucket[2]", "b")), use_spec(-1))
    assert table["default-spec-id"] == 1


def test_removed_specs_are_gone_but_never_the_default() -> None:
    table = applied(a_table(), add_spec(part(2, "day", "d")), use_spec(-1))
    removed = applied(table, {"action": "remove-partition-specs", "spec-ids": [0]})
    assert [known["spec-id"] for known in removed["partition-specs"]] == [1]
    with pytest.raises(Invalid, match="Cannot remove the default partition spec"):
        applied(table, {"action": "remove-partition-specs", "spec-ids": [1]})


def test_removing_specs_does_not_give_partition_ids_back() -> None:
    table = applied(a_table(), add_spec(part(2, "day", "d")))
    table = applied(table, {"action": "remove-partition-specs", "spec-ids": [1]}, add_spec(part(1, "bucket[2]", "b")))
    assert table["partition-specs"][1]["fields"][0]["field-id"] == 1001


# --- sort orders -----------------------------------------------------------------------------------------------------


def test_an_added_sort_order_becomes_the_default_by_minus_1() -> None:
    table = applied(a_table(), add_order(sort(2)), use_order(-1))
    assert table["sort-orders"][1] == {"order-id": 1, "fields": [sort(2)]}
    assert table["default-sort-order-id"] == 1


def test_an_equal_sort_order_is_reused() -> None:
    table = applied(a_table(), add_order(sort(2)))
    assert applied(table, add_order(sort(2, direction="ASC"))) is table


def test_orders_are_numbered_from_1_upwards() -> None:
    table = applied(a_table(), add_order(sort(2)), add_order(sort(2, direction="desc")), use_order(-1))
    assert [known["order-id"] for known in table["sort-orders"]] == [0, 1, 2]
    assert table["default-sort-order-id"] == 2


def test_going_back_to_unsorted_is_order_0() -> None:
    table = applied(a_table(sort_order=order(sort(2))), add_order(), use_order(-1))
    assert (table["default-sort-order-id"], table["sort-orders"][-1]) == (0, {"order-id": 0, "fields": []})


def test_an_unknown_order_cannot_become_the_default() -> None:
    with pytest.raises(Invalid, match="default-sort-order-id is 3, but sort-orders has no such entry"):
        applied(a_table(), use_order(3))


# --- format version, identity, place, properties ---------------------------------------------------------------------


def test_v1_to_v2_moves_to_the_new_fields() -> None:
    table = applied(with_history(a_table(1), 2), upgrade(2))
    assert (table["format-version"], table["last-sequence-number"]) == (2, 0)
    assert "schema" not in table
    assert "partition-spec" not in table


def test_v2_to_v3_starts_row_ids_at_0_and_keeps_the_history() -> None:
    before = with_history(a_table(2), 3)
    table = applied(before, upgrade(3))
    assert table["next-row-id"] == 0
    assert table["snapshots"] == before["snapshots"]
    assert table["last-sequence-number"] == 3


def test_the_format_version_never_goes_down() -> None:
    with pytest.raises(Invalid, match="Cannot downgrade v3 table to v2"):
        applied(a_table(3), upgrade(2))


def test_the_same_format_version_changes_nothing() -> None:
    table = a_table(2)
    assert applied(table, upgrade(2)) is table


def test_a_format_version_from_the_future_is_invalid() -> None:
    with pytest.raises(Invalid, match=r"unsupported format version: v4 \(supported: v3\)"):
        applied(a_table(3), upgrade(4))


def test_a_v1_table_without_an_id_needs_one_for_v2() -> None:
    table = {key: value for key, value in a_table(1).items() if key != "table-uuid"}
    with pytest.raises(Invalid, match="needs a UUID"):
        applied(table, upgrade(2))
    assert applied(table, {"action": "assign-uuid", "uuid": UUID}, upgrade(2))["table-uuid"] == UUID


def test_a_table_keeps_its_id() -> None:
    table = a_table()
    assert applied(table, {"action": "assign-uuid", "uuid": UUID.upper()}) is table
    with pytest.raises(Invalid, match="Cannot reassign uuid"):
        applied(table, {"action": "assign-uuid", "uuid": OTHER_UUID})


def test_an_id_must_be_a_uuid() -> None:
    with pytest.raises(Invalid, match="'orders' is not a UUID"):
        applied(a_table(), {"action": "assign-uuid", "uuid": "orders"})


def test_the_location_can_move() -> None:
    assert applied(a_table(), {"action": "set-location", "location": "s3://b/t/"})["location"] == "s3://b/t"


def test_properties_are_set_over_old_ones_and_removed() -> None:
    table = applied(a_table(properties={"a": "1", "b": "2"}), set_properties(a="3", c="4"))
    table = applied(table, {"action": "remove-properties", "removals": ["b", "ghost"]})
    assert {name: table["properties"].get(name) for name in "abc"} == {"a": "3", "b": None, "c": "4"}


def test_the_names_of_older_clients_for_properties_are_understood() -> None:
    table = applied(a_table(), {"action": "set-properties", "updated": {"a": "1"}})
    assert table["properties"]["a"] == "1"
    assert "a" not in applied(table, {"action": "remove-properties", "removed": ["a"]})["properties"]


def test_a_property_that_is_not_a_string_is_invalid() -> None:
    with pytest.raises(Invalid, match="'a' must be a string, not 5"):
        applied(a_table(), {"action": "set-properties", "updates": {"a": 5}})
