"""Giving out tokens, exchanging them, and taking them back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from catalog.access.privileges import Caller, Principal, PrincipalId, RoleName, Securable
from catalog.access.tokens import Secret, Token, TokenKind, compute_exchange_end, create_secret, parse_secret
from catalog.errors import Forbidden, Invalid, NoSuchCatalog, NotFound, Unauthenticated
from catalog.names import CatalogName
from catalog.ports.page import Page
from catalog.ports.store import Database, UnitOfWork
from server.service.access.token_check import TokenChecker, check_enabled, check_not_ended, check_token

T = TypeVar("T", RoleName, CatalogName)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenTimes:
    """How long tokens live."""

    access: timedelta
    default: timedelta
    longest: timedelta
    exchanges: timedelta
    """How long after its first token a chain of exchanges goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    """What a token is wanted for."""

    name: str
    owner: str | None = None
    """Whose it is to be; None means the caller's own."""
    roles: Sequence[RoleName] | None = None
    catalogs: Sequence[CatalogName] | None = None
    expires_in: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """A token, and the only sight of its secret."""

    token: Token
    owner: str
    secret: Secret


@dataclass(frozen=True)
class Tokens:
    """Tokens of one server."""

    database: Database
    token_checker: TokenChecker
    times: TokenTimes

    def create(self, caller: Caller, request: TokenRequest) -> Issued:
        """A bearer token; it can do no more than the caller's own, and ends with the one that it is made with.

        Forbidden for a token of somebody else, unless the caller administers the server.
        """
        if not request.name.strip():
            raise Invalid("a token needs a name", hint="say what it is for, for example `nightly load`")
        secret = create_secret()
        with self.database.writing() as uow:
            now = uow.now()
            owner = _owner(uow, caller, request.owner)
            own = owner.id == caller.principal.id
            if own and caller.token_id is not None:
                check_not_ended(uow.tokens.find_parent(caller.token_id), now)  # the caller is remembered for seconds
            _check_known(uow, caller, request)
            token = Token(
                id=secret.id,
                kind=TokenKind.BEARER,
                owner=owner.id,
                name=request.name.strip(),
                hash=secret.hash,
                created_at=now,
                expires_at=self._end(caller, request, now, own=own),
                roles=_narrowed(request.roles, caller.only_roles, caller.roles if own else None),
                catalogs=_narrowed(request.catalogs, caller.catalogs, caller.catalogs if own else None),
                origin=caller.token_id if own else None,
            )
            uow.tokens.add(token)
        return Issued(token=token, owner=owner.name, secret=secret)

    def list(
        self, caller: Caller, owner: str | None, kind: TokenKind | None, *, limit: int, cursor: str | None
    ) -> tuple[Page[Token], dict[PrincipalId, str]]:
        """The caller's own, or those of one owner or (`*`) of all for who administers the server; and owners' names."""
        with self.database.reading() as uow:
            whose = None if owner == "*" else _owner(uow, caller, owner).id
            if owner == "*" and not caller.rights.administers:
                raise _not_an_admin()
            page = uow.tokens.list(whose, kind, limit=limit, cursor=cursor)
            return page, dict(uow.principals.names({token.owner for token in page.items}))

    def revoke(self, caller: Caller, token_id: str) -> None:
        """With all that come from it: at once on this server, within seconds on others.

        NotFound for somebody else's, unless one administers.
        """
        with self.database.writing() as uow:
            token = uow.tokens.find(token_id)
            others = token is not None and token.owner != caller.principal.id
            if token is None or (others and not caller.rights.administers):
                raise NotFound(f"there is no token {token_id}", hint="see yours with `firn token list`")
            uow.tokens.revoke(token_id, uow.now())
        self.token_checker.forget()

    def issue_for_client(self, client_id: str, client_secret: str) -> Issued:
        """A short-lived token for a service; Unauthenticated when its secret is not this one."""
        with self.database.reading() as uow:  # most wrong secrets cost no more than this
            _service_of(uow, client_id, client_secret)
        with self.database.writing() as uow:
            service, now = _service_of(uow, client_id, client_secret), uow.now()
            return self._short_lived(uow, service, None, compute_exchange_end(now, self.times.exchanges, None))

    def exchange(self, subject_token: str) -> Issued:
        """A fresh short-lived token for a good one; Unauthenticated when that is not good (any more).

        It ends with the one that it was exchanged for, when that is revoked, and no later than what the first of the
        chain was given for: a client's secret (for `times.exchanges`), a bearer token or one of the issuer.
        """
        given = parse_secret(subject_token)
        if given is None:
            caller = self.token_checker.check(subject_token)
            with self.database.writing() as uow:
                until = compute_exchange_end(uow.now(), self.times.exchanges, None, caller.expires_at)
                return self._short_lived(uow, check_enabled(uow.principals.find(caller.principal.id)), None, until)
        with self.database.writing() as uow:
            now = uow.now()
            token = check_token(uow, given, now)
            check_not_ended(uow.tokens.find_parent(token.id), now)
            until = compute_exchange_end(now, self.times.exchanges, token)
            return self._short_lived(uow, check_enabled(uow.principals.find(token.owner)), token, until)

    def _short_lived(self, uow: UnitOfWork, owner: Principal, of: Token | None, until: datetime) -> Issued:
        secret, now = create_secret(), uow.now()
        token = Token(
            id=secret.id,
            kind=TokenKind.ACCESS,
            owner=owner.id,
            name=f"access of {owner.name}" if of is None else of.name,
            hash=secret.hash,
            created_at=now,
            expires_at=min(now + self.times.access, until),
            roles=None if of is None else of.roles,
            catalogs=None if of is None else of.catalogs,
            origin=None if of is None else of.id,
            renewable_until=until,
        )
        uow.tokens.add(token)
        return Issued(token=token, owner=owner.name, secret=secret)

    def _end(self, caller: Caller, request: TokenRequest, now: datetime, *, own: bool) -> datetime:
        expires_in = request.expires_in or self.times.default
        if expires_in > self.times.longest:
            raise Invalid(f"a token lasts at most {self.times.longest.days} days", hint="ask for less")
        latest = caller.expires_at if own and caller.token_id is not None else None
        ends = now + expires_in
        if latest is None or ends <= latest:
            return ends
        if request.expires_in is not None:
            raise Invalid("a token cannot outlive the one it is made with", hint=f"that one ends at {latest:%F %T} UTC")
        return latest


def _owner(uow: UnitOfWork, caller: Caller, name: str | None) -> Principal:
    if name is None or name in (caller.principal.name, "*"):
        return caller.principal
    if not caller.rights.administers:
        raise _not_an_admin()
    return uow.principals.get(name)


def _not_an_admin() -> Forbidden:
    return Forbidden("other people's tokens need `grant` on the server", hint="ask an administrator")


def _service_of(uow: UnitOfWork, client_id: str, client_secret: str) -> Principal:
    given = parse_secret(client_secret)
    try:
        service = uow.principals.get(client_id)
    except NotFound:
        service = None
    kept = None if service is None else service.secret_hash
    if service is None or kept is None or given is None or not given.matches(kept) or service.disabled:
        raise Unauthenticated("client id and secret do not fit")
    return service


def _check_known(uow: UnitOfWork, caller: Caller, request: TokenRequest) -> None:
    """A typo would make a token that opens nothing. What the caller may not see is as unknown as a typo."""
    for role in request.roles or ():
        if role not in caller.roles and caller.rights.grants_anything:  # others are told that they do not have it
            uow.roles.get(role)
    for catalog in request.catalogs or ():
        if not caller.rights.sees(Securable(catalog)):
            raise NoSuchCatalog(f"catalog {catalog!r} does not exist")
        uow.catalogs.get(catalog)


def _narrowed(
    wanted: Sequence[T] | None, limit: frozenset[T] | None, most: frozenset[T] | None
) -> tuple[T, ...] | None:
    """What a token is limited to: as asked, within `most`, or else as the one that it is made with."""
    if wanted is None:
        return None if limit is None else tuple(sorted(limit))
    beyond = [] if most is None else [one for one in wanted if one not in most]
    if beyond:
        raise Forbidden(f"a token for {beyond[0]!r} cannot be made by one who does not have it")
    return tuple(wanted)
