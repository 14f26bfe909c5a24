"""Sequence groups that do not fit their table are refused (docs/protocols.md, rule 1.10)."""

from __future__ import annotations

import pytest

from catalog.errors import Invalid
from catalog.iceberg.json import Json
from catalog.keyed.sequence_groups import check_groups
from catalog.keyed.spec import KeySpec

TYPES = {
    "id": "long",
    "note": "string",
    "email": "string",
    "visits": "long",
    "share": "double",
    "tags": {"type": "list", "element-id": 7, "element": "string", "element-required": False},
}
FIELDS = [{"id": at, "name": name, "type": kind, "required": False} for at, (name, kind) in enumerate(TYPES.items(), 1)]
SPEC = KeySpec(primary_key=("id",))
NOTE = {"firn.group.a.columns": "note", "firn.group.a.sequence-field": "visits"}


def check(properties: dict[str, str], *, partial: bool = True) -> None:
    schema = {"type": "struct", "schema-id": 0, "fields": FIELDS}
    base: Json = {"current-schema-id": 0, "schemas": [schema], "properties": properties}
    check_groups(base, SPEC, partial=partial)


def group(columns: str, sequence_field: str) -> dict[str, str]:
    return {"firn.group.a.columns": columns, "firn.group.a.sequence-field": sequence_field}


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"firn.group.a.columns": "note"}, r"group 'a' has no firn\.group\.a\.sequence-field"),
        ({"firn.group.a.sequence-field": "visits"}, r"group 'a' has no firn\.group\.a\.columns"),
        ({**NOTE, "firn.group.a.order": "visits"}, r"unknown property firn\.group\.a\.order"),
        (group("note,,email", "visits"), "separated by commas"),
        (group("note, note", "visits"), "different column names"),
        (group("", "visits"), "separated by commas"),
        (group("visits", "visits"), "no column besides"),
        (group("mail", "visits"), "no column 'mail'; it has id, note"),
        (group("note", "Visits"), "no column 'Visits'"),
        (group("note", ""), "no column ''"),
        (group("id", "visits"), "part of the primary key"),
        (group("note", "id"), "part of the primary key"),
        (group("note", "share"), "its type is double"),
        (group("note", "tags"), "its type is nested"),
        (
            {**NOTE, "firn.group.b.columns": "email", "firn.group.b.sequence-field": "visits"},
            "'visits' belongs to the group 'a' already",
        ),
        (
            {**NOTE, "firn.group.b.columns": "email, note", "firn.group.b.sequence-field": "email"},
            "'note' belongs to the group 'a' already",
        ),
        ({**NOTE, "firn.column.note.rule": "first"}, "column 'note' has a rule"),
        ({**NOTE, "firn.log.topic": "t"}, "a table with firn.log.topic cannot have the group 'a'"),
    ],
)
def test_groups_that_do_not_fit_are_refused(properties: dict[str, str], reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        check(properties)


def test_groups_need_partial_columns() -> None:
    with pytest.raises(Invalid, match=r"group 'a' needs firn\.partial=true"):
        check(NOTE, partial=False)


@pytest.mark.parametrize("columns", ["tags, note", "note,visits", " share "])
def test_columns_of_any_type_may_be_in_a_group(columns: str) -> None:
    check(group(columns, "visits"))
