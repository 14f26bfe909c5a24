"""Writers of SQLite that share a transaction: one failure is one writer's own, one COMMIT is everybody's."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection, event
from sqlalchemy.exc import OperationalError

from catalog.errors import AlreadyExists, CommitUnknown, Unavailable
from server.store.session import Sessions
from tests.databases import OpenDatabase
from tests.factories import LAKE

WRITERS = 8


@pytest.fixture
def commits(opened_sqlite: OpenDatabase) -> list[object]:
    """One entry for each transaction that was committed."""
    seen: list[object] = []
    event.listen(opened_sqlite.engine, "commit", seen.append)
    return seen


@contextmanager
def queue(opened: OpenDatabase, write: Callable[[int], None]) -> Iterator[list[Future[None]]]:
    """Writers that have all queued up behind one; in the block that one still holds the transaction."""
    with ThreadPoolExecutor(WRITERS) as pool, opened.database.writing() as first:
        first.namespaces.add(LAKE, ("first",), {})
        group = sessions_of(opened)._group
        assert group is not None
        futures: list[Future[None]] = []
        for number in range(WRITERS):  # each in its turn, however slowly a thread starts
            futures.append(pool.submit(write, number))
            while len(group._queue) <= number:
                time.sleep(0.001)
        yield futures


def sessions_of(opened: OpenDatabase) -> Sessions:
    sessions = opened.database._sessions  # type: ignore[attr-defined]
    assert isinstance(sessions, Sessions)
    return sessions


def names(opened: OpenDatabase) -> set[str]:
    with opened.database.reading() as uow:
        return {space[0] for space in uow.namespaces.children(LAKE, (), limit=100).items}


def adding(opened: OpenDatabase) -> Callable[[int], None]:
    def add(number: int) -> None:
        with opened.database.writing() as uow:
            uow.namespaces.add(LAKE, (f"n{number}",), {})

    return add


def test_writers_that_wait_share_one_commit(opened_sqlite: OpenDatabase, commits: list[object]) -> None:
    before = len(commits)
    with queue(opened_sqlite, adding(opened_sqlite)):
        pass
    assert names(opened_sqlite) == {"first", *(f"n{number}" for number in range(WRITERS))}
    assert len(commits) - before == 1


def test_a_transaction_that_fails_undoes_its_own_work_alone(opened_sqlite: OpenDatabase) -> None:
    def add(number: int) -> None:
        with opened_sqlite.database.writing() as uow:
            uow.namespaces.add(LAKE, (f"n{number}",), {})
            if number % 2:
                raise KeyError(number)

    with queue(opened_sqlite, add) as futures:
        pass
    assert names(opened_sqlite) == {"first", "n0", "n2", "n4", "n6"}
    assert [isinstance(future.exception(), KeyError) for future in futures] == [False, True] * (WRITERS // 2)


def test_the_first_that_fails_takes_nobody_along(opened_sqlite: OpenDatabase, commits: list[object]) -> None:
    """It has no savepoint to undo: what it has done must not be in the transaction of who comes next."""
    before = len(commits)
    with pytest.raises(KeyError), queue(opened_sqlite, adding(opened_sqlite)):
        raise KeyError
    assert names(opened_sqlite) == {f"n{number}" for number in range(WRITERS)}
    assert len(commits) - before == 1


def test_a_refusal_by_what_another_has_done_waits_until_that_is_committed(opened_sqlite: OpenDatabase) -> None:
    """Told earlier, its client could look and find nothing there."""
    seen: list[bool] = []

    def add(_number: int) -> None:
        with opened_sqlite.database.writing() as uow:
            uow.namespaces.add(LAKE, ("same",), {})

    def look(number: int) -> None:
        try:
            add(number)
        except AlreadyExists:
            seen.append("same" in names(opened_sqlite))

    with queue(opened_sqlite, look):
        pass
    assert seen == [True] * (WRITERS - 1)


def test_nobody_goes_on_before_the_common_commit(opened_sqlite: OpenDatabase) -> None:
    held, seen = threading.Event(), []

    @event.listens_for(opened_sqlite.engine, "commit")
    def wait(_connection: object) -> None:
        seen.append([future.done() for future in futures])
        held.wait(timeout=1)

    with queue(opened_sqlite, adding(opened_sqlite)) as futures:
        held.set()
    assert seen == [[False] * WRITERS]


def test_all_are_told_how_the_common_commit_ended(opened_sqlite: OpenDatabase) -> None:
    @event.listens_for(opened_sqlite.engine, "commit")
    def no_answer(_connection: Connection) -> None:
        raise OperationalError("COMMIT", {}, sqlite3.OperationalError("disk I/O error"))

    with pytest.raises(CommitUnknown), queue(opened_sqlite, adding(opened_sqlite)) as futures:
        pass
    assert all(isinstance(future.exception(), CommitUnknown) for future in futures)


def test_nobody_takes_a_commit_that_broke_off_for_done(opened_sqlite: OpenDatabase) -> None:
    """An error that is not the database's own: whoever waits must neither be told that it landed nor wait for ever."""

    def break_off(_connection: Connection) -> None:
        raise RuntimeError("no thread left")

    event.listen(opened_sqlite.engine, "commit", break_off)
    with pytest.raises(CommitUnknown), queue(opened_sqlite, adding(opened_sqlite)) as futures:
        pass
    assert all(isinstance(future.exception(), CommitUnknown | RuntimeError) for future in futures)
    event.remove(opened_sqlite.engine, "commit", break_off)
    adding(opened_sqlite)(99)
    assert names(opened_sqlite) == {"n99"}


def test_a_transaction_that_sqlite_undoes_is_refused_to_all_and_the_next_one_works(
    opened_sqlite: OpenDatabase,
) -> None:
    def add(number: int) -> None:
        with opened_sqlite.database.writing() as uow:
            uow.namespaces.add(LAKE, (f"n{number}",), {})
            if number == 3:  # what SQLite does by itself when the disk is full
                uow.session.connection().exec_driver_sql("ROLLBACK")  # type: ignore[attr-defined]

    with pytest.raises(Unavailable), queue(opened_sqlite, add) as futures:
        pass
    refused = [future.exception() for future in futures[:4]]
    assert all(isinstance(error, Unavailable) for error in refused)
    assert all(future.exception() is None for future in futures[4:])
    assert names(opened_sqlite) == {f"n{number}" for number in range(4, WRITERS)}


def test_a_connection_that_is_gone_keeps_nobody_from_writing_afterwards(opened_sqlite: OpenDatabase) -> None:
    def write_nowhere() -> None:
        with opened_sqlite.database.writing() as uow:
            uow.namespaces.add(LAKE, ("lost",), {})
            raw = uow.session.connection().connection.dbapi_connection  # type: ignore[attr-defined]
            raw.close()
            uow.catalogs.get(LAKE)

    with pytest.raises(Unavailable):
        write_nowhere()
    adding(opened_sqlite)(1)
    assert names(opened_sqlite) == {"n1"}


def test_a_group_has_an_end(
    opened_sqlite: OpenDatabase, monkeypatch: pytest.MonkeyPatch, commits: list[object]
) -> None:
    monkeypatch.setattr("server.store.group_commit.LARGEST_GROUP", 3)
    before = len(commits)
    with queue(opened_sqlite, adding(opened_sqlite)):
        pass
    assert len(commits) - before == 3
    assert len(names(opened_sqlite)) == WRITERS + 1
