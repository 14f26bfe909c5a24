"""People and services, and how one gets in."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fastapi import APIRouter, Request

from catalog.access.privileges import Caller, Grant, Membership, PrincipalKind, RoleName, Securable
from firn.protocol.base import Request as In
from server.api.deps import CallerDep, Out, PageOut, PagingDep, ServicesDep
from server.api.errors import refusals
from server.service.access.principals import Known

router = APIRouter(tags=["access"])
USER, SERVICE = PrincipalKind.PERSON, PrincipalKind.SERVICE


class RoleOfOut(Out):
    """A role that somebody has; `by_claim` says that the issuer gives it."""

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
    def of(cls, known: Known) -> PrincipalOut:
        """As it is shown."""
        one = known.principal
        issuer, subject = one.subject or (None, None)
        roles = [_role(role) for role in known.roles]
        plain = {name: getattr(one, name) for name in ("name", "kind", "disabled", "created_at")}
        return cls(**plain, issuer=issuer, subject=subject, roles=roles)


class ServiceSecretOut(PrincipalOut):
    """A service with its client secret, which is shown this once."""

    client_id: str
    client_secret: str


class UserIn(In):
    """A user to be created; with a subject they sign in by OIDC, the issuer is the server's."""

    name: str
    subject: str | None = None


class ServiceIn(In):
    """A service to be created; its name is its client id."""

    name: str


class ScopeOut(Out):
    """Something that privileges are granted on; all null is the server itself."""

    catalog: str | None
    namespace: list[str]
    table: str | None

    @classmethod
    def of(cls, on: Securable) -> ScopeOut:
        """As it is shown."""
        return cls(catalog=on.catalog, namespace=list(on.namespace), table=on.table)


class GrantsOut(Out):
    """Privileges on one thing and all that lies in it."""

    on: ScopeOut
    privileges: list[str]


class MeOut(Out):
    """Who is asking and what they may do; `access` is false on a server that lets everybody do everything."""

    access: bool
    name: str | None
    kind: PrincipalKind | None
    roles: list[str]
    grants: list[GrantsOut]
    catalogs: list[str] | None
    """What the token is limited to; null means that it is not."""
    token_id: str | None
    expires_at: datetime | None
    admin: bool


class OidcOut(Out):
    """What a browser needs to sign its user in at the issuer (authorization code with PKCE)."""

    issuer: str
    client_id: str
    scope: str


class LoginOut(Out):
    """How one gets in."""

    access: bool
    oidc: OidcOut | None


def grants_out(grants: list[Grant]) -> list[GrantsOut]:
    """Grants gathered by what they are on."""
    gathered: dict[Securable, list[str]] = {}
    for grant in sorted(grants):
        gathered.setdefault(grant.on, []).append(grant.privilege)
    return [GrantsOut(on=ScopeOut.of(on), privileges=names) for on, names in gathered.items()]


@router.get("/login", summary="Say how to get in")
def show_login(request: Request, services: ServicesDep) -> LoginOut:
    """For the console; asked before anybody has said who they are."""
    oidc: dict[str, Any] | None = request.app.state.oidc
    return LoginOut(access=services.access.enabled, oidc=None if oidc is None else OidcOut(**oidc))


@router.get("/me", summary="Say who is asking")
def show_me(request: Request) -> MeOut:
    """Name, roles and everything that they may do."""
    caller: Caller | None = getattr(request.state, "caller", None)
    if caller is None:
        nobody = {"name": None, "kind": None, "token_id": None, "expires_at": None, "catalogs": None}
        return MeOut(access=False, roles=[], grants=[], admin=True, **nobody)
    return MeOut(
        access=True,
        name=caller.principal.name,
        kind=caller.principal.kind,
        roles=sorted(caller.roles),
        grants=grants_out(caller.rights.grants),
        catalogs=None if caller.catalogs is None else sorted(caller.catalogs),
        token_id=caller.token_id,
        expires_at=caller.expires_at,
        admin=caller.rights.administers,
    )


@router.get("/users", summary="List users")
def list_users(services: ServicesDep, page: PagingDep) -> PageOut[PrincipalOut]:
    """People, by name."""
    return _listed(services, USER, page)


@router.post("/users", status_code=201, summary="Create a user", responses=refusals(400, 409))
def create_user(request: Request, services: ServicesDep, body: UserIn) -> PrincipalOut:
    """Somebody with tokens, or with `subject` who signs in by OIDC. Who just signs in there needs no creating."""
    oidc: dict[str, Any] | None = request.app.state.oidc
    issuer = None if oidc is None else oidc["issuer"]
    return PrincipalOut.of(services.access.principals.add_person(body.name, issuer=issuer, subject=body.subject))


@router.get("/users/{name}", summary="Show a user", responses=refusals(404))
def show_user(services: ServicesDep, name: str) -> PrincipalOut:
    """One, with their roles."""
    return PrincipalOut.of(services.access.principals.show(name, USER))


@router.delete("/users/{name}", status_code=204, summary="Drop a user", responses=refusals(404, 409))
def drop_user(services: ServicesDep, name: str) -> None:
    """With their tokens. Whoever can still sign in at the issuer comes back as a new user: disable them instead."""
    services.access.principals.remove(name, USER)


@router.post("/users/{name}/disable", summary="Disable a user", responses=refusals(404, 409))
def disable_user(services: ServicesDep, name: str) -> PrincipalOut:
    """None of their tokens opens anything until they are enabled again."""
    return PrincipalOut.of(services.access.principals.set_disabled(name, USER, disabled=True))


@router.post("/users/{name}/enable", summary="Enable a user", responses=refusals(404))
def enable_user(services: ServicesDep, name: str) -> PrincipalOut:
    """Undo a disabling."""
    return PrincipalOut.of(services.access.principals.set_disabled(name, USER, disabled=False))


@router.get("/services", summary="List services")
def list_services(services: ServicesDep, page: PagingDep) -> PageOut[PrincipalOut]:
    """Engines and programs, by name."""
    return _listed(services, SERVICE, page)


@router.post("/services", status_code=201, summary="Create a service", responses=refusals(400, 409))
def create_service(services: ServicesDep, body: ServiceIn) -> ServiceSecretOut:
    """Its client secret is shown this once; engines take both as `credential=CLIENT_ID:CLIENT_SECRET`."""
    known, secret = services.access.principals.add_service(body.name)
    return _with_secret(known, secret.text)


@router.get("/services/{name}", summary="Show a service", responses=refusals(404))
def show_service(services: ServicesDep, name: str) -> PrincipalOut:
    """One, with its roles."""
    return PrincipalOut.of(services.access.principals.show(name, SERVICE))


@router.delete("/services/{name}", status_code=204, summary="Drop a service", responses=refusals(404, 409))
def drop_service(services: ServicesDep, name: str) -> None:
    """With its tokens."""
    services.access.principals.remove(name, SERVICE)


@router.post("/services/{name}/disable", summary="Disable a service", responses=refusals(404, 409))
def disable_service(services: ServicesDep, name: str) -> PrincipalOut:
    """Neither its secret nor its tokens open anything until it is enabled again."""
    return PrincipalOut.of(services.access.principals.set_disabled(name, SERVICE, disabled=True))


@router.post("/services/{name}/enable", summary="Enable a service", responses=refusals(404))
def enable_service(services: ServicesDep, name: str) -> PrincipalOut:
    """Undo a disabling."""
    return PrincipalOut.of(services.access.principals.set_disabled(name, SERVICE, disabled=False))


@router.post("/services/{name}/secret", summary="Give a service another secret", responses=refusals(400, 404))
def new_client_secret(services: ServicesDep, name: str) -> ServiceSecretOut:
    """The old secret, and every token of the service, end at once."""
    known, secret = services.access.principals.new_client_secret(name)
    return _with_secret(known, secret.text)


@router.put("/roles/{role}/members/{name}", summary="Give somebody a role", responses=refusals(403, 404))
def assign_role(services: ServicesDep, caller: CallerDep, role: str, name: str) -> PrincipalOut:
    """A user or a service; takes everything that the role gives, and `grant` on all of it."""
    return PrincipalOut.of(services.access.principals.assign(caller, RoleName(role), name))


@router.delete("/roles/{role}/members/{name}", summary="Take a role from somebody", responses=refusals(403, 404, 409))
def unassign_role(services: ServicesDep, caller: CallerDep, role: str, name: str) -> PrincipalOut:
    """Takes the same as giving it."""
    return PrincipalOut.of(services.access.principals.unassign(caller, RoleName(role), name))


def _listed(services: ServicesDep, kind: PrincipalKind, page: PagingDep) -> PageOut[PrincipalOut]:
    found = services.access.principals.list(kind, limit=page.size, cursor=page.cursor)
    return PageOut(items=[PrincipalOut.of(one) for one in found.items], next_cursor=found.next_cursor)


def _with_secret(known: Known, secret: str) -> ServiceSecretOut:
    shown = PrincipalOut.of(known)
    return ServiceSecretOut(**shown.model_dump(), client_id=shown.name, client_secret=secret)


def _role(membership: Membership) -> RoleOfOut:
    return RoleOfOut(role=membership.role, by_claim=membership.by_claim)
