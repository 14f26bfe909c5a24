"""Queries for Spark, from the queue to their end, with optimizers that this module plays."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import firn
from catalog.jobs.optimizer_group import DEFAULT_GROUP
from catalog.launch.settings import Launch, LaunchKind, Scaling
from catalog.names import TableName
from catalog.queries.query import SILENCE, QueryId
from firn.errors import FirnError, Invalid, NotFound, Refused, Unavailable
from firn.protocol.leases import PROTOCOL
from firn.transport import Json
from server.service.queries.spark_queries import SparkQueries
from tests.databases import ON_SQLITE
from tests.server.lake import Lake
from tests.server.service.fleet_stage import a_stage
from tests.server.service.images.keyed_lake import KeyedLake
from tests.server.service.images.test_client_scan import connected

pytestmark = ON_SQLITE
SELECT = "SELECT id FROM orders ORDER BY id"


@dataclass(frozen=True)
class SparkLake:
    lake: Lake
    client: firn.Client

    @property
    def spark(self) -> SparkQueries:
        return self.lake.services.queries.spark

    def register(self, **facts: Any) -> str:
        body = {"host": "h", "pid": 1, "version": "0", "protocol": PROTOCOL, "facts": facts}
        return str(self.client.transport.change("POST", "/optimizers", body)["id"])

    def begin(self, statement: str = SELECT, **more: Any) -> Any:
        body = {"statement": statement, "catalog": "lake", "namespace": "db", "engine": "spark", **more}
        return self.client.transport.change("POST", "/queries", body)

    def get(self, query: Any) -> Any:
        return self.client.transport.get(f"/queries/{query['id']}")

    def take(self, optimizer: str) -> Any:
        return self.client.transport.change("POST", "/query-leases", {"optimizer_id": optimizer, "wait_seconds": 0})

    def at(self, lease: Any, method: str, part: str, body: Json) -> Any:
        return self.client.transport.change(method, f"/query-leases/{lease['lease']}{part}", body)

    def send(self, lease: Any, rows: list[list[str | None]], number: int = 0) -> None:
        self.at(lease, "PUT", "/parts", {"number": number, "rows": rows})

    def done(self, lease: Any, rows: int) -> None:
        columns = [{"name": "id", "type": "BIGINT"}]
        self.at(lease, "POST", "/report", {"outcome": "done", "columns": columns, "rows": rows})

    def set_bounds(self, **changes: Any) -> None:
        queries = self.lake.services.queries
        queries.spark = replace(queries.spark, bounds=replace(queries.spark.bounds, **changes))

    def age(self, query: Any, by: timedelta) -> None:
        """Let the last sign of life of a query be so long ago."""
        with self.lake.services.database.writing() as uow:
            stored = uow.queries.find(QueryId(UUID(query["id"])))
            assert stored is not None
            uow.queries.touch([stored.id], stored.seen_at - by)


@pytest.fixture
def spark_lake(lake: Lake) -> Iterator[SparkLake]:
    lake.create_keyed()
    with connected(KeyedLake(lake)) as client:
        yield SparkLake(lake, client)
    lake.services.queries.stop()
    lake.services.previews.stop()
    lake.services.images.stop()


def test_a_query_is_queued_leased_and_answered(spark_lake: SparkLake) -> None:
    optimizer = spark_lake.register(sql=2)
    assert spark_lake.take(optimizer) is None
    query = spark_lake.begin(limit=5, explain=False)
    assert (query["state"], query["engine"], query["tables"]) == ("queued", "spark", ["lake.db.orders"])
    lease = spark_lake.take(optimizer)
    assert spark_lake.take(optimizer) is None, "one optimizer gets it"
    assert lease["query_id"] == query["id"]
    assert lease["statement"] == "SELECT id FROM firn_table_0 AS `orders` ORDER BY id"
    assert (lease["rows"], [table["name"] for table in lease["tables"]]) == (5, ["orders"])
    spark_lake.at(lease, "PUT", "", {"progress": 0.25})
    running = spark_lake.get(query)
    assert (running["state"], running["progress"]) == ("running", 0.25)
    with pytest.raises(Refused, match="no result: it is running"):
        spark_lake.client.transport.get(f"/queries/{query['id']}/rows")
    spark_lake.send(lease, [["1"], ["2"]])
    spark_lake.send(lease, [["1"], [None]])  # the answer was lost
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": [1, None]}), sink)
    spark_lake.at(lease, "PUT", "/parts", {"number": -1, "parquet": base64.b64encode(sink.getvalue()).decode()})
    spark_lake.done(lease, 2)
    assert spark_lake.get(query)["state"] == "done"
    shown = spark_lake.client.transport.get(f"/queries/{query['id']}/rows")
    assert (shown["rows"], shown["columns"]) == ([["1"], [None]], [{"name": "id", "type": "BIGINT"}])
    content = spark_lake.client.transport.get_bytes(f"/queries/{query['id']}/parquet")
    assert pq.read_table(pa.BufferReader(content)).to_pydict() == {"id": [1, None]}
    for part in ("", "/report"):
        with pytest.raises(Refused, match="has ended"):
            spark_lake.at(lease, "POST" if part else "PUT", part, {"outcome": "done"} if part else {})
    assert spark_lake.client.transport.get("/queries")["items"][0]["engine"] == "spark"


def test_a_query_starts_an_optimizer_of_a_group_whose_launch_answers_queries(spark_lake: SparkLake) -> None:
    stage = a_stage(spark_lake.lake)
    launch = Launch(kind=LaunchKind.LOCAL, scaling=Scaling(maximum=1, idle_seconds=0, cool_down_seconds=0))
    stage.fleet.set(DEFAULT_GROUP, launch)
    with pytest.raises(Unavailable, match="No optimizer answers queries"):
        spark_lake.begin()
    stage.fleet.set(DEFAULT_GROUP, replace(launch, sql=2))
    assert spark_lake.client.transport.get("/queries/settings")["spark"]["available"] is True
    query = spark_lake.begin()
    stage.fleet.activate()
    (command,) = stage.launcher.commands
    assert " --sql 2 " in " ".join(command.arguments)
    optimizer = stage.registers(stage.launches[0])
    stage.fleet.activate()
    lease = spark_lake.take(optimizer)
    stage.fleet.activate()
    (shown,) = spark_lake.client.transport.get("/optimizers")
    assert (shown["queries"], shown["stopping"]) == (1, False), "it works"
    spark_lake.done(lease, 0)
    assert spark_lake.get(query)["state"] == "done"
    stage.fleet.activate()
    (shown,) = spark_lake.client.transport.get("/optimizers")
    assert (shown["queries"], shown["stopping"]) == (0, True), "it idles"


def test_a_silent_optimizer_loses_its_query_which_fails(spark_lake: SparkLake) -> None:
    """As after a kill at any moment: before the first row, between two parts, and before the report."""
    optimizer = spark_lake.register(sql=2)
    for parts in (0, 1):
        query = spark_lake.begin()
        lease = spark_lake.take(optimizer)
        for number in range(parts):
            spark_lake.send(lease, [["1"]], number)
        assert spark_lake.spark.reap() == 0
        spark_lake.age(query, SILENCE + timedelta(seconds=1))
        assert spark_lake.lake.services.queries.tidy() == 0, "the server's own queries are others"
        assert spark_lake.spark.reap() == 1
        failed = spark_lake.get(query)
        assert (failed["state"], failed["message"]) == (
            "failed",
            "the optimizer that ran the query has stopped answering",
        )
        with spark_lake.lake.services.database.reading() as uow:
            assert uow.queries.find_part(QueryId(UUID(query["id"])), 0) is None
        with pytest.raises(Refused):
            spark_lake.done(lease, 0)
        assert spark_lake.get(query)["state"] == "failed"


def test_a_query_that_no_optimizer_takes_fails(spark_lake: SparkLake) -> None:
    with pytest.raises(Unavailable, match="No optimizer answers queries"):
        spark_lake.begin()
    spark_lake.register()  # it runs jobs alone
    with pytest.raises(Unavailable, match="No optimizer answers queries") as refused:
        spark_lake.begin()
    assert "firn optimizer --sql" in (refused.value.hint or "")
    settings = spark_lake.client.transport.get("/queries/settings")["spark"]
    assert (settings["available"], settings["reason"]) == (False, "No optimizer answers queries.")
    optimizer = spark_lake.register(sql=1)
    assert spark_lake.client.transport.get("/queries/settings")["spark"]["available"] is True
    query = spark_lake.begin()
    spark_lake.age(query, timedelta(seconds=60))
    assert spark_lake.spark.reap() == 0
    spark_lake.age(query, timedelta(seconds=61))
    assert spark_lake.spark.reap() == 1
    assert "no optimizer took the query within 120 s" in spark_lake.get(query)["message"]
    assert spark_lake.take(optimizer) is None


def test_cancel_ends_a_queued_query_and_one_that_runs(spark_lake: SparkLake) -> None:
    optimizer = spark_lake.register(sql=1)
    queued = spark_lake.begin()
    assert spark_lake.client.transport.change("DELETE", f"/queries/{queued['id']}")["state"] == "canceled"
    assert spark_lake.take(optimizer) is None
    running = spark_lake.begin()
    lease = spark_lake.take(optimizer)
    spark_lake.send(lease, [["1"]])
    assert spark_lake.client.transport.change("DELETE", f"/queries/{running['id']}")["state"] == "canceled"
    with pytest.raises(Refused, match="has ended"):
        spark_lake.at(lease, "PUT", "", {})
    with pytest.raises(Refused, match="has ended"):
        spark_lake.send(lease, [["2"]], 1)
    with pytest.raises(Refused, match="has ended"):
        spark_lake.done(lease, 1)
    assert spark_lake.get(running)["state"] == "canceled"


def test_an_optimizer_that_stops_hands_its_query_to_another(spark_lake: SparkLake) -> None:
    first, second = spark_lake.register(sql=1), spark_lake.register(sql=1)
    query = spark_lake.begin()
    lease = spark_lake.take(first)
    spark_lake.send(lease, [["1"]])
    spark_lake.at(lease, "POST", "/report", {"outcome": "handed-back"})
    assert spark_lake.get(query)["state"] == "queued"
    again = spark_lake.take(second)
    assert again["lease"] != lease["lease"]
    with pytest.raises(Refused):
        spark_lake.send(lease, [["1"]])
    spark_lake.send(again, [["2"]])
    spark_lake.done(again, 1)
    assert spark_lake.client.transport.get(f"/queries/{query['id']}/rows")["rows"] == [["2"]]


def test_a_failed_and_a_slow_query_say_why(spark_lake: SparkLake) -> None:
    optimizer = spark_lake.register(sql=1)
    query = spark_lake.begin()
    lease = spark_lake.take(optimizer)
    spark_lake.at(lease, "POST", "/report", {"outcome": "failed", "message": "no column nope", "hint": "name another"})
    failed = spark_lake.get(query)
    assert (failed["state"], failed["message"], failed["hint"]) == ("failed", "no column nope", "name another")
    slow = spark_lake.begin()
    lease = spark_lake.take(optimizer)
    spark_lake.set_bounds(seconds=-1.0)
    with pytest.raises(Refused):
        spark_lake.at(lease, "PUT", "", {})
    assert spark_lake.get(slow)["message"] == "the query took longer than -1 s"


def test_too_many_queries_are_refused(spark_lake: SparkLake) -> None:
    spark_lake.register(sql=1)
    spark_lake.set_bounds(waiting=2)
    for _ in range(2):
        spark_lake.begin()
    with pytest.raises(Unavailable, match="2 queries wait or run in Spark"):
        spark_lake.begin()


def test_what_an_optimizer_sends_is_bounded_and_checked(spark_lake: SparkLake) -> None:
    optimizer = spark_lake.register(sql=1)
    spark_lake.begin()
    lease = spark_lake.take(optimizer)
    for part in (
        {"number": 0, "rows": []},
        {"number": 10, "rows": [["1"]]},
        {"number": -1, "parquet": "no base64!"},
        {"number": -1, "parquet": base64.b64encode(b"<html>").decode()},
        {"number": -2, "rows": [["1"]]},
        {"number": 0, "rows": [["1"]] * 1_001},
        {"number": 0, "rows": [[1]]},
    ):
        with pytest.raises(Invalid):
            spark_lake.at(lease, "PUT", "/parts", part)
    for text in ("x", "x.y", f"{lease['query_id']}.", f"{lease['query_id']}.{'a' * 99}", f"{lease['query_id']}.wrong"):
        with pytest.raises((Invalid, Refused, NotFound)):
            spark_lake.client.transport.change("PUT", f"/query-leases/{text}", {})
    with pytest.raises(Invalid, match="no table firn_table_7"):
        spark_lake.at(lease, "POST", "/locations", {"view": "firn_table_7", "locations": ["/x"]})
    with pytest.raises(Invalid):
        spark_lake.at(lease, "POST", "/locations", {"view": "firn_table_0", "locations": ["/etc/"]})
    warehouse = f"{spark_lake.lake.warehouse}/"
    with pytest.raises(Invalid):
        spark_lake.at(lease, "POST", "/locations", {"view": "firn_table_0", "locations": [warehouse]})


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("DROP TABLE orders", "DROP is not a query"),
        ("SELECT * FROM orders.base", "changed or deleted since|does not exist"),
        ("SELECT * FROM db.orders.change", "changed or deleted since"),
        ("SELECT * FROM nothing", "Table does not exist: nothing"),
        ("SELECT * FROM nowhere.db.orders", "Table does not exist"),
        ("SELECT reflect('a', 'b')", "the function reflect is not allowed"),
        ("SELECT * FROM orders TIMESTAMP AS OF 'soon'", "soon is no time"),
    ],
)
def test_statements_are_checked_before_they_are_queued(spark_lake: SparkLake, statement: str, reason: str) -> None:
    spark_lake.register(sql=1)
    with pytest.raises(FirnError, match=reason):
        spark_lake.begin(statement)
    assert spark_lake.client.transport.get("/queries")["items"] == []


def test_a_table_that_is_dropped_in_the_queue_fails_the_query(spark_lake: SparkLake) -> None:
    optimizer = spark_lake.register(sql=1)
    spark_lake.lake.create(TableName(("db",), "short"))
    query = spark_lake.begin("SELECT * FROM short")
    spark_lake.client.transport.change("DELETE", "/catalogs/lake/tables/db.short")
    assert spark_lake.take(optimizer) is None
    failed = spark_lake.get(query)
    assert (failed["state"], "does not exist" in failed["message"]) == ("failed", True)


def test_saved_statements_keep_their_engine(spark_lake: SparkLake) -> None:
    body = {"name": "all", "statement": SELECT, "catalog": "lake", "namespace": "db"}
    change = spark_lake.client.transport.change
    assert change("POST", "/saved-queries", body)["engine"] == "instant"
    assert change("POST", "/saved-queries", {**body, "engine": "spark"})["engine"] == "spark"
    with pytest.raises(Invalid):
        change("POST", "/saved-queries", {**body, "engine": "trino"})
