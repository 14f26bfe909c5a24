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
    unique_by=lambda one: one.name,
)


@st.composite
def edited(draw: st.DrawFn, columns: list[HiveColumn]) -> list[HiveColumn]:
    """The columns after somebody has dropped, added, retyped, commented or moved some."""
    found = list(columns)
    for _ in range(draw(st.integers(0, 3))):
        what = draw(st.sampled_from(["drop", "add", "type", "comment", "move"]))
        at = draw(st.integers(0, len(found) - 1)) if found else 0
        if what == "add":
            name = draw(st.sampled_from(NAMES))
            if all(one.name != name for one in found):
                found.append(HiveColumn(name=name, type=draw(kinds), comment=draw(comments)))
        elif not found:
            continue
        elif what == "drop":
            del found[at]
        elif what == "type":
            found[at] = replace(found[at], type=draw(kinds))
        elif what == "comment":
            found[at] = replace(found[at], comment=draw(comments))
        else:
            found.insert(draw(st.integers(0, len(found) - 1)), found.pop(at))
    return found


@dataclass
class Table:
    """A table of ours, whose fields have an id for life, as an engine gives them."""

    ids: dict[str, int] = field(default_factory=dict)

    def id_of(self, *path: str) -> int:
        return self.ids.setdefault("/".join(path), len(self.ids) + 1)

    def fields(self, columns: list[HiveColumn]) -> list[dict[str, Any]]:
        """These columns; of another kind than before they are other columns, unless it is a promotion."""
        made = []
        for one in columns:
            kind = self.numbered(iceberg_type(parse_type(one.type), lambda: 0), one.name)
            path = (one.name, kind if isinstance(kind, str) else kind["type"])
            of = ("long" if path[1] in ("int", "long") else path[1].split("(")[0]) if isinstance(kind, str) else path[1]
            column = {"id": self.id_of(one.name, of), "name": one.name, "required": False, "type": kind}
            made.append(column | ({"doc": one.comment} if one.comment else {}))
        return [*made, PARTITION]

    def numbered(self, kind: Any, *path: str) -> Any:
        if isinstance(kind, str):
            return kind
        made = dict(kind)
        for key in ("element", "key", "value"):
            if key in kind:
                made[f"{key}-id"] = self.id_of(*path, key)
                made[key] = self.numbered(kind[key], *path, key)
        if "fields" in kind:
            made["fields"] = [
                one | {"id": self.id_of(*path, one["name"]), "type": self.numbered(one["type"], *path, one["name"])}
                for one in kind["fields"]
            ]
        return made


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
    free = [one for one in fields if one["name"] != "day"]
    return [
        (one["name"], format_hive_type(hive_type(one["type"]) or parse_type("void")), one.get("doc")) for one in free
    ]


def ids(fields: list[dict[str, Any]]) -> dict[str, int]:
    return {one["name"]: one["id"] for one in fields}


@given(st.data(), listed, st.sampled_from(SchemaAuthority))
def test_what_hive_alone_has_changed_is_taken_whole_or_named(
    data: st.DataObject, baseline: list[HiveColumn], decides: SchemaAuthority
) -> None:
    hive, fields = data.draw(edited(baseline)), Table().fields(baseline)
    found = compared(baseline, hive, fields, decides=decides)
    if not found.conflicts:
        assert sorted(as_hive(found.schema["fields"])) == sorted((one.name, one.type, one.comment) for one in hive)
    again = compared(found.baseline, hive, found.schema["fields"], decides=decides, former=found.former)
    assert again.changes == []
    assert [one.what for one in again.conflicts] == [one.what for one in found.conflicts]
    was, now = ids(fields), ids(found.schema["fields"])
    assert all(now[name] == was[name] for name in now.keys() & was.keys()), "a column is the one that it was"


@given(st.data(), listed, st.sampled_from(SchemaAuthority))
def test_what_we_alone_have_changed_stays_and_is_in_step_once_hive_was_given_it(
    data: st.DataObject, baseline: list[HiveColumn], decides: SchemaAuthority
) -> None:
    table = Table()
    table.fields(baseline)
    fields = table.fields(data.draw(edited(baseline)))
    found = compared(baseline, baseline, fields, decides=decides)
    assert (found.changes, found.schema["fields"]) == ([], fields)
    given = compared(found.baseline, found.pushed[SchemaPush.ALL], fields, decides=decides)
    assert (given.changes, given.schema["fields"]) == ([], fields)
    assert [one.what for one in given.differences] == [one.what for one in found.conflicts]


@given(st.data(), listed, st.sampled_from(SchemaAuthority))
def test_whatever_both_change_a_second_look_takes_nothing_more(
    data: st.DataObject, baseline: list[HiveColumn], decides: SchemaAuthority
) -> None:
    table = Table()
    table.fields(baseline)
    hive, fields = data.draw(edited(baseline)), table.fields(data.draw(edited(baseline)))
    found = compared(baseline, hive, fields, decides=decides)
    again = compared(found.baseline, hive, found.schema["fields"], decides=decides, former=found.former)
    assert (again.changes, again.schema) == ([], found.schema)
    assert len({one["id"] for one in found.schema["fields"]}) == len(found.schema["fields"])
    assert found.schema["fields"].count(PARTITION) == 1
    for gives in SchemaPush:
        given = found.pushed[gives]
        after = compared(found.baseline, given, found.schema["fields"], decides=decides, former=found.former)
        assert after.changes == [], "what Hive was given is no change of Hive's"
        assert len({one.name for one in given}) == len(given)


@given(st.data(), listed)
def test_nothing_is_decided_that_both_have_changed_unless_a_policy_says_so(
    data: st.DataObject, baseline: list[HiveColumn]
) -> None:
    """A column that is a conflict stays on both sides as it is; its comment is another matter."""
    table = Table()
    table.fields(baseline)
    hive, fields = data.draw(edited(baseline)), table.fields(data.draw(edited(baseline)))
    found = compared(baseline, hive, fields)
    was, is_now = ({one["name"]: one["type"] for one in side} for side in (fields, found.schema["fields"]))
    now, given = ({one.name: one for one in side} for side in (hive, found.pushed[SchemaPush.ALL]))
    for one in found.conflicts:
        if "comment" not in one.what and one.column and "." not in one.column:
            assert is_now.get(one.column) == was.get(one.column)
            if one.column in now and one.column in given:
                assert given[one.column].type == now[one.column].type


@given(st.data(), listed, st.sampled_from(SchemaAuthority))
def test_additions_leave_every_column_of_hives_where_and_what_it_is(
    data: st.DataObject, baseline: list[HiveColumn], decides: SchemaAuthority
) -> None:
    """A reader that finds columns by position or by type sees what it saw, and a new column behind."""
    table = Table()
    table.fields(baseline)
    hive, fields = data.draw(edited(baseline)), table.fields(data.draw(edited(baseline)))
    given = compared(baseline, hive, fields, decides=decides).pushed[SchemaPush.ADDITIONS]
    assert [(one.name, one.type) for one in given][: len(hive)] == [(one.name, one.type) for one in hive]


@given(st.data(), listed)
def test_a_column_that_hive_drops_and_adds_again_is_the_same_field(
    data: st.DataObject, baseline: list[HiveColumn]
) -> None:
    fields = Table().fields(baseline)
    gone = compared(baseline, data.draw(st.lists(st.sampled_from(baseline), unique_by=lambda one: one.name)), fields)
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
    found = compared(baseline, hive, fields, decides=decides)
    ours = {one["name"]: one["type"] for one in found.schema["fields"] if one["name"] != "day"}
    read = {one.name: one.type for one in found.readable}
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
