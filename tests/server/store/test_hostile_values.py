"""Values that no database could hold, and cursors that the server never gave out."""

from __future__ import annotations

from base64 import urlsafe_b64encode

import pytest

from catalog.errors import (
    Invalid,
)
from catalog.ports.store import Database
from catalog.tables.relation import RelationKind
from tests.databases import OpenDatabase
from tests.factories import (
    LAKE,
    an_event,
)


def test_a_made_up_cursor_is_refused(database: Database) -> None:
    with database.reading() as uow:
        for cursor in ("!", "eyJ9", "W10", "bnVsbA", "ü"):
            with pytest.raises(Invalid, match="cursor"):
                uow.namespaces.children(LAKE, (), limit=3, cursor=cursor)
        with pytest.raises(Invalid, match="cursor"):
            uow.jobs.list(limit=3, cursor="WyJ4Il0")  # ["x"]: text where a number belongs


@pytest.mark.parametrize(
    "key",
    [b"[1, 2]", b'["a\\u0000", "b"]', b'["\\ud800", "b"]', b"[" * 2_000, b"[true, false]"],
    ids=["numbers", "NUL", "half a pair", "deep", "flags"],
)
def test_a_made_up_cursor_of_names_is_refused_before_a_database_sees_it(database: Database, key: bytes) -> None:
    with database.reading() as uow, pytest.raises(Invalid, match="cursor"):
        uow.relations.list(LAKE, None, [RelationKind.TABLE], limit=3, cursor=urlsafe_b64encode(key).decode())


@pytest.mark.parametrize("number", [b"[99999999999999999999]", b"[-1]", b"[true]"])
def test_a_made_up_cursor_of_numbers_is_refused_before_a_database_sees_it(database: Database, number: bytes) -> None:
    with database.reading() as uow, pytest.raises(Invalid, match="cursor"):
        uow.jobs.list(limit=3, cursor=urlsafe_b64encode(number).decode())


@pytest.mark.postgres
@pytest.mark.parametrize("name", ["n" * 600, "a\0b"], ids=["long", "NUL"])
def test_a_value_that_the_database_cannot_hold_is_refused(opened_postgres: OpenDatabase, name: str) -> None:
    """A 5xx would tell the engine whose commit it comes with that it may have landed."""
    with pytest.raises(Invalid, match="cannot store"), opened_postgres.database.writing() as uow:
        uow.events.add(an_event(writer_id=name, batch_id="b"))
