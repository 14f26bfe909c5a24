"""Optimizers: how they come and go, and how people see and stop them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter
from pydantic import Field

from catalog.iceberg.json import HIGHEST_INT
from catalog.jobs.optimizer import Optimizer
from firn.protocol.base import Request as In
from server.api.deps import Out, ServicesDep
from server.api.errors import refusals
from server.service.optimizers.optimizers import OptimizerStatus, Registration

router = APIRouter(prefix="/optimizers", tags=["optimizers"])

MOST_SLOTS = 256


class OptimizerIn(In):
    """An optimizer that comes to work. One that names no protocol is older than all that have one."""

    group: str = "default"
    host: str
    pid: Annotated[int, Field(ge=0, le=HIGHEST_INT)]
    version: str
    protocol: Annotated[int, Field(ge=0, le=HIGHEST_INT)] = 0
    slots: Annotated[int, Field(ge=1, le=MOST_SLOTS)] = 1
    launch: Annotated[str | None, Field(max_length=64)] = None
    facts: dict[str, Any] = {}


class OptimizerOut(Out):
    """A registered optimizer, what it holds and what it was asked to do."""

    id: str
    group: str
    host: str
    pid: int
    version: str
    registered_at: datetime
    last_seen_at: datetime
    slots: int
    jobs: list[UUID]
    silent: bool
    draining: bool
    stopping: bool
    reason: str | None
    launch: str | None
    memory: dict[str, int]
    facts: dict[str, Any]

    @classmethod
    def of(cls, shown: OptimizerStatus) -> OptimizerOut:
        """An optimizer as it is shown."""
        return cls(**_same(shown.optimizer), jobs=list(shown.jobs), silent=shown.is_silent)


class RegisteredOut(OptimizerOut):
    """What an optimizer has to know to work."""

    lease_seconds: float
    heartbeat_seconds: float


class DrainIn(In):
    """Why an optimizer is to have no more jobs, and whether it is to end when it holds none."""

    stop: bool = False
    reason: Annotated[str | None, Field(max_length=1000)] = None


@router.post("", status_code=201, summary="Register an optimizer", responses=refusals(409))
def register(services: ServicesDep, body: OptimizerIn) -> RegisteredOut:
    """Called once by every optimizer when it starts, and again when it is told that it is not known.

    409 when it talks in another way than this server does: it is of another version.
    """
    optimizer = services.optimizers.register(Registration(**body.model_dump()))
    times = services.jobs.times
    return RegisteredOut(
        **_same(optimizer),
        jobs=[],
        silent=False,
        lease_seconds=times.lasts.total_seconds(),
        heartbeat_seconds=times.beat.total_seconds(),
    )


@router.get("", summary="List optimizers")
def list_optimizers(services: ServicesDep) -> list[OptimizerOut]:
    """All registered optimizers. A silent one holds no job any more, and is forgotten after ten minutes."""
    return [OptimizerOut.of(one) for one in services.optimizers.list()]


@router.delete("/{optimizer_id}", status_code=204, summary="Unregister an optimizer")
def unregister(services: ServicesDep, optimizer_id: str) -> None:
    """What it still holds goes back to the queue."""
    services.optimizers.unregister(optimizer_id)


@router.post("/{optimizer_id}/drain", summary="Drain an optimizer", responses=refusals(404))
def drain(services: ServicesDep, optimizer_id: str, body: DrainIn) -> OptimizerOut:
    """It is given no new job, and finishes what it holds; with `stop` it then ends."""
    return OptimizerOut.of(services.optimizers.drain(optimizer_id, body.reason, stop=body.stop))


@router.post("/{optimizer_id}/undrain", summary="Let an optimizer work again", responses=refusals(404))
def undrain(services: ServicesDep, optimizer_id: str) -> OptimizerOut:
    """One that was asked to stop goes on working if it has not heard of it yet."""
    return OptimizerOut.of(services.optimizers.undrain(optimizer_id))


def _same(optimizer: Optimizer) -> dict[str, Any]:
    return {name: getattr(optimizer, name) for name in Optimizer.__slots__}
