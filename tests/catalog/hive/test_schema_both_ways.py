"""Any edits on both sides, compared three ways: nothing is guessed, undone, or taken from anybody's readers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from catalog.hive.columns import SchemaAuthority, SchemaDrift, SchemaPush, SchemaSides
from catalog.hive.model import HiveColumn
from catalog.hive.schema_sync import compare_schemas
from catalog.hive.types import format_hive_type, hive_type, iceberg_type, parse_type

KINDS = (
    "int",
    "bigint",
    "decimal(8,2)",
    "decimal(9,2)",
    "decimal(10,2)",
    "string",
    "array<int>",
    "array<bigint>",
    "struct<x:int>",
    "struct<x:bigint,y:string>",
    "struct<y:string,x:int>",
    "map<string,struct<x:int>>",
    "map<string,struct<x:bigint,z:int>>",
)
NAMES = "abcdef"
PARTITION = {"id": 1000, "name": "day", "required": False, "type": "date"}

kinds = st.sampled_from(KINDS)
comments = st.sampled_from([None, "one", "two"])
listed = st.lists(
    st.builds(HiveColumn, name=st.sampled_from(NAMES), type=kinds, comment=comments),
    min_size=1,
    max_size=4,
    unique_by=lambda column: column.name,
)


@st.composite
def edited(draw: st.DrawFn, columns: list[HiveColumn]) -> list[HiveColumn]:
    """The columns after somebody has dropped, added, retyped, commented or moved some."""
    edited_columns = list(columns)
    for _ in range(draw(st.integers(0, 3))):
        action = draw(st.sampled_from(["drop", "add", "type", "comment", "move"]))
        at = draw(st.integers(0, len(edited_columns) - 1)) if edited_columns else 0
        if action == "add":
            name = draw(st.sampled_from(NAMES))
            if all(column.name != name for column in edited_columns):
                edited_columns.append(HiveColumn(name=name, type=draw(kinds), comment=draw(comments)))
        elif not edited_columns:
            continue
        elif action == "drop":
            del edited_columns[at]
        elif action == "type":
            edited_columns[at] = replace(edited_columns[at], type=draw(kinds))
        elif action == "comment":
            edited_columns[at] = replace(edited_columns[at], comment=draw(comments))
        else:
            edited_columns.insert(draw(st.integers(0, len(edited_columns) - 1)), edited_columns.pop(at))
    return edited_columns


@dataclass
class Table:
    """A table of ours, whose fields have an id for life, as an engine gives them."""

    ids: dict[str, int] = field(default_factory=dict)

    def id_of(self, *path: str) -> int:
        return self.ids.setdefault("/".join(path), len(self.ids) + 1)

    def fields(self, columns: list[HiveColumn]) -> list[dict[str, Any]]:
        """These columns; of another kind than before they are other columns, unless it is a promotion."""
        fields = []
        for base_column in columns:
            kind = self.numbered(iceberg_type(parse_type(base_column.type), lambda: 0), base_column.name)
            path = (base_column.name, kind if isinstance(kind, str) else kind["type"])
            of = ("long" if path[1] in ("int", "long") else path[1].split("(")[0]) if isinstance(kind, str) else path[1]
            column = {"id": self.id_of(base_column.name, of), "name": base_column.name, "required": False, "type": kind}
            fields.append(column | ({"doc": base_column.comment} if base_column.comment else {}))
        return [*fields, PARTITION]

    def numbered(self, kind: Any, *path: str) -> Any:
        if isinstance(kind, str):
            return kind
        numbered = dict(kind)
        for key in ("element", "key", "value"):
            if key in kind:
                numbered[f"{key}-id"] = self.id_of(*path, key)
                numbered[key] = self.numbered(kind[key], *path, key)
        if "fields" in kind:
            numbered["fields"] = [
                field
                | {"id": self.id_of(*path, field["name"]), "type": self.numbered(field["type"], *path, field["name"])}
                for field in kind["fields"]
            ]
        return numbered


def compared(
    baseline: Any,
    hive: Any,
    fields: list[dict[str, Any]],
    *,
    decides: SchemaAuthority = SchemaAuthority.ASK,
    **others: Any,
) -> SchemaDrift:
    schema = {"type": "struct", "fields": fields}
    return compare_schemas(
        SchemaSides(
            baseline=baseline,
            hive=hive,
            schema=schema,
            last_column_id=2000,
            partition_columns=["day"],
            decides=decides,
            **others,
        )
    )


def as_hive(fields: list[dict[str, Any]]) -> list[tuple[str, str, str | None]]:
    """Fields as Hive would have them, partition columns left out."""
    free = [field for field in fields if field["name"] != "day"]
    return [
        (field["name"], format_hive_type(hive_type(field["type"]) or parse_type("void")), field.get("doc"))
        for field in free
    ]


def ids(fields: list[dict[str, Any]]) -> dict[str, int]:
    return {field["name"]: field["id"] for field in fields}


@given(st.data(), listed, st.sampled_from(SchemaAuthority))
def test_what_hive_alone_has_changed_is_taken_whole_or_named(
    data: st.DataObject, baseline: list[HiveColumn], decides: SchemaAuthority
) -> None:
    hive, fields = data.draw(edited(baseline)), Table().fields(baseline)
    drift = compared(baseline, hive, fields, decides=decides)
    if not drift.conflicts:
        assert sorted(as_hive(drift.schema["fields"])) == sorted(
            (column.name, column.type, column.comment) for column in hive
        )
    again = compared(drift.baseline, hive, drift.schema["fields"], decides=decides, former=drift.former)
    assert again.changes == []
    assert [conflict.what for conflict in again.conflicts] == [conflict.what for conflict in drift.conflicts]
    was, now = ids(fields), ids(drift.schema["fields"])
    assert all(now[name] == was[name] for name in now.keys() & was.keys()), "a column is the one that it was"


@given(st.data(), listed, st.sampled_from(SchemaAuthority))
def test_what_we_alone_have_changed_stays_and_is_in_step_once_hive_was_given_it(
    data: st.DataObject, baseline: list[HiveColumn], decides: SchemaAuthority
) -> None:
    table = Table()
    table.fields(baseline)
    fields = table.fields(data.draw(edited(baseline)))
    drift = compared(baseline, baseline, fields, decides=decides)
    assert (drift.changes, drift.schema["fields"]) == ([], fields)
    next_drift = compared(drift.baseline, drift.pushed[SchemaPush.ALL], fields, decides=decides)
    assert (next_drift.changes, next_drift.schema["fields"]) == ([], fields)
    assert [difference.what for difference in next_drift.differences] == [conflict.what for conflict in drift.conflicts]


@given(st.data(), listed, st.sampled_from(SchemaAuthority))
def test_whatever_both_change_a_second_look_takes_nothing_more(
    data: st.DataObject, baseline: list[HiveColumn], decides: SchemaAuthority
) -> None:
    table = Table()
    table.fields(baseline)
    hive, fields = data.draw(edited(baseline)), table.fields(data.draw(edited(baseline)))
    drift = compared(baseline, hive, fields, decides=decides)
    again = compared(drift.baseline, hive, drift.schema["fields"], decides=decides, former=drift.former)
    assert (again.changes, again.schema) == ([], drift.schema)
    assert len({field["id"] for field in drift.schema["fields"]}) == len(drift.schema["fields"])
    assert drift.schema["fields"].count(PARTITION) == 1
    for gives in SchemaPush:
        pushed_columns = drift.pushed[gives]
        after = compared(drift.baseline, pushed_columns, drift.schema["fields"], decides=decides, former=drift.former)
        assert after.changes == [], "what Hive was given is no change of Hive's"
        assert len({column.name for column in pushed_columns}) == len(pushed_columns)


@given(st.data(), listed)
def test_nothing_is_decided_that_both_have_changed_unless_a_policy_says_so(
    data: st.DataObject, baseline: list[HiveColumn]
) -> None:
    """A column that is a conflict stays on both sides as it is; its comment is another matter."""
    table = Table()
    table.fields(baseline)
    hive, fields = data.draw(edited(baseline)), table.fields(data.draw(edited(baseline)))
    drift = compared(baseline, hive, fields)
    was, is_now = ({field["name"]: field["type"] for field in side} for side in (fields, drift.schema["fields"]))
    now, pushed_columns = ({column.name: column for column in side} for side in (hive, drift.pushed[SchemaPush.ALL]))
    for conflict in drift.conflicts:
        if "comment" not in conflict.what and conflict.column and "." not in conflict.column:
            assert is_now.get(conflict.column) == was.get(conflict.column)
            if conflict.column in now and conflict.column in pushed_columns:
                assert pushed_columns[conflict.column].type == now[conflict.column].type


@given(st.data(), listed, st.sampled_from(SchemaAuthority))
def test_additions_leave_every_column_of_hives_where_and_what_it_is(
    data: st.DataObject, baseline: list[HiveColumn], decides: SchemaAuthority
) -> None:
    """A reader that finds columns by position or by type sees what it saw, and a new column behind."""
    table = Table()
    table.fields(baseline)
    hive, fields = data.draw(edited(baseline)), table.fields(data.draw(edited(baseline)))
    pushed_columns = compared(baseline, hive, fields, decides=decides).pushed[SchemaPush.ADDITIONS]
    assert [(column.name, column.type) for column in pushed_columns][: len(hive)] == [
        (column.name, column.type) for column in hive
    ]


@given(st.data(), listed)
def test_a_column_that_hive_drops_and_adds_again_is_the_same_field(
    data: st.DataObject, baseline: list[HiveColumn]
) -> None:
    fields = Table().fields(baseline)
    gone = compared(
        baseline, data.draw(st.lists(st.sampled_from(baseline), unique_by=lambda column: column.name)), fields
    )
    back = compared(gone.baseline, baseline, gone.schema["fields"], former=gone.former)
    assert ids(back.schema["fields"]) == ids(fields)
    assert sorted(back.schema["fields"], key=str) == sorted(fields, key=str)
    assert back.former == {}


@given(st.data(), listed, st.sampled_from(SchemaAuthority))
def test_files_are_read_into_every_column_of_ours_by_a_type_of_its_shape(
    data: st.DataObject, baseline: list[HiveColumn], decides: SchemaAuthority
) -> None:
    """Casts go by position within structs: field for field, in our order."""
    table = Table()
    table.fields(baseline)
    hive, fields = data.draw(edited(baseline)), table.fields(data.draw(edited(baseline)))
    drift = compared(baseline, hive, fields, decides=decides)
    ours = {field["name"]: field["type"] for field in drift.schema["fields"] if field["name"] != "day"}
    read = {column.name: column.type for column in drift.readable}
    assert read.keys() == ours.keys()
    for name, kind in ours.items():
        assert shape(hive_type(kind)) == shape(parse_type(read[name]))


def shape(kind: Any) -> Any:
    """A type by its parts' names and order alone."""
    match type(kind).__name__:
        case "StructOf":
            return [(name, shape(part)) for name, part in kind.fields]
        case "ListOf":
            return ["list", shape(kind.element)]
        case "MapOf":
            return ["map", shape(kind.key), shape(kind.value)]
        case _:
            return "leaf"
