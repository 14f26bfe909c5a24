"""How the optimizers of a group are started, and how many there are."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import Field

from catalog.errors import Forbidden
from catalog.iceberg.json import HIGHEST_INT, HIGHEST_LONG
from catalog.jobs.optimizer_group import GroupName
from catalog.launch.fleet import LaunchStatus
from catalog.launch.settings import DeployMode, Launch, LaunchKind, Scaling
from firn.protocol.base import Request as In
from server.api.deps import Out, ServicesDep
from server.api.errors import refusals
from server.service.optimizers.fleet import GroupFleet

router = APIRouter(prefix="/groups", tags=["optimizers"])

Count = Annotated[int, Field(ge=0, le=HIGHEST_INT)]
Bytes = Annotated[int, Field(ge=0, le=HIGHEST_LONG)]


class ScaleIn(In):
    """Between how many optimizers a group has."""

    minimum: Count
    maximum: Count


class ScalingIn(In):
    """How many optimizers there are to be, and when that changes."""

    minimum: Count = 0
    maximum: Count = 1
    queue_seconds: Count = 10
    idle_seconds: Count = 600
    cool_down_seconds: Count = 60
    start_seconds: Count = 300
    max_attempts: Count = 5


class LaunchIn(In):
    """How a group's optimizers are started. What is left out is as at first."""

    kind: LaunchKind
    scaling: ScalingIn = ScalingIn()
    slots: Count = 2
    memory: str = "2g"
    memory_limit: Bytes | None = None
    master: str = "local[*]"
    deploy_mode: DeployMode = DeployMode.CLIENT
    conf: dict[str, str] = {}
    environment: dict[str, str] = {}
    py_files: list[str] = []
    application: str | None = None
    image: str | None = None
    namespace: str | None = None

    def launch(self) -> Launch:
        """The settings as the domain knows them."""
        values = self.model_dump() | {"scaling": Scaling(**self.scaling.model_dump()), "py_files": tuple(self.py_files)}
        return Launch(**values)


class LaunchChangeIn(LaunchIn):
    """How a group's optimizers are to be started otherwise. What is left out stays as it is."""

    kind: LaunchKind = LaunchKind.NONE

    def changes(self) -> tuple[dict[str, Any], dict[str, int]]:
        """What is named, and what of it is named of the scaling."""
        named = self.model_dump(exclude_unset=True)
        scaling = named.pop("scaling", {})
        return named | ({"py_files": tuple(self.py_files)} if "py_files" in named else {}), scaling


class LaunchedOut(Out):
    """One optimizer that was started, or that could not be."""

    id: str
    status: LaunchStatus
    started_at: datetime
    ended_at: datetime | None
    reason: str | None


class LaunchOut(LaunchIn):
    """What is set, how many optimizers are wanted and there, and what keeps more from being started."""

    wanted: int
    starting: int
    working: int
    draining: int
    held_back: str | None
    last_error: str | None
    launches: list[LaunchedOut]

    @classmethod
    def of(cls, fleet: GroupFleet) -> LaunchOut:
        """A group's launches as they are shown, newest first."""
        failed = next((one for one in fleet.launches if one.status is LaunchStatus.FAILED), None)
        return cls(
            **asdict(fleet.settings.launch),
            wanted=fleet.decision.wanted,
            starting=fleet.count(LaunchStatus.STARTING),
            working=fleet.count(LaunchStatus.WORKING),
            draining=fleet.count(LaunchStatus.DRAINING),
            held_back=fleet.decision.held_back,
            last_error=None if failed is None else failed.reason,
            launches=[LaunchedOut.model_validate(one) for one in fleet.launches],
        )


def check_may_run_commands(services: ServicesDep) -> None:
    """Forbidden while access control is off: a launch is a command of the server's user, and nobody is known to ask."""
    if not services.access.enabled:
        raise Forbidden(
            "a launch runs commands on the server's machine, which needs access control, and that is off",
            hint="start the server with FIRN_ACCESS__ENABLED=true (docs/security.md); for optimizers of this machine "
            "without it, set FIRN_OPTIMIZERS__LOCAL, or run `firn optimizer`",
        )


_RUNS_COMMANDS = [Depends(check_may_run_commands)]


@router.get("/{group}/launch", summary="Show how a group's optimizers are started", responses=refusals(404))
def show_launch(services: ServicesDep, group: str) -> LaunchOut:
    """And how many there are."""
    return LaunchOut.of(services.fleet.show(GroupName(group)))


@router.put(
    "/{group}/launch",
    summary="Set how a group's optimizers are started",
    responses=refusals(400, 403, 404),
    dependencies=_RUNS_COMMANDS,
)
def set_launch(services: ServicesDep, group: str, body: LaunchIn) -> LaunchOut:
    """Those that run already stay as they are; starts that were given up are tried again."""
    return LaunchOut.of(services.fleet.set(GroupName(group), body.launch()))


@router.patch(
    "/{group}/launch",
    summary="Change how a group's optimizers are started",
    responses=refusals(400, 403, 404),
    dependencies=_RUNS_COMMANDS,
)
def change_launch(services: ServicesDep, group: str, body: LaunchChangeIn) -> LaunchOut:
    """What is named; `scaling` takes some of its own alike. Otherwise as setting all of it."""
    return LaunchOut.of(services.fleet.alter(GroupName(group), *body.changes()))


@router.post("/{group}/scale", summary="Set how many optimizers a group has", responses=refusals(400, 404))
def scale(services: ServicesDep, group: str, body: ScaleIn) -> LaunchOut:
    """More are started and fewer drained by the server that leads, at its next look."""
    return LaunchOut.of(services.fleet.scale(GroupName(group), body.minimum, body.maximum))
