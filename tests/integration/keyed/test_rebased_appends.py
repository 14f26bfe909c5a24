"""Spark writers who do not try again, their commits held until all were made on the same snapshot."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count

import httpx
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from firn.spark.sessions import catalog_conf
from tests.lossy_proxy import Forward, meddling_proxy
from tests.spark_fixtures import RunningServer, running_server, shared_spark

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

WRITERS = 4
_numbers = count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tmp_path_factory.mktemp("firn") / "data") as running:
        running.spark.sql("CREATE NAMESPACE lake.db")
        yield running


@dataclass
class AllAtOnce:
    """Holds the commits on one table until every writer has sent one; the answer to one of them may get lost."""

    table: str
    loses_one: bool = False
    _barrier: threading.Barrier = field(default_factory=lambda: threading.Barrier(WRITERS, timeout=120))
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _held: int = 0
    _lost: bool = False

    def __call__(self, method: str, path: str, forward: Forward) -> httpx.Response | None:
        if method != "POST" or not path.endswith(f"/tables/{self.table}"):
            return forward()
        with self._turn:
            self._held += 1
            first = self._held <= WRITERS
        if first:
            self._barrier.wait()
        answer = forward()
        with self._turn:
            if self.loses_one and not self._lost and answer.is_success:
                self._lost = True
                return None
        return answer


def a_table(server: RunningServer, version: int, *, rebase: bool) -> str:
    name = f"t{next(_numbers)}"
    server.spark.sql(
        f"CREATE TABLE lake.db.{name} (id BIGINT, writer INT) TBLPROPERTIES ('format-version' = '{version}', "
        f"'firn.append.rebase' = '{str(rebase).lower()}', 'commit.retry.num-retries' = '0')"
    )
    server.spark.sql(f"INSERT INTO lake.db.{name} VALUES (0, -1)")
    return name


def write_at_once(server: RunningServer, name: str, *, loses_one: bool = False) -> list[int]:
    """The writers whose insert succeeded."""
    with meddling_proxy(server.url, AllAtOnce(name, loses_one)) as proxy, ThreadPoolExecutor(WRITERS) as pool:
        sessions = [_session(proxy.url) for _ in range(WRITERS)]
        done = list(pool.map(lambda writer: _inserted(sessions[writer], name, writer), range(WRITERS)))
    return [writer for writer, succeeded in enumerate(done) if succeeded]


def _session(url: str) -> SparkSession:
    session = shared_spark().newSession()
    for key, value in catalog_conf(url, "lake").items():
        session.conf.set(key, value)
    return session


def _inserted(spark: SparkSession, name: str, writer: int) -> bool:
    try:
        spark.sql(f"INSERT INTO lake.db.{name} SELECT id, {writer} FROM range({10 * writer}, {10 * writer + 10})")
    except (Py4JJavaError, PySparkException):
        return False
    return True


def rows_of(writers: list[int]) -> list[tuple[int, int]]:
    written = [(number, writer) for writer in writers for number in range(10 * writer, 10 * writer + 10)]
    return sorted([(0, -1), *written], key=repr)


@pytest.mark.parametrize("version", [2, 3])
def test_with_the_option_every_writer_succeeds_at_once(server: RunningServer, version: int) -> None:
    name = a_table(server, version, rebase=True)
    assert write_at_once(server, name) == list(range(WRITERS))
    assert server.rows(f"SELECT id, writer FROM lake.db.{name}") == rows_of(list(range(WRITERS)))
    numbers = server.rows(f"SELECT count(DISTINCT sequence_number), count(*) FROM lake.db.{name}.entries")
    files = server.rows(f"SELECT count(*) FROM lake.db.{name}.files")[0][0]
    assert numbers == [(WRITERS + 1, files)]
    if version == 3:
        ids = f"SELECT count(DISTINCT _row_id), count(*), max(_row_id) FROM lake.db.{name}"
        assert server.rows(ids) == [(10 * WRITERS + 1, 10 * WRITERS + 1, 10 * WRITERS)]
    server.spark.sql(f"DELETE FROM lake.db.{name} WHERE writer = 1")
    server.spark.sql(f"CALL lake.system.rewrite_data_files('db.{name}')")
    assert server.rows(f"SELECT id, writer FROM lake.db.{name}") == rows_of([0, 2, 3])


@pytest.mark.parametrize("version", [2, 3])
def test_without_it_one_does(server: RunningServer, version: int) -> None:
    name = a_table(server, version, rebase=False)
    succeeded = write_at_once(server, name)
    assert len(succeeded) == 1
    assert server.rows(f"SELECT id, writer FROM lake.db.{name}") == rows_of(succeeded)


@pytest.mark.parametrize("version", [2, 3])
def test_a_rebase_whose_answer_was_lost_is_there_once(server: RunningServer, version: int) -> None:
    """The writer that has heard nothing may say that it does not know; its rows are in."""
    name = a_table(server, version, rebase=True)
    assert len(write_at_once(server, name, loses_one=True)) >= WRITERS - 1
    assert server.rows(f"SELECT id, writer FROM lake.db.{name}") == rows_of(list(range(WRITERS)))


def test_no_manifest_list_of_a_client_is_left(server: RunningServer) -> None:
    """Iceberg's Java library deletes its own list when it sees that the table has another."""
    name = a_table(server, 2, rebase=True)
    write_at_once(server, name)
    listed = {path for (path,) in server.rows(f"SELECT manifest_list FROM lake.db.{name}.snapshots")}
    lying = {path.name for path in server.data_dir.rglob(f"{name}*/metadata/snap-*.avro")}
    assert lying == {path.rpartition("/")[2] for path in listed}
