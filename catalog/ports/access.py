"""Ports of access control: the database, and the issuer of people's tokens."""

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
        """In order of names."""

    def names(self, ids: Collection[PrincipalId]) -> Mapping[PrincipalId, str]: ...

    def remove(self, principal_id: PrincipalId) -> None:
        """Remove it with its roles and tokens."""


class Roles(Protocol):
    """Roles, their grants and their members."""

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
        """The token, locked until the transaction ends: nobody revokes it while a token is derived from it."""

    def list(
        self, owner: PrincipalId | None, kind: TokenKind | None, *, limit: int, cursor: str | None = None
    ) -> Page[Token]:
        """In order of ids. None means all owners or all kinds."""

    def revoke(self, token_id: str, now: datetime) -> None:
        """Revoke the token, all tokens derived from it, and all tokens derived from those."""

    def revoke_all(self, owner: PrincipalId, kind: TokenKind | None, now: datetime) -> None: ...
    def used(self, at: Mapping[str, datetime]) -> None: ...

    def remove_dead(self, bearer: datetime, access: datetime) -> int:
        """Delete tokens that expired or were revoked before these moments, by kind; returns their number."""


class Audit(Protocol):
    """The audit log."""

    def add(self, entries: Sequence[AuditEntry]) -> list[int]:
        """The ids of the entries, in the same order."""

    def ended(self, statuses: Mapping[int, int]) -> None:
        """Record the final statuses of requests, by entry."""

    def list(self, wanted: AuditFilter, *, limit: int, cursor: str | None = None) -> Page[AuditEntry]:
        """Newest first."""

    def remove_before(self, moment: datetime) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """The verified content of an issuer's token."""

    issuer: str
    subject: str
    name: str
    roles: frozenset[RoleName]
    expires_at: datetime


class Issuer(Protocol):
    """An OpenID Connect provider, from which people come."""

    def verified(self, token: str) -> Claims | None:
        """The claims of a token; None if it is no valid token of this issuer for this server.

        Unavailable if the issuer does not answer and its keys are needed.
        """
