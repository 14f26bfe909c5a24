"""Who a bearer token speaks for, remembered for seconds so that a request costs one dictionary lookup."""

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
"""How exactly it is known when a token was used last."""


@dataclass(frozen=True, slots=True)
class _Remembered:
    caller: Caller
    until: float
    """By this process's monotonic clock: not later than the token's own end."""


@dataclass
class TokenChecker:
    """Answers who is asking.

    What was changed on this server counts at once, on others after `cache_seconds`: so long may a token that was
    revoked there still be taken here.
    """

    database: Database
    issuer: Issuer | None
    cache_seconds: float
    _known: dict[bytes, _Remembered] = field(default_factory=dict)
    _generation: int = 0
    _used: dict[str, datetime] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def recall(self, token: str) -> Caller | None:
        """The caller if this token was seen a moment ago; asks nobody."""
        found = self._known.get(digest(token))
        return found.caller if found is not None and time.monotonic() < found.until else None

    def check(self, token: str) -> Caller:
        """The caller; Unauthenticated when the token is not a good one."""
        recalled = self.recall(token)
        if recalled is not None:
            return recalled
        generation = self._generation
        secret = parse_secret(token)
        caller, now = self._by_token(secret) if secret is not None else self._by_issuer(token)
        self._remember(digest(token), caller, now, generation)
        return caller

    def forget(self) -> None:
        """Roles, grants, tokens or principals have changed: what was remembered may be wrong."""
        with self._lock:
            self._generation += 1
            self._known = {}

    def take_used(self) -> dict[str, datetime]:
        """When tokens were used since this was asked last."""
        with self._lock:
            taken, self._used = self._used, {}
        return taken

    def _remember(self, key: bytes, caller: Caller, now: datetime, generation: int) -> None:
        left = self.cache_seconds
        if caller.expires_at is not None:
            left = min(left, (caller.expires_at - now).total_seconds())
        with self._lock:
            if generation != self._generation:
                return  # it was read before a change that is already answered
            if len(self._known) >= MOST_REMEMBERED:
                self._known = {}
            self._known[key] = _Remembered(caller, time.monotonic() + left)

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
            raise Unauthenticated("the token is not a good one", hint="ask for a new one")
        with self.database.reading() as uow:
            principal = uow.principals.find_subject(claims.issuer, claims.subject)
            up_to_date = principal is not None and _claimed(uow, principal.id) == _existing(uow, claims.roles)
        if not up_to_date:
            principal = self._met(claims)
        with self.database.reading() as uow:
            known = check_enabled(principal)
            return build_caller(uow, known, expires_at=claims.expires_at), uow.now()

    def _met(self, claims: Claims) -> Principal:
        """The person, with the roles that the claims give them and no other claimed ones."""
        with self.database.writing() as uow:
            principal = uow.principals.find_subject(claims.issuer, claims.subject)
            if principal is None:
                principal = _introduced(uow, claims)
            before, after = _claimed(uow, principal.id), _existing(uow, claims.roles)
            for role in before - after:
                uow.roles.unassign(principal.id, Membership(role=role, by_claim=True))
            for role in after - before:
                uow.roles.assign(principal.id, Membership(role=role, by_claim=True))
        self.forget()  # their other tokens give other roles from now on
        return principal


def check_token(uow: UnitOfWork, secret: Secret, now: datetime) -> Token:
    """The token of this secret; Unauthenticated when there is none, or it has ended."""
    token = uow.tokens.find(secret.id)
    if token is None or not secret.matches(token.hash):
        raise Unauthenticated("the token is not a good one", hint="ask for a new one")
    return check_not_ended(token, now)


def check_not_ended(token: Token | None, now: datetime) -> Token:
    """The token; TokenEnded when it has expired or was revoked, or is forgotten since."""
    if token is not None and token.is_good(now):
        return token
    ended = "was revoked" if token is not None and token.revoked_at is not None else "has expired"
    named = "the token" if token is None else f"the token {token.id}"
    raise TokenEnded(f"{named} {ended}", hint="make a new one with `firn token create`")


def check_enabled(principal: Principal | None) -> Principal:
    """The principal; Unauthenticated when it is gone or disabled."""
    if principal is None or principal.disabled:
        raise TokenEnded("whoever this token is of has no access any more")
    return principal


def build_caller(
    uow: UnitOfWork, principal: Principal, token: Token | None = None, *, expires_at: datetime | None = None
) -> Caller:
    """What a principal may do now, by a token that may be limited."""
    roles = frozenset(one.role for one in uow.roles.of(principal.id))
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


def _claimed(uow: UnitOfWork, principal_id: PrincipalId) -> frozenset[RoleName]:
    return frozenset(one.role for one in uow.roles.of(principal_id) if one.by_claim)


def _existing(uow: UnitOfWork, roles: Iterable[RoleName]) -> frozenset[RoleName]:
    """An issuer's groups may be many; those that are no role here mean nothing."""
    known = {role.name for role in uow.roles.list()}
    return frozenset(roles) & known


def _introduced(uow: UnitOfWork, claims: Claims) -> Principal:
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
            f"there is another user or service {claims.name!r}",
            hint="an administrator can drop that one, or tie it to this person with `firn user create --subject`",
        ) from error
    return principal
