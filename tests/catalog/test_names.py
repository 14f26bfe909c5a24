"""Names: what may be one, how people write it, and what two of them have in common."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.errors import Invalid
from catalog.names import (
    LONGEST_NAME,
    LONGEST_NAMESPACE,
    TableName,
    check_namespace,
    decode_namespace,
    encode_namespace,
    fold_case,
    parse_namespace,
    split_name,
)
from firn.protocol.names import join_name


def _may_be_a_part(text: str) -> bool:
    try:
        check_namespace((text,))
    except Invalid:
        return False
    return True


letters = st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")) | st.sampled_from("`. /")
parts = st.text(letters, min_size=1, max_size=12).filter(_may_be_a_part)


@given(st.lists(parts, min_size=2, max_size=4))
def test_a_name_parses_to_what_it_was_made_of(given_parts: list[str]) -> None:
    *namespace, name = given_parts
    table = TableName(tuple(namespace), name)
    assert TableName.parse(str(table)) == table
    assert parse_namespace(join_name(namespace)) == tuple(namespace)
    assert decode_namespace(encode_namespace(table.as_namespace)) == table.as_namespace


@given(st.lists(parts, min_size=2, max_size=4), st.lists(parts, min_size=2, max_size=4))
def test_two_names_are_never_written_alike(some: list[str], others: list[str]) -> None:
    assert (join_name(some) == join_name(others)) == (some == others)


def test_a_plain_name_is_written_as_it_is() -> None:
    assert str(TableName(("db", "my stores"), "été/2026")) == "db.my stores.été/2026"
    assert str(TableName(("a.b",), "c`d")) == "`a.b`.`c``d`"


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", "``.a", "a`b.c", "`a.b", "`a`b.c", "a.`b`c"])
def test_what_is_no_dotted_name_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="invalid name"):
        split_name(text)


def test_a_table_needs_a_namespace() -> None:
    with pytest.raises(Invalid, match="invalid table name 'orders'"):
        TableName.parse("orders")


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        ("a\tb", "control characters"),
        ("a\x1fb", "control characters"),
        ("a\x85b", "control characters"),
        ("a\u2028b", "line breaks"),
        ("a\udc2fb", "control characters"),
        (".", "remove it from URLs"),
        ("..", "remove it from URLs"),
        (" a", "begins or ends with a space"),
        ("a\u3000", "begins or ends with a space"),
        ("", "at least one character|is empty"),
    ],
)
def test_what_cannot_be_told_or_sent_is_no_name(part: str, reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        check_namespace(("db", part))
    with pytest.raises(Invalid, match=reason):
        TableName(("db",), part)


@pytest.mark.parametrize("part", ["a b", "..a", "a.", "👩\u200d🌾", "ﬁ", "%2F", "a?b#c", "a\\b", 'a"b', "-"])
def test_everything_else_is_a_name(part: str) -> None:
    assert TableName((part,), part).as_namespace == (part, part)


def test_a_name_is_as_long_as_the_database_takes() -> None:
    TableName(("n" * LONGEST_NAME, "n" * (LONGEST_NAMESPACE - LONGEST_NAME - 1)), "t" * LONGEST_NAME)
    TableName(("ü" * (LONGEST_NAME // 2),), "ü" * (LONGEST_NAME // 2))
    for namespace, name in (
        (("n",), "t" * (LONGEST_NAME + 1)),
        (("n",), "表" * 171),
        (("n" * (LONGEST_NAME + 1),), "t"),
        (("n" * LONGEST_NAME, "n" * (LONGEST_NAMESPACE - LONGEST_NAME)), "t"),
    ):
        with pytest.raises(Invalid, match="bytes in UTF-8"):
            TableName(namespace, name)
    with pytest.raises(Invalid, match="bytes in UTF-8"):
        TableName(("n",), "ŉ" * 250)  # 500 bytes, and folded 750


def test_names_that_differ_in_case_or_in_how_accents_are_put_together_fold_to_one() -> None:
    assert fold_case("Orders") == fold_case("ORDERS") == "orders"
    assert fold_case("STRASSE") == fold_case("straße")
    assert fold_case("É") == fold_case("e\u0301") == fold_case("E\u0301")
    assert fold_case("orders") != fold_case("order")
