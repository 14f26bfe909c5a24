"""SHOW and DESCRIBE over HTTP: for both engines alike, and without Spark."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

import firn
from catalog.names import TableName
from firn.errors import Invalid, NotFound, Refused, Unavailable
from tests.databases import ON_SQLITE
from tests.factories import LAKE
from tests.server.lake import Lake
from tests.server.service.images.keyed_lake import KeyedLake
from tests.server.service.images.test_client_scan import connected

pytestmark = ON_SQLITE
HOSTILE = "it's `; DROP TABLE x --\\"


@pytest.fixture
def client(lake: Lake) -> Iterator[firn.Client]:
    lake.create_keyed()
    lake.create(TableName(("db",), "plain"), comment="It's plain", note=HOSTILE)
    lake.append(TableName(("db",), "plain"), rows=3)
    lake.services.namespaces.ensure(LAKE, ("db", "deep"))
    lake.create(TableName(("db", "deep"), "plain"))
    with connected(KeyedLake(lake)) as connected_client:
        yield connected_client
    lake.services.queries.stop()
    lake.services.previews.stop()
    lake.services.images.stop()


@pytest.fixture(params=["instant", "spark"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def rows(client: firn.Client, statement: str, engine: str = "instant", **more: Any) -> list[list[str | None]]:
    return [list(row) for row in client.sql(statement, namespace="db", engine=engine, **more).rows]


def test_tables_and_namespaces_are_listed_for_both_engines(client: firn.Client, engine: str) -> None:
    assert rows(client, "SHOW TABLES", engine) == [["db", "orders", "keyed"], ["db", "plain", "plain"]]
    assert rows(client, "SHOW TABLES IN lake.db LIKE 'o*'", engine) == [["db", "orders", "keyed"]]
    assert rows(client, "SHOW TABLES IN db.deep", engine) == [["db.deep", "plain", "plain"]]
    assert rows(client, "SHOW TABLES IN db LIKE 'x*'", engine) == []
    assert rows(client, "SHOW VIEWS", engine) == []
    assert ["db"] in rows(client, "SHOW DATABASES", engine)
    assert ["db"] in rows(client, "SHOW NAMESPACES IN lake LIKE 'd%'", engine)
    assert rows(client, "SHOW NAMESPACES IN db", engine) == [["db.deep"]]
    assert rows(client, "SHOW CATALOGS", engine) == [["lake"]]
    assert rows(client, "DESCRIBE NAMESPACE db", engine)[0] == ["Namespace", "db"]
    everywhere = client.sql("SHOW TABLES", engine=engine).rows
    assert [tuple(row) for row in everywhere] == [
        ("db", "orders", "keyed"),
        ("db", "plain", "plain"),
        ("db.deep", "plain", "plain"),
    ]


def test_a_table_is_described_as_its_page_shows_it(client: firn.Client, engine: str) -> None:
    shown = client.transport.get("/catalogs/lake/tables/db.plain")
    described = rows(client, "DESCRIBE db.plain", engine)
    assert [row[0] for row in described] == [column["name"] for column in shown["columns"]]
    assert described[0][1] == "bigint"
    assert rows(client, "DESCRIBE plain ID", engine) == described[:1]
    extended = {row[0]: row[1] for row in rows(client, "DESCRIBE EXTENDED db.plain", engine)}
    assert (extended["Location"], extended["Kind"]) == (shown["location"], "plain")
    properties = {row[0]: row[1] for row in rows(client, "SHOW TBLPROPERTIES plain", engine)}
    assert properties == shown["properties"]
    assert rows(client, "SHOW TBLPROPERTIES plain ('note')", engine) == [["note", HOSTILE]]
    assert rows(client, "SHOW COLUMNS IN plain", engine) == [[row[0]] for row in described]
    [history] = rows(client, "DESCRIBE HISTORY plain", engine)
    [snapshot] = client.transport.get("/catalogs/lake/tables/db.plain/snapshots")
    assert (history[0], history[2], history[3], history[4]) == (snapshot["snapshot_id"], "append", "main", "3")
    [[create]] = rows(client, "SHOW CREATE TABLE plain", engine)
    assert create is not None
    assert create.startswith("CREATE TABLE db.plain (\n")
    assert "COMMENT 'It\\'s plain'" in create
    assert "'note' = 'it\\'s `; DROP TABLE x --\\\\'" in create


def test_a_keyed_table_shows_its_key(client: firn.Client) -> None:
    extended = {row[0]: row[1] for row in rows(client, "DESC FORMATTED orders")}
    assert (extended["Kind"], extended["Primary key"]) == ("keyed", "id")
    [[create]] = rows(client, "SHOW CREATE TABLE orders")
    assert create is not None
    assert "'firn.primary-key' = 'id'" in create
    assert {row[-1] for row in rows(client, "DESCRIBE HISTORY orders")} <= {"base", "change"}


def test_results_are_queries_like_others(client: firn.Client) -> None:
    result = client.sql("SHOW TABLES", namespace="db", limit=1)
    assert (len(result.rows), result.truncated) == (1, True)
    assert result.columns == [("namespace", "VARCHAR"), ("name", "VARCHAR"), ("kind", "VARCHAR")]
    table = client.sql("DESCRIBE plain", namespace="db").to_arrow()
    assert table.column_names == ["col_name", "data_type", "nullable", "comment"]
    query = client.transport.get("/queries")["items"][0]
    assert (query["state"], query["statement"], query["tables"]) == ("done", "DESCRIBE plain", ["lake.db.plain"])
    text = client.transport.get_bytes(f"/queries/{query['id']}/csv").decode()
    assert text.startswith("col_name,data_type,nullable,comment\r\nid,bigint,false,")


@dataclass
class HeldClock:
    """A clock that holds the statement that asks for the time."""

    entered: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    release: threading.Event = field(default_factory=threading.Event)

    def __call__(self) -> float:
        self.entered.release()
        self.release.wait()
        return 0.0


def test_statements_count_among_the_queries_that_run_at_once(
    lake: Lake, client: firn.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries, clock = lake.services.queries, HeldClock()
    monkeypatch.setattr(queries, "bounds", replace(queries.bounds, waiting=2))
    monkeypatch.setattr(queries, "catalog_statements", replace(queries.catalog_statements, clock=clock))
    with ThreadPoolExecutor(2) as threads:
        try:
            held = [threads.submit(rows, client, "SHOW TABLES IN db") for _ in range(2)]
            for _ in held:
                assert clock.entered.acquire(timeout=120)
            for statement in ("SHOW TABLES IN db", "DESCRIBE plain", "SELECT 1"):
                body = {"statement": statement, "catalog": "lake", "namespace": "db"}
                with pytest.raises(Unavailable, match="2 queries wait or run"):
                    client.transport.change("POST", "/queries", body)
        finally:
            clock.release.set()
        assert [len(answer.result()) for answer in held] == [2, 2]
    assert len(rows(client, "SHOW TABLES IN db")) == 2


def test_answers_have_the_bytes_and_the_time_of_results(
    lake: Lake, client: firn.Client, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    queries = lake.services.queries

    def bound(**limits: Any) -> None:
        monkeypatch.setattr(queries, "catalog_statements", replace(queries.catalog_statements, **limits))

    bound(rows=1)
    result = client.sql("SHOW TABLES", namespace="db", engine=engine, limit=10**6)
    assert (len(result.rows), result.truncated) == (1, True)
    bound(rows=100, result_bytes=35)
    result = client.sql("SHOW TABLES", namespace="db", engine=engine)
    assert (len(result.rows), result.truncated) == (1, True)
    with pytest.raises(Invalid, match="a row of the answer exceeds 35 bytes"):
        rows(client, "SHOW CREATE TABLE plain", engine)
    times = itertools.count(step=100.0)
    bound(result_bytes=10**6, seconds=60.0, clock=lambda: next(times))
    for statement in ("SHOW TABLES LIKE 'no*|such*'", "SHOW NAMESPACES LIKE 'no*'"):
        with pytest.raises(Invalid, match="took longer than 60 s"):
            rows(client, statement, engine)


@pytest.mark.parametrize(
    ("statement", "more", "words"),
    [
        ("DESCRIBE nothing", {}, "Table does not exist: nothing"),
        ("DESCRIBE db.orders.base", {}, "deleted since"),
        ("SHOW TABLES IN nowhere", {}, "Namespace does not exist: nowhere"),
        ("SHOW TABLES IN `d\x1fb`", {}, "invalid|exist"),
        ("DESCRIBE `db\x1fdeep`.plain", {}, "invalid|exist"),
        ("DESCRIBE plain nope", {}, "no column nope"),
        ("SHOW TBLPROPERTIES plain (nope)", {}, "no property nope"),
        ("SHOW TABLES", {"explain": True}, "has no plan"),
        ("EXPLAIN SHOW TABLES", {}, "not a query"),
        ("SHOW TABLES", {"catalog": "nowhere"}, "does not exist"),
        ("DESCRIBE plain", {"snapshot": "main"}, "current state"),
    ],
)
def test_what_cannot_be_answered_says_why(
    client: firn.Client, engine: str, statement: str, more: dict[str, Any], words: str
) -> None:
    body = {"statement": statement, "catalog": "lake", "namespace": "db", "engine": engine, **more}
    with pytest.raises((Invalid, NotFound, Refused), match=words):
        client.transport.change("POST", "/queries", body)
