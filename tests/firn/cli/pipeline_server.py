"""A stand-in of the server's routes of pipelines."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import httpx

from firn.client import TableHandle
from firn.errors import NotFound
from firn.protocol.held_rows import HeldRowsOut, SampledRow
from firn.protocol.pipeline_graph import (
    ColumnLineageOut,
    ColumnSourceOut,
    GraphEdgeOut,
    GraphNodeOut,
    GraphOut,
    LineageOut,
    TableLineageOut,
)
from firn.protocol.pipelines import (
    InputChanges,
    PipelineOut,
    PipelineTableOut,
    PipelineVersionOut,
    PutPipeline,
    RunOut,
    RunResult,
)

AT = datetime(2026, 11, 27, 9, 52, 7, tzinfo=UTC)
LATER = "2026-11-27T09:52:24Z"
RESULT = RunResult(
    mode="incremental",
    inputs=[InputChanges(table="raw.trip", commits=186, files=31, bytes=44 * 2**20), InputChanges(table="dim.driver")],
    keys=2_140,
    written=2_087,
    unchanged=31,
    deleted=22,
    dropped=4,
    quarantine="mart.driver_daily_quarantine",
    commits_left=250,
    snapshot_id="77",
    checkpoint="c2",
).model_dump()
HELD = HeldRowsOut(
    job_id="7",
    table="mart.driver_daily",
    held_at=AT,
    written=2,
    deleted=None,
    rows=[
        SampledRow(before=None, after={"driver": "9", "city": None}),
        SampledRow(before={"driver": "1", "city": "7"}, after={"driver": "1", "city": "9"}),
        SampledRow(before={"driver": "4", "city": "7"}, after=None),
    ],
)
TRIP = ColumnSourceOut(table="raw.trip", column="fare", is_input=True)
LINEAGE = LineageOut(
    pipeline="orders",
    version=1,
    tables=[
        TableLineageOut(
            table="mart.driver_daily",
            columns=[
                ColumnLineageOut(column="fares", sources=[TRIP], origins=[TRIP]),
                ColumnLineageOut(column="trips", sources=[], origins=[]),
            ],
        ),
        TableLineageOut(table="mart.city_rank", columns=[]),
    ],
)
GRAPH = GraphOut(
    pipeline="orders",
    version=1,
    at=AT,
    nodes=[
        GraphNodeOut(table="raw.trip", is_input=True),
        GraphNodeOut(table="dim.driver", is_input=True),
        GraphNodeOut(table="mart.driver_daily", is_input=False, state="behind", lag_seconds=720.0, target_seconds=900),
    ],
    edges=[
        GraphEdgeOut(source="raw.trip", target="mart.driver_daily", has_changes=True, changed_at=AT, lag_seconds=720.0),
        GraphEdgeOut(source="dim.driver", target="mart.driver_daily", has_changes=False),
    ],
)
COLUMNS = {
    "raw.trip": {"driver": "long", "day": "date", "status": "string", "fare": "decimal(10, 2)"},
    "dim.driver": {"driver": "long", "city": "int"},
}


def describe_run(status: str, **more: Any) -> dict[str, Any]:
    run = RunOut(
        job_id="7",
        pipeline="orders",
        table="mart.driver_daily",
        version=1,
        full=False,
        status=status,
        requested_by=None,
        created_at=AT,
        leased_at=AT,
        ended_at=None,
        error=None,
        attempt=1,
        progress={},
        result={},
    )
    return run.model_dump(mode="json") | more


@dataclass
class FakeServer:
    """Answers by method and path; the states of a run follow one another, and the last one stays."""

    runs: list[dict[str, Any]] = field(default_factory=list)
    sent: list[tuple[str, str, Any]] = field(default_factory=list)
    refusal: httpx.Response | None = None
    optimizers: list[dict[str, Any]] = field(default_factory=list)
    definition: dict[str, Any] = field(default_factory=dict)
    """What the definition of the first table has besides."""

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/v1")
        if request.method != "GET":
            self.sent.append((request.method, path, json.loads(request.content) if request.content else None))
            return self.refusal or self._change(request.method, path)
        if path == "/pipelines/orders/runs/7":
            return httpx.Response(200, json=self.runs.pop(0) if len(self.runs) > 1 else self.runs[0])
        documents = {
            "/optimizers": self.optimizers,
            "/pipelines": [describe_pipeline()],
            "/pipelines/orders/tables/mart.driver_daily/backfills": [],
            "/pipelines/orders": describe_pipeline(**self.definition),
            "/pipelines/orders/tables/mart.driver_daily/held": HELD.model_dump(mode="json"),
            "/pipelines/orders/graph": GRAPH.model_dump(mode="json"),
            "/pipelines/orders/lineage": LINEAGE.model_dump(mode="json"),
            "/pipelines/orders/runs": self.runs,
            "/pipelines/orders/versions": [describe_version()],
            "/pipelines/orders/versions/1": describe_version(),
        }
        return httpx.Response(200, json=documents[path])

    def _change(self, method: str, path: str) -> httpx.Response:
        if path.endswith("/runs"):
            return httpx.Response(200, json=self.runs[0])
        if path.endswith(("/publish", "/discard")):
            return httpx.Response(200, json={"tables": ["mart.driver_daily", "mart.city_daily"]})
        if method != "PUT":
            return httpx.Response(204)
        definition = PutPipeline.model_validate(self.sent[-1][2])
        changes = [{"table": table.name, "change": "new"} for table in definition.tables]
        return httpx.Response(200, json={"name": "orders", "version": 1, "tables": changes})


def show_table(handle: TableHandle) -> SimpleNamespace:
    """The columns of a table, as the server answers them."""
    if handle.name.table not in COLUMNS:
        raise NotFound(f"{handle.name} does not exist")
    columns = COLUMNS[handle.name.table].items()
    return SimpleNamespace(columns=[SimpleNamespace(name=name, type=type_) for name, type_ in columns])


def describe_version() -> dict[str, Any]:
    files = [{"path": "transformations/a.sql", "text": "CREATE MATERIALIZED VIEW a AS SELECT 1"}]
    return PipelineVersionOut(version=1, created_at=AT, author="ann", files=files).model_dump(mode="json")


def describe_pipeline(**more: Any) -> dict[str, Any]:
    definition = {"path": "a.sql", "line": 1, "inputs": ["raw.trip"], "incremental": True, "query": "SELECT 1"} | more
    pins = [{"table": "raw.trip", "table_uuid": "u", "keyed": False, "version": "9"}]
    built = PipelineTableOut(
        name="mart.driver_daily",
        definition=definition,
        state="behind",
        checkpoint={"id": "c1", "pinned_at": AT, "pins": pins},
        behind=1,
        behind_since=AT,
        last_run=RunOut.model_validate(describe_run("succeeded")),
    )
    new = PipelineTableOut(
        name="mart.city_rank",
        definition={},
        state="new",
        checkpoint=None,
        behind=None,
        behind_since=None,
        last_run=None,
    )
    pipeline = PipelineOut(
        name="orders", catalog="lake", version=1, owner="ann", created_at=AT, changed_at=AT, tables=[built, new]
    )
    return pipeline.model_dump(mode="json")
