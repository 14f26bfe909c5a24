"""The graph of a pipeline's tables with freshness and lag, and the lineage of their columns."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path

from catalog.pipelines.lineage import trace_tables
from catalog.pipelines.versions import parse_inputs
from firn.protocol.pipeline_graph import GraphEdgeOut, GraphNodeOut, GraphOut, LineageOut
from server.api.deps import ServicesDep
from server.api.errors import refusals
from server.service.pipelines.states import TableView, sort_tables

router = APIRouter(tags=["pipelines"])

PipelineDep = Annotated[str, Path(description="pipeline")]


@router.get("/pipelines/{pipeline}/graph", summary="Show the graph of a pipeline", responses=refusals(404))
def show_graph(services: ServicesDep, pipeline: PipelineDep) -> GraphOut:
    """Show the tables and inputs of a pipeline, how far each table is behind, and because of which inputs."""
    defined = services.pipelines.get(pipeline)
    (views,) = services.pipeline_states.describe([defined])
    with services.database.reading() as uow:
        at = uow.now()
    return GraphOut(
        pipeline=pipeline,
        version=defined.pipeline.version,
        at=at,
        nodes=_build_nodes(views, at),
        edges=[edge for view in views for edge in _build_edges(view, at)],
    )


@router.get("/pipelines/{pipeline}/lineage", summary="Show the lineage of columns", responses=refusals(404))
def show_lineage(services: ServicesDep, pipeline: PipelineDep) -> LineageOut:
    """Show the columns of a pipeline's tables with the columns that they are computed from."""
    defined = services.pipelines.get(pipeline)
    tables = trace_tables([table.definition for table in sort_tables(defined.tables)])
    return LineageOut(pipeline=pipeline, version=defined.pipeline.version, tables=tables)


def _build_nodes(views: Sequence[TableView], at: datetime) -> list[GraphNodeOut]:
    """Inputs before tables, each once."""
    own_tables = {view.table.name for view in views}
    names = dict.fromkeys(
        name for view in views for name in parse_inputs(view.table.definition) if name not in own_tables
    )
    inputs = [GraphNodeOut(table=str(name), is_input=True) for name in names]
    return [*inputs, *(_build_node(view, at) for view in views)]


def _build_node(view: TableView, at: datetime) -> GraphNodeOut:
    checkpoint = view.checkpoint
    current = None if checkpoint is None else 0.0
    return GraphNodeOut(
        table=str(view.table.name),
        is_input=False,
        state=view.state,
        computed_at=None if checkpoint is None else checkpoint.pinned_at,
        lag_seconds=current if view.behind_since is None else _age(view.behind_since, at),
        target_seconds=view.table.definition.trigger.fresh_within_seconds,
    )


def _build_edges(view: TableView, at: datetime) -> list[GraphEdgeOut]:
    is_built = view.checkpoint is not None
    edges = []
    for name in map(str, parse_inputs(view.table.definition)):
        changed_at = view.changes.get(name)
        edges.append(
            GraphEdgeOut(
                source=name,
                target=str(view.table.name),
                has_changes=name in view.changes if is_built else None,
                changed_at=changed_at,
                lag_seconds=None if changed_at is None else _age(changed_at, at),
            )
        )
    return edges


def _age(moment: datetime, at: datetime) -> float:
    return max(0.0, (at - moment).total_seconds())
