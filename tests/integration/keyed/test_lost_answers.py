"""A commit lands, its answer does not, and somebody else commits before the client tries again: no row is lost.

The trap (docs/architecture.md#a-commit): refused on its second try, Spark looks, finds its own snapshot below the
head, takes that for a rollback, and sets main back over the other writer's rows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

import httpx
import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from requests import ConnectionError as NoAnswer

from firn.spark.local_frames import create_local_frame
from firn.spark.sessions import catalog_conf
from firn.spark.write import upsert
from optimizer.worker import Worker
from tests.integration.keyed.appends import Store
from tests.integration.keyed.model import LONG, TEXT, Shape
from tests.integration.keyed.table import Table
from tests.keyed_tables import a_worker
from tests.lossy_proxy import Forward, meddling_proxy
from tests.spark_fixtures import RunningServer, shared_spark

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

COLUMNS = {"id": LONG, "v": TEXT}
SHAPE = Shape(columns=COLUMNS, key=("id",))
MINE = {"id": 1, "v": "mine"}
THEIRS = {"id": 2, "v": "theirs"}
NUMBERS = count()
LATE_SECONDS = 1.5
Fault = Callable[[Forward, Callable[[], None]], httpx.Response | None]


def closed(forward: Forward, other: Callable[[], None]) -> httpx.Response | None:
    assert forward().is_success
    other()
    return None


def bad_gateway(forward: Forward, other: Callable[[], None]) -> httpx.Response | None:
    assert forward().is_success
    other()
    return httpx.Response(502)


def gateway_timeout(forward: Forward, other: Callable[[], None]) -> httpx.Response | None:
    assert forward().is_success
    other()
    return httpx.Response(504)


def delivered_again(forward: Forward, other: Callable[[], None]) -> httpx.Response | None:
    """A repeated request is answered like the first one, whatever has come between."""
    assert forward().is_success
    other()
    return forward()


def delivered_late_and_unheard(forward: Forward, other: Callable[[], None]) -> httpx.Response | None:
    """The client hears nothing and tries again, while its first request is still on its way."""
    other()
    threading.Timer(LATE_SECONDS, forward).start()
    return None


def never_delivered(forward: Forward, other: Callable[[], None]) -> httpx.Response | None:
    other()
    return None


FAULTS: list[Fault] = [
    closed,
    bad_gateway,
    gateway_timeout,
    delivered_again,
    delivered_late_and_unheard,
    never_delivered,
]
LANDS_FOR_CERTAIN = {closed, bad_gateway, gateway_timeout, delivered_again}


@pytest.fixture(params=FAULTS)
def fault(request: pytest.FixtureRequest) -> Fault:
    fault: Fault = request.param
    return fault


@dataclass
class Once:
    """Lets one fault happen, to the first commit on one store."""

    store: Store
    fault: Fault
    other: Callable[[], None]
    part: str = "/adopted"
    """The end of the path by which a merge by adoption commits to the store."""
    happened: threading.Event = field(default_factory=threading.Event)

    def __call__(self, method: str, path: str, forward: Forward) -> httpx.Response | None:
        is_commit = path == self.store.path or path.endswith(self.part)
        if method != "POST" or not is_commit or self.happened.is_set():
            return forward()
        self.happened.set()
        return self.fault(forward, self.other)

    def wait(self) -> None:
        """Until nothing is on its way any more; fails when there was no commit to meddle with."""
        assert self.happened.is_set()
        time.sleep(LATE_SECONDS + 1 if self.fault is delivered_late_and_unheard else 0)


def test_an_upsert_is_there_once(server: RunningServer, worker: Worker, fault: Fault) -> None:
    table = Table.create(server, worker, SHAPE)
    theirs = [{**THEIRS, "_op": "U", "_source": None}]
    once = Once(table.change, fault, lambda: _ok(table.change.append(theirs)))
    with meddling_proxy(server.url, once) as proxy:
        rows = create_local_frame(_session(proxy.url), [(1, "mine")], "id BIGINT, v STRING")
        upsert(rows, table.name, batch="b", writer="w")
        once.wait()
    changes = server.rows(f"SELECT id, v FROM {table.name}.change")
    assert changes == [(1, "mine"), (2, "theirs")]
    assert table.by_arrow() == table.by_spark() == {(1,): MINE, (2,): THEIRS}


def test_a_plain_append_by_spark_is_there_once(server: RunningServer, fault: Fault) -> None:
    name, store = _plain_table(server)
    once = Once(store, fault, lambda: _ok(store.append([THEIRS])))
    with meddling_proxy(server.url, once) as proxy:
        spark = _session(proxy.url)
        heard = _heard(lambda: spark.sql(f"INSERT INTO lake.{name} VALUES (1, 'mine')"))
        once.wait()
    _check_plain(server, name, once, heard=heard)


def test_a_plain_append_by_pyiceberg_is_there_once(server: RunningServer, fault: Fault) -> None:
    name, store = _plain_table(server)
    once = Once(store, fault, lambda: _ok(store.append([THEIRS])))
    rows = pa.Table.from_pylist([MINE], pa.schema([("id", pa.int64()), ("v", pa.string())]))
    with meddling_proxy(server.url, once) as proxy:
        table = RestCatalog("lake", uri=f"{proxy.url}/iceberg", warehouse="lake").load_table(name)
        heard = _heard(lambda: table.append(rows))
        once.wait()
    _check_plain(server, name, once, heard=heard)


@pytest.mark.parametrize("mode", ["rewrite", "vectors", "adopt", "auto"])
def test_a_merge_is_made_once(server: RunningServer, worker: Worker, mode: str, fault: Fault) -> None:
    """The other writer appends to both stores: to base too, so that a merge that comes after it must be refused."""
    table = Table.create(server, worker, SHAPE)
    table.upsert([MINE], COLUMNS)
    table.run("merge")
    table.upsert([{"id": 1, "v": "newer"}, {"id": 3, "v": "three"}], COLUMNS)
    direct = {"id": 4, "v": "direct"}

    def other() -> None:
        _ok(table.change.append([{**THEIRS, "_op": "I", "_source": None}]))
        _ok(table.base.append([direct]))

    once = Once(table.base, fault, other)
    job_id = table.ask("merge", mode=mode)
    with meddling_proxy(server.url, once) as proxy:
        unlucky = a_worker(proxy.url)
        assert unlucky.work_once(unlucky.api.register(**unlucky.about).id, wait_seconds=5)
        once.wait()
    expected = {
        (1,): {"id": 1, "v": "newer"},
        (2,): THEIRS,
        (3,): {"id": 3, "v": "three"},
        (4,): direct,
    }
    assert table.by_arrow() == table.by_spark() == expected
    ended = _ended(server, worker, job_id)
    assert ended == "succeeded" if fault in LANDS_FOR_CERTAIN else ended in ("succeeded", "failed")
    assert table.by_arrow() == expected
    table.run("merge")
    assert table.by_arrow(".base") == table.by_spark() == expected
    assert table.active_jobs() == []
    table.check_stores()


def _ended(server: RunningServer, worker: Worker, job_id: str) -> str:
    """How the job ends once the server has settled it and, if need be, another optimizer has tried again."""
    optimizer_id = worker.api.register(**worker.about).id
    deadline = time.monotonic() + 60
    while (status := str(server.get(f"jobs/{job_id}")["status"])) not in ("succeeded", "failed"):
        assert time.monotonic() < deadline, status
        worker.work_once(optimizer_id, wait_seconds=0.5)
    return status


def _plain_table(server: RunningServer) -> tuple[str, Store]:
    """A table in format v2, which PyIceberg can write, with one row in it."""
    name = f"db.plain{next(NUMBERS)}"
    server.spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
    server.spark.sql(
        f"CREATE TABLE lake.{name} (id BIGINT, v STRING) USING iceberg TBLPROPERTIES ('format-version'='2')"
    )
    server.spark.sql(f"INSERT INTO lake.{name} VALUES (0, 'before')")
    return name, Store(server.http, tuple(name.split(".")))


def _heard(write: Callable[[], object]) -> bool:
    """Whether the writer was told that its rows are in; any other answer must say that it does not know."""
    with suppress(Py4JJavaError, PySparkException, CommitStateUnknownException, CommitFailedException, NoAnswer):
        write()
        return True
    return False


def _check_plain(server: RunningServer, name: str, once: Once, *, heard: bool) -> None:
    rows = server.rows(f"SELECT id, v FROM lake.{name}")
    others = [(0, "before"), (2, "theirs")]
    mine = [row for row in rows if row not in others]
    assert sorted(row for row in rows if row in others) == others
    assert mine == [(1, "mine")] if heard or once.fault in LANDS_FOR_CERTAIN else mine in ([], [(1, "mine")])


def _session(url: str) -> SparkSession:
    session = shared_spark().newSession()
    for key, value in catalog_conf(url, "lake").items():
        session.conf.set(key, value)
    return session


def _ok(answer: httpx.Response) -> None:
    assert answer.is_success, answer.text
