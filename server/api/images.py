"""Images that optimizers build, because they are too large for the server."""

from __future__ import annotations

from fastapi import APIRouter, Request

from firn.protocol.tasks.image import BegunImage, CompleteRequest, ImageCredentials
from server.api.deps import LeaseDep, ServicesDep, get_caller
from server.api.errors import refusals

router = APIRouter(tags=["optimizers"])


@router.post("/leases/{lease}/image", summary="Begin to build an image", responses=refusals(400, 403, 404, 503))
def begin_image(services: ServicesDep, lease: LeaseDep, request: Request) -> BegunImage:
    """Note down a build of the table's newest image. Without a layer in the answer, readers have it already.

    A catalog that vends credentials gives the job some that read both stores and write the image's data files alone.
    """
    begun = services.images.jobs.begin(lease)
    if begun.layer is None:
        return begun
    granted = renew_credentials(services, lease, request)
    return begun.model_copy(update=dict(granted))


@router.post(
    "/leases/{lease}/image/credentials",
    summary="Renew the credentials of a build",
    responses=refusals(400, 403, 404, 503),
)
def renew_credentials(services: ServicesDep, lease: LeaseDep, request: Request) -> ImageCredentials:
    """Give a job that builds an image credentials again, before those that it has end."""
    grant = services.vending.grant_image_builder(get_caller(request), lease)
    credentials = {} if grant.credential is None else dict(grant.credential.config)
    return ImageCredentials(credentials=credentials, no_credentials=grant.refused)


@router.post("/leases/{lease}/image/complete", summary="Complete an image", responses=refusals(400, 403, 404, 409, 503))
def complete_image(services: ServicesDep, lease: LeaseDep, body: CompleteRequest) -> dict[str, bool]:
    """Write the manifests and the metadata of a build, so that readers get it. The request can be repeated."""
    services.images.jobs.complete(lease, body)
    return {"complete": True}
