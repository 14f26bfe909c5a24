"""Pipelines of tables on a real server: `mart.daily_N` reads `raw.trip_N`, and `mart.total_N` reads that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import ClassVar

import firn
from firn.errors import Refused
from firn.protocol.backfills import BackfillOut
from tests.command_line import Command
from tests.spark_fixtures import RunningServer, ServerProcess

NUMBERS = count(1)
SPEC = """name: {name}
catalog: lake
database: mart
libraries:
  - glob: {{include: transformations/**}}
"""
SQL = """
CREATE MATERIALIZED VIEW daily_{number} TBLPROPERTIES ('firn.primary-key' = 'driver')
AS SELECT driver, count(*) AS trips, sum(fare) AS fares FROM raw.trip_{number} GROUP BY driver;
CREATE MATERIALIZED VIEW total_{number} AS SELECT sum(trips) AS trips FROM daily_{number};
"""
BY_DAY = """
CREATE MATERIALIZED VIEW daily_{number} TBLPROPERTIES (
  'firn.primary-key' = 'driver, day', 'firn.refresh' = 'incremental')
AS SELECT driver, day, count(*) AS trips, sum(fare) AS fares FROM raw.trip_{number} GROUP BY driver, day;
"""
SETTINGS = """version: 1
tables:
  daily_{number}:
    validate:
      - {{range: {{column: fares, min: 0}}, name: "no negative fares"}}
"""


@dataclass
class ScheduledPipeline:
    """One pipeline, stored on the server, and its folder."""

    columns: ClassVar[str] = "driver INT, fare DECIMAL(10,2)"
    first_rows: ClassVar[str] = "(1, 10.00), (1, 4.00), (2, 7.50)"
    sql: ClassVar[str] = SQL

    server: RunningServer
    directory: Path
    number: int = field(default_factory=lambda: next(NUMBERS))

    def __post_init__(self) -> None:
        sql = self.server.spark.sql
        for namespace in ("raw", "mart"):
            sql(f"CREATE NAMESPACE IF NOT EXISTS lake.{namespace}")
        sql(f"CREATE TABLE lake.{self.trip} ({self.columns}) USING iceberg")
        self.add(self.first_rows)
        (self.folder / "transformations").mkdir(parents=True)
        (self.folder / "spark-pipeline.yml").write_text(SPEC.format(name=self.name))
        (self.folder / "firn-pipeline.yml").write_text(SETTINGS.format(number=self.number))
        (self.folder / "transformations" / "all.sql").write_text(self.sql.format(number=self.number))
        done = Command(self.server.url)("pipeline", "put", str(self.folder))
        assert done.code == 0, done

    @property
    def name(self) -> str:
        return f"orders_{self.number}"

    @property
    def folder(self) -> Path:
        return self.directory / self.name

    @property
    def trip(self) -> str:
        return f"raw.trip_{self.number}"

    @property
    def daily(self) -> str:
        return f"mart.daily_{self.number}"

    @property
    def total(self) -> str:
        return f"mart.total_{self.number}"

    def add(self, values: str) -> None:
        self.server.spark.sql(f"INSERT INTO lake.{self.trip} VALUES {values}")

    def run(self) -> None:
        """Run the first table, with whatever optimizer works."""
        with firn.connect(self.server.url) as client:
            run = client.pipelines[self.name].run(self.daily).wait()
        assert run.status == "succeeded", run.error

    def try_to_run(self) -> None:
        """Run the first table as soon as no other run is active, whatever becomes of it."""
        with firn.connect(self.server.url) as client, suppress(Refused):
            client.pipelines[self.name].run(self.daily).wait()

    def statuses(self) -> list[str]:
        """Those of the runs, the newest first."""
        with firn.connect(self.server.url) as client:
            return [run.status for run in client.pipelines[self.name].runs()]

    def run_ids(self) -> list[str]:
        """Those of the runs, the newest first."""
        with firn.connect(self.server.url) as client:
            return [run.job_id for run in client.pipelines[self.name].runs()]


@dataclass
class DailyPipeline(ScheduledPipeline):
    """A pipeline of one table with a row for each driver and day, of which some can be computed again."""

    columns: ClassVar[str] = "driver INT, fare DECIMAL(10,2), day DATE"
    first_rows: ClassVar[str] = ", ".join(
        f"({driver}, {fare}.00, DATE'2026-11-0{day}')" for driver, fare in ((1, 10), (2, 7)) for day in (1, 2, 3)
    )
    sql: ClassVar[str] = BY_DAY

    def damage(self) -> None:
        """Wrong sums in all rows, which no change of the input repairs."""
        self.server.spark.sql(
            f"INSERT INTO lake.{self.daily}.change (driver, day, trips, fares, _op) "
            f"SELECT driver, day, trips, 999, 'U' FROM lake.{self.daily}"
        )

    def damaged_days(self) -> list[tuple[int, int]]:
        """Driver and day of the month of each row that is wrong."""
        rows = self.server.rows(f"SELECT driver, day(day) FROM lake.{self.daily} WHERE fares = 999")
        return [(driver, day) for driver, day in rows]

    @contextmanager
    def unreadable(self) -> Iterator[tuple[Path, Path]]:
        """Nobody can read the input's old rows, until its directory has its old name back: yields the new and that."""
        directory = next(self.server.data_dir.rglob(f"{self.trip.partition('.')[2]}*/data"))
        hidden = directory.with_name("hidden")
        directory.rename(hidden)
        try:
            yield hidden, directory
        finally:
            if hidden.exists():
                hidden.rename(directory)

    def backfills(self) -> list[BackfillOut]:
        """Those of the table, the newest first."""
        with firn.connect(self.server.url) as client:
            return list(client.pipelines[self.name].backfills(self.daily))


def put_plain_pipeline(server: ServerProcess) -> str:
    """A pipeline of one table over an empty input, without Spark; returns its name."""
    number = next(NUMBERS)
    for namespace in ("raw", "mart"):
        server.http.post("/iceberg/v1/lake/namespaces", json={"namespace": [namespace]})
    schema = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "int", "required": False}]}
    table = {"name": f"trip_{number}", "schema": schema}
    server.http.post("/iceberg/v1/lake/namespaces/raw/tables", json=table).raise_for_status()
    definition = {
        "name": f"mart.daily_{number}",
        "query": f"SELECT id, count(*) AS n FROM raw.trip_{number} GROUP BY id",
        "path": "transformations/daily.sql",
        "line": 1,
        "inputs": [f"raw.trip_{number}"],
        "key": ["id"],
        "fingerprint": "a" * 64,
        "incremental": True,
    }
    body = {"catalog": "lake", "files": [], "tables": [definition]}
    server.http.put(f"/api/v1/pipelines/orders_{number}", json=body).raise_for_status()
    return f"orders_{number}"
