"""Principals: the users and services that may have roles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from uuid import uuid4

from catalog.access.privileges import (
    ADMIN,
    BUILTIN_ROLES,
    Caller,
    Membership,
    Principal,
    PrincipalId,
    PrincipalKind,
    Role,
    RoleName,
    parse_identifier,
)
from catalog.access.tokens import Secret, Token, TokenKind, create_secret
from catalog.errors import AlreadyExists, Conflict, Invalid, NotFound
from catalog.ports.page import Page
from catalog.ports.store import Database, UnitOfWork
from server.service.access.roles import find_to_give, knows_members
from server.service.access.token_check import TokenChecker

FIRST_ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrincipalDetails:
    """A principal and its roles."""

    principal: Principal
    roles: list[Membership]


@dataclass(frozen=True)
class PrincipalDirectory:
    """Manages the principals."""

    database: Database
    token_checker: TokenChecker

    def add_person(self, name: str, *, issuer: str | None = None, subject: str | None = None) -> PrincipalDetails:
        """Add a user; with the `subject` that the OIDC issuer gives the person, they sign in by OIDC.

        Raises AlreadyExists when another principal has the name.
        """
        if subject is not None and issuer is None:
            raise Invalid("a subject needs an issuer, and this server has none", hint="set access.oidc_issuer")
        identity = None if issuer is None or subject is None else (issuer, subject)
        return self._add(name, PrincipalKind.PERSON, identity, None)

    def add_service(self, name: str) -> tuple[PrincipalDetails, Secret]:
        """Add a service and return its client secret, which the server shows only once."""
        secret = create_secret()
        return self._add(name, PrincipalKind.SERVICE, None, secret), secret

    def rotate_client_secret(self, name: str) -> tuple[PrincipalDetails, Secret]:
        """Replace the client secret of a service; the old secret and all tokens of the service end at once."""
        secret = create_secret()
        with self.database.writing() as uow:
            service = _get_of_kind(uow, name, PrincipalKind.SERVICE)
            uow.principals.put(replace(service, secret_hash=secret.hash))
            uow.tokens.revoke_all(service.id, None, uow.now())
            details = _load_details(uow, service)
        self.token_checker.clear_cache()
        return details, secret

    def show(self, name: str, kind: PrincipalKind) -> PrincipalDetails:
        """One principal; raises NotFound, or Invalid for the wrong kind."""
        with self.database.reading() as uow:
            return _load_details(uow, _get_of_kind(uow, name, kind))

    def list(self, kind: PrincipalKind, *, limit: int, cursor: str | None) -> Page[PrincipalDetails]:
        """The principals of a kind, by name."""
        with self.database.reading() as uow:
            page = uow.principals.list(kind, limit=limit, cursor=cursor)
            return Page([_load_details(uow, principal) for principal in page.items], page.next_cursor)

    def set_disabled(self, name: str, kind: PrincipalKind, *, disabled: bool) -> PrincipalDetails:
        """Disable or enable a principal and its tokens; raises Conflict for the last administrator."""
        with self.database.writing() as uow:
            principal = _get_of_kind(uow, name, kind)
            if disabled:
                _check_not_last_admin(uow, principal.id)
            changed = replace(principal, disabled=disabled)
            uow.principals.put(changed)
            details = _load_details(uow, changed)
        self.token_checker.clear_cache()
        return details

    def remove(self, name: str, kind: PrincipalKind) -> None:
        """Remove a principal and its tokens; raises Conflict for the last administrator."""
        with self.database.writing() as uow:
            principal = _get_of_kind(uow, name, kind)
            _check_not_last_admin(uow, principal.id)
            uow.principals.remove(principal.id)
        self.token_checker.clear_cache()

    def assign(self, caller: Caller, role: RoleName, name: str) -> PrincipalDetails:
        """Give a role to a principal; raises Forbidden unless the caller may pass on all privileges of the role."""
        with self.database.writing() as uow:
            find_to_give(uow, caller, role)
            principal = uow.principals.get(name)
            uow.roles.assign(principal.id, Membership(role=role))
            details = _load_details_for(uow, caller, principal)
        self.token_checker.clear_cache()
        return details

    def unassign(self, caller: Caller, role: RoleName, name: str) -> PrincipalDetails:
        """Take a role from a principal.

        Raises Forbidden as `assign`, and Conflict for the last administrator or for a role that the issuer gives.
        """
        with self.database.writing() as uow:
            find_to_give(uow, caller, role)
            principal = uow.principals.get(name)
            if Membership(role=role, by_claim=True) in uow.roles.of(principal.id):
                raise Conflict(f"{name} has the role {role} from the issuer", hint="change the group there")
            if role == ADMIN:
                _check_not_last_admin(uow, principal.id)
            uow.roles.unassign(principal.id, Membership(role=role))
            details = _load_details_for(uow, caller, principal)
        self.token_checker.clear_cache()
        return details

    def create_first_admin(self) -> Secret | None:
        """Create the built-in roles and, without any administrator, the first one; return its token."""
        try:
            with self.database.writing() as uow:
                _ensure_roles(uow)
                return None if _list_admins(uow) else _create_admin_token(uow)
        except AlreadyExists:  # another server was faster, and prints the token
            return None

    def create_admin_token(self) -> Secret:
        """Replace all tokens of the administrator `admin` by a new one, and create the principal if it is missing."""
        with self.database.writing() as uow:
            _ensure_roles(uow)
            secret = _create_admin_token(uow)
        self.token_checker.clear_cache()
        return secret

    def create_service_token(self, name: str, role: RoleName | None) -> Secret:
        """Replace all tokens of a service by a new one, and create the service if it is missing.

        The command line of the server's machine calls this.
        """
        with self.database.writing() as uow:
            _ensure_roles(uow)
            now = uow.now()
            try:
                service = _get_of_kind(uow, name, PrincipalKind.SERVICE)
                uow.tokens.revoke_all(service.id, None, now)
            except NotFound:
                kind = PrincipalKind.SERVICE
                service = Principal(
                    id=PrincipalId(uuid4()), name=parse_identifier(name, kind), kind=kind, created_at=now
                )
                uow.principals.add(service)
            if role is not None:
                uow.roles.assign(service.id, Membership(role=uow.roles.get(role).name))
            return _create_endless_token(uow, service.id, "made on the server's machine")

    def _add(
        self, name: str, kind: PrincipalKind, subject: tuple[str, str] | None, secret: Secret | None
    ) -> PrincipalDetails:
        with self.database.writing() as uow:
            principal = Principal(
                id=PrincipalId(uuid4()),
                name=parse_identifier(name, kind),
                kind=kind,
                created_at=uow.now(),
                subject=subject,
                secret_hash=None if secret is None else secret.hash,
            )
            uow.principals.add(principal)
        return PrincipalDetails(principal=principal, roles=[])


def _load_details(uow: UnitOfWork, principal: Principal) -> PrincipalDetails:
    return PrincipalDetails(principal=principal, roles=list(uow.roles.of(principal.id)))


def _load_details_for(uow: UnitOfWork, caller: Caller, principal: Principal) -> PrincipalDetails:
    """The principal as the caller may see it: without administration, only with roles that the caller may give."""
    details = _load_details(uow, principal)
    if caller.rights.administers:
        return details
    roles = [membership for membership in details.roles if knows_members(caller, uow.roles.get(membership.role))]
    return PrincipalDetails(principal=replace(principal, subject=None), roles=roles)


def _get_of_kind(uow: UnitOfWork, name: str, kind: PrincipalKind) -> Principal:
    principal = uow.principals.get(name)
    if principal.kind is not kind:
        raise Invalid(f"{name!r} is a {principal.kind}, not a {kind}")
    return principal


def _list_admins(uow: UnitOfWork) -> list[PrincipalId]:
    """The enabled administrators of the server."""
    members = (uow.principals.find(principal_id) for principal_id in uow.roles.members(ADMIN))
    return [member.id for member in members if member is not None and not member.disabled]


def _check_not_last_admin(uow: UnitOfWork, principal_id: PrincipalId) -> None:
    if _list_admins(uow) == [principal_id]:
        raise Conflict("this is the last administrator of the server", hint="give the role admin to another user first")


def _ensure_roles(uow: UnitOfWork) -> None:
    existing = {role.name for role in uow.roles.list()}
    for name, (description, grants) in BUILTIN_ROLES.items():
        if name not in existing:
            uow.roles.add(Role(name=name, description=description, created_at=uow.now(), grants=grants))


def _create_admin_token(uow: UnitOfWork) -> Secret:
    now = uow.now()
    try:
        admin = replace(uow.principals.get(FIRST_ADMIN), disabled=False)
        uow.principals.put(admin)
        uow.tokens.revoke_all(admin.id, None, now)
    except NotFound:
        admin = Principal(id=PrincipalId(uuid4()), name=FIRST_ADMIN, kind=PrincipalKind.PERSON, created_at=now)
        uow.principals.add(admin)
    uow.roles.assign(admin.id, Membership(role=ADMIN))
    return _create_endless_token(uow, admin.id, "first administrator")


def _create_endless_token(uow: UnitOfWork, owner: PrincipalId, name: str) -> Secret:
    secret = create_secret()
    token = Token(
        id=secret.id,
        kind=TokenKind.BEARER,
        owner=owner,
        name=name,
        hash=secret.hash,
        created_at=uow.now(),
        expires_at=None,
    )
    uow.tokens.add(token)
    return secret
