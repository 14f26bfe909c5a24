"""Launch settings: how the server starts the optimizers of a group, and how many."""

from __future__ import annotations

from collections.abc import Mapping
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
from firn.protocol.base import Out
from firn.protocol.base import Request as In
from server.api.deps import ServicesDep
from server.api.errors import refusals
from server.service.optimizers.fleet_values import GroupFleet

router = APIRouter(prefix="/groups", tags=["optimizers"])

Count = Annotated[int, Field(ge=0, le=HIGHEST_INT)]
Bytes = Annotated[int, Field(ge=0, le=HIGHEST_LONG)]


class ScaleIn(In):
    """The bounds of the number of optimizers of a group."""

    minimum: Count
    maximum: Count


class ScalingIn(In):
    """The bounds of the number of optimizers, and when the server starts or drains one."""

    minimum: Count = 0
    maximum: Count = 1
    queue_seconds: Count = 10
    idle_seconds: Count = 600
    cool_down_seconds: Count = 60
    start_seconds: Count = 300
    max_attempts: Count = 5


class LaunchIn(In):
    """How the server starts the optimizers of a group. An omitted setting gets its default."""

    kind: LaunchKind
    scaling: ScalingIn = ScalingIn()
    slots: Count = 2
    streams: Count = 0
    sql: Count = 0
    memory: str = "2g"
    memory_limit: Bytes | None = None
    master: str = "local[*]"
    deploy_mode: DeployMode = DeployMode.CLIENT
    conf: dict[str, str] = {}
    environment: dict[str, str] = {}
    py_files: list[str] = []
    application: str | None = None
    jars: list[str] = []
    archive: str | None = None
    queue: str | None = None
    principal: str | None = None
    keytab: str | None = None
    proxy_user: str | None = None
    file_systems: list[str] = []
    image: str | None = None
    namespace: str | None = None
    service_account: str | None = None

    def launch(self) -> Launch:
        """Build the domain's launch settings."""
        return Launch(**_freeze_lists(self.model_dump()) | {"scaling": Scaling(**self.scaling.model_dump())})


def _freeze_lists(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


class LaunchChangeIn(LaunchIn):
    """Launch settings to change; omitted settings stay."""

    kind: LaunchKind = LaunchKind.NONE

    def changes(self) -> tuple[dict[str, Any], dict[str, int]]:
        """Get the settings that the request names, and separately those of `scaling`."""
        named = self.model_dump(exclude_unset=True)
        scaling = named.pop("scaling", {})
        return _freeze_lists(named), scaling


class LaunchedOut(Out):
    """One start of an optimizer, which may have failed."""

    id: str
    status: LaunchStatus
    started_at: datetime
    ended_at: datetime | None
    reason: str | None


class LaunchOut(LaunchIn):
    """The launch settings, the numbers of wanted and existing optimizers, and why the server starts no more."""

    wanted: int
    starting: int
    working: int
    draining: int
    held_back: str | None
    last_error: str | None
    launches: list[LaunchedOut]

    @classmethod
    def of(cls, fleet: GroupFleet) -> LaunchOut:
        """Build the answer from the fleet of a group; launches come newest first."""
        failed = next((launch for launch in fleet.launches if launch.status is LaunchStatus.FAILED), None)
        return cls(
            **asdict(fleet.settings.launch),
            wanted=fleet.decision.wanted,
            starting=fleet.count(LaunchStatus.STARTING),
            working=fleet.count(LaunchStatus.WORKING),
            draining=fleet.count(LaunchStatus.DRAINING),
            held_back=fleet.decision.held_back,
            last_error=None if failed is None else failed.reason,
            launches=[LaunchedOut.model_validate(launch) for launch in fleet.launches],
        )


class LaunchCommandOut(Out):
    """The command that the server would run: a program and its arguments, without a shell."""

    arguments: list[str]
    environment: dict[str, str]
    """What the server adds to its own environment."""
    files: dict[str, str]
    """The files that the command reads, by name. Only the server's user can read them."""


def check_may_run_commands(services: ServicesDep) -> None:
    """Forbidden while access control is off: anybody could then run commands as the server's user."""
    if not services.access.enabled:
        raise Forbidden(
            "launch settings run commands on the server's machine, so they need access control, which is off",
            hint="start the server with FIRN_ACCESS__ENABLED=true (docs/security.md); or without access control, "
            "set FIRN_OPTIMIZERS__LOCAL or run `firn optimizer`",
        )


_RUNS_COMMANDS = [Depends(check_may_run_commands)]


@router.get("/{group}/launch", summary="Show how a group's optimizers are started", responses=refusals(404))
def show_launch(services: ServicesDep, group: str) -> LaunchOut:
    """Show the launch settings of a group and its optimizers."""
    return LaunchOut.of(services.fleet.show(GroupName(group)))


@router.put(
    "/{group}/launch",
    summary="Set how a group's optimizers are started",
    responses=refusals(400, 403, 404),
    dependencies=_RUNS_COMMANDS,
)
def set_launch(services: ServicesDep, group: str, body: LaunchIn) -> LaunchOut:
    """Replace the launch settings. Running optimizers keep the old ones; the server retries starts that failed."""
    return LaunchOut.of(services.fleet.set(GroupName(group), body.launch()))


@router.patch(
    "/{group}/launch",
    summary="Change how a group's optimizers are started",
    responses=refusals(400, 403, 404),
    dependencies=_RUNS_COMMANDS,
)
def change_launch(services: ServicesDep, group: str, body: LaunchChangeIn) -> LaunchOut:
    """Change the named settings, also within `scaling`. Running optimizers keep the old ones."""
    return LaunchOut.of(services.fleet.alter(GroupName(group), *body.changes()))


@router.post("/{group}/launch/dry-run", summary="Show the command of a launch", responses=refusals(400, 404))
def preview_launch(services: ServicesDep, group: str, body: LaunchChangeIn) -> LaunchCommandOut:
    """Show the command after a change of the named settings, without secrets. Nothing is saved or started."""
    command = services.fleet.preview(GroupName(group), *body.changes())
    return LaunchCommandOut.model_validate(command)


@router.post("/{group}/scale", summary="Set how many optimizers a group has", responses=refusals(400, 404))
def scale(services: ServicesDep, group: str, body: ScaleIn) -> LaunchOut:
    """Set the bounds. The leading server starts or drains optimizers at its next check."""
    return LaunchOut.of(services.fleet.scale(GroupName(group), body.minimum, body.maximum))
