from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from catalog.hive.schema import SchemaConflict, SchemaDrift, schema_changes
from catalog.hive.types import iceberg_fields
from tests.hive_tables import columns


def a_schema(cols: str) -> dict[str, Any]:
    return {"type": "struct", "schema-id": 0, "fields": iceberg_fields(columns(cols), count(1).__next__)}


def drifted(
    before: str, after: str, schema: str | dict[str, Any] | None = None, partitions: str = "; day date"
) -> SchemaDrift:
    made = schema if isinstance(schema, dict) else a_schema((schema or before) + partitions)
    return schema_changes(columns(before), columns(after), made, 100)


def kinds(found: SchemaDrift) -> dict[str, Any]:
    return {field["name"]: field["type"] for field in found.schema["fields"]}


def test_nothing_changed() -> None:
    before = a_schema("a int; b struct<x:int>; day date")
    found = drifted("a int; b struct<x:int>", "a int; b struct<x:int>", before)
    assert (found.changes, found.schema, found.last_column_id) == ([], before, 100)


def test_new_columns_come_behind_the_others_and_before_the_partition_columns() -> None:
    found = drifted("a int", "a int; b array<int>; c string")
    assert list(kinds(found)) == ["a", "b", "c", "day"]
    assert [field["id"] for field in found.schema["fields"]] == [1, 101, 103, 2]
    assert found.changes == ["added column b array<int>", "added column c string"]
    assert found.last_column_id == 103


def test_a_dropped_column_goes() -> None:
    found = drifted("a int; b int", "a int")
    assert list(kinds(found)) == ["a", "day"]
    assert found.changes == ["dropped column b"]


def test_a_renamed_column_is_one_that_went_and_one_that_came() -> None:
    """Hive finds columns by name: under the new name old files have nulls, and so must the new field id."""
    found = drifted("a int; b int", "a int; c int")
    assert [(f["name"], f["id"]) for f in found.schema["fields"]] == [("a", 1), ("c", 101), ("day", 3)]


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("int", "bigint", "long"),
        ("smallint", "bigint", "long"),
        ("float", "double", "double"),
        ("decimal(10,2)", "decimal(12,2)", "decimal(12, 2)"),
    ],
)
def test_types_widen(before: str, after: str, kind: str) -> None:
    found = drifted(f"a {before}", f"a {after}")
    assert kinds(found)["a"] == kind
    assert len(found.changes) == 1


@pytest.mark.parametrize(("before", "after"), [("tinyint", "int"), ("varchar(5)", "string"), ("char(3)", "varchar(9)")])
def test_changes_that_iceberg_does_not_know_of_change_nothing(before: str, after: str) -> None:
    assert drifted(f"a {before}", f"a {after}").changes == []


def test_a_column_that_we_have_widened_already_stays_wide() -> None:
    found = drifted("a smallint", "a int", "a bigint")
    assert (kinds(found)["a"], found.changes) == ("long", [])
    found = drifted("a int", "a bigint", "a bigint")
    assert (kinds(found)["a"], found.changes) == ("long", [])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("bigint", "int"),
        ("int", "string"),
        ("decimal(10,2)", "decimal(10,3)"),
        ("decimal(10,2)", "decimal(9,2)"),
        ("array<int>", "int"),
        ("map<int,int>", "map<string,int>"),
        ("struct<x:int>", "struct<x:string>"),
    ],
)
def test_other_changes_of_type_are_a_conflict_that_names_the_column(before: str, after: str) -> None:
    with pytest.raises(SchemaConflict, match=r"column 'a.* changed in Hive") as refused:
        drifted(f"a {before}", f"a {after}")
    assert refused.value.hint


def test_structs_change_inside() -> None:
    found = drifted("a struct<x:int,y:int>", "a struct<x:bigint,z:array<int>>")
    fields = kinds(found)["a"]["fields"]
    assert [(f["name"], f["id"], f["type"] if isinstance(f["type"], str) else f["type"]["type"]) for f in fields] == [
        ("x", 3, "long"),
        ("z", 101, "list"),
    ]
    assert found.changes == ["widened column a.x from int to long", "dropped column a.y", "added column a.z"]


def test_lists_and_maps_widen_inside_and_keep_their_ids() -> None:
    before = a_schema("a array<int>; m map<string,float>; day date")
    found = drifted("a array<int>; m map<string,float>", "a array<bigint>; m map<string,double>", before)
    assert kinds(found)["a"] == before["fields"][0]["type"] | {"element": "long"}
    assert kinds(found)["m"] == before["fields"][1]["type"] | {"value": "double"}


def test_comments_follow() -> None:
    schema = a_schema("a int; day date")
    before, after = columns("a int"), columns("a int")
    commented = [type(after[0])(name="a", type="int", comment="the id")]
    found = schema_changes(before, commented, schema, 100)
    assert found.schema["fields"][0]["doc"] == "the id"
    back = schema_changes(commented, after, found.schema, 100)
    assert "doc" not in back.schema["fields"][0]


def test_what_firn_s_side_changed_stays() -> None:
    """We renamed b to bb and dropped c; Hive still has both and has only added d."""
    found = drifted("a int; b int; c int", "a int; b bigint; c int; d int", "a int; bb int")
    assert list(kinds(found)) == ["a", "d", "bb", "day"]
    assert found.changes == ["added column d int"]


def test_a_column_added_on_both_sides_alike_is_one_column() -> None:
    assert drifted("a int", "a int; b array<int>", "a int; b array<int>").changes == []
    with pytest.raises(SchemaConflict, match="new column 'b' of type string, the table's is a int"):
        drifted("a int", "a int; b string", "a int; b int")


def test_a_key_column_cannot_be_dropped_from_hive_s_side() -> None:
    schema = a_schema("a int; b int; day date") | {"identifier-field-ids": [2]}
    with pytest.raises(SchemaConflict, match="dropped column 'b', which the table's key needs"):
        drifted("a int; b int", "a int", schema)


def test_names_are_compared_without_regard_to_case() -> None:
    assert drifted("userid int", "userId int", "UserID int").changes == []


def test_a_new_column_of_a_name_that_another_was_given_here_is_a_conflict() -> None:
    """Both would be one: the values of the renamed column would be those of the new one in every new file."""
    ours = a_schema("x int; day date")
    with pytest.raises(SchemaConflict, match="the table's is what Hive calls 'a'"):
        schema_changes(columns("a int"), columns("a int; x int"), ours, 100, [(1, "a"), (1, "x")])


def test_a_column_that_both_sides_added_alike_is_one() -> None:
    ours = a_schema("a int; x int; day date")
    found = schema_changes(columns("a int"), columns("a int; x int"), ours, 100, [(1, "a"), (2, "x")])
    assert (found.changes, found.schema) == ([], ours)


def test_a_column_that_was_renamed_here_is_widened_with_hives() -> None:
    """Or Hive's new files would not fit it."""
    ours = a_schema("x int; day date")
    found = schema_changes(columns("a int"), columns("a bigint"), ours, 100, [(1, "a"), (1, "x")])
    assert kinds(found) == {"x": "long", "day": "date"}
