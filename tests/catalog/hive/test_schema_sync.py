from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from catalog.hive.columns import ColumnFileRule, SchemaAuthority, SchemaDrift, SchemaPush, SchemaSides
from catalog.hive.model import HiveColumn
from catalog.hive.schema_diff import is_prefix_type
from catalog.hive.schema_sync import compare_schemas
from catalog.hive.types import iceberg_fields, parse_type
from tests.hive_tables import columns


def a_schema(cols: str) -> dict[str, Any]:
    return {"type": "struct", "schema-id": 0, "fields": iceberg_fields(columns(cols), count(1).__next__)}


def drifted(
    before: str,
    after: str,
    schema: str | dict[str, Any] | None = None,
    partitions: str = "; day date",
    **others: Any,
) -> SchemaDrift:
    """Hive's columns before and after, and ours, which are those before unless they are given."""
    current_schema = schema if isinstance(schema, dict) else a_schema((schema or before) + partitions)
    sides: dict[str, Any] = {
        "baseline": columns(before),
        "hive": columns(after),
        "schema": current_schema,
        "last_column_id": 100,
    }
    return compare_schemas(SchemaSides(**(sides | {"partition_columns": ["day"]} | others)))


def conflict(drift: SchemaDrift) -> str:
    """The only one."""
    [conflict] = drift.conflicts
    return conflict.what


def kinds(drift: SchemaDrift) -> dict[str, Any]:
    return {field["name"]: field["type"] for field in drift.schema["fields"]}


def test_nothing_changed() -> None:
    before = a_schema("a int; b struct<x:int>; day date")
    drift = drifted("a int; b struct<x:int>", "a int; b struct<x:int>", before)
    assert (drift.changes, drift.schema, drift.last_column_id) == ([], before, 100)


def test_new_columns_come_behind_the_others_and_before_the_partition_columns() -> None:
    drift = drifted("a int", "a int; b array<int>; c string")
    assert list(kinds(drift)) == ["a", "b", "c", "day"]
    assert [field["id"] for field in drift.schema["fields"]] == [1, 101, 103, 2]
    assert drift.changes == ["added column b array<int>", "added column c string"]
    assert drift.last_column_id == 103


def test_a_dropped_column_goes() -> None:
    drift = drifted("a int; b int", "a int")
    assert list(kinds(drift)) == ["a", "day"]
    assert drift.changes == ["dropped column b"]


def test_a_renamed_column_is_one_that_went_and_one_that_came() -> None:
    """Hive finds columns by name: under the new name old files have nulls, and so must the new field id."""
    drift = drifted("a int; b int", "a int; c int")
    assert [(f["name"], f["id"]) for f in drift.schema["fields"]] == [("a", 1), ("c", 101), ("day", 3)]


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
    drift = drifted(f"a {before}", f"a {after}")
    assert kinds(drift)["a"] == kind
    assert len(drift.changes) == 1


@pytest.mark.parametrize(("before", "after"), [("tinyint", "int"), ("varchar(5)", "string"), ("char(3)", "varchar(9)")])
def test_changes_that_iceberg_does_not_know_of_change_nothing(before: str, after: str) -> None:
    assert drifted(f"a {before}", f"a {after}").changes == []


def test_a_column_that_we_have_widened_already_stays_wide() -> None:
    drift = drifted("a smallint", "a int", "a bigint")
    assert (kinds(drift)["a"], drift.changes) == ("long", [])
    drift = drifted("a int", "a bigint", "a bigint")
    assert (kinds(drift)["a"], drift.changes) == ("long", [])


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
        ("int", "uniontype<int,string>"),
    ],
)
@pytest.mark.parametrize("decides", SchemaAuthority)
def test_a_type_that_iceberg_cannot_follow_is_a_conflict_that_no_policy_decides(
    before: str, after: str, decides: SchemaAuthority
) -> None:
    """And it is the only column that waits: files that still fit are taken over, by the type that they were read by."""
    drift = drifted(f"a {before}; b int", f"a {after}; b int; c int", decides=decides)
    assert "changed in Hive from" in conflict(drift)
    assert drift.changes == ["added column c int"]
    assert kinds(drift)["a"] == a_schema(f"a {before}; b int; day date")["fields"][0]["type"]
    assert [(column.name, column.type) for column in drift.baseline] == [("a", before), ("b", "int"), ("c", "int")]
    assert drift.readable == drift.baseline
    [check] = drift.checks
    assert (check.rule, check.field["name"]) == (ColumnFileRule.FITS, "a")


def test_structs_change_inside() -> None:
    drift = drifted("a struct<x:int,y:int>", "a struct<x:bigint,z:array<int>>")
    fields = kinds(drift)["a"]["fields"]
    assert [(f["name"], f["id"], f["type"] if isinstance(f["type"], str) else f["type"]["type"]) for f in fields] == [
        ("x", 3, "long"),
        ("z", 101, "list"),
    ]
    assert drift.changes == ["widened column a.x from int to long", "added column a.z array<int>", "dropped column a.y"]


def test_lists_and_maps_widen_inside_and_keep_their_ids() -> None:
    before = a_schema("a array<int>; m map<string,float>; day date")
    drift = drifted("a array<int>; m map<string,float>", "a array<bigint>; m map<string,double>", before)
    assert kinds(drift)["a"] == before["fields"][0]["type"] | {"element": "long"}
    assert kinds(drift)["m"] == before["fields"][1]["type"] | {"value": "double"}


def test_comments_follow() -> None:
    schema = a_schema("a int; day date")
    before, after = columns("a int"), commented("a int", "the id")
    drift = drifted("", "", schema, baseline=before, hive=after)
    assert drift.schema["fields"][0]["doc"] == "the id"
    back = drifted("", "", drift.schema, baseline=after, hive=before)
    assert "doc" not in back.schema["fields"][0]


def commented(text: str, comment: str) -> tuple[HiveColumn, ...]:
    first, *others = columns(text)
    return (replace(first, comment=comment), *others)


def documented(schema: dict[str, Any], doc: str) -> dict[str, Any]:
    first, *others = schema["fields"]
    return schema | {"fields": [first | {"doc": doc}, *others]}


@pytest.mark.parametrize(
    ("decides", "ours", "hives"), [("ask", "here", "there"), ("hive", "there", "there"), ("firn", "here", "here")]
)
def test_a_comment_that_both_have_changed_is_for_the_policy_to_decide(decides: str, ours: str, hives: str) -> None:
    schema = documented(a_schema("a int; day date"), "here")
    drift = drifted(
        "", "", schema, baseline=columns("a int"), hive=commented("a int", "there"), decides=SchemaAuthority(decides)
    )
    assert drift.schema["fields"][0]["doc"] == ours
    assert drift.pushed[SchemaPush.ADDITIONS][0].comment == hives
    assert bool(drift.conflicts) == (decides == "ask")
    assert not drift.checks


def test_what_firn_s_side_changed_stays() -> None:
    """We renamed b to bb and dropped c; Hive still has both and has only added d."""
    ours = a_schema("a int; bb int; day date")
    drift = drifted("a int; b int; c int", "a int; b bigint; c int; d int", ours, aliases=[(2, "b"), (2, "bb")])
    assert kinds(drift) == {"a": "int", "bb": "long", "d": "int", "day": "date"}
    assert drift.changes == ["widened column b from int to long", "added column d int"]
    assert [difference.what for difference in drift.differences] == ["column 'c' was dropped here, Hive has it"]
    assert not drift.conflicts


def test_a_column_that_was_renamed_here_keeps_its_name_in_hive() -> None:
    """Its files have the old name: under the new one Hive's readers would lose sight of every value."""
    ours = a_schema("x int; day date")
    drift = drifted("a int", "a int", ours, aliases=[(1, "a"), (1, "x")])
    assert (drift.changes, drift.differences, drift.schema) == ([], [], ours)
    assert [column.name for column in drift.pushed[SchemaPush.ALL]] == ["a"]


def test_a_column_added_on_both_sides_alike_is_one_column() -> None:
    drift = drifted("a int", "a int; b array<int>", "a int; b array<int>")
    assert (drift.changes, drift.differences) == ([], [])
    assert [column.name for column in drift.baseline] == ["a", "b"]


def test_columns_of_one_name_that_both_sides_added_otherwise_are_a_conflict() -> None:
    drift = drifted("a int", "a int; b string", "a int; b int")
    assert "new column 'b' of type string, the table's is int" in conflict(drift)
    assert [column.name for column in drift.baseline] == ["a"]
    assert [(column.name, column.type) for column in drift.readable] == [("a", "int"), ("b", "int")]


@pytest.mark.parametrize("decides", SchemaAuthority)
def test_a_key_column_cannot_be_dropped_from_hive_s_side(decides: SchemaAuthority) -> None:
    schema = a_schema("a int; b int; day date") | {"identifier-field-ids": [2]}
    drift = drifted("a int; b int", "a int", schema, decides=decides)
    assert drift.schema == schema
    [check] = drift.checks
    assert check.rule is ColumnFileRule.HOLDS
    assert bool(drift.conflicts) == (decides is not SchemaAuthority.FIRN)
    gave = [column.name for column in drift.pushed[SchemaPush.ADDITIONS]]
    assert gave == (["a", "b"] if decides is SchemaAuthority.FIRN else ["a"])


def test_names_are_compared_without_regard_to_case() -> None:
    drift = drifted("userid int", "userId int", "UserID int")
    assert (drift.changes, drift.differences) == ([], [])


@pytest.mark.parametrize("decides", SchemaAuthority)
def test_a_new_column_of_a_name_that_another_was_given_here_is_a_conflict(decides: SchemaAuthority) -> None:
    """Both would be one: the values of the renamed column would be those of the new one in every new file."""
    ours = a_schema("x int; day date")
    drift = drifted("a int", "a int; x int", ours, aliases=[(1, "a"), (1, "x")], decides=decides)
    assert "the table's is what Hive calls 'a'" in conflict(drift)
    assert (drift.schema, [column.name for column in drift.readable]) == (ours, ["a"])
    [check] = drift.checks
    assert (check.rule, check.field["name"]) == (ColumnFileRule.LACKS, "x")


@pytest.mark.parametrize(("decides", "stays"), [("ask", True), ("hive", False), ("firn", True)])
def test_a_column_dropped_in_hive_and_changed_here_is_for_the_policy_to_decide(decides: str, *, stays: bool) -> None:
    drift = drifted("a int; b int", "a int", "a int; b bigint", decides=SchemaAuthority(decides))
    assert ("b" in kinds(drift)) == stays
    assert bool(drift.conflicts) == (decides == "ask")
    gave = [(column.name, column.type) for column in drift.pushed[SchemaPush.ADDITIONS]]
    assert gave == ([("a", "int"), ("b", "bigint")] if decides == "firn" else [("a", "int")])
    assert not drift.checks, "it holds up no rows"


@pytest.mark.parametrize("decides", SchemaAuthority)
def test_a_column_dropped_here_and_changed_in_hive_is_for_the_policy_to_decide(decides: SchemaAuthority) -> None:
    once = a_schema("a int; b int; day date")
    ours = a_schema("a int; day date")
    ours["fields"][1]["id"] = 3
    drift = drifted("a int; b int", "a int; b bigint", ours, history=[once, ours], decides=decides)
    assert bool(drift.conflicts) == (decides is SchemaAuthority.ASK)
    by_name = {field["name"]: (field["id"], field["type"]) for field in drift.schema["fields"]}
    assert by_name.get("b") == ((2, "long") if decides is SchemaAuthority.HIVE else None)
    kept = [column.name for column in drift.pushed[SchemaPush.ALL]]
    assert kept == (["a"] if decides is SchemaAuthority.FIRN else ["a", "b"])


def test_a_column_that_hive_drops_and_adds_again_is_the_one_that_it_was() -> None:
    """By name Hive's readers see what its files hold; a field of a new id would be null in every merged file."""
    ours = a_schema("a int; s struct<x:int>; day date")
    named = [(2, "S"), (2, "s"), (4, "x")]
    gone = drifted("a int; s struct<x:int>", "a int", ours, aliases=named)
    assert list(kinds(gone)) == ["a", "day"]
    back = drifted("a int", "a int; s struct<x:bigint,y:int>", gone.schema, former=gone.former)
    assert back.revived == ["s"]
    assert [field["id"] for field in back.schema["fields"]] == [1, 2, 3]
    assert back.schema["fields"][1]["type"]["fields"] == [
        {"id": 4, "name": "x", "required": False, "type": "long"},
        {"id": 101, "name": "y", "required": False, "type": "int"},
    ]
    assert {(2, "S"), (2, "s"), (4, "x")} <= set(back.aliases)
    assert back.former == {}


def test_a_field_of_a_struct_that_comes_back_is_the_one_that_it_was() -> None:
    ours = a_schema("s struct<x:int,y:int>; day date")
    gone = drifted("s struct<x:int,y:int>", "s struct<x:int>", ours)
    back = drifted("s struct<x:int>", "s struct<x:int,y:int>", gone.schema, former=gone.former)
    assert back.schema == ours
    assert back.revived == ["s.y"]


@pytest.mark.parametrize("decides", SchemaAuthority)
def test_a_column_that_comes_back_as_another_type_is_not_taken(decides: SchemaAuthority) -> None:
    """Files hold the values that it had under its name."""
    gone = drifted("a int; b int", "a int", "a int; b int")
    back = drifted("a int", "a int; b string", gone.schema, former=gone.former, decides=decides)
    assert "has column 'b' again, as string; files hold it as int" in conflict(back)
    assert back.schema == gone.schema
    assert not back.checks, "files may hold it: nothing reads it"


def test_a_column_that_both_have_dropped_is_remembered() -> None:
    once, ours = a_schema("a int; b int; day date"), a_schema("a int; day date")
    ours["fields"][1]["id"] = 3
    gone = drifted("a int; b int", "a int", ours, history=[once, ours])
    assert (gone.changes, gone.differences) == ([], [])
    assert [column.name for column in gone.baseline] == ["a"]
    back = drifted("a int", "a int; b int", ours, history=[once, ours], former=gone.former)
    assert [(field["name"], field["id"]) for field in back.schema["fields"]] == [("a", 1), ("b", 2), ("day", 3)]


def test_hives_order_is_followed_and_ours_is_kept_and_never_given() -> None:
    followed = drifted("a int; b int; c int", "c int; a int; b int")
    assert list(kinds(followed)) == ["c", "a", "b", "day"]
    assert followed.changes == ["put the columns into Hive's order"]
    kept = drifted("a int; b int", "a int; b int; c int", "b int; a int")
    assert list(kinds(kept)) == ["b", "c", "a", "day"]
    assert [column.name for column in kept.pushed[SchemaPush.ALL]] == ["a", "b", "c"]
    assert not kept.differences


@pytest.mark.parametrize(("decides", "order"), [("ask", "bac"), ("hive", "acb"), ("firn", "bac")])
def test_an_order_that_both_have_changed_is_for_the_policy_to_decide(decides: str, order: str) -> None:
    drift = drifted(
        "a int; b int; c int", "a int; c int; b int", "b int; a int; c int", decides=SchemaAuthority(decides)
    )
    assert list(kinds(drift)) == [*order, "day"]
    assert bool(drift.conflicts) == (decides == "ask")
    assert [column.name for column in drift.baseline] == ([*"abc"] if decides == "ask" else [*"acb"])


def test_hive_is_given_new_columns_at_its_end_and_comments_and_asked_for_all_else() -> None:
    ours = documented(a_schema("a bigint; s struct<x:int,y:int>; n string; day date"), "the id")
    drift = drifted("a int; gone int; s struct<x:int>", "a int; gone int; s struct<x:int>", ours)
    additions, everything = drift.pushed[SchemaPush.ADDITIONS], drift.pushed[SchemaPush.ALL]
    assert [(addition.name, addition.type, addition.comment) for addition in additions] == [
        ("a", "int", "the id"),
        ("gone", "int", None),
        ("s", "struct<x:int>", None),
        ("n", "string", None),
    ]
    assert [(column.name, column.type) for column in everything] == [
        ("a", "bigint"),
        ("s", "struct<x:int,y:int>"),
        ("n", "string"),
    ]
    assert {difference.column: (difference.hive, difference.here) for difference in drift.differences} == {
        "a": ("a int", "a bigint"),
        "gone": ("gone int", None),
        "s.y": ("s struct<x:int>", "s struct<x:int,y:int>"),
        "n": (None, "n string"),
    }
    assert not drift.conflicts
    assert drift.schema == ours
    assert [column.name for column in drift.readable] == ["a", "s", "n"], "published files hold what Hive does not know"


def test_a_comment_that_is_too_long_for_a_metastore_is_not_given() -> None:
    """It would refuse the columns that are given with it."""
    ours = documented(a_schema("a int; n int; day date"), "x" * 257)
    ours["fields"][1]["doc"] = "y" * 257
    drift = drifted("a int", "a int", ours)
    assert [(column.name, column.comment) for column in drift.pushed[SchemaPush.ADDITIONS]] == [
        ("a", None),
        ("n", None),
    ]
    assert drift.schema == ours


def test_a_type_that_hive_does_not_have_is_shown_and_not_given() -> None:
    ours = a_schema("a int; day date")
    ours["fields"].append({"id": 9, "name": "at", "required": False, "type": "time"})
    drift = drifted("a int", "a int", ours)
    assert [difference.what for difference in drift.differences] == ["column 'at' was added here, Hive has no time"]
    assert [column.name for column in drift.pushed[SchemaPush.ALL]] == ["a"]


def test_a_new_column_without_counterpart_is_a_conflict_of_its_own() -> None:
    drift = drifted("a int", "a int; u uniontype<int,string>; c int")
    assert "which Iceberg does not have" in conflict(drift)
    assert (drift.changes, drift.checks) == (["added column c int"], [])


def test_structs_are_read_field_by_field_in_our_order() -> None:
    """A cast goes by position: what is read must lie as the table's fields do."""
    ours = a_schema("s struct<w:int,x:int>; day date")
    drift = drifted("s struct<x:int,y:int>", "s struct<x:int,y:int>", ours)
    assert [column.type for column in drift.readable] == ["struct<w:int,x:int>"]


@pytest.mark.parametrize(
    ("hive", "ours", "is_so"),
    [
        ("int", "bigint", True),
        ("struct<x:int>", "struct<x:int,y:int>", True),
        ("struct<x:int,y:int>", "struct<y:int,x:int>", False),
        ("struct<x:int,y:int>", "struct<x:int>", False),
        ("array<struct<x:int>>", "array<struct<x:int,y:int>>", True),
        ("map<int,struct<x:int>>", "map<int,struct<y:int>>", False),
    ],
)
def test_what_hive_reads_of_a_struct_is_what_it_begins_with(hive: str, ours: str, *, is_so: bool) -> None:
    assert is_prefix_type(parse_type(hive), parse_type(ours)) is is_so
