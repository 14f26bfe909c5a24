"""Issues, exchanges, lists and revokes tokens."""

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
    """The lifetimes of tokens."""

    access: timedelta
    default: timedelta
    longest: timedelta
    exchanges: timedelta
    """How long a chain of exchanges may continue after its first token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    """The properties of a requested token."""

    name: str
    owner: str | None = None
    """The name of the owner; None means the caller."""
    roles: Sequence[RoleName] | None = None
    catalogs: Sequence[CatalogName] | None = None
    expires_in: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """A new token with its secret, which the server shows only once."""

    token: Token
    owner: str
    secret: Secret


@dataclass(frozen=True)
class Tokens:
    """Manages tokens."""

    database: Database
    token_checker: TokenChecker
    times: TokenTimes

    def create(self, caller: Caller, request: TokenRequest) -> Issued:
        """Create a bearer token; it has at most the rights of the caller's token, and ends with it.

        Raises Forbidden for a token of another owner, unless the caller administers the server.
        """
        if not request.name.strip():
            raise Invalid("a token needs a name", hint="name its purpose, for example `nightly load`")
        secret = create_secret()
        with self.database.writing() as uow:
            now = uow.now()
            owner = _get_owner(uow, caller, request.owner)
            own = owner.id == caller.principal.id
            if own and caller.token_id is not None:
                check_not_ended(uow.tokens.find_parent(caller.token_id), now)  # the caller comes from a cache
            _check_known(uow, caller, request)
            token = Token(
                id=secret.id,
                kind=TokenKind.BEARER,
                owner=owner.id,
                name=request.name.strip(),
                hash=secret.hash,
                created_at=now,
                expires_at=self._end(caller, request, now, own=own),
                roles=_limit(request.roles, caller.only_roles, caller.roles if own else None),
                catalogs=_limit(request.catalogs, caller.catalogs, caller.catalogs if own else None),
                origin=caller.token_id if own else None,
            )
            uow.tokens.add(token)
        return Issued(token=token, owner=owner.name, secret=secret)

    def list(
        self, caller: Caller, owner: str | None, kind: TokenKind | None, *, limit: int, cursor: str | None
    ) -> tuple[Page[Token], dict[PrincipalId, str]]:
        """A page of tokens, and the names of their owners.

        An administrator may list the tokens of another owner, or of all (`*`); other callers list their own.
        """
        with self.database.reading() as uow:
            owner_id = None if owner == "*" else _get_owner(uow, caller, owner).id
            if owner == "*" and not caller.rights.administers:
                raise _not_an_admin()
            page = uow.tokens.list(owner_id, kind, limit=limit, cursor=cursor)
            return page, dict(uow.principals.names({token.owner for token in page.items}))

    def revoke(self, caller: Caller, token_id: str) -> None:
        """Revoke a token and all tokens derived from it: at once on this server, within seconds on others.

        Raises NotFound for a token of another owner, unless the caller administers the server.
        """
        with self.database.writing() as uow:
            token = uow.tokens.find(token_id)
            is_foreign = token is not None and token.owner != caller.principal.id
            if token is None or (is_foreign and not caller.rights.administers):
                raise NotFound(f"there is no token {token_id}", hint="list your tokens with `firn token list`")
            uow.tokens.revoke(token_id, uow.now())
        self.token_checker.clear_cache()

    def issue_for_client(self, client_id: str, client_secret: str) -> Issued:
        """Issue an access token to a service; raises Unauthenticated for a wrong secret."""
        with self.database.reading() as uow:  # so that wrong secrets cost no write transaction
            _check_client(uow, client_id, client_secret)
        with self.database.writing() as uow:
            service, now = _check_client(uow, client_id, client_secret), uow.now()
            return self._issue_access_token(uow, service, None, compute_exchange_end(now, self.times.exchanges, None))

    def exchange(self, subject_token: str) -> Issued:
        """Exchange a valid token for a new access token; raises Unauthenticated when the token is not valid.

        The new token ends when the exchanged token is revoked. A chain of exchanges ends with its start: with a bearer
        token or a token of the issuer, or `times.exchanges` after the use of a client secret.
        """
        secret = parse_secret(subject_token)
        if secret is None:
            caller = self.token_checker.check(subject_token)
            with self.database.writing() as uow:
                until = compute_exchange_end(uow.now(), self.times.exchanges, None, caller.expires_at)
                owner = check_enabled(uow.principals.find(caller.principal.id))
                return self._issue_access_token(uow, owner, None, until)
        with self.database.writing() as uow:
            now = uow.now()
            token = check_token(uow, secret, now)
            check_not_ended(uow.tokens.find_parent(token.id), now)
            until = compute_exchange_end(now, self.times.exchanges, token)
            return self._issue_access_token(uow, check_enabled(uow.principals.find(token.owner)), token, until)

    def _issue_access_token(self, uow: UnitOfWork, owner: Principal, of: Token | None, until: datetime) -> Issued:
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
            raise Invalid(f"a token lasts at most {self.times.longest.days} days", hint="request a shorter lifetime")
        latest = caller.expires_at if own and caller.token_id is not None else None
        expires_at = now + expires_in
        if latest is None or expires_at <= latest:
            return expires_at
        if request.expires_in is not None:
            raise Invalid(
                "the new token cannot outlive your current token", hint=f"your token ends at {latest:%F %T} UTC"
            )
        return latest


def _get_owner(uow: UnitOfWork, caller: Caller, name: str | None) -> Principal:
    if name is None or name in (caller.principal.name, "*"):
        return caller.principal
    if not caller.rights.administers:
        raise _not_an_admin()
    return uow.principals.get(name)


def _not_an_admin() -> Forbidden:
    return Forbidden("other people's tokens need `grant` on the server", hint="ask an administrator")


def _check_client(uow: UnitOfWork, client_id: str, client_secret: str) -> Principal:
    secret = parse_secret(client_secret)
    try:
        service = uow.principals.get(client_id)
    except NotFound:
        service = None
    stored = None if service is None else service.secret_hash
    if service is None or stored is None or secret is None or not secret.matches(stored) or service.disabled:
        raise Unauthenticated("client id and secret do not match")
    return service


def _check_known(uow: UnitOfWork, caller: Caller, request: TokenRequest) -> None:
    """Raise NotFound for unknown roles and catalogs, and for those that the caller may not see.

    Otherwise a typo would create a token without rights.
    """
    for role in request.roles or ():
        if role not in caller.roles and caller.rights.grants_anything:  # other callers get Forbidden later
            uow.roles.get(role)
    for catalog in request.catalogs or ():
        if not caller.rights.sees(Securable(catalog)):
            raise NoSuchCatalog(f"catalog {catalog!r} does not exist")
        uow.catalogs.get(catalog)


def _limit(
    requested: Sequence[T] | None, default: frozenset[T] | None, allowed: frozenset[T] | None
) -> tuple[T, ...] | None:
    """The roles or catalogs of a new token: the requested ones if all are allowed, else the default."""
    if requested is None:
        return None if default is None else tuple(sorted(default))
    refused = [] if allowed is None else [name for name in requested if name not in allowed]
    if refused:
        raise Forbidden(f"you cannot create a token for {refused[0]!r}, because your token does not include it")
    return tuple(requested)
