"""The end of the log of commits, while transactions with smaller numbers still run."""

from __future__ import annotations

import pytest

from catalog.ports.store import Database
from server.service.tables.relations import make_event
from server.store.schema import upgrade_schema
from server.store.session import Sessions, open_engine
from server.store.unit_of_work import SqlDatabase
from tests.factories import LAKE, NOW, a_catalog, a_relation

EVENT = make_event(a_relation(), "create", NOW)


def test_the_log_is_read_by_number_and_catalog(database: Database) -> None:
    with database.writing() as uow:
        for _ in range(3):
            uow.events.add(EVENT)
    with database.reading() as uow:
        end = uow.event_messages.log_end()
    with database.reading() as uow:
        assert uow.event_messages.is_settled(end)
        numbers = [commit.id for commit in uow.event_messages.commits(0, end.event_id, None, limit=10)]
        assert numbers == sorted(numbers)
        assert numbers[-1] == end.event_id
        assert len(uow.event_messages.commits(numbers[0], end.event_id, LAKE, limit=10)) == len(numbers) - 1
        assert uow.event_messages.commits(0, end.event_id, a_catalog(name="nowhere").name, limit=10) == []


@pytest.mark.postgres
def test_the_log_is_complete_only_after_transactions_with_smaller_numbers(postgres_url: str) -> None:
    engine = open_engine(postgres_url)
    upgrade_schema(engine)
    database = SqlDatabase(Sessions(engine))
    with database.writing() as slow:
        slow.events.add(EVENT)  # has the smaller number
        with database.writing() as fast:
            fast.events.add(EVENT)
        with database.reading() as uow:
            end = uow.event_messages.log_end()
            assert len(uow.event_messages.commits(0, end.event_id, None, limit=10)) == 1
        with database.reading() as uow:
            assert not uow.event_messages.is_settled(end)
    with database.reading() as uow:
        assert uow.event_messages.is_settled(end)
        first, second = uow.event_messages.commits(0, end.event_id, None, limit=10)
        assert first.id < second.id == end.event_id
    engine.dispose()
