"""A pipeline of several equal tables on a real server: a fact and a dimension, joined and counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Any

import firn
from firn.pipeline_client import Pipeline
from firn.pipelines.definition import Definition
from firn.pipelines.definition import Pipeline as Folder
from firn.pipelines.outputs import Output
from firn.pipelines.parsing import parse_query
from firn.pipelines.put import build_put
from firn.protocol.pipeline_outputs import OutputMode
from firn.protocol.pipelines import Refresh, RunOut
from tests.spark_fixtures import RunningServer

NUMBERS = count(1)
COLUMNS = {
    "trip": {"id": "bigint", "driver": "int", "day": "date", "fare": "decimal(10,2)"},
    "driver": {"driver": "int", "city": "int"},
}


@dataclass
class Derived:
    """Inputs `raw.trip_N` (plain) and `raw.driver_N` (keyed), and tables `mart.NAME_N` of the pipeline `p_N`.

    Tables in `appends` get the new trips, and keep those that are deleted later.
    """

    server: RunningServer
    names: tuple[str, ...]
    key: tuple[str, ...] = ("driver", "day")
    max_commits: int | None = None
    appends: tuple[str, ...] = ()
    number: int = field(default_factory=lambda: next(NUMBERS))
    client: firn.Client = field(init=False)
    added: list[int] = field(default_factory=list)
    """The ids of all trips that there ever were, in order."""

    def __post_init__(self) -> None:
        self.client = firn.connect(self.server.url, catalog="lake")
        sql = self.server.spark.sql
        for namespace in ("raw", "mart"):
            sql(f"CREATE NAMESPACE IF NOT EXISTS lake.{namespace}")
        sql(f"CREATE TABLE lake.{self.trip} (id BIGINT, driver INT, day DATE, fare DECIMAL(10,2)) USING iceberg")
        sql(
            f"CREATE TABLE lake.{self.driver} (driver INT, city INT) USING iceberg "
            "TBLPROPERTIES ('firn.primary-key'='driver')"
        )
        self.add_trips(1, 12)
        self.move_drivers(0)
        self.put()

    @property
    def trip(self) -> str:
        return f"raw.trip_{self.number}"

    @property
    def driver(self) -> str:
        return f"raw.driver_{self.number}"

    @property
    def pipeline(self) -> Pipeline:
        return self.client.pipelines[f"p_{self.number}"]

    @property
    def query(self) -> str:
        return (
            f"SELECT t.driver, t.day, d.city, count(*) AS trips, sum(t.fare) AS fares FROM {self.trip} t "
            f"JOIN {self.driver} d ON t.driver = d.driver GROUP BY t.driver, t.day, d.city"
        )

    def table(self, name: str) -> str:
        return f"mart.{name}_{self.number}"

    def put(self, *, query: str | None = None, rebuild: bool = False) -> None:
        stream = Output(OutputMode.APPEND, streams=(self.trip,), skip_changes=True)
        tables = [
            Definition(
                name=self.table(name),
                query=parse_query(f"SELECT id, fare FROM {self.trip}" if name in self.appends else query or self.query),
                path="a.sql",
                line=1,
                key=() if name in self.appends else self.key,
                refresh=Refresh.INCREMENTAL,
                output=stream if name in self.appends else Output(max_commits=self.max_commits),
            )
            for name in self.names
        ]
        folder = Folder(f"p_{self.number}", {table.name: table for table in tables}, {}, catalog="lake")
        columns = {self.trip: COLUMNS["trip"], self.driver: COLUMNS["driver"]}
        self.pipeline.put(build_put(folder, columns.get, catalog="lake", rebuild=rebuild))

    def add_trips(self, first: int, rows: int) -> None:
        self.added += range(first, first + rows)
        self.server.spark.sql(
            f"INSERT INTO lake.{self.trip} SELECT id, cast(id % 3 AS INT), date_add(DATE'2026-01-01', cast(id % 2 AS "
            f"INT)), 2.5 FROM range({first}, {first + rows})"
        )

    def delete_trips(self, driver: int) -> None:
        self.server.spark.sql(f"DELETE FROM lake.{self.trip} WHERE driver = {driver}")

    def move_drivers(self, city: int) -> None:
        self.server.spark.sql(
            f"INSERT INTO lake.{self.driver}.change (driver, city, _op) "
            f"SELECT cast(id AS INT), {city}, 'U' FROM range(3)"
        )

    def change_inputs(self) -> None:
        """A new driver's trips, all trips of one driver gone, and no change of the third."""
        self.add_trips(101, 3)
        self.delete_trips(1)

    def ask(self, name: str, *, full: bool = False) -> str:
        return self.pipeline.run(self.table(name), full=full).id

    def get_run(self, run_id: str) -> RunOut:
        return self.pipeline.get_run(run_id)

    def have_ended(self, *run_ids: str) -> bool:
        return all(self.get_run(run_id).status in ("succeeded", "failed", "canceled") for run_id in run_ids)

    def full_rows(self) -> list[tuple[Any, ...]]:
        query = self.query.replace(" raw.", " lake.raw.")
        return self.server.rows(f"SELECT driver, day, city, trips, fares FROM ({query})")

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        return self.server.rows(f"SELECT driver, day, city, trips, fares FROM lake.{self.table(name)}")

    def positions(self, name: str) -> list[str]:
        """The positions that commits of the pipeline's writer have brought the table to, in order."""
        store = f"mart/tables/{name}_{self.number}"
        if self.key and name not in self.appends:
            store = f"mart%1F{name}_{self.number}/tables/change"
        path = f"/iceberg/v1/lake/namespaces/{store}"
        metadata = self.server.http.get(path).json()["metadata"]
        writer = f"pipeline:p_{self.number}#{self.table(name)}"
        summaries = [snapshot["summary"] for snapshot in metadata["snapshots"]]
        return [summary["firn.position"] for summary in summaries if summary.get("firn.writer-id") == writer]

    def check(self, name: str, commits: int) -> None:
        """The table's rows are those of a full computation, and each run has committed once."""
        if name in self.appends:
            assert sorted(self.server.rows(f"SELECT id FROM lake.{self.table(name)}")) == [
                (row_id,) for row_id in self.added
            ]
        else:
            assert self.rows(name) == self.full_rows()
        positions = self.positions(name)
        assert len(positions) == len(set(positions)) == commits, positions
