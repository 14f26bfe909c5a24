"""A pipeline of three tables that move together: two keyed ones, one of which joins a dimension, and a plain one."""

from __future__ import annotations

from typing import Any

from firn.pipelines.definition import Definition
from firn.pipelines.definition import Pipeline as Folder
from firn.pipelines.outputs import Output
from firn.pipelines.parsing import parse_query
from firn.pipelines.put import build_put
from firn.protocol.pipeline_outputs import AuditMode
from firn.protocol.pipelines import Refresh
from firn.protocol.validators import Validator
from tests.integration.pipelines.derived import COLUMNS, Derived
from tests.spark_fixtures import RunningServer

KEYS = {"daily": ("driver", "day"), "driver": ("driver",), "trips": ()}
NAMES = tuple(KEYS)


class Together(Derived):
    """Tables `mart.daily_N`, `mart.driver_N` (both keyed) and `mart.trips_N` (plain). The first one names the runs."""

    def __init__(self, server: RunningServer, *validators: Validator, audit: AuditMode = AuditMode.AUTO) -> None:
        self.validators, self.audit = validators, audit
        super().__init__(server, NAMES)

    def queries(self) -> dict[str, str]:
        return {
            "daily": self.query,
            "driver": f"SELECT driver, count(*) AS trips, max(id) AS newest FROM {self.trip} GROUP BY driver",
            "trips": f"SELECT id, driver, fare FROM {self.trip} WHERE id > 2",
        }

    def put(self, *, query: str | None = None, rebuild: bool = False) -> None:
        queries = self.queries()
        tables = [
            Definition(
                name=self.table(name),
                query=parse_query(queries[name]),
                path="a.sql",
                line=1,
                key=KEYS[name],
                refresh=Refresh.INCREMENTAL,
                consistent=tuple(map(self.table, NAMES)),
                validators=self.validators if name == "trips" else (),
                output=Output(audit=self.audit if name == "driver" else None),
            )
            for name in NAMES
        ]
        folder = Folder(f"p_{self.number}", {table.name: table for table in tables}, {}, catalog="lake")
        columns = {self.trip: COLUMNS["trip"], self.driver: COLUMNS["driver"]}
        self.pipeline.put(build_put(folder, columns.get, catalog="lake", rebuild=rebuild))

    def load_metadata(self, name: str) -> Any:
        """The metadata of the table, or of its change store."""
        store = f"mart%1F{name}_{self.number}/tables/change" if KEYS[name] else f"mart/tables/{name}_{self.number}"
        return self.server.http.get(f"/iceberg/v1/lake/namespaces/{store}").json()["metadata"]

    def positions(self, name: str) -> list[str]:
        writer = f"pipeline:p_{self.number}#{self.table(name)}"
        summaries = [snapshot["summary"] for snapshot in self.load_metadata(name).get("snapshots", ())]
        return [summary["firn.position"] for summary in summaries if summary.get("firn.writer-id") == writer]

    def head_position(self, name: str) -> str | None:
        """The position at the table's current snapshot, as a reader of any engine sees it."""
        metadata = self.load_metadata(name)
        summaries = {entry["snapshot-id"]: entry["summary"] for entry in metadata.get("snapshots", ())}
        position: str | None = summaries.get(metadata.get("current-snapshot-id"), {}).get("firn.position")
        return position

    def writer_positions(self) -> list[str | None]:
        names = [(self.table(name), f"pipeline:p_{self.number}#{self.table(name)}") for name in NAMES]
        return [self.client.tables[table].writers.get(writer).position for table, writer in names]

    def check_rows(self, *, dropped: str = "false") -> None:
        """The rows of all tables are those of full computations. `dropped` are those that `trips` leaves out."""
        for name, query in self.queries().items():
            kept = f" AND NOT ({dropped})" if name == "trips" else ""
            full = self.server.rows(query.replace(" raw.", " lake.raw.") + kept)
            columns = ", ".join(self.server.spark.table(f"lake.{self.table(name)}").columns)
            rows = self.server.rows(f"SELECT {columns} FROM lake.{self.table(name)}")
            assert sorted(rows) == sorted(full), name

    def quarantined(self) -> list[tuple[Any, ...]]:
        """The ids of the rows of `trips` that were dropped, with the runs and rules."""
        table = f"lake.{self.table('trips')}_quarantine"
        number = "cast(get_json_object(row, '$.id') AS INT)"
        return sorted(self.server.rows(f"SELECT run, array_join(rules, ','), {number} FROM {table}"))
