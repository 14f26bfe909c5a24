"""Servers that commit to one table in turn know of each other, also the one that never loses."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import pytest
from cachetools import TTLCache

from catalog.names import TableName
from server.service.commit.contention import SECONDS, Contention
from tests.server.lake import PLAIN, Lake, altered, set_property

OTHER = TableName(("db",), "other")


@pytest.fixture
def turns(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> list[Collection[str]]:
    """At which tables this server has asked for a turn."""
    requested_turns: list[Collection[str]] = []

    @contextmanager
    def turn(tables: Collection[str]) -> Iterator[None]:
        requested_turns.append(tables)
        yield

    monkeypatch.setattr(lake.database, "lock_commits", turn)
    return requested_turns


def commit(lake: Lake, name: TableName = PLAIN) -> None:
    lake.commit(altered(name, set_property("a", "1")))


def test_a_server_that_is_alone_asks_for_no_turn(lake: Lake, turns: list[Collection[str]]) -> None:
    lake.create()
    for _ in range(4):
        commit(lake)
    assert turns == []


def test_a_server_that_finds_the_table_further_on_takes_turns_from_then_on(
    lake: Lake, turns: list[Collection[str]]
) -> None:
    for name in (PLAIN, OTHER):
        lake.create(name)
        commit(lake, name)
    commit(lake.elsewhere)
    commit(lake)
    assert turns == []  # until then nobody was there, as far as it knew
    commit(lake)
    commit(lake, OTHER)
    assert turns == [["lake db.plain"]]


def test_a_server_that_loses_a_race_takes_turns_from_then_on(lake: Lake, turns: list[Collection[str]]) -> None:
    lake.create()
    elsewhere = lake.elsewhere
    lake.database.meanwhile.append(lambda: commit(elsewhere))
    commit(lake)
    commit(lake)
    assert turns == [["lake db.plain"], ["lake db.plain"]]


def test_a_meeting_is_forgotten() -> None:
    now = [0.0]
    contention = Contention(_contended=TTLCache(10, SECONDS, timer=lambda: now[0]))
    contention.note_conflict("t")
    now[0] = SECONDS - 0.1
    assert contention.is_contended("t")
    now[0] = SECONDS + 0.1
    assert not contention.is_contended("t")
