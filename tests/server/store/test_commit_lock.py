"""Servers that race for one table take turns at it; a turn that cannot be had keeps nobody from working."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from catalog.ports.store import Database
from server.store.commit_lock import AdvisoryCommitLock, FileCommitLock
from server.store.session import Sessions, open_engine
from server.store.unit_of_work import SqlDatabase
from tests.databases import OpenDatabase
from tests.postgres_fixtures import PostgresServer
from tests.waiting import LONG

AT_ONCE = 0.3
"""Seconds after which somebody who waits for nothing has gone on."""


@contextmanager
def another_server(opened: OpenDatabase) -> Iterator[Database]:
    engine = open_engine(opened.url)
    yield SqlDatabase(Sessions(engine))
    engine.dispose()


def takes(database: Database, tables: Sequence[str], *, has: threading.Event) -> None:
    with database.lock_commits(tables):
        has.set()


def test_a_server_waits_for_the_turn_of_another_and_then_has_it(opened: OpenDatabase) -> None:
    has = threading.Event()
    with another_server(opened) as other, ThreadPoolExecutor(1) as pool:
        with opened.database.lock_commits(["lake db.t"]):
            pool.submit(takes, other, ["lake db.t"], has=has)
            assert not has.wait(AT_ONCE)
        assert has.wait(LONG)


def test_threads_of_one_server_take_turns_too(database: Database) -> None:
    has = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        with database.lock_commits(["lake db.t"]):
            pool.submit(takes, database, ["lake db.t"], has=has)
            assert not has.wait(AT_ONCE)
        assert has.wait(LONG)


def test_a_turn_is_over_however_its_work_ends(database: Database) -> None:
    with pytest.raises(KeyError), database.lock_commits(["lake db.t"]):
        raise KeyError
    has = threading.Event()
    takes(database, ["lake db.t"], has=has)
    assert has.is_set()


def test_commits_that_lock_the_same_tables_in_another_order_do_not_deadlock(opened: OpenDatabase) -> None:
    wanted = [["lake db.a", "lake db.b"], ["lake db.b", "lake db.a"]]

    def many(database: Database, tables: Sequence[str]) -> int:
        for _ in range(50):
            with database.lock_commits(tables):
                pass
        return 50

    with another_server(opened) as other, ThreadPoolExecutor(2) as pool:
        assert list(pool.map(many, [opened.database, other], wanted)) == [50, 50]


def test_who_waits_too_long_goes_on_without_a_turn(tmp_path: Path) -> None:
    turns = FileCommitLock(str(tmp_path / "firn.db"), longest_wait_seconds=0.05)
    with turns.of(["lake db.t"]), turns.of(["lake db.t"]):
        pass


def test_a_directory_that_is_gone_keeps_nobody_from_working(tmp_path: Path) -> None:
    with FileCommitLock(str(tmp_path / "gone" / "firn.db")).of(["lake db.t"]):
        pass


def test_on_postgresql_other_tables_are_free(opened_postgres: OpenDatabase) -> None:
    has = threading.Event()
    with another_server(opened_postgres) as other, opened_postgres.database.lock_commits(["lake db.a"]):
        takes(other, ["lake db.b"], has=has)
    assert has.is_set()


def test_without_a_database_one_goes_on_without_a_turn(postgres: PostgresServer) -> None:
    engine = open_engine(postgres.url("there_is_none"))
    with AdvisoryCommitLock(engine).of(["lake db.t"]):
        pass
    engine.dispose()


def test_a_connection_that_breaks_in_a_turn_is_thrown_away(
    opened_postgres: OpenDatabase, postgres: PostgresServer
) -> None:
    name = opened_postgres.url.rpartition("/")[2]
    with opened_postgres.database.lock_commits(["lake db.t"]):
        assert postgres.terminate(name, "%advisory_xact_lock%") == 1
    has = threading.Event()
    takes(opened_postgres.database, ["lake db.t"], has=has)
    assert has.is_set()
