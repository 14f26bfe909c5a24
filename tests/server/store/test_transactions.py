"""How transactions end, and who wins a race: on SQLite and on PostgreSQL."""

from __future__ import annotations

import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

import pytest
from sqlalchemy import event, text

from catalog.errors import AlreadyExists, CommitUnknown, NamespaceNotEmpty, Unavailable
from catalog.jobs.job import JobKind, JobStatus
from catalog.ports.store import Database, UnitOfWork
from server.service.tables.namespaces import Namespaces
from server.store.schema import upgrade_schema
from server.store.session import Sessions, open_engine
from server.store.unit_of_work import SqlDatabase
from tests.databases import OpenDatabase
from tests.factories import LAKE, LATER, NOW, a_catalog, a_job, a_keyed_table, a_relation, an_optimizer
from tests.postgres_fixtures import PostgresServer


def exists(database: Database) -> bool:
    with database.reading() as uow:
        return uow.namespaces.exists(LAKE, ("db",))


def add(uow: UnitOfWork) -> None:
    uow.namespaces.add(LAKE, ("db",), {})


def test_leaving_the_block_commits(database: Database) -> None:
    with database.writing() as uow:
        add(uow)
    assert exists(database)


def test_an_exception_in_the_block_rolls_back_and_is_passed_on(database: Database) -> None:
    def fail() -> None:
        with database.writing() as uow:
            add(uow)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fail()
    assert not exists(database)


def test_what_is_written_while_reading_does_not_stay(database: Database) -> None:
    with database.reading() as uow:
        add(uow)
    assert not exists(database)


def test_a_reader_sees_one_moment(database: Database) -> None:
    with database.reading() as reader:
        assert not reader.namespaces.exists(LAKE, ("db",))
        with database.writing() as uow:
            add(uow)
        assert not reader.namespaces.exists(LAKE, ("db",))
    assert exists(database)


def test_the_clock_is_the_databases_and_in_utc(database: Database) -> None:
    before = datetime.now(UTC)
    with database.reading() as uow:
        now = uow.now()
    assert now.tzinfo is UTC
    assert before - timedelta(seconds=5) < now < datetime.now(UTC) + timedelta(seconds=5)


@contextmanager
def at_commit(opened: OpenDatabase, act: Callable[[], None]) -> Iterator[None]:
    """Run something between the last statement of a transaction and its COMMIT."""

    def before(_connection: object) -> None:
        act()

    event.listen(opened.engine, "commit", before)
    yield
    event.remove(opened.engine, "commit", before)


@pytest.mark.postgres
def test_a_backend_that_dies_before_commit_leaves_the_outcome_unknown(
    postgres: PostgresServer, postgres_url: str
) -> None:
    """The client cannot tell this from a COMMIT that was carried out and whose answer is missing."""
    name = postgres_url.rpartition("/")[2]
    engine = open_engine(postgres_url)
    upgrade_schema(engine)
    database = SqlDatabase(Sessions(engine))
    with at_commit(OpenDatabase(postgres_url, engine, database), lambda: killed(postgres, name)), commit_is_unknown():
        write(database)
    assert not exists(database)
    engine.dispose()


def killed(postgres: PostgresServer, name: str) -> None:
    assert postgres.terminate(name)


def write(database: Database) -> None:
    with database.writing() as uow:
        add(uow)


@contextmanager
def commit_is_unknown() -> Iterator[None]:
    with pytest.raises(CommitUnknown, match="did not say whether it committed"):
        yield


@pytest.mark.postgres
def test_a_commit_that_was_carried_out_but_not_answered_is_unknown(postgres: PostgresServer, postgres_url: str) -> None:
    name = postgres_url.rpartition("/")[2]
    direct = open_engine(postgres_url)
    upgrade_schema(direct)
    with DeafProxy(postgres.port) as proxy:
        engine = open_engine(f"postgresql+psycopg://postgres@127.0.0.1:{proxy.port}/{name}")
        database = SqlDatabase(Sessions(engine))
        with at_commit(OpenDatabase("", engine, database), proxy.swallow_answers), commit_is_unknown():
            write(database)
        engine.dispose()
    assert exists(SqlDatabase(Sessions(direct)))
    direct.dispose()


@pytest.mark.postgres
def test_a_connection_that_breaks_before_the_end_has_changed_nothing(
    postgres: PostgresServer, postgres_url: str
) -> None:
    engine = open_engine(postgres_url)
    upgrade_schema(engine)
    database = SqlDatabase(Sessions(engine))

    def write_after_the_kill() -> None:
        with database.writing() as uow:
            uow.catalogs.add(a_catalog())
            killed(postgres, postgres_url.rpartition("/")[2])
            add(uow)

    with pytest.raises(Unavailable, match="does not answer"):
        write_after_the_kill()
    assert not exists(database)
    engine.dispose()


def test_a_database_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    engine = open_engine("postgresql+psycopg://nobody@127.0.0.1:1/none")
    with pytest.raises(Unavailable, match="cannot be opened"):
        upgrade_schema(engine)
    with pytest.raises(Unavailable, match="does not answer"):
        exists(SqlDatabase(Sessions(engine)))
    missing = open_engine(f"sqlite:///{tmp_path / 'no' / 'where.db'}")
    with pytest.raises(Unavailable, match="cannot be opened"):
        upgrade_schema(missing)


def test_a_full_disk_is_a_refusal(sqlite_url: str) -> None:
    """SQLite says so at the statement that needs a page, or at COMMIT; either way nothing was changed."""
    engine = open_engine(sqlite_url)
    upgrade_schema(engine)
    database = SqlDatabase(Sessions(engine))

    def fill() -> None:
        with database.writing() as uow:
            uow.namespaces.add(LAKE, ("db",), {"big": "x" * 1_000_000})

    @event.listens_for(engine, "begin")
    def no_more_pages(connection: object) -> None:
        connection.exec_driver_sql("PRAGMA max_page_count = 1")  # type: ignore[attr-defined]  # a Connection

    with pytest.raises(Unavailable, match="full"):
        fill()
    assert not exists(database)
    engine.dispose()


def test_a_busy_sqlite_file_is_a_refusal(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.store.session.BUSY_SECONDS", 0)
    engine = open_engine(sqlite_url)
    upgrade_schema(engine)
    database = SqlDatabase(Sessions(engine))
    other = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="locked"):
        write(database)
    other.close()
    write(database)
    engine.dispose()


def together(threads: int, act: Callable[[int], object]) -> list[object]:
    """What each of several threads got, or the exception it met; all start at one moment."""
    barrier = threading.Barrier(threads)

    def run(number: int) -> object:
        barrier.wait()
        try:
            return act(number)
        except Exception as error:  # noqa: BLE001 (the test looks at it)
            return error

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(run, range(threads)))


def test_of_many_that_create_a_namespace_one_does(database: Database) -> None:
    answers = together(8, lambda _: write(database))
    assert answers.count(None) == 1
    assert {type(answer) for answer in answers if answer is not None} == {AlreadyExists}


def test_a_namespace_stays_while_something_is_added_to_it(database: Database) -> None:
    write(database)
    with ThreadPoolExecutor(1) as pool:
        with database.writing() as uow:
            assert uow.namespaces.exists(LAKE, ("db",))
            dropped = pool.submit(Namespaces(database).drop, LAKE, ("db",))
            wait([dropped], timeout=0.5)
            uow.relations.add(a_relation())
        with pytest.raises(NamespaceNotEmpty):
            dropped.result()


def test_of_many_that_change_a_namespaces_properties_each_keeps_its_own(database: Database) -> None:
    """Read, changed and written back without a lock, one of them is acknowledged and lost."""
    write(database)
    namespaces = Namespaces(database)

    def change(number: int) -> None:
        namespaces.change_properties(LAKE, ("db",), updates={f"k{number}": "v"}, removals=[])

    assert {type(error) for error in together(8, change)} == {type(None)}
    with database.reading() as uow:
        assert {f"k{number}" for number in range(8)} <= uow.namespaces.properties(LAKE, ("db",)).keys()


def test_of_many_planners_one_plans_a_job(database: Database) -> None:
    job = a_job()

    def plan(_number: int) -> bool:
        with database.writing() as uow:
            return uow.jobs.add(a_job(subject_id=job.relation_id))

    assert sorted(map(bool, together(8, plan))) == [False] * 7 + [True]


def test_of_many_optimizers_each_gets_a_job_of_its_own(database: Database) -> None:
    jobs = [a_job() for _ in range(5)]
    with database.writing() as uow:
        for job in jobs:
            uow.jobs.add(job)

    def take(_number: int) -> object:
        with database.writing() as uow:
            job = uow.jobs.next_pending("default", [JobKind.MERGE], requested=False, lock=True)
            if job is None:
                return None
            uow.jobs.put(a_job(JobStatus.RUNNING, id=job.id, subject_id=job.relation_id))
            return job.id

    taken_jobs = [job for job in together(8, take) if job is not None]
    assert sorted(map(str, taken_jobs)) == sorted(str(job.id) for job in jobs)


def test_of_many_servers_one_leads(database: Database) -> None:
    def claim(number: int) -> bool:
        with database.writing() as uow:
            return uow.leaders.claim(f"server {number}", now=NOW, until=LATER) is not None

    assert sorted(map(bool, together(8, claim))) == [False] * 7 + [True]


def test_rows_that_several_put_at_once_are_put(database: Database) -> None:
    """Insert-or-replace by looking first fails for all but one of those that find nothing."""
    keyed = a_keyed_table()

    def put(number: int) -> None:
        with database.writing() as uow:
            uow.optimizers.put(an_optimizer(pid=number))
            uow.policies.put(LAKE, ("db",), {"a": str(number)})
            uow.keyed.put(a_keyed_table(relation_id=keyed.relation_id, version=number))

    assert together(8, put) == [None] * 8


def test_a_locked_job_waits_for_the_other_transaction(database: Database) -> None:
    job = a_job()
    with database.writing() as uow:
        uow.jobs.add(job)

    def count(_number: int) -> None:
        with database.writing() as uow:
            now = uow.jobs.lock(job.id)
            uow.jobs.put(a_job(id=job.id, subject_id=job.relation_id, attempt=now.attempt + 1))

    together(8, count)
    with database.reading() as uow:
        assert uow.jobs.get(job.id).attempt == 8


def test_servers_that_start_together_migrate_once(database_url: str) -> None:
    def start(_number: int) -> None:
        engine = open_engine(database_url)
        try:
            upgrade_schema(engine)
        finally:
            engine.dispose()

    assert together(4, start) == [None] * 4
    engine = open_engine(database_url)
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM alembic_version")) == 1
    engine.dispose()


class DeafProxy:
    """A TCP proxy in front of a database that can stop passing answers on, and then hangs up."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._deaf = threading.Event()
        self.port: int = self._listener.getsockname()[1]
        self._threads: list[threading.Thread] = []

    def swallow_answers(self) -> None:
        self._deaf.set()

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_error: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(60)

    def _start(self, act: Callable[[], None]) -> None:
        thread = threading.Thread(target=act, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target))
            self._start(lambda c=client, s=server: self._pump(c, s, answers=False))  # type: ignore[misc]
            self._start(lambda c=client, s=server: self._pump(s, c, answers=True))  # type: ignore[misc]

    def _pump(self, source: socket.socket, target: socket.socket, *, answers: bool) -> None:
        try:
            while data := source.recv(65536):
                if answers and self._deaf.is_set():
                    break
                target.sendall(data)
        except OSError:
            pass
        finally:
            for end in (target, source):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()
