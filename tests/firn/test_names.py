"""Names that people type, taken apart without asking a server."""

from __future__ import annotations

import pytest

import firn
from firn.errors import Invalid
from firn.names import Name


@pytest.mark.parametrize(
    ("typed", "name", "parts"),
    [
        ("db.orders", Name("lake", "db.orders"), ("db", "orders")),
        ("lake.db.orders", Name("lake", "db.orders"), ("db", "orders")),
        ("`eu.west`.`q/1`", Name("lake", "`eu.west`.q/1"), ("eu.west", "q/1")),
        ("lake.`eu.west`.my orders", Name("lake", "`eu.west`.my orders"), ("eu.west", "my orders")),
        ("`lake`.a.`b``c`", Name("lake", "a.`b``c`"), ("a", "b`c")),
    ],
)
def test_a_part_with_a_dot_stands_between_backticks(typed: str, name: Name, parts: tuple[str, ...]) -> None:
    with firn.connect("http://127.0.0.1:9") as client:
        full_name = client.name(typed)
    assert (full_name, full_name.parts, str(full_name)) == (name, parts, f"lake.{name.table}")


@pytest.mark.parametrize("typed", ["orders", "`db.orders`", "db.", ".orders", "db..orders", "`db.orders"])
def test_what_names_no_table_is_refused(typed: str) -> None:
    with firn.connect("http://127.0.0.1:9") as client, pytest.raises(Invalid):
        client.name(typed)
