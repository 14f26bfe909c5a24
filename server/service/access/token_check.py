"""Checks bearer tokens and caches their callers for seconds, so that a request costs one dictionary lookup."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import uuid4

from catalog.access.privileges import (
    Caller,
    Membership,
    Principal,
    PrincipalId,
    PrincipalKind,
    Rights,
    RoleName,
    limit_grants,
)
from catalog.access.tokens import Secret, Token, digest, parse_secret
from catalog.errors import AlreadyExists, TokenEnded, Unauthenticated
from catalog.ports.access import Claims, Issuer
from catalog.ports.store import Database, UnitOfWork

MOST_REMEMBERED = 10_000
USE_NOTED_EVERY = timedelta(minutes=1)
"""The precision of a token's time of last use."""


@dataclass(frozen=True, slots=True)
class _Remembered:
    caller: Caller
    until: float
    """By this process's monotonic clock; not later than the end of the token."""


@dataclass
class TokenChecker:
    """Finds the caller of a token.

    Changes on this server apply at once. Changes on other servers apply after `cache_seconds`: this server may accept
    a token that long after another server has revoked it.
    """

    database: Database
    issuer: Issuer | None
    cache_seconds: float
    _cache: dict[bytes, _Remembered] = field(default_factory=dict)
    _generation: int = 0
    _used: dict[str, datetime] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def recall(self, token: str) -> Caller | None:
        """The cached caller of a token; None if the cache does not hold it. Never waits."""
        cached = self._cache.get(digest(token))
        return cached.caller if cached is not None and time.monotonic() < cached.until else None

    def check(self, token: str) -> Caller:
        """The caller of a token; raises Unauthenticated when the token is not valid."""
        recalled = self.recall(token)
        if recalled is not None:
            return recalled
        generation = self._generation
        secret = parse_secret(token)
        caller, now = self._by_token(secret) if secret is not None else self._by_issuer(token)
        self._remember(digest(token), caller, now, generation)
        return caller

    def clear_cache(self) -> None:
        """Clear the cache after a change of roles, grants, tokens or principals."""
        with self._lock:
            self._generation += 1
            self._cache = {}

    def take_used(self) -> dict[str, datetime]:
        """The times of token uses since the last call, by token id."""
        with self._lock:
            used, self._used = self._used, {}
        return used

    def _remember(self, key: bytes, caller: Caller, now: datetime, generation: int) -> None:
        seconds = self.cache_seconds
        if caller.expires_at is not None:
            seconds = min(seconds, (caller.expires_at - now).total_seconds())
        with self._lock:
            if generation != self._generation:
                return  # it was read before a change that the server has already confirmed
            if len(self._cache) >= MOST_REMEMBERED:
                self._cache = {}
            self._cache[key] = _Remembered(caller, time.monotonic() + seconds)

    def _by_token(self, secret: Secret) -> tuple[Caller, datetime]:
        with self.database.reading() as uow:
            now = uow.now()
            token = check_token(uow, secret, now)
            principal = check_enabled(uow.principals.find(token.owner))
            caller = build_caller(uow, principal, token)
        if token.last_used_at is None or now - token.last_used_at >= USE_NOTED_EVERY:
            with self._lock:
                self._used[token.id] = now
        return caller, now

    def _by_issuer(self, token: str) -> tuple[Caller, datetime]:
        claims = None if self.issuer is None else self.issuer.verified(token)
        if claims is None:
            raise Unauthenticated("the token is not valid", hint="request a new token")
        with self.database.reading() as uow:
            principal = uow.principals.find_subject(claims.issuer, claims.subject)
            has_roles = principal is not None and (
                _list_claimed_roles(uow, principal.id) == _filter_existing_roles(uow, claims.roles)
            )
        if not has_roles:
            principal = self._apply_claims(claims)
        with self.database.reading() as uow:
            enabled = check_enabled(principal)
            return build_caller(uow, enabled, expires_at=claims.expires_at), uow.now()

    def _apply_claims(self, claims: Claims) -> Principal:
        """Add the person if needed, and replace their claimed roles by the roles in the claims."""
        with self.database.writing() as uow:
            principal = uow.principals.find_subject(claims.issuer, claims.subject)
            if principal is None:
                principal = _add_person(uow, claims)
            before, after = _list_claimed_roles(uow, principal.id), _filter_existing_roles(uow, claims.roles)
            for role in before - after:
                uow.roles.unassign(principal.id, Membership(role=role, by_claim=True))
            for role in after - before:
                uow.roles.assign(principal.id, Membership(role=role, by_claim=True))
        self.clear_cache()  # the person's other tokens now give other roles
        return principal


def check_token(uow: UnitOfWork, secret: Secret, now: datetime) -> Token:
    """The token of this secret; raises Unauthenticated when there is none, and TokenEnded when it has ended."""
    token = uow.tokens.find(secret.id)
    if token is None or not secret.matches(token.hash):
        raise Unauthenticated("the token is not valid", hint="request a new token")
    return check_not_ended(token, now)


def check_not_ended(token: Token | None, now: datetime) -> Token:
    """The token; raises TokenEnded when it has expired, was revoked or was removed since."""
    if token is not None and token.is_good(now):
        return token
    reason = "was revoked" if token is not None and token.revoked_at is not None else "has expired"
    name = "the token" if token is None else f"the token {token.id}"
    raise TokenEnded(f"{name} {reason}", hint="create a new one with `firn token create`")


def check_enabled(principal: Principal | None) -> Principal:
    """The principal; raises TokenEnded when it is gone or disabled."""
    if principal is None or principal.disabled:
        raise TokenEnded("the owner of this token is disabled or removed", hint="ask an administrator")
    return principal


def build_caller(
    uow: UnitOfWork, principal: Principal, token: Token | None = None, *, expires_at: datetime | None = None
) -> Caller:
    """The caller with the current rights of a principal, within the limits of the token."""
    roles = frozenset(membership.role for membership in uow.roles.of(principal.id))
    only_roles = catalogs = None
    if token is not None:
        only_roles = None if token.roles is None else frozenset(token.roles)
        roles = roles if only_roles is None else roles & only_roles
        catalogs = None if token.catalogs is None else frozenset(token.catalogs)
        expires_at = token.expires_at
    grants = (grant for granted in uow.roles.grants_of(roles).values() for grant in granted)
    return Caller(
        principal=principal,
        roles=roles,
        rights=Rights.of(limit_grants(grants, catalogs)),
        token_id=None if token is None else token.id,
        expires_at=expires_at,
        only_roles=only_roles,
        catalogs=catalogs,
    )


def _list_claimed_roles(uow: UnitOfWork, principal_id: PrincipalId) -> frozenset[RoleName]:
    return frozenset(membership.role for membership in uow.roles.of(principal_id) if membership.by_claim)


def _filter_existing_roles(uow: UnitOfWork, roles: Iterable[RoleName]) -> frozenset[RoleName]:
    """The roles that exist here; an issuer may send many groups that are no roles."""
    existing = {role.name for role in uow.roles.list()}
    return frozenset(roles) & existing


def _add_person(uow: UnitOfWork, claims: Claims) -> Principal:
    principal = Principal(
        id=PrincipalId(uuid4()),
        name=claims.name,
        kind=PrincipalKind.PERSON,
        created_at=uow.now(),
        subject=(claims.issuer, claims.subject),
    )
    try:
        uow.principals.add(principal)
    except AlreadyExists as error:
        raise Unauthenticated(
            f"another user or service has the name {claims.name!r}",
            hint="an administrator can drop it, or link it to this person with `firn user create --subject`",
        ) from error
    return principal
