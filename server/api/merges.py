"""Commits of merges by adoption, whose optimizer starts no Spark."""

from __future__ import annotations

from fastapi import APIRouter

from firn.protocol.tasks.merge import AdoptRequest, CleanRequest, StoreSummary
from server.api.deps import LeaseDep, ServicesDep
from server.api.errors import refusals

router = APIRouter(tags=["optimizers"])


@router.post(
    "/leases/{lease}/adopted", summary="Commit a merge by adoption", responses=refusals(400, 403, 404, 409, 503)
)
def adopt_layer(services: ServicesDep, lease: LeaseDep, body: AdoptRequest) -> StoreSummary:
    """Add the layer's files to base, and move the watermark. The request can be repeated."""
    return StoreSummary(summary=services.adoptions.adopt(lease, body))


@router.post(
    "/leases/{lease}/cleaned", summary="Clean after a merge by adoption", responses=refusals(400, 403, 404, 409, 503)
)
def clean_change_store(services: ServicesDep, lease: LeaseDep, body: CleanRequest) -> StoreSummary:
    """Take merged files out of the change store's current snapshot. The request can be repeated."""
    return StoreSummary(summary=services.adoptions.clean(lease, body.files))
