"""Distributions of columns over HTTP, in Python and in a terminal, by the real engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog

import firn
from firn.cli.app import run
from firn.errors import Invalid, NotFound, Refused
from firn.protocol.answers.distributions import ColumnDistributionOut
from firn.queries import QueryFailed
from server.launch.query_engine import QueryProcess
from tests.databases import ON_SQLITE
from tests.server.lake import BASE, Lake, altered, set_property
from tests.server.service.images.keyed_lake import KeyedLake
from tests.server.service.images.test_client_scan import connected

pytestmark = ON_SQLITE
HOSTILE = 'a"; DROP TABLE t; --\u202e列'
TABLE = "/catalogs/lake/tables/db.sales"
ROWS = pa.table(
    {
        "id": pa.array(range(40), pa.int64()),
        "at": pa.array([datetime(2026, 1, 1 + day % 20, tzinfo=UTC) for day in range(40)], pa.timestamp("us", "UTC")),
        HOSTILE: pa.array(["x", "y", "y", None] * 10),
        "address": pa.array([{"city": "Rome"}] * 40),
    }
)


@dataclass(frozen=True)
class SalesLake:
    orders: KeyedLake
    client: firn.Client

    def count(self, column: str, table: str = "db.sales") -> ColumnDistributionOut:
        return self.client.tables[table].distribution(column)

    def begin(self, column: str, **more: Any) -> Any:
        return self.client.transport.change("POST", f"{TABLE}/distributions", {"column": column, **more})


@pytest.fixture
def sales(lake: Lake) -> Iterator[SalesLake]:
    lake.create_keyed()
    lake.commit(altered(BASE, set_property("firn.read.max-wait", "60 s")))  # whatever else the machine does
    for engine in lake.services.queries.engines:
        assert isinstance(engine, QueryProcess)
        engine.seconds = 600.0
    orders = KeyedLake(lake)
    with connected(orders) as client:
        iceberg = RestCatalog("lake", uri=f"{client.url}/iceberg", warehouse="lake")
        iceberg.create_table("db.sales", ROWS.schema).append(ROWS)
        iceberg.create_table("db.empty", ROWS.schema)
        yield SalesLake(orders, client)
    lake.services.queries.stop()
    lake.services.previews.stop()
    lake.services.images.stop()


def test_columns_of_a_table_are_counted(sales: SalesLake) -> None:
    numbers = sales.count("id")
    assert (numbers.kind, numbers.type, len(numbers.bars), sum(bar.rows for bar in numbers.bars)) == (
        "bars",
        "long",
        20,
        40,
    )
    times = sales.count("at")
    assert (times.bars[0].lower, times.largest) == ("2026-01-01 00:00:00+00:00", "2026-01-20 00:00:00+00")
    texts = sales.count(HOSTILE)
    assert [(value.value, value.rows) for value in texts.values] == [("y", 20), ("x", 10)]
    assert (texts.column, texts.nulls, texts.other_rows) == (HOSTILE, 10, 0)
    empty = sales.count("id", "db.empty")
    assert (empty.rows, empty.bars, empty.values) == (0, [], [])


def test_a_keyed_table_is_counted_by_its_merged_rows(sales: SalesLake) -> None:
    sales.orders.insert((1, "a"), (2, "b"), (3, "b"))
    sales.orders.upsert((1, "b"))
    sales.orders.delete(3)
    counted = sales.count("note", "db.orders")
    assert [(value.value, value.rows) for value in counted.values] == [("b", 2)]
    with pytest.raises((Invalid, NotFound)):
        sales.count("note", "db.orders.change")


def test_what_has_no_distribution_is_refused_with_the_reason(sales: SalesLake) -> None:
    for column, reason in (("address", "is a struct"), ("address.city", "a part of"), ("nothing", "no column")):
        with pytest.raises(Invalid, match=reason):
            sales.begin(column)
    with pytest.raises(NotFound):
        sales.count("id", "db.nothing")
    with pytest.raises(Invalid):
        sales.begin("x" * 1_001)


def test_a_distribution_is_a_query_of_the_history_that_can_be_canceled(sales: SalesLake) -> None:
    answer = sales.begin("id")
    path, get = f"{TABLE}/distributions/{answer['query']['id']}", sales.client.transport.get
    while answer["query"]["state"] in ("queued", "running"):
        answer = get(path, {"wait": 5})
    assert answer["distribution"]["rows"] == 40
    assert answer["query"]["tables"] == ["lake.db.sales"]
    assert answer["query"]["id"] in {query["id"] for query in get("/queries")["items"]}
    canceled = sales.begin("id")["query"]["id"]
    sales.client.transport.change("DELETE", f"/queries/{canceled}")
    shown = get(f"{TABLE}/distributions/{canceled}")
    # Perhaps it had ended before.
    assert (shown["query"]["state"], shown["distribution"] is None) in (("canceled", True), ("done", False))


def test_other_queries_are_no_distributions(sales: SalesLake) -> None:
    change, get = sales.client.transport.change, sales.client.transport.get

    def ask(statement: str) -> str:
        query = change("POST", "/queries", {"statement": statement, "catalog": "lake", "namespace": "db", "wait": 10})
        while query["state"] in ("queued", "running"):
            query = get(f"/queries/{query['id']}", {"wait": 10})
        return str(query["id"])

    for statement in ("SELECT id FROM sales", "SELECT 'bar' AS part, '-1' AS label, 'x' AS amount FROM sales"):
        with pytest.raises(Invalid, match="no distribution"):
            get(f"{TABLE}/distributions/{ask(statement)}")
    with pytest.raises(NotFound):
        get(f"{TABLE}/distributions/{ask('SELECT id FROM empty')}")
    with pytest.raises(NotFound):
        get(f"{TABLE}/distributions/{UUID(int=0)}")


def test_a_server_may_read_no_rows(sales: SalesLake) -> None:
    queries = sales.orders.lake.services.queries
    queries.bounds = replace(queries.bounds, enabled=False)
    with pytest.raises(Refused, match="switched off"):
        sales.count("id")


def test_a_query_that_fails_says_why(sales: SalesLake) -> None:
    queries = sales.orders.lake.services.queries
    queries.bounds = replace(queries.bounds, limits=queries.bounds.limits.model_copy(update={"files": 0}))
    with pytest.raises(QueryFailed, match="1 files; a query reads 0 at most"):
        sales.count("id")


def test_the_command_draws_bars_of_text(sales: SalesLake, capsys: pytest.CaptureFixture[str]) -> None:
    def show(*arguments: str, code: int = 0) -> str:
        assert run(["table", "columns", "--server", sales.client.url, *arguments]) == code
        captured = capsys.readouterr()
        return captured.out + captured.err

    assert json.loads(show("db.sales", "--distribution", "id", "--json"))["bars"][0] == {
        "lower": "0",
        "upper": "1",
        "rows": 2,
    }
    shown = show("db.sales", "--distribution", HOSTILE)
    assert "█" * 40 in shown
    assert "10" in shown
    assert "no values" in show("db.empty", "--distribution", "id")
    assert "is a struct" in show("db.sales", "--distribution", "address", code=2)
