"""Descriptions: what people may write, and how properties that engines wrote are read."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.errors import Invalid, NotFound
from catalog.policy.policy import check_settings
from catalog.tables.column_description import find_fields, list_fields, put_comments
from catalog.tables.description import (
    Description,
    DescriptionChange,
    parse_label,
    read_column_labels,
    read_description,
)

NESTED: dict[str, Any] = {
    "type": "struct",
    "schema-id": 3,
    "identifier-field-ids": [1],
    "fields": [
        {"id": 1, "name": "id", "type": "long", "required": True, "doc": "the key"},
        {
            "id": 2,
            "name": "address",
            "required": False,
            "type": {
                "type": "list",
                "element-id": 3,
                "element-required": False,
                "element": {
                    "type": "struct",
                    "fields": [{"id": 4, "name": "city", "type": "string", "required": False}],
                },
            },
        },
    ],
}


def test_a_change_sets_removes_and_leaves_properties() -> None:
    change = DescriptionChange(comment=" One row an order\n", owner="", add_labels=["PII"], remove_labels=["Old"])
    properties = change.list_changes()
    assert properties.updates == {"comment": "One row an order", "firn.label.pii": "true"}
    assert properties.removals == {"owner", "firn.label.old"}
    assert DescriptionChange().list_changes().updates == {}


@pytest.mark.parametrize("label", ["", " ", "-a", "a-", "a b", "a.b", "a,b", "a'b", "a\x00", "a\u200b", "x" * 64, "§"])
def test_a_label_is_one_word(label: str) -> None:
    with pytest.raises(Invalid):
        parse_label(label)


@pytest.mark.parametrize(("text", "label"), [("PII", "pii"), (" cost-center ", "cost-center"), ("Größe_2", "grösse_2")])
def test_labels_have_one_case(text: str, label: str) -> None:
    assert parse_label(text) == label


@pytest.mark.parametrize(
    "change",
    [
        {"comment": "a\x00"},
        {"comment": "a\x1b[31m"},
        {"comment": "right\u202eleft"},
        {"comment": "x" * 4001},
        {"owner": "a\nb"},
        {"owner": "x" * 256},
        {"add_labels": ["a"], "remove_labels": ["A"]},
        {"add_labels": [f"l{number}" for number in range(51)]},
    ],
)
def test_texts_that_nobody_can_read_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        DescriptionChange(**change)


def test_what_engines_wrote_is_read_without_what_is_no_label() -> None:
    written = {
        "comment": "",
        "owner": "ann",
        "firn.label.pii": "true",
        "firn.label.off": "false",
        "firn.label.": "true",
        "firn.label.a b": "true",
        "firn.label.A": "true",
        "firn.column-label.4.pii": "true",
        "firn.column-label.4.Off": "true",
        "firn.column-label.x.pii": "true",
        "firn.column-label.99999999999.pii": "true",
    }
    assert read_description(written) == Description(owner="ann", labels=("pii",))
    assert read_column_labels(written) == {4: ("pii",)}


def test_labels_are_known_properties_and_misspelt_ones_are_refused() -> None:
    check_settings({"firn.label.pii": "true", "firn.column-label.4.pii": "true"})
    for key, text in (
        ("firn.label.PII", "true"),
        ("firn.label.pii", "yes"),
        ("firn.label.", "true"),
        ("firn.column-label.pii", "true"),
        ("firn.labels", "pii"),
    ):
        with pytest.raises(Invalid):
            check_settings({key: text})


def test_comments_are_put_into_nested_fields_and_nothing_else_changes() -> None:
    assert [path for path, _ in list_fields(NESTED)] == ["id", "address", "address.city"]
    assert find_fields(NESTED, ["address.city"]) == {"address.city": 4}
    changed = put_comments(NESTED, {4: "a town", 1: ""})
    assert changed is not None
    assert {path: field.get("doc") for path, field in list_fields(changed)} == {
        "id": None,
        "address": None,
        "address.city": "a town",
    }
    assert NESTED["fields"][0]["doc"] == "the key"
    assert put_comments(NESTED, {1: "the key"}) is None
    with pytest.raises(NotFound, match="no column 'adress'") as raised:
        find_fields(NESTED, ["adress"])
    assert raised.value.hint == "did you mean address?"
