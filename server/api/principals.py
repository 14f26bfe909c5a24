"""Users and services, their roles, and the sign-in."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fastapi import APIRouter, Request

from catalog.access.privileges import Caller, Grant, Membership, PrincipalKind, RoleName, Securable
from firn.protocol.base import Out
from firn.protocol.base import Request as In
from server.api.deps import CallerDep, PageOut, PagingDep, ServicesDep
from server.api.errors import refusals
from server.service.access.principals import PrincipalDetails

router = APIRouter(tags=["access"])
USER, SERVICE = PrincipalKind.PERSON, PrincipalKind.SERVICE


class RoleOfOut(Out):
    """A role of a user or service; `by_claim` says that a claim of the issuer's token assigns it."""

    role: str
    by_claim: bool


class PrincipalOut(Out):
    """A user or a service."""

    name: str
    kind: PrincipalKind
    disabled: bool
    issuer: str | None
    subject: str | None
    roles: list[RoleOfOut]
    created_at: datetime

    @classmethod
    def of(cls, details: PrincipalDetails) -> PrincipalOut:
        """Build the answer from a principal with its roles."""
        principal = details.principal
        issuer, subject = principal.subject or (None, None)
        roles = [_describe_role(role) for role in details.roles]
        plain = {name: getattr(principal, name) for name in ("name", "kind", "disabled", "created_at")}
        return cls(**plain, issuer=issuer, subject=subject, roles=roles)


class ServiceSecretOut(PrincipalOut):
    """A service with its client secret. The server shows the secret only this once."""

    client_id: str
    client_secret: str


class UserIn(In):
    """A user to be created. With a `subject` the user signs in by OIDC at the server's issuer."""

    name: str
    subject: str | None = None


class ServiceIn(In):
    """A service to be created; its name is its client id."""

    name: str


class ScopeOut(Out):
    """The object of a grant: a table, namespace or catalog, or with all fields null the server."""

    catalog: str | None
    namespace: list[str]
    table: str | None

    @classmethod
    def of(cls, on: Securable) -> ScopeOut:
        """Build the answer from an object of grants."""
        return cls(catalog=on.catalog, namespace=list(on.namespace), table=on.table)


class GrantsOut(Out):
    """Privileges on an object and everything in it."""

    on: ScopeOut
    privileges: list[str]


class MeOut(Out):
    """The caller and their privileges. `access` is false if access control is off, which allows everything."""

    access: bool
    name: str | None
    kind: PrincipalKind | None
    roles: list[str]
    grants: list[GrantsOut]
    catalogs: list[str] | None
    """The catalogs that the token is limited to; null if it has no limit."""
    token_id: str | None
    expires_at: datetime | None
    admin: bool


class OidcOut(Out):
    """What a browser needs to sign its user in at the issuer (authorization code with PKCE)."""

    issuer: str
    client_id: str
    scope: str


class LoginOut(Out):
    """The ways to sign in. `access` is false if access control is off."""

    access: bool
    oidc: OidcOut | None


def build_grants_out(grants: list[Grant]) -> list[GrantsOut]:
    """Group grants by their object."""
    gathered: dict[Securable, list[str]] = {}
    for grant in sorted(grants):
        gathered.setdefault(grant.on, []).append(grant.privilege)
    return [GrantsOut(on=ScopeOut.of(on), privileges=names) for on, names in gathered.items()]


@router.get("/login", summary="Show how to sign in")
def show_login(request: Request, services: ServicesDep) -> LoginOut:
    """Show the ways to sign in, for the console. This route needs no token."""
    oidc: dict[str, Any] | None = request.app.state.oidc
    return LoginOut(access=services.access.enabled, oidc=None if oidc is None else OidcOut(**oidc))


@router.get("/me", summary="Show the caller")
def show_me(request: Request) -> MeOut:
    """Show the caller's name, roles and grants."""
    caller: Caller | None = getattr(request.state, "caller", None)
    if caller is None:
        nobody = {"name": None, "kind": None, "token_id": None, "expires_at": None, "catalogs": None}
        return MeOut(access=False, roles=[], grants=[], admin=True, **nobody)
    return MeOut(
        access=True,
        name=caller.principal.name,
        kind=caller.principal.kind,
        roles=sorted(caller.roles),
        grants=build_grants_out(caller.rights.grants),
        catalogs=None if caller.catalogs is None else sorted(caller.catalogs),
        token_id=caller.token_id,
        expires_at=caller.expires_at,
        admin=caller.rights.administers,
    )


@router.get("/users", summary="List users")
def list_users(services: ServicesDep, page: PagingDep) -> PageOut[PrincipalOut]:
    """List users by name."""
    return _list_principals(services, USER, page)


@router.post("/users", status_code=201, summary="Create a user", responses=refusals(400, 409))
def create_user(request: Request, services: ServicesDep, body: UserIn) -> PrincipalOut:
    """Create a user with tokens, or with `subject` one who signs in by OIDC.

    The first sign-in by OIDC creates a user by itself.
    """
    oidc: dict[str, Any] | None = request.app.state.oidc
    issuer = None if oidc is None else oidc["issuer"]
    return PrincipalOut.of(services.access.principals.add_person(body.name, issuer=issuer, subject=body.subject))


@router.get("/users/{name}", summary="Show a user", responses=refusals(404))
def show_user(services: ServicesDep, name: str) -> PrincipalOut:
    """Show a user with their roles."""
    return PrincipalOut.of(services.access.principals.show(name, USER))


@router.delete("/users/{name}", status_code=204, summary="Drop a user", responses=refusals(404, 409))
def drop_user(services: ServicesDep, name: str) -> None:
    """Drop a user and their tokens.

    A user who can still sign in at the issuer returns as a new user: disable such a user instead.
    """
    services.access.principals.remove(name, USER)


@router.post("/users/{name}/disable", summary="Disable a user", responses=refusals(404, 409))
def disable_user(services: ServicesDep, name: str) -> PrincipalOut:
    """Disable a user: the server refuses all their tokens until somebody enables them again."""
    return PrincipalOut.of(services.access.principals.set_disabled(name, USER, disabled=True))


@router.post("/users/{name}/enable", summary="Enable a user", responses=refusals(404))
def enable_user(services: ServicesDep, name: str) -> PrincipalOut:
    """Enable a disabled user."""
    return PrincipalOut.of(services.access.principals.set_disabled(name, USER, disabled=False))


@router.get("/services", summary="List services")
def list_services(services: ServicesDep, page: PagingDep) -> PageOut[PrincipalOut]:
    """List services, such as engines and programs, by name."""
    return _list_principals(services, SERVICE, page)


@router.post("/services", status_code=201, summary="Create a service", responses=refusals(400, 409))
def create_service(services: ServicesDep, body: ServiceIn) -> ServiceSecretOut:
    """Create a service. The answer shows its secret only this once.

    Engines take id and secret as `credential=CLIENT_ID:CLIENT_SECRET`.
    """
    details, secret = services.access.principals.add_service(body.name)
    return _build_with_secret(details, secret.text)


@router.get("/services/{name}", summary="Show a service", responses=refusals(404))
def show_service(services: ServicesDep, name: str) -> PrincipalOut:
    """Show a service with its roles."""
    return PrincipalOut.of(services.access.principals.show(name, SERVICE))


@router.delete("/services/{name}", status_code=204, summary="Drop a service", responses=refusals(404, 409))
def drop_service(services: ServicesDep, name: str) -> None:
    """Drop a service and its tokens."""
    services.access.principals.remove(name, SERVICE)


@router.post("/services/{name}/disable", summary="Disable a service", responses=refusals(404, 409))
def disable_service(services: ServicesDep, name: str) -> PrincipalOut:
    """Disable a service: the server refuses its secret and tokens until somebody enables it again."""
    return PrincipalOut.of(services.access.principals.set_disabled(name, SERVICE, disabled=True))


@router.post("/services/{name}/enable", summary="Enable a service", responses=refusals(404))
def enable_service(services: ServicesDep, name: str) -> PrincipalOut:
    """Enable a disabled service."""
    return PrincipalOut.of(services.access.principals.set_disabled(name, SERVICE, disabled=False))


@router.post("/services/{name}/secret", summary="Rotate a service's secret", responses=refusals(400, 404))
def rotate_client_secret(services: ServicesDep, name: str) -> ServiceSecretOut:
    """Create a new secret. The old secret and every token of the service end at once."""
    details, secret = services.access.principals.rotate_client_secret(name)
    return _build_with_secret(details, secret.text)


@router.put("/roles/{role}/members/{name}", summary="Assign a role", responses=refusals(403, 404))
def assign_role(services: ServicesDep, caller: CallerDep, role: str, name: str) -> PrincipalOut:
    """Assign a role to a user or service. The caller needs every privilege of the role, and `grant` on its objects."""
    return PrincipalOut.of(services.access.principals.assign(caller, RoleName(role), name))


@router.delete("/roles/{role}/members/{name}", summary="Unassign a role", responses=refusals(403, 404, 409))
def unassign_role(services: ServicesDep, caller: CallerDep, role: str, name: str) -> PrincipalOut:
    """Take a role from a user or service. The caller needs the same privileges as for assigning it."""
    return PrincipalOut.of(services.access.principals.unassign(caller, RoleName(role), name))


def _list_principals(services: ServicesDep, kind: PrincipalKind, page: PagingDep) -> PageOut[PrincipalOut]:
    principals = services.access.principals.list(kind, limit=page.size, cursor=page.cursor)
    return PageOut(items=[PrincipalOut.of(details) for details in principals.items], next_cursor=principals.next_cursor)


def _build_with_secret(details: PrincipalDetails, secret: str) -> ServiceSecretOut:
    principal = PrincipalOut.of(details)
    return ServiceSecretOut(**principal.model_dump(), client_id=principal.name, client_secret=secret)


def _describe_role(membership: Membership) -> RoleOfOut:
    return RoleOfOut(role=membership.role, by_claim=membership.by_claim)
