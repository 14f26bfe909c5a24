"""Clients read and write dotted names by the server's rules: two copies, for neither may import the other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from catalog import names as server
from catalog.errors import Invalid as Refused
from firn import names as client
from firn.errors import Invalid

texts = st.text(st.sampled_from("ab`. é"), max_size=10)


def _read_by_server(text: str) -> object:
    try:
        return server.parts_of(text)
    except Refused as refusal:
        return refusal.message, refusal.hint


def _read_by_client(text: str) -> object:
    try:
        return client.parts_of(text)
    except Invalid as refusal:
        return refusal.message, refusal.hint


@given(texts)
def test_both_sides_read_a_name_alike(text: str) -> None:
    assert _read_by_client(text) == _read_by_server(text)


@given(st.lists(texts.filter(bool), min_size=1, max_size=3))
def test_both_sides_write_a_name_alike(parts: list[str]) -> None:
    assert client.dotted(parts) == server.dotted(parts)
    assert client.parts_of(client.sql_name(parts)) == tuple(parts)
