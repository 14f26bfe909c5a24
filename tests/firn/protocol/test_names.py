"""Dotted names: written and read by one rule, refused by both sides in the same words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog import names as server
from catalog.errors import Invalid as ServerInvalid
from firn import names as client
from firn.errors import Invalid as ClientInvalid
from firn.protocol.names import InvalidName, format_sql_name, join_name, split_name

texts = st.text(st.sampled_from("ab`. é"), max_size=10)


@given(st.lists(texts.filter(bool), min_size=1, max_size=3))
def test_a_name_is_read_as_it_is_written(parts: list[str]) -> None:
    assert split_name(join_name(parts)) == tuple(parts)
    assert split_name(format_sql_name(parts)) == tuple(parts)


@given(texts)
def test_a_text_is_a_name_or_is_refused(text: str) -> None:
    try:
        parts = split_name(text)
    except InvalidName:
        return
    assert all(parts)
    assert split_name(join_name(parts)) == parts


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", "`a", "a`b`", "``"])
def test_both_sides_refuse_a_text_in_the_same_words(text: str) -> None:
    with pytest.raises(InvalidName) as refused:
        split_name(text)
    with pytest.raises(ServerInvalid) as by_server:
        server.split_name(text)
    with pytest.raises(ClientInvalid) as by_client:
        client.split_name(text)
    words = refused.value.message, refused.value.hint
    assert (by_server.value.message, by_server.value.hint) == words
    assert (by_client.value.message, by_client.value.hint) == words
