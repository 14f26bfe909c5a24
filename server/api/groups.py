"""Groups of optimizers."""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter

from catalog.jobs.optimizer_group import Group, GroupName
from catalog.launch.fleet import LaunchStatus
from firn.protocol.base import Out
from firn.protocol.base import Request as In
from server.api.deps import ServicesDep
from server.api.errors import refusals
from server.service.optimizers.fleet_values import GroupFleet

router = APIRouter(prefix="/groups", tags=["optimizers"])


class GroupSettingsIn(In):
    """Settings of a group: slots that long jobs leave to short ones, and the share of slots per catalog."""

    description: str = ""
    reserved_slots: int = 1
    catalog_quota: float = 1.0


class GroupChangeIn(In):
    """Settings of a group to change; the others stay."""

    description: str | None = None
    reserved_slots: int | None = None
    catalog_quota: float | None = None


class GroupIn(GroupSettingsIn):
    """A group to be created."""

    name: str


class GroupOut(Out):
    """A group. Long jobs leave `reserved_slots` slots to short ones.

    A catalog that uses more than the share `catalog_quota` of the slots yields to other catalogs.
    """

    name: str
    description: str
    reserved_slots: int
    catalog_quota: float
    created_at: datetime | None


class StaffedGroupOut(GroupOut):
    """A group with the optimizers that the server starts for it."""

    wanted: int | None
    """None for a group whose optimizers people start."""
    working: int

    @classmethod
    def of(cls, group: Group, fleet: GroupFleet | None) -> StaffedGroupOut:
        """Build the answer from a group, and its fleet if the server starts its optimizers."""
        return cls(
            **GroupOut.model_validate(group).model_dump(),
            wanted=None if fleet is None else fleet.decision.wanted,
            working=0 if fleet is None else fleet.count(LaunchStatus.WORKING),
        )


@router.get("", summary="List groups of optimizers")
def list_groups(services: ServicesDep) -> list[StaffedGroupOut]:
    """List the groups by name; the group `default` always exists."""
    fleets = services.fleet.show_all()
    return [StaffedGroupOut.of(group, fleets.get(group.name)) for group in services.groups.list()]


@router.post("", status_code=201, summary="Create a group", responses=refusals(400, 409))
def create_group(services: ServicesDep, body: GroupIn) -> GroupOut:
    """Create a group. The policy `firn.optimize.group` assigns tables to it; optimizers name it when they register."""
    settings = body.model_dump() | {"name": GroupName(body.name)}
    return GroupOut.model_validate(services.groups.create(Group(**settings)))


@router.get("/{group}", summary="Show a group", responses=refusals(404))
def show_group(services: ServicesDep, group: str) -> GroupOut:
    """Show one group."""
    return GroupOut.model_validate(services.groups.get(GroupName(group)))


@router.put("/{group}", summary="Set a group's settings", responses=refusals(400, 404))
def set_group(services: ServicesDep, group: str, body: GroupSettingsIn) -> GroupOut:
    """Replace all settings; an omitted setting gets its default."""
    return GroupOut.model_validate(services.groups.change(Group(name=GroupName(group), **body.model_dump())))


@router.patch("/{group}", summary="Change a group's settings", responses=refusals(400, 404))
def change_group(services: ServicesDep, group: str, body: GroupChangeIn) -> GroupOut:
    """Change the named settings; the others stay."""
    return GroupOut.model_validate(services.groups.alter(GroupName(group), body.model_dump(exclude_none=True)))


@router.delete("/{group}", status_code=204, summary="Drop a group", responses=refusals(404, 409))
def drop_group(services: ServicesDep, group: str) -> None:
    """Drop a group. The server refuses while the group has registered optimizers or unfinished jobs."""
    services.groups.drop(GroupName(group))
