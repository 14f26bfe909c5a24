"""What access control needs of the database, and of the issuer that people come from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from catalog.access.audit_log import AuditEntry, AuditFilter
from catalog.access.privileges import Grant, Membership, Principal, PrincipalId, PrincipalKind, Role, RoleName
from catalog.access.tokens import Token, TokenKind
from catalog.ports.page import Page


class Principals(Protocol):
    """People and services."""

    def add(self, principal: Principal) -> None: ...
    def put(self, principal: Principal) -> None: ...
    def get(self, name: str) -> Principal: ...
    def find(self, principal_id: PrincipalId) -> Principal | None: ...
    def find_subject(self, issuer: str, subject: str) -> Principal | None: ...

    def list(self, kind: PrincipalKind, *, limit: int, cursor: str | None = None) -> Page[Principal]:
        """By name."""

    def names(self, ids: Collection[PrincipalId]) -> Mapping[PrincipalId, str]: ...

    def remove(self, principal_id: PrincipalId) -> None:
        """With its roles and tokens."""


class Roles(Protocol):
    """Roles, what they are granted, and who has them."""

    def add(self, role: Role) -> None: ...
    def get(self, name: RoleName) -> Role: ...
    def list(self) -> Sequence[Role]: ...
    def grants_of(self, names: Collection[RoleName]) -> Mapping[RoleName, frozenset[Grant]]: ...
    def remove(self, name: RoleName) -> None: ...
    def grant(self, name: RoleName, grant: Grant) -> None: ...
    def revoke(self, name: RoleName, grant: Grant) -> None: ...
    def members(self, name: RoleName) -> Sequence[PrincipalId]: ...
    def of(self, principal_id: PrincipalId) -> Sequence[Membership]: ...
    def assign(self, principal_id: PrincipalId, membership: Membership) -> None: ...
    def unassign(self, principal_id: PrincipalId, membership: Membership) -> None: ...


class Tokens(Protocol):
    """Tokens without their secrets."""

    def add(self, token: Token) -> None: ...
    def find(self, token_id: str) -> Token | None: ...

    def find_parent(self, token_id: str) -> Token | None:
        """The same for a token that another is about to be made with: until that one is there, nobody revokes it."""

    def list(
        self, owner: PrincipalId | None, kind: TokenKind | None, *, limit: int, cursor: str | None = None
    ) -> Page[Token]:
        """By id; None means everybody's, of every kind."""

    def revoke(self, token_id: str, now: datetime) -> None:
        """With every token that it was exchanged for or that was made with it, and all of theirs."""

    def revoke_all(self, owner: PrincipalId, kind: TokenKind | None, now: datetime) -> None: ...
    def used(self, at: Mapping[str, datetime]) -> None: ...

    def remove_dead(self, bearer: datetime, access: datetime) -> int:
        """Forget what expired or was revoked before these moments, by kind; how many they were."""


class Audit(Protocol):
    """The audit log."""

    def add(self, entries: Sequence[AuditEntry]) -> list[int]:
        """Their ids, in the same order."""

    def ended(self, statuses: Mapping[int, int]) -> None:
        """Note with which status requests ended, by entry."""

    def list(self, wanted: AuditFilter, *, limit: int, cursor: str | None = None) -> Page[AuditEntry]:
        """Newest first."""

    def remove_before(self, moment: datetime) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """Whom an issuer's token speaks of, after it was checked."""

    issuer: str
    subject: str
    name: str
    roles: frozenset[RoleName]
    expires_at: datetime


class Issuer(Protocol):
    """Where people come from: an OpenID Connect provider."""

    def verified(self, token: str) -> Claims | None:
        """What a token says; None when it is not a good one of this issuer for this server.

        Unavailable when the issuer's keys are needed and it does not answer.
        """
