"""Queries, the parts of their results, and saved queries, in both databases."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest

from catalog.access.privileges import PrincipalId
from catalog.errors import Invalid
from catalog.names import TableName
from catalog.ports.queries import PARQUET
from catalog.ports.store import Database
from catalog.queries.query import (
    QueryId,
    QueryOutcome,
    ResultColumn,
    SavedQuery,
    create_query_id,
    create_saved_query_id,
)
from firn.protocol.queries import QueryState
from tests.factories import LATER, NOW, a_query

ANN, BOB = PrincipalId(uuid4()), PrincipalId(uuid4())
DONE = QueryOutcome(state=QueryState.DONE, rows=2, truncated=True)


def test_a_query_goes_from_its_start_to_its_end(database: Database) -> None:
    query = a_query(NOW, TableName(("a.b", "ü"), "t\u202e'"), owner=ANN)
    with database.writing() as uow:
        uow.queries.add(query)
        assert uow.queries.find(query.id) == query
        assert uow.queries.count_active(ANN) == 1
        assert uow.queries.count_active(None) == 0
        assert uow.queries.start(query.id, LATER, ["a note"])
        assert not uow.queries.start(query.id, LATER, [])
        uow.queries.set_columns(query.id, [ResultColumn("x", "BIGINT")])
        uow.queries.note_progress(query.id, 0.5)
        for number in (0, PARQUET):
            uow.queries.put_part(query.id, number, b"\x00rows")
    with database.writing() as uow:
        running = uow.queries.find(query.id)
        assert running is not None
        assert (running.state, running.progress, running.notes) == (QueryState.RUNNING, 0.5, ("a note",))
        assert uow.queries.touch([query.id, QueryId(uuid4())], LATER) != {query.id}
        assert uow.queries.end(query.id, DONE, LATER, LATER)
        assert not uow.queries.end(query.id, replace_state(QueryState.FAILED), LATER, None)
        assert uow.queries.touch([query.id], LATER) == {query.id}
        assert uow.queries.find_part(query.id, PARQUET) == b"\x00rows"
        assert uow.queries.remove_results(LATER) == 0
        assert uow.queries.remove_results(LATER + timedelta(seconds=1)) == 1
        assert uow.queries.find_part(query.id, 0) is None
        done = uow.queries.find(query.id)
    assert done is not None
    assert (done.state, done.rows, done.truncated, done.result_until) == (QueryState.DONE, 2, True, None)
    assert done.columns == (ResultColumn("x", "BIGINT"),)


def replace_state(state: QueryState) -> QueryOutcome:
    return QueryOutcome(state=state, message="x" * 10_000)


def test_an_end_without_a_result_and_a_silent_server_leave_no_rows(database: Database) -> None:
    failed, silent, alive = (a_query(NOW, owner=ANN, seen_at=at) for at in (LATER, NOW, LATER))
    with database.writing() as uow:
        for query in (failed, silent, alive):
            uow.queries.add(query)
            uow.queries.put_part(query.id, 0, b"rows")
        assert uow.queries.end(failed.id, replace_state(QueryState.CANCELED), LATER, None)
        assert uow.queries.fail_silent(LATER, LATER, "lost") == 1
        assert [uow.queries.find_part(query.id, 0) for query in (failed, silent, alive)] == [None, None, b"rows"]
        assert uow.queries.count_active(ANN) == 1
        assert uow.queries.remove_before(LATER, limit=2) == 2
        assert uow.queries.remove_before(LATER, limit=2) == 1
        assert uow.queries.find_part(alive.id, 0) is None


def test_lists_have_the_owners_newest_first(database: Database) -> None:
    mine = [a_query(NOW + timedelta(seconds=second), owner=ANN, id=create_query_id()) for second in range(3)]
    with database.writing() as uow:
        for query in (*mine, a_query(NOW, owner=BOB), a_query(NOW)):
            uow.queries.add(query)
    with database.reading() as uow:
        first = uow.queries.list(ANN, limit=2)
        second = uow.queries.list(ANN, limit=2, cursor=first.next_cursor)
        assert [*first.items, *second.items] == mine[::-1]
        assert second.next_cursor is None
        assert len(uow.queries.list(None, limit=10).items) == 1
        for cursor in ("x", "WzFd" * 9, "WzkyMjMzNzIwMzY4NTQ3NzU4MDdd"):
            try:
                uow.queries.list(ANN, limit=2, cursor=cursor)
            except Invalid:
                continue


@pytest.mark.parametrize("owner", [ANN, None])
def test_saved_queries_are_their_owners_and_the_shared_ones(database: Database, owner: PrincipalId | None) -> None:
    def saved(name: str, of: PrincipalId | None, *, shared: bool) -> SavedQuery:
        return SavedQuery(
            id=create_saved_query_id(),
            owner=of,
            owner_name=None,
            name=name,
            statement="SELECT 1",
            catalog="lake",
            namespace="",
            shared=shared,
            created_at=NOW,
            updated_at=NOW,
        )

    own, theirs, shared = saved("b", owner, shared=False), saved("a", BOB, shared=False), saved("c", BOB, shared=True)
    with database.writing() as uow:
        for each in (shared, theirs, own, own):
            uow.saved_queries.put(each)
        assert uow.saved_queries.list(owner) == [own, shared]
        assert (uow.saved_queries.count(owner), uow.saved_queries.count(BOB)) == (1, 2)
        uow.saved_queries.remove(own.id)
        assert uow.saved_queries.find(own.id) is None
