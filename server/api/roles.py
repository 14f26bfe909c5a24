"""Roles and their grants."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import Field

from catalog.access.privileges import Privilege, Role, RoleName, Securable
from catalog.errors import Invalid
from catalog.names import CatalogName, check_namespace
from firn.protocol.base import Request as In
from server.api.deps import CallerDep, Out, ServicesDep, caller_of
from server.api.errors import refusals
from server.api.principals import GrantsOut, grants_out

router = APIRouter(prefix="/roles", tags=["access"])


class RoleIn(In):
    """A role to be created; it gives nothing until something is granted to it."""

    name: str
    description: str = ""


class ScopeIn(In):
    """What privileges are granted on: the server (nothing given), a catalog, a namespace, or a table of one."""

    catalog: str | None = None
    namespace: list[str] = []
    table: str | None = None

    def securable(self) -> Securable:
        """As a value; Invalid when a part is missing. It need not exist yet."""
        if self.catalog is None and (self.namespace or self.table):
            raise Invalid("a namespace or table without its catalog")
        if self.table is not None and not self.namespace:
            raise Invalid("a table without its namespace")
        namespace = check_namespace(tuple(self.namespace)) if self.namespace else ()
        return Securable(None if self.catalog is None else CatalogName(self.catalog), namespace, self.table)


class GrantIn(In):
    """Privileges on one thing, and with it on all that lies in it."""

    on: ScopeIn
    privileges: Annotated[list[Privilege], Field(min_length=1)]


class RoleOut(Out):
    """A role and what it is granted, as far as the reader may see that."""

    name: str
    description: str
    builtin: bool
    grants: list[GrantsOut]
    created_at: datetime

    @classmethod
    def of(cls, role: Role) -> RoleOut:
        """As it is shown."""
        grants = grants_out(list(role.grants))
        return cls(
            name=role.name,
            description=role.description,
            builtin=role.is_builtin,
            grants=grants,
            created_at=role.created_at,
        )


class RoleMembersOut(RoleOut):
    """A role with those who have it; null for a reader who may not give it."""

    members: list[str] | None


@router.get("", summary="List roles")
def list_roles(request: Request, services: ServicesDep) -> list[RoleOut]:
    """By name: all of them for who may grant something, their own for others."""
    return [RoleOut.of(role) for role in services.access.roles.list(caller_of(request))]


@router.post("", status_code=201, summary="Create a role", responses=refusals(400, 409))
def create_role(services: ServicesDep, body: RoleIn) -> RoleOut:
    """It gives nothing yet."""
    return RoleOut.of(services.access.roles.create(body.name, body.description))


@router.get("/{role}", summary="Show a role", responses=refusals(404))
def show_role(request: Request, services: ServicesDep, role: str) -> RoleMembersOut:
    """What it is granted; and for who may give it, who has it."""
    found, members = services.access.roles.show(RoleName(role), caller_of(request))
    return RoleMembersOut(**RoleOut.of(found).model_dump(), members=None if members is None else list(members))


@router.delete("/{role}", status_code=204, summary="Drop a role", responses=refusals(404, 409))
def drop_role(services: ServicesDep, role: str) -> None:
    """It is taken from all who have it."""
    services.access.roles.remove(RoleName(role))


@router.post("/{role}/grants", summary="Grant privileges to a role", responses=refusals(400, 403, 404, 409))
def grant(services: ServicesDep, caller: CallerDep, role: str, body: GrantIn) -> RoleOut:
    """Takes `grant` on the same thing, and each privilege that is granted."""
    on = body.on.securable()
    return RoleOut.of(services.access.roles.grant(caller, RoleName(role), on, body.privileges))


@router.post("/{role}/grants/revoke", summary="Revoke privileges", responses=refusals(400, 403, 404, 409))
def revoke(services: ServicesDep, caller: CallerDep, role: str, body: GrantIn) -> RoleOut:
    """Takes `grant` on the same thing. What was granted on something above or below it stays."""
    on = body.on.securable()
    return RoleOut.of(services.access.roles.revoke(caller, RoleName(role), on, body.privileges))
