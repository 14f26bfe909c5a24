"""Groups of optimizers."""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter

from catalog.jobs.optimizer_group import Group, GroupName
from catalog.launch.fleet import LaunchStatus
from firn.protocol.base import Request as In
from server.api.deps import Out, ServicesDep
from server.api.errors import refusals
from server.service.optimizers.fleet import GroupFleet

router = APIRouter(prefix="/groups", tags=["optimizers"])


class GroupSettingsIn(In):
    """What holds for the jobs of a group."""

    description: str = ""
    reserved_slots: int = 1
    catalog_quota: float = 1.0


class GroupChangeIn(In):
    """Settings of a group that are to be others; what is left out stays."""

    description: str | None = None
    reserved_slots: int | None = None
    catalog_quota: float | None = None


class GroupIn(GroupSettingsIn):
    """A group to be created."""

    name: str


class GroupOut(Out):
    """A group: slots that long jobs leave to short ones, and the share from which on a catalog stands back."""

    name: str
    description: str
    reserved_slots: int
    catalog_quota: float
    created_at: datetime | None


class StaffedGroupOut(GroupOut):
    """A group with the optimizers that the server starts for it."""

    wanted: int | None
    """None where people start them."""
    working: int

    @classmethod
    def of(cls, group: Group, fleet: GroupFleet | None) -> StaffedGroupOut:
        """A group as it is listed."""
        return cls(
            **GroupOut.model_validate(group).model_dump(),
            wanted=None if fleet is None else fleet.decision.wanted,
            working=0 if fleet is None else fleet.count(LaunchStatus.WORKING),
        )


@router.get("", summary="List groups of optimizers")
def list_groups(services: ServicesDep) -> list[StaffedGroupOut]:
    """By name; `default` is always there."""
    fleets = services.fleet.all()
    return [StaffedGroupOut.of(group, fleets.get(group.name)) for group in services.groups.list()]


@router.post("", status_code=201, summary="Create a group", responses=refusals(400, 409))
def create_group(services: ServicesDep, body: GroupIn) -> GroupOut:
    """Tables come into it by the policy `firn.optimize.group`, optimizers by naming it when they register."""
    settings = body.model_dump() | {"name": GroupName(body.name)}
    return GroupOut.model_validate(services.groups.create(Group(**settings)))


@router.get("/{group}", summary="Show a group", responses=refusals(404))
def show_group(services: ServicesDep, group: str) -> GroupOut:
    """One group."""
    return GroupOut.model_validate(services.groups.get(GroupName(group)))


@router.put("/{group}", summary="Set a group's settings", responses=refusals(400, 404))
def set_group(services: ServicesDep, group: str, body: GroupSettingsIn) -> GroupOut:
    """All of them; what is left out is as at first."""
    return GroupOut.model_validate(services.groups.change(Group(name=GroupName(group), **body.model_dump())))


@router.patch("/{group}", summary="Change a group's settings", responses=refusals(400, 404))
def change_group(services: ServicesDep, group: str, body: GroupChangeIn) -> GroupOut:
    """Those that are named; the others stay."""
    return GroupOut.model_validate(services.groups.alter(GroupName(group), body.model_dump(exclude_none=True)))


@router.delete("/{group}", status_code=204, summary="Drop a group", responses=refusals(404, 409))
def drop_group(services: ServicesDep, group: str) -> None:
    """Refused while optimizers are registered in it or jobs of it have not ended."""
    services.groups.drop(GroupName(group))
