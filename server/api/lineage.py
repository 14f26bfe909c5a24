"""The lineage of tables and views."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request

from catalog.errors import Conflict, Invalid
from firn.protocol.lineage import (
    DEEPEST,
    DEFAULT_DEPTH,
    BatchSummaryOut,
    BatchTakenOut,
    ColumnPairOut,
    Direction,
    FailedEventOut,
    LineageEdgeOut,
    LineageNodeOut,
    LineageTakenOut,
    NodeKind,
    TableLineageGraphOut,
)
from server.api.deps import CatalogDep, ServicesDep, TableDep, VisibilityDep, get_caller
from server.api.errors import refusals
from server.service.lineage.graph import LineageRequest
from server.service.lineage.intake import Sender
from server.service.lineage.shown import ShownEdge, ShownNode

MOST_EVENTS = 100
router = APIRouter(tags=["lineage"])
_OF_CATALOG = frozenset({NodeKind.TABLE, NodeKind.VIEW, NodeKind.HIVE_TABLE})
_OF_NAMESPACE = frozenset({NodeKind.JOB, NodeKind.DATASET, NodeKind.TOPIC})


@router.get(
    "/catalogs/{catalog}/tables/{table}/lineage", summary="Show the lineage of a table", responses=refusals(404)
)
def show_lineage(
    services: ServicesDep,
    catalog: CatalogDep,
    table: TableDep,
    visible: VisibilityDep,
    direction: Annotated[Direction, Query(description="the sources, the readers, or both")] = Direction.BOTH,
    depth: Annotated[int, Query(ge=1, le=DEEPEST, description="steps from the table")] = DEFAULT_DEPTH,
    column: Annotated[str | None, Query(max_length=255, description="only what concerns this column")] = None,
) -> TableLineageGraphOut:
    """Show which tables, views, pipelines, jobs and engines a table or view comes from, and which read it.

    The graph has only tables and views that the caller may read, and nothing behind others.
    """
    request = LineageRequest(direction=direction, depth=depth, column=column)
    graph = services.lineage.graphs.show(catalog, table, visible, request)
    return TableLineageGraphOut(
        table=str(table),
        root=graph.root,
        direction=direction,
        depth=depth,
        column=column,
        nodes=[_describe_node(node) for node in graph.nodes],
        edges=[_describe_edge(edge) for edge in graph.edges],
        is_cut=graph.is_cut,
    )


@router.post("/lineage", status_code=201, summary="Take an OpenLineage event", responses=refusals(400, 409))
def take_event(request: Request, services: ServicesDep, event: Annotated[dict[str, Any], Body()]) -> LineageTakenOut:
    """Store the edges of an OpenLineage event, as clients of OpenLineage send it.

    An input needs the privilege `read` on its table, and an output needs `write`; the server leaves out others, and
    says so. 400 refuses a malformed event, and 409 a sender with too many edges.
    """
    stored = services.lineage.intake.take(event, _build_sender(request))
    return LineageTakenOut(edges=stored.edges, left_out=list(stored.left_out))


@router.post("/lineage/batch", summary="Take OpenLineage events", responses=refusals(400))
def take_events(
    request: Request, services: ServicesDep, events: Annotated[list[Any], Body(max_length=MOST_EVENTS)]
) -> BatchTakenOut:
    """Store the edges of up to 100 events, each on its own. The answer names the events that the server refuses."""
    sender, failed = _build_sender(request), list[FailedEventOut]()
    for index, event in enumerate(events):
        try:
            services.lineage.intake.take(event, sender)
        except (Invalid, Conflict) as error:
            failed.append(FailedEventOut(index=index, reason=error.message))
    return BatchTakenOut(
        status="success" if not failed else "partial_success",
        summary=BatchSummaryOut(
            received=len(events), successful=len(events) - len(failed), failed=len(failed), non_retriable=len(failed)
        ),
        failed_events=failed,
    )


def _build_sender(request: Request) -> Sender:
    caller = get_caller(request)
    return Sender(
        principal=None if caller is None else caller.principal.name,
        rights=None if caller is None else caller.rights,
        address=request.headers.get("host", ""),
    )


def _describe_node(shown: ShownNode) -> LineageNodeOut:
    node = shown.node
    is_table = node.kind in (NodeKind.TABLE, NodeKind.VIEW)
    return LineageNodeOut(
        id=shown.id,
        kind=node.kind,
        name=str(node.table_name) if is_table else node.name,
        catalog=node.within if node.kind in _OF_CATALOG else None,
        namespace=node.within if node.kind in _OF_NAMESPACE else None,
        pipeline=node.within if node.kind is NodeKind.PIPELINE else None,
        exists=shown.relation is not None or not is_table,
        distance=shown.distance or 0,
        columns=sorted(shown.columns),
    )


def _describe_edge(edge: ShownEdge) -> LineageEdgeOut:
    stored = edge.stored
    return LineageEdgeOut(
        source=edge.source,
        target=edge.target,
        origin=edge.origin,
        first_seen=None if stored is None else stored.first_seen,
        last_seen=None if stored is None else stored.last_seen,
        principal=None if stored is None else stored.principal,
        has_columns=stored is not None and stored.has_columns,
        columns=[ColumnPairOut.model_validate(pair) for pair in edge.columns],
    )
