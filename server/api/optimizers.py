"""Optimizers: they register and unregister; people list and drain them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field

from catalog.iceberg.json import HIGHEST_INT
from catalog.jobs.optimizer import Optimizer
from firn.protocol.answers.optimizers import OptimizerOut, RegisteredOut
from firn.protocol.base import Request as In
from server.api.deps import ServicesDep
from server.api.errors import refusals
from server.service.optimizers.optimizers import OptimizerStatus, Registration

router = APIRouter(prefix="/optimizers", tags=["optimizers"])

MOST_SLOTS = 256


class OptimizerIn(In):
    """An optimizer that registers. Without `protocol` its version predates all protocol numbers."""

    group: str = "default"
    host: str
    pid: Annotated[int, Field(ge=0, le=HIGHEST_INT)]
    version: str
    protocol: Annotated[int, Field(ge=0, le=HIGHEST_INT)] = 0
    slots: Annotated[int, Field(ge=1, le=MOST_SLOTS)] = 1
    launch: Annotated[str | None, Field(max_length=64)] = None
    facts: dict[str, Any] = {}


class DrainIn(In):
    """The reason to drain an optimizer, and whether it should exit after its last job."""

    stop: bool = False
    reason: Annotated[str | None, Field(max_length=1000)] = None


@router.post("", status_code=201, summary="Register an optimizer", responses=refusals(409))
def register(services: ServicesDep, body: OptimizerIn) -> RegisteredOut:
    """Register an optimizer at its start, and again after an answer that the server does not know it.

    409 says that it speaks another version of the protocol than this server.
    """
    optimizer = services.optimizers.register(Registration(**body.model_dump()))
    times = services.jobs.times
    return RegisteredOut(
        **_copy_fields(optimizer),
        jobs=[],
        streams=0,
        queries=0,
        silent=False,
        lease_seconds=times.lasts.total_seconds(),
        heartbeat_seconds=times.beat.total_seconds(),
    )


@router.get("", summary="List optimizers")
def list_optimizers(services: ServicesDep) -> list[OptimizerOut]:
    """List the registered optimizers. A silent one has lost its jobs; the server forgets it after ten minutes."""
    return [_build_optimizer_out(optimizer) for optimizer in services.optimizers.list()]


@router.delete("/{optimizer_id}", status_code=204, summary="Unregister an optimizer")
def unregister(services: ServicesDep, optimizer_id: str) -> None:
    """Unregister an optimizer. Its jobs return to the queue."""
    services.optimizers.unregister(optimizer_id)


@router.post("/{optimizer_id}/drain", summary="Drain an optimizer", responses=refusals(404))
def drain(services: ServicesDep, optimizer_id: str, body: DrainIn) -> OptimizerOut:
    """Drain an optimizer: it finishes its jobs and gets no new ones; with `stop` it then exits."""
    return _build_optimizer_out(services.optimizers.drain(optimizer_id, body.reason, stop=body.stop))


@router.post("/{optimizer_id}/undrain", summary="Let an optimizer work again", responses=refusals(404))
def undrain(services: ServicesDep, optimizer_id: str) -> OptimizerOut:
    """Let an optimizer take jobs again. This also revokes a `stop` that it has not yet received."""
    return _build_optimizer_out(services.optimizers.undrain(optimizer_id))


def _build_optimizer_out(status: OptimizerStatus) -> OptimizerOut:
    return OptimizerOut(
        **_copy_fields(status.optimizer),
        jobs=list(status.jobs),
        streams=status.streams,
        queries=status.queries,
        silent=status.is_silent,
    )


def _copy_fields(optimizer: Optimizer) -> dict[str, Any]:
    return {name: getattr(optimizer, name) for name in Optimizer.__slots__}
