"""Filters out of the specification's JSON: every form of writing them, NOT pushed down, names resolved."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.errors import Invalid
from catalog.iceberg.json import Json
from catalog.iceberg.schema import index
from catalog.scan.expression import (
    MAX_DEPTH,
    MAX_LITERALS,
    MAX_PREDICATES,
    NEGATED,
    Op,
    bind_expression,
    list_predicates,
    parse_expression,
    to_json,
)

SCHEMA: Json = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "type": "long", "required": True},
        {
            "id": 2,
            "name": "at",
            "type": {"type": "struct", "fields": [{"id": 3, "name": "Home", "type": "string", "required": True}]},
            "required": False,
        },
        {
            "id": 4,
            "name": "tags",
            "type": {"type": "list", "element-id": 5, "element": "string", "element-required": False},
            "required": False,
        },
        {"id": 6, "name": "same", "type": "int", "required": False},
        {"id": 7, "name": "SAME", "type": "int", "required": False},
    ],
}
X = {"type": "eq", "term": "x", "value": 1}
Y = {"type": "lt", "term": "y", "value": 2}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (True, True),
        ({"type": "true"}, True),
        ({"type": "false"}, False),
        ({"type": "literal", "value": False}, False),
        ({"type": "EQ", "term": {"type": "reference", "name": "x"}, "value": {"type": "literal", "value": 1}}, X),
        ({"type": "eq", "term": {"type": "reference", "term": "x"}, "value": 1}, X),
        ({"type": "eq", "left": {"type": "reference", "name": "x"}, "right": 1}, X),
        ({"type": "gt", "left": 2, "right": {"type": "reference", "name": "y"}}, Y),
        ({"type": "is_null", "child": {"type": "reference", "name": "x"}}, {"type": "is-null", "term": "x"}),
        (
            {
                "type": "in",
                "child": {"type": "reference", "name": "x"},
                "values": {"type": "literals", "values": [1, 2]},
            },
            {"type": "in", "term": "x", "values": [1, 2]},
        ),
        ({"type": "and", "left": X, "right": True}, X),
        ({"type": "and", "left": X, "right": False}, False),
        ({"type": "or", "left": X, "right": False}, X),
        ({"type": "or", "left": X, "right": True}, True),
        ({"type": "not", "child": {"type": "not", "child": X}}, X),
        ({"type": "not", "child": True}, False),
        (
            {"type": "not", "child": {"type": "and", "left": X, "right": Y}},
            {
                "type": "or",
                "left": {"type": "not-eq", "term": "x", "value": 1},
                "right": {"type": "gt-eq", "term": "y", "value": 2},
            },
        ),
    ],
)
def test_every_way_of_writing_is_read(written: Any, read: Any) -> None:
    assert to_json(parse_expression(written)) == read


def test_each_predicate_has_one_opposite() -> None:
    assert set(NEGATED) == set(Op)
    assert all(NEGATED[NEGATED[op]] is op for op in Op)


def named(name: str, **more: Any) -> Any:
    written = {"type": "is-null", "term": name} if not more else {"type": more.pop("op"), "term": name, **more}
    return to_json(bind_expression(parse_expression(written), index(SCHEMA), case_sensitive=False))


def test_names_are_found_in_any_case_and_told_as_the_table_spells_them() -> None:
    assert named("ID") == {"type": "is-null", "term": "id"}
    assert named("AT.home", op="starts-with", value="a")["term"] == "at.Home"
    by_id = {"type": "eq", "term": {"type": "reference", "id": 1}, "value": 3}
    assert to_json(bind_expression(parse_expression(by_id), index(SCHEMA), case_sensitive=True)) == {
        "type": "eq",
        "term": "id",
        "value": 3,
    }


@pytest.mark.parametrize(
    "filter_json",
    [
        {"type": "is-null", "term": "nowhere"},
        {"type": "is-null", "term": "Same"},
        {"type": "is-null", "term": {"type": "reference", "id": 99}},
        {"type": "is-null", "term": "tags.element"},
        {"type": "eq", "term": "at", "value": 1},
        {"type": "is-nan", "term": "id"},
        {"type": "starts-with", "term": "id", "value": "1"},
    ],
)
def test_what_no_column_can_be_asked_is_refused(filter_json: Any) -> None:
    with pytest.raises(Invalid):
        bind_expression(parse_expression(filter_json), index(SCHEMA), case_sensitive=False)


def test_two_columns_that_differ_in_case_are_told_apart_by_those_who_ask_exactly() -> None:
    exact = bind_expression(parse_expression({"type": "is-null", "term": "SAME"}), index(SCHEMA), case_sensitive=True)
    assert to_json(exact) == {"type": "is-null", "term": "SAME"}


def balanced(leaf: Json, count: int) -> Json:
    """So many times the same predicate, in a tree that is no deeper than it has to be."""
    if count == 1:
        return leaf
    return {"type": "or", "left": balanced(leaf, count // 2), "right": balanced(leaf, count - count // 2)}


def chained(leaf: Json, depth: int) -> Json:
    """A filter as deep as it is long, as `a OR b OR c` is written."""
    written = leaf
    for _ in range(depth):
        written = {"type": "or", "left": written, "right": leaf}
    return written


@pytest.mark.parametrize("op", ["in", "not-in"])
def test_a_list_of_a_hundred_thousand_values_is_refused_before_any_is_looked_at(op: str) -> None:
    values = [object()] * 100_000  # the first would be refused for what it is
    with pytest.raises(Invalid, match=r"100,000 values, more than the 10,000 allowed"):
        parse_expression({"type": op, "term": "x", "values": values})


def test_values_are_counted_over_the_whole_filter() -> None:
    half = {"type": "in", "term": "x", "values": list(range(MAX_LITERALS // 2))}
    assert len(list(list_predicates(parse_expression(balanced(half, 2))))) == 2
    with pytest.raises(Invalid, match=r"15,000 values"):
        parse_expression(balanced(half, 3))


def test_predicates_are_counted() -> None:
    unary = {"type": "is-null", "term": "x"}
    assert len(list(list_predicates(parse_expression(balanced(unary, MAX_PREDICATES))))) == MAX_PREDICATES
    with pytest.raises(Invalid, match=r"1,001 predicates"):
        parse_expression(balanced(unary, MAX_PREDICATES + 1))


def test_depth_is_bounded_where_every_walk_over_the_filter_still_ends() -> None:
    deepest = parse_expression(chained({"type": "eq", "term": "id", "value": 1}, MAX_DEPTH))
    assert to_json(bind_expression(deepest, index(SCHEMA), case_sensitive=True))
    with pytest.raises(Invalid, match="250 levels"):
        parse_expression(chained(X, MAX_DEPTH + 1))
    inverted: Any = X
    for _ in range(MAX_DEPTH + 1):
        inverted = {"type": "not", "child": inverted}
    with pytest.raises(Invalid, match="250 levels"):
        parse_expression(inverted)
