"""Queries over HTTP: rows, limits, snapshots, cancels, results, previews; by the real engine."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import firn
from catalog.names import TableName
from catalog.queries.query import QueryId
from firn.cli.app import run
from firn.errors import Invalid, NotFound, Refused, Unavailable
from firn.protocol.tasks.query import QueryTable
from firn.queries import QueryFailed
from optimizer.queries import tables
from server.launch.query_engine import QueryProcess
from server.service.queries.queries import Queries
from tests.databases import ON_SQLITE
from tests.server.lake import BASE, Lake, altered, set_property
from tests.server.service.dropping import append_files
from tests.server.service.images.keyed_lake import KeyedLake
from tests.server.service.images.test_client_scan import connected

pytestmark = ON_SQLITE
HOSTILE = "<img src=x onerror=alert(1)>\u202e'\"\n,"
ENDLESS = "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"


@dataclass(frozen=True)
class QueryLake:
    orders: KeyedLake
    client: firn.Client

    @property
    def queries(self) -> Queries:
        return self.orders.lake.services.queries

    def rows(self, statement: str, **more: Any) -> list[list[str | None]]:
        return [list(row) for row in self.client.sql(statement, namespace="db", **more).rows]

    def begin(self, statement: str, **more: Any) -> Any:
        body = {"statement": statement, "catalog": "lake", "namespace": "db", **more}
        return self.client.transport.change("POST", "/queries", body)

    def end(self, query: Any) -> Any:
        while query["state"] in ("queued", "running"):
            query = self.client.transport.get(f"/queries/{query['id']}", {"wait": 5})
        return query


@pytest.fixture
def query_lake(lake: Lake) -> Iterator[QueryLake]:
    lake.create_keyed()
    lake.commit(altered(BASE, set_property("firn.read.max-wait", "60 s")))  # whatever else the machine does
    orders = KeyedLake(lake)
    orders.insert((1, "a"), (2, "b"), (3, HOSTILE))
    orders.upsert((2, "bb"), (4, None))
    orders.delete(1)
    with connected(orders) as client:
        yield QueryLake(orders, client)
    lake.services.queries.stop()
    lake.services.previews.stop()
    lake.services.images.stop()


MERGED: list[list[str | None]] = [["2", "bb"], ["3", HOSTILE], ["4", None]]


def test_a_keyed_table_has_its_merged_rows_and_no_others(query_lake: QueryLake) -> None:
    assert query_lake.rows("SELECT * FROM orders ORDER BY id") == MERGED
    assert query_lake.rows("SELECT * FROM lake.db.orders ORDER BY id") == MERGED
    assert query_lake.rows("SELECT count(*), count(note), min(db.orders.id) FROM db.orders") == [["3", "2", "2"]]
    assert query_lake.rows("WITH q AS (FROM orders) SELECT count(*) FROM q a, q b WHERE a.id <> b.id") == [["6"]]
    for store in ("base", "change", "merged"):
        with pytest.raises((QueryFailed, NotFound), match=r"deleted since|does not exist"):
            query_lake.rows(f"SELECT * FROM db.orders.{store}")
    query_lake.orders.delete(2, 3, 4)
    assert query_lake.rows("SELECT * FROM orders") == []


def test_a_preview_shows_the_same_rows(query_lake: QueryLake) -> None:
    shown = query_lake.client.transport.get("/catalogs/lake/tables/db.orders/preview")
    assert sorted(shown["rows"]) == MERGED
    assert [column["name"] for column in shown["columns"]] == ["id", "note"]
    assert (shown["truncated"], shown["notes"]) == (False, [])
    first = query_lake.client.transport.get("/catalogs/lake/tables/db.orders/preview", {"limit": 2})
    assert (len(first["rows"]), first["truncated"]) == (2, True)
    old = {"snapshot": first["snapshot_id"]}
    query_lake.orders.delete(2)
    assert sorted(query_lake.client.transport.get("/catalogs/lake/tables/db.orders/preview", old)["rows"]) == MERGED
    for table in ("db.nothing", "db.orders.change"):
        with pytest.raises((NotFound, Invalid)):
            query_lake.client.transport.get(f"/catalogs/lake/tables/{table}/preview")


def test_results_are_paged_and_downloaded(query_lake: QueryLake) -> None:
    query = query_lake.end(
        query_lake.begin("SELECT x AS n, x % 7 = 0 AS s, NULL AS e FROM range(2500) t(x) ORDER BY x", limit=2_400)
    )
    assert (query["state"], query["rows"], query["truncated"], query["tables"]) == ("done", 2_400, True, [])
    assert [column["type"] for column in query["columns"]] == ["BIGINT", "BOOLEAN", "INTEGER"]
    last = query_lake.client.transport.get(f"/queries/{query['id']}/rows", {"page": 2})
    assert (last["first_row"], len(last["rows"]), last["rows"][0], last["next_page"]) == (
        2_000,
        400,
        ["2000", "false", None],
        None,
    )
    text = query_lake.client.transport.get_bytes(f"/queries/{query['id']}/csv").decode()
    lines = list(csv.reader(io.StringIO(text)))
    assert (lines[0], len(lines), lines[8]) == (["n", "s", "e"], 2_401, ["7", "true", ""])
    table = pq.read_table(pa.BufferReader(query_lake.client.transport.get_bytes(f"/queries/{query['id']}/parquet")))
    assert (table.num_rows, table.schema.field("n").type) == (2_400, pa.int64())
    hostile = query_lake.end(query_lake.begin("SELECT note, note FROM orders WHERE id = 3"))
    content = query_lake.client.transport.get_bytes(f"/queries/{hostile['id']}/csv").decode()
    assert list(csv.reader(io.StringIO(content)))[1] == [HOSTILE, HOSTILE]


def test_typed_values_come_as_text_that_loses_nothing(query_lake: QueryLake) -> None:
    (row,) = query_lake.rows(
        "SELECT 9007199254740993, 170141183460469231731687303715884105727::HUGEINT, 1.10::DECIMAL(5, 2), 0.1::FLOAT,"
        " 'NaN'::DOUBLE, DATE '0001-01-01', TIMESTAMP '9999-12-31 23:59:59.5', TIMESTAMPTZ '2026-01-01 00:00:00+02',"
        " TIME '10:11:12', INTERVAL '1 month 2 days', '\\x00a'::BLOB, [1, NULL], {'a': DATE '2026-01-01'},"
        " MAP {'k': 1},"
        " CAST('00000000-0000-4000-8000-000000000000' AS UUID)"
    )
    assert row[:6] == [
        "9007199254740993",
        "170141183460469231731687303715884105727",
        "1.10",
        "0.10000000149011612",
        "nan",
        "0001-01-01",
    ]
    assert row[6:10] == ["9999-12-31 23:59:59.5", "2025-12-31 22:00:00+00:00", "10:11:12", "1 months 2 days"]
    assert row[10:] == [
        "0x0061",
        "[1, null]",
        '{"a": "2026-01-01"}',
        '{"k": 1}',
        "00000000-0000-4000-8000-000000000000",
    ]


def test_a_plan_runs_nothing(query_lake: QueryLake) -> None:
    plan = query_lake.end(query_lake.begin(ENDLESS, explain=True))
    assert (plan["state"], plan["explain"]) == ("done", True)
    text = "\n".join(line or "" for (line,) in query_lake.rows("EXPLAIN SELECT count(*) FROM orders"))
    assert "firn_table" in text or "SCAN" in text
    assert str(query_lake.orders.lake.warehouse) not in text


def test_the_command_prints_rows_for_people_and_for_programs(
    query_lake: QueryLake, capsys: pytest.CaptureFixture[str]
) -> None:
    def print_sql(*arguments: str, code: int = 0) -> tuple[str, str]:
        assert run(["sql", "--server", query_lake.client.url, *arguments]) == code
        captured = capsys.readouterr()
        return captured.out, captured.err

    statement = "SELECT id, id > 2 AS large, 0.5::DOUBLE AS d, [id] AS l, NULL AS n FROM db.orders ORDER BY id"
    rows = [{"id": key, "large": key > 2, "d": 0.5, "l": [key], "n": None} for key in (2, 3, 4)]
    assert json.loads(print_sql("--json", statement)[0]) == rows
    assert list(
        csv.reader(io.StringIO(print_sql("--csv", "--namespace", "db", "SELECT * FROM orders ORDER BY id;")[0]))
    ) == [
        ["id", "note"],
        *([value or "" for value in row] for row in MERGED),
    ]
    out, err = print_sql("--limit", "1", statement)
    assert "large" in out
    assert "only the first 1 rows" in err
    assert "Table does not exist: db.nothing" in print_sql("SELECT * FROM db.nothing", code=1)[1]
    assert "--engine local-spark" in print_sql("INSERT INTO db.orders VALUES (1)", code=2)[1]
    table = query_lake.client.sql("SELECT id FROM db.orders ORDER BY id").to_arrow()
    assert table.to_pydict() == {"id": [2, 3, 4]}


def test_statements_fail_in_words_that_help(query_lake: QueryLake) -> None:
    with pytest.raises(Invalid, match="DROP is not a query") as refused:
        query_lake.begin("DROP TABLE orders")
    assert "--engine local-spark" in (refused.value.hint or "")
    with pytest.raises(NotFound, match=r"Table does not exist: nothing$"):
        query_lake.begin("SELECT * FROM nothing")
    with pytest.raises(NotFound, match=r"Table does not exist: nowhere\.db\.orders$"):
        query_lake.begin("SELECT * FROM nowhere.db.orders")
    with pytest.raises(Invalid, match="has no namespace"):
        query_lake.begin("SELECT * FROM orders", namespace="")
    with pytest.raises(QueryFailed, match=r'column "nope" not found'):
        query_lake.rows("SELECT nope FROM orders")
    with pytest.raises(QueryFailed, match="no snapshot, branch or tag 77"):
        query_lake.rows("SELECT * FROM orders", snapshot="77")
    with pytest.raises(QueryFailed, match="reads 0 tables"):
        query_lake.rows("SELECT 1", snapshot="main")


def test_a_query_that_takes_too_long_or_too_much_ends_alone(query_lake: QueryLake) -> None:
    with pytest.raises(QueryFailed, match=r"needs more than .* of memory|stopped the engine"):
        query_lake.rows("SELECT length(repeat('a', 4000000000))")
    with pytest.raises(QueryFailed, match=r"needs more than .* of memory"):
        query_lake.rows("SELECT list(x) FROM range(1000000000) t(x)")
    for engine in query_lake.queries.engines:
        assert isinstance(engine, QueryProcess)
        engine.seconds = 1.0
    failed = query_lake.end(query_lake.begin(ENDLESS))
    assert (failed["state"], failed["message"]) == ("failed", "the query took longer than 1 s")
    for engine in query_lake.queries.engines:
        assert isinstance(engine, QueryProcess)
        engine.seconds = 60.0
    assert query_lake.rows("SELECT count(*) FROM orders") == [["3"]]


def test_a_canceled_query_stops_and_keeps_nothing(query_lake: QueryLake) -> None:
    for engine in query_lake.queries.engines:
        assert isinstance(engine, QueryProcess)
        engine.seconds = 600.0  # longer than a test may take: no query ends for its time
    query = query_lake.begin(ENDLESS)
    waiting = [query_lake.begin(ENDLESS) for _ in query_lake.queries.engines]
    while query_lake.client.transport.get(f"/queries/{query['id']}")["state"] == "queued":
        time.sleep(0.01)
    for each in (query, *waiting):
        assert query_lake.client.transport.change("DELETE", f"/queries/{each['id']}")["state"] == "canceled"
    assert query_lake.rows("SELECT count(*) FROM orders") == [["3"]], "the canceled ones hold no engine"
    with pytest.raises(Refused, match="no result: it is canceled"):
        query_lake.client.transport.get(f"/queries/{query['id']}/rows")
    done = query_lake.end(query_lake.begin("SELECT 1"))
    assert query_lake.client.transport.change("DELETE", f"/queries/{done['id']}")["state"] == "done"


def test_twenty_queries_at_once_are_all_answered(query_lake: QueryLake) -> None:
    with ThreadPoolExecutor(20) as threads:
        rows_of_queries = list(threads.map(lambda n: query_lake.rows(f"SELECT count(*) + {n} FROM orders"), range(20)))
    assert rows_of_queries == [[[str(3 + number)]] for number in range(20)]
    few = replace(query_lake.queries.bounds, waiting=2)
    query_lake.queries.bounds = few
    busy = [query_lake.begin(ENDLESS), query_lake.begin(ENDLESS)]
    with pytest.raises(Unavailable, match="2 queries wait or run"):
        query_lake.begin("SELECT 1")
    for each in busy:
        query_lake.client.transport.change("DELETE", f"/queries/{each['id']}")


def test_a_killed_engine_and_a_stopped_server_lose_one_query(query_lake: QueryLake) -> None:
    assert query_lake.rows("SELECT 1") == [["1"]]
    for engine in query_lake.queries.engines:
        process = getattr(engine, "_process")  # noqa: B009
        if process is not None:
            process.kill()
            process.wait()
    assert query_lake.rows("SELECT count(*) FROM orders") == [["3"]]
    running = query_lake.begin(ENDLESS)
    query_lake.queries.stop()
    ended = query_lake.end(running)
    assert ended["state"] == "failed"


def test_queries_without_a_server_fail_and_old_results_go(query_lake: QueryLake) -> None:
    query = query_lake.end(query_lake.begin("SELECT * FROM orders"))
    queries, database = query_lake.queries, query_lake.orders.lake.services.database
    queries.tidy()
    assert query_lake.client.transport.get(f"/queries/{query['id']}/rows")["rows"]
    query_lake.queries.bounds = replace(queries.bounds, result_kept=timedelta(seconds=-1))
    gone = query_lake.end(query_lake.begin("SELECT * FROM orders"))
    with pytest.raises(Refused, match="not kept any more"):
        query_lake.client.transport.get(f"/queries/{gone['id']}/rows")
    assert queries.tidy() == 1
    with database.reading() as uow:
        assert uow.queries.find_part(QueryId(UUID(gone["id"])), 0) is None
    query_lake.queries.bounds = replace(queries.bounds, history_kept=timedelta(seconds=-1))
    assert queries.tidy() >= 2
    assert query_lake.client.transport.get("/queries")["items"] == []


def test_history_has_the_newest_first_page_by_page(query_lake: QueryLake) -> None:
    for number in range(3):
        query_lake.end(query_lake.begin(f"SELECT {number}"))
    first = query_lake.client.transport.get("/queries", {"limit": 2})
    second = query_lake.client.transport.get("/queries", {"limit": 2, "cursor": first["next_cursor"]})
    statements = [query["statement"] for query in (*first["items"], *second["items"])]
    assert (statements, second["next_cursor"]) == (["SELECT 2", "SELECT 1", "SELECT 0"], None)


def test_a_server_may_answer_no_queries(query_lake: QueryLake) -> None:
    query_lake.queries.bounds = replace(query_lake.queries.bounds, enabled=False)
    with pytest.raises(Refused, match="switched off"):
        query_lake.begin("SELECT 1")
    with pytest.raises(Refused, match="switched off"):
        query_lake.client.transport.get("/catalogs/lake/tables/db.orders/preview")
    assert query_lake.client.transport.get("/queries/settings")["enabled"] is False


def test_saved_queries_are_kept_changed_and_deleted(query_lake: QueryLake) -> None:
    change, get = query_lake.client.transport.change, query_lake.client.transport.get
    body = {"name": "all", "statement": "SELECT * FROM orders", "catalog": "lake", "namespace": "db"}
    saved = change("POST", "/saved-queries", body)
    assert (saved["mine"], saved["shared"]) == (True, False)
    changed = change("PUT", f"/saved-queries/{saved['id']}", {**body, "name": "every", "shared": True})
    assert get("/saved-queries") == [changed]
    change("DELETE", f"/saved-queries/{saved['id']}")
    assert get("/saved-queries") == []
    with pytest.raises(NotFound):
        change("DELETE", f"/saved-queries/{saved['id']}")


def test_queries_open_no_file_of_another_table(query_lake: QueryLake) -> None:
    """A client may have committed a file of another table: the rule for files is that of scans."""
    lake, mine = query_lake.orders.lake, TableName(("db",), "mine")
    lake.create(mine)
    store = lake.metadata(BASE)["location"]
    append_files(lake, mine, at=f"{store}/data", files=1)
    with pytest.raises(QueryFailed, match="another table's directory"):
        query_lake.rows("SELECT * FROM mine")
    with pytest.raises(Invalid, match="another table's directory"):
        query_lake.client.transport.get("/catalogs/lake/tables/db.mine/preview")
    assert query_lake.rows("SELECT count(*) FROM orders") == [["3"]], "and the engine answers the next one"


@pytest.mark.parametrize("version", ["2", "3"])
def test_deleted_positions_are_left_out_whichever_reads_the_file(
    query_lake: QueryLake, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = query_lake.orders
    orders.lake.commit(altered(BASE, set_property("firn.read.format-version", version)))
    orders.insert(*((key, "base") for key in range(10, 60)))
    orders.upsert(*((key, "new") for key in range(20, 30)), (70, "new"))
    orders.delete(*range(28, 35), 59)
    expected = {2: "bb", 3: HOSTILE, 4: None, 70: "new"} | dict.fromkeys(range(10, 59), "base")
    expected |= dict.fromkeys(range(20, 28), "new")
    expected = {key: note for key, note in expected.items() if not 28 <= key < 35}
    assert query_lake.rows("SELECT id, note FROM orders ORDER BY id") == [
        [str(k), v] for k, v in sorted(expected.items())
    ]
    loaded = orders.load()
    snapshot_id = orders.served()["current-snapshot-id"]
    named = QueryTable(view="t", name="t", metadata=loaded.metadata_location or "", snapshot_id=snapshot_id)
    rows_of_both = []
    for is_direct in (True, False):
        with monkeypatch.context() as patch:
            if not is_direct:
                patch.setattr(tables, "find_direct", lambda _source, _task: None)
            relation = tables.Relation.of(tables.TableSource.open(named, {}, lambda _view, _files: None, 100))
            connection = duckdb.connect()
            relation.create(connection)
            assert bool(relation.hidden) is is_direct
            rows_of_both.append(dict(connection.execute("SELECT id, note FROM t").fetchall()))
            assert connection.execute("SELECT count(*) FROM t WHERE id = 30").fetchall() == [(0,)]
    assert rows_of_both == [expected, expected]
