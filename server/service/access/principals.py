"""People and services: who may be given roles."""

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
class Known:
    """A principal and their roles."""

    principal: Principal
    roles: list[Membership]


@dataclass(frozen=True)
class PrincipalDirectory:
    """The principals of one server."""

    database: Database
    token_checker: TokenChecker

    def add_person(self, name: str, *, issuer: str | None = None, subject: str | None = None) -> Known:
        """AlreadyExists when the name is taken. `subject` is who they are to the issuer: then they come by OIDC."""
        if subject is not None and issuer is None:
            raise Invalid("this server has no issuer that the subject could be of", hint="set access.oidc_issuer")
        known = None if issuer is None or subject is None else (issuer, subject)
        return self._added(name, PrincipalKind.PERSON, known, None)

    def add_service(self, name: str) -> tuple[Known, Secret]:
        """A service and its client secret, seen only now."""
        secret = create_secret()
        return self._added(name, PrincipalKind.SERVICE, None, secret), secret

    def rotate_client_secret(self, name: str) -> tuple[Known, Secret]:
        """Another secret for a service: the old one and every token of the service end at once."""
        secret = create_secret()
        with self.database.writing() as uow:
            service = _of_kind(uow, name, PrincipalKind.SERVICE)
            uow.principals.put(replace(service, secret_hash=secret.hash))
            uow.tokens.revoke_all(service.id, None, uow.now())
            known = _known(uow, service)
        self.token_checker.forget()
        return known, secret

    def show(self, name: str, kind: PrincipalKind) -> Known:
        """NotFound when there is none of this kind."""
        with self.database.reading() as uow:
            return _known(uow, _of_kind(uow, name, kind))

    def list(self, kind: PrincipalKind, *, limit: int, cursor: str | None) -> Page[Known]:
        """By name."""
        with self.database.reading() as uow:
            page = uow.principals.list(kind, limit=limit, cursor=cursor)
            return Page([_known(uow, one) for one in page.items], page.next_cursor)

    def set_disabled(self, name: str, kind: PrincipalKind, *, disabled: bool) -> Known:
        """A disabled principal's tokens open nothing; Conflict for the last administrator."""
        with self.database.writing() as uow:
            principal = _of_kind(uow, name, kind)
            if disabled:
                _check_not_last_admin(uow, principal.id)
            changed = replace(principal, disabled=disabled)
            uow.principals.put(changed)
            known = _known(uow, changed)
        self.token_checker.forget()
        return known

    def remove(self, name: str, kind: PrincipalKind) -> None:
        """With their tokens; Conflict for the last administrator."""
        with self.database.writing() as uow:
            principal = _of_kind(uow, name, kind)
            _check_not_last_admin(uow, principal.id)
            uow.principals.remove(principal.id)
        self.token_checker.forget()

    def assign(self, caller: Caller, role: RoleName, name: str) -> Known:
        """Forbidden unless the caller may pass on everything that the role gives."""
        with self.database.writing() as uow:
            find_to_give(uow, caller, role)
            principal = uow.principals.get(name)
            uow.roles.assign(principal.id, Membership(role=role))
            known = _known_to(uow, caller, principal)
        self.token_checker.forget()
        return known

    def unassign(self, caller: Caller, role: RoleName, name: str) -> Known:
        """Conflict for the last administrator, and for a role that the issuer gives: it would be back in no time."""
        with self.database.writing() as uow:
            find_to_give(uow, caller, role)
            principal = uow.principals.get(name)
            if Membership(role=role, by_claim=True) in uow.roles.of(principal.id):
                raise Conflict(f"{name} has the role {role} from the issuer", hint="change the group there")
            if role == ADMIN:
                _check_not_last_admin(uow, principal.id)
            uow.roles.unassign(principal.id, Membership(role=role))
            known = _known_to(uow, caller, principal)
        self.token_checker.forget()
        return known

    def create_first_admin(self) -> Secret | None:
        """Roles that come with the server, and the first administrator's token if nobody administers it yet."""
        try:
            with self.database.writing() as uow:
                _ensure_roles(uow)
                return None if _admins(uow) else _admin_token(uow)
        except AlreadyExists:  # another server was faster, and prints the token
            return None

    def create_admin_token(self) -> Secret:
        """For who has lost all others: the administrator `admin`, made if need be, with one new token."""
        with self.database.writing() as uow:
            _ensure_roles(uow)
            secret = _admin_token(uow)
        self.token_checker.forget()
        return secret

    def create_service_token(self, name: str, role: RoleName | None) -> Secret:
        """For who has the data directory: a service, made if need be, with one new token."""
        with self.database.writing() as uow:
            _ensure_roles(uow)
            now = uow.now()
            try:
                service = _of_kind(uow, name, PrincipalKind.SERVICE)
                uow.tokens.revoke_all(service.id, None, now)
            except NotFound:
                kind = PrincipalKind.SERVICE
                service = Principal(
                    id=PrincipalId(uuid4()), name=parse_identifier(name, kind), kind=kind, created_at=now
                )
                uow.principals.add(service)
            if role is not None:
                uow.roles.assign(service.id, Membership(role=uow.roles.get(role).name))
            return _endless_token(uow, service.id, "made on the server's machine")

    def _added(self, name: str, kind: PrincipalKind, subject: tuple[str, str] | None, secret: Secret | None) -> Known:
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
        return Known(principal=principal, roles=[])


def _known(uow: UnitOfWork, principal: Principal) -> Known:
    return Known(principal=principal, roles=list(uow.roles.of(principal.id)))


def _known_to(uow: UnitOfWork, caller: Caller, principal: Principal) -> Known:
    """As far as the caller may know them: who only gives roles learns of those that they may give."""
    known = _known(uow, principal)
    if caller.rights.administers:
        return known
    roles = [one for one in known.roles if knows_members(caller, uow.roles.get(one.role))]
    return Known(principal=replace(principal, subject=None), roles=roles)


def _of_kind(uow: UnitOfWork, name: str, kind: PrincipalKind) -> Principal:
    principal = uow.principals.get(name)
    if principal.kind is not kind:
        raise Invalid(f"{name!r} is a {principal.kind}, not a {kind}")
    return principal


def _admins(uow: UnitOfWork) -> list[PrincipalId]:
    """Those who administer the server now."""
    found = (uow.principals.find(one) for one in uow.roles.members(ADMIN))
    return [one.id for one in found if one is not None and not one.disabled]


def _check_not_last_admin(uow: UnitOfWork, principal_id: PrincipalId) -> None:
    if _admins(uow) == [principal_id]:
        raise Conflict("nobody would administer the server any more", hint="give somebody else the role admin first")


def _ensure_roles(uow: UnitOfWork) -> None:
    known = {role.name for role in uow.roles.list()}
    for name, (description, grants) in BUILTIN_ROLES.items():
        if name not in known:
            uow.roles.add(Role(name=name, description=description, created_at=uow.now(), grants=grants))


def _admin_token(uow: UnitOfWork) -> Secret:
    now = uow.now()
    try:
        admin = replace(uow.principals.get(FIRST_ADMIN), disabled=False)
        uow.principals.put(admin)
        uow.tokens.revoke_all(admin.id, None, now)
    except NotFound:
        admin = Principal(id=PrincipalId(uuid4()), name=FIRST_ADMIN, kind=PrincipalKind.PERSON, created_at=now)
        uow.principals.add(admin)
    uow.roles.assign(admin.id, Membership(role=ADMIN))
    return _endless_token(uow, admin.id, "first administrator")


def _endless_token(uow: UnitOfWork, owner: PrincipalId, name: str) -> Secret:
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
