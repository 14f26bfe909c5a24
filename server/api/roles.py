"""Roles and their grants."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import Field

from catalog.access.privileges import Privilege, Role, RoleName, Securable
from catalog.errors import Invalid
from catalog.names import CatalogName, check_namespace
from firn.protocol.base import Out
from firn.protocol.base import Request as In
from server.api.deps import CallerDep, ServicesDep, get_caller
from server.api.errors import refusals
from server.api.principals import GrantsOut, build_grants_out

router = APIRouter(prefix="/roles", tags=["access"])


class RoleIn(In):
    """A role to be created. It has no privileges until somebody grants it some."""

    name: str
    description: str = ""


class ScopeIn(In):
    """The object of a grant: a table, a namespace, a catalog, or without any field the server."""

    catalog: str | None = None
    namespace: list[str] = []
    table: str | None = None

    def securable(self) -> Securable:
        """Build the object of the grant, which need not exist yet; Invalid when a part is missing."""
        if self.catalog is None and (self.namespace or self.table):
            raise Invalid("the scope has a namespace or table but no catalog")
        if self.table is not None and not self.namespace:
            raise Invalid("the scope has a table but no namespace")
        namespace = check_namespace(tuple(self.namespace)) if self.namespace else ()
        return Securable(None if self.catalog is None else CatalogName(self.catalog), namespace, self.table)


class GrantIn(In):
    """Privileges on an object and everything in it."""

    on: ScopeIn
    privileges: Annotated[list[Privilege], Field(min_length=1)]


class RoleOut(Out):
    """A role and its grants, as far as the caller may see them."""

    name: str
    description: str
    builtin: bool
    grants: list[GrantsOut]
    created_at: datetime

    @classmethod
    def of(cls, role: Role) -> RoleOut:
        """Build the answer from a role."""
        grants = build_grants_out(list(role.grants))
        return cls(
            name=role.name,
            description=role.description,
            builtin=role.is_builtin,
            grants=grants,
            created_at=role.created_at,
        )


class RoleMembersOut(RoleOut):
    """A role with its members; null for a caller who may not assign it."""

    members: list[str] | None


@router.get("", summary="List roles")
def list_roles(request: Request, services: ServicesDep) -> list[RoleOut]:
    """List roles by name: all of them for a caller with a `grant` privilege, else the caller's own."""
    return [RoleOut.of(role) for role in services.access.roles.list(get_caller(request))]


@router.post("", status_code=201, summary="Create a role", responses=refusals(400, 409))
def create_role(services: ServicesDep, body: RoleIn) -> RoleOut:
    """Create a role without privileges."""
    return RoleOut.of(services.access.roles.create(body.name, body.description))


@router.get("/{role}", summary="Show a role", responses=refusals(404))
def show_role(request: Request, services: ServicesDep, role: str) -> RoleMembersOut:
    """Show the grants of a role, and its members to a caller who may assign it."""
    shown_role, members = services.access.roles.show(RoleName(role), get_caller(request))
    return RoleMembersOut(**RoleOut.of(shown_role).model_dump(), members=None if members is None else list(members))


@router.delete("/{role}", status_code=204, summary="Drop a role", responses=refusals(404, 409))
def drop_role(services: ServicesDep, role: str) -> None:
    """Drop a role; all its members lose it."""
    services.access.roles.remove(RoleName(role))


@router.post("/{role}/grants", summary="Grant privileges to a role", responses=refusals(400, 403, 404, 409))
def grant(services: ServicesDep, caller: CallerDep, role: str, body: GrantIn) -> RoleOut:
    """Grant privileges. The caller needs `grant` on the same object, and each of these privileges."""
    on = body.on.securable()
    return RoleOut.of(services.access.roles.grant(caller, RoleName(role), on, body.privileges))


@router.post("/{role}/grants/revoke", summary="Revoke privileges", responses=refusals(400, 403, 404, 409))
def revoke(services: ServicesDep, caller: CallerDep, role: str, body: GrantIn) -> RoleOut:
    """Revoke privileges. The caller needs `grant` on the same object. Grants on objects above or below it stay."""
    on = body.on.securable()
    return RoleOut.of(services.access.roles.revoke(caller, RoleName(role), on, body.privileges))
