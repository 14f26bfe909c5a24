"""Principals, roles and tokens in the database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import and_, delete, or_, select, update
from sqlalchemy.exc import IntegrityError

from catalog.access.privileges import (
    Grant,
    Membership,
    Principal,
    PrincipalId,
    PrincipalKind,
    Privilege,
    Role,
    RoleName,
    Securable,
)
from catalog.access.tokens import Token, TokenKind
from catalog.errors import AlreadyExists, NotFound
from catalog.names import CatalogName, decode_namespace, encode_namespace
from catalog.ports.page import Page
from server.store import cursor as cursors
from server.store.access_rows import PrincipalRow, RoleGrantRow, RoleMemberRow, RoleRow, TokenRow
from server.store.session import ReadSession
from server.store.upsert import insert_unless_taken


@dataclass(frozen=True)
class SqlPrincipals:
    """See catalog.ports.access.Principals."""

    session: ReadSession

    def add(self, principal: Principal) -> None:
        """Add a principal; AlreadyExists when the name or the subject exists."""
        try:
            with self.session.begin_nested():
                self.session.add(PrincipalRow(id=principal.id, **_principal_values(principal)))
        except IntegrityError as error:
            raise AlreadyExists(f"{principal.name!r} already exists, or another user has its subject") from error

    def put(self, principal: Principal) -> None:
        """Replace a principal."""
        self.session.execute(
            update(PrincipalRow).where(PrincipalRow.id == principal.id).values(**_principal_values(principal))
        )

    def get(self, name: str) -> Principal:
        """Get a principal by name; NotFound."""
        row = self.session.scalar(select(PrincipalRow).where(PrincipalRow.name == name))
        if row is None:
            raise NotFound(
                f"there is no user or service {name!r}",
                hint="`firn user list` and `firn service list` list them; `firn user create NAME` creates a user",
            )
        return _principal(row)

    def find(self, principal_id: PrincipalId) -> Principal | None:
        """Find a principal by id."""
        row = self.session.get(PrincipalRow, principal_id)
        return None if row is None else _principal(row)

    def find_subject(self, issuer: str, subject: str) -> Principal | None:
        """Find the user with an issuer's subject."""
        row = self.session.scalar(
            select(PrincipalRow).where(PrincipalRow.issuer == issuer, PrincipalRow.subject == subject)
        )
        return None if row is None else _principal(row)

    def list(self, kind: PrincipalKind, *, limit: int, cursor: str | None = None) -> Page[Principal]:
        """List principals by name."""
        query = select(PrincipalRow).where(PrincipalRow.kind == kind)
        if cursor is not None:
            query = query.where(PrincipalRow.name > cursors.decode_texts(cursor, 1)[0])
        rows = self.session.scalars(query.order_by(PrincipalRow.name).limit(limit + 1)).all()
        more = cursors.encode(rows[limit - 1].name) if len(rows) > limit else None
        return Page([_principal(row) for row in rows[:limit]], more)

    def names(self, ids: Collection[PrincipalId]) -> Mapping[PrincipalId, str]:
        """Get the names of existing principals."""
        rows = self.session.execute(select(PrincipalRow.id, PrincipalRow.name).where(PrincipalRow.id.in_(ids)))
        return {PrincipalId(row.id): row.name for row in rows}

    def remove(self, principal_id: PrincipalId) -> None:
        """Remove a principal with its roles and tokens."""
        self.session.execute(delete(TokenRow).where(TokenRow.owner == principal_id))
        self.session.execute(delete(RoleMemberRow).where(RoleMemberRow.principal_id == principal_id))
        self.session.execute(delete(PrincipalRow).where(PrincipalRow.id == principal_id))
        self.session.expunge_all()


def _principal_values(principal: Principal) -> dict[str, Any]:
    issuer, subject = principal.subject or (None, None)
    plain = ("name", "kind", "secret_hash", "disabled", "created_at")
    return {**{name: getattr(principal, name) for name in plain}, "issuer": issuer, "subject": subject}


def _principal(row: PrincipalRow) -> Principal:
    return Principal(
        id=PrincipalId(row.id),
        name=row.name,
        kind=PrincipalKind(row.kind),
        created_at=row.created_at,
        subject=None if row.issuer is None or row.subject is None else (row.issuer, row.subject),
        secret_hash=row.secret_hash,
        disabled=row.disabled,
    )


@dataclass(frozen=True)
class SqlRoles:
    """See catalog.ports.access.Roles."""

    session: ReadSession

    def add(self, role: Role) -> None:
        """Add a role; AlreadyExists when the name exists."""
        try:
            with self.session.begin_nested():
                self.session.add(RoleRow(name=role.name, description=role.description, created_at=role.created_at))
        except IntegrityError as error:
            raise AlreadyExists(f"role {role.name!r} already exists") from error
        for grant in role.grants:
            self.grant(role.name, grant)

    def get(self, name: RoleName) -> Role:
        """Get a role by name; NotFound."""
        row = self.session.get(RoleRow, name)
        if row is None:
            raise NotFound(f"role {name!r} does not exist", hint="see the roles with `firn role list`")
        return _role(row, self.grants_of([name]).get(name, frozenset()))

    def list(self) -> Sequence[Role]:
        """List all roles by name, without pages since there are few."""
        rows = self.session.scalars(select(RoleRow).order_by(RoleRow.name)).all()
        grants = self.grants_of([RoleName(row.name) for row in rows])
        return [_role(row, grants.get(RoleName(row.name), frozenset())) for row in rows]

    def grants_of(self, names: Collection[RoleName]) -> Mapping[RoleName, frozenset[Grant]]:
        """Get the grants of several roles, in one query."""
        grants: dict[RoleName, set[Grant]] = {}
        for row in self.session.scalars(select(RoleGrantRow).where(RoleGrantRow.role.in_(names))):
            grants.setdefault(RoleName(row.role), set()).add(Grant(_securable(row), Privilege(row.privilege)))
        return {name: frozenset(of_role) for name, of_role in grants.items()}

    def remove(self, name: RoleName) -> None:
        """Remove a role with its grants and members."""
        self.session.execute(delete(RoleGrantRow).where(RoleGrantRow.role == name))
        self.session.execute(delete(RoleMemberRow).where(RoleMemberRow.role == name))
        self.session.execute(delete(RoleRow).where(RoleRow.name == name))
        self.session.expunge_all()

    def grant(self, name: RoleName, grant: Grant) -> None:
        """Add a grant unless the role has it."""
        insert_unless_taken(self.session, RoleGrantRow, _grant_key(name, grant))

    def revoke(self, name: RoleName, grant: Grant) -> None:
        """Remove a grant if the role has it."""
        key = [getattr(RoleGrantRow, column) == value for column, value in _grant_key(name, grant).items()]
        self.session.execute(delete(RoleGrantRow).where(*key))

    def members(self, name: RoleName) -> Sequence[PrincipalId]:
        """List the principals with the role."""
        query = select(RoleMemberRow.principal_id).where(RoleMemberRow.role == name).distinct()
        return [PrincipalId(principal_id) for principal_id in self.session.scalars(query)]

    def of(self, principal_id: PrincipalId) -> Sequence[Membership]:
        """List the roles of a principal by name."""
        query = select(RoleMemberRow).where(RoleMemberRow.principal_id == principal_id).order_by(RoleMemberRow.role)
        return [Membership(role=RoleName(row.role), by_claim=row.by_claim) for row in self.session.scalars(query)]

    def assign(self, principal_id: PrincipalId, membership: Membership) -> None:
        """Add a membership unless it exists."""
        values = {"principal_id": principal_id, "role": membership.role, "by_claim": membership.by_claim}
        insert_unless_taken(self.session, RoleMemberRow, values)

    def unassign(self, principal_id: PrincipalId, membership: Membership) -> None:
        """Remove a membership if it exists."""
        self.session.execute(
            delete(RoleMemberRow).where(
                RoleMemberRow.principal_id == principal_id,
                RoleMemberRow.role == membership.role,
                RoleMemberRow.by_claim == membership.by_claim,
            )
        )


def _role(row: RoleRow, grants: frozenset[Grant]) -> Role:
    return Role(name=RoleName(row.name), description=row.description, created_at=row.created_at, grants=grants)


def _securable(row: RoleGrantRow) -> Securable:
    return Securable(
        CatalogName(row.catalog) if row.catalog else None,
        decode_namespace(row.namespace) if row.namespace else (),
        row.name or None,
    )


def _grant_key(name: RoleName, grant: Grant) -> dict[str, Any]:
    return {
        "role": name,
        "catalog": grant.on.catalog or "",
        "namespace": encode_namespace(grant.on.namespace),
        "name": grant.on.table or "",
        "privilege": grant.privilege,
    }


@dataclass(frozen=True)
class SqlTokens:
    """See catalog.ports.access.Tokens."""

    session: ReadSession

    def add(self, token: Token) -> None:
        """Add a token."""
        self.session.add(TokenRow(**{name: _plain(getattr(token, name)) for name in Token.__slots__}))
        self.session.flush()

    def find(self, token_id: str) -> Token | None:
        """Find a token by id."""
        row = self.session.get(TokenRow, token_id)
        return None if row is None else _token(row)

    def find_parent(self, token_id: str) -> Token | None:
        """Find a token by id and lock it, so that a concurrent revocation waits and then also revokes the child."""
        row = self.session.get(TokenRow, token_id, with_for_update={"read": True})
        return None if row is None else _token(row)

    def list(
        self, owner: PrincipalId | None, kind: TokenKind | None, *, limit: int, cursor: str | None = None
    ) -> Page[Token]:
        """List tokens by id; with `owner` None, the tokens of all owners."""
        query = select(TokenRow)
        if owner is not None:
            query = query.where(TokenRow.owner == owner)
        if kind is not None:
            query = query.where(TokenRow.kind == kind)
        if cursor is not None:
            query = query.where(TokenRow.id > cursors.decode_texts(cursor, 1)[0])
        rows = self.session.scalars(query.order_by(TokenRow.id).limit(limit + 1)).all()
        more = cursors.encode(rows[limit - 1].id) if len(rows) > limit else None
        return Page([_token(row) for row in rows[:limit]], more)

    def revoke(self, token_id: str, now: datetime) -> None:
        """Revoke a token and all its descendants.

        The statement repeats until it finds none.  With concurrent writers, only the next statement sees a token that
        was exchanged while this one waited for its parent.
        """
        family = select(TokenRow.id).where(TokenRow.id == token_id).cte("family", recursive=True)
        family = family.union(select(TokenRow.id).join(family, TokenRow.origin == family.c.id))
        active = TokenRow.id.in_(select(family.c.id)), TokenRow.revoked_at.is_(None)
        query = update(TokenRow).where(*active).values(revoked_at=now).returning(TokenRow.id)
        while self.session.execute(query, execution_options={"synchronize_session": False}).all():
            pass

    def revoke_all(self, owner: PrincipalId, kind: TokenKind | None, now: datetime) -> None:
        """Revoke all tokens of an owner, or those of one kind."""
        query = update(TokenRow).where(TokenRow.owner == owner, TokenRow.revoked_at.is_(None))
        if kind is not None:
            query = query.where(TokenRow.kind == kind)
        self.session.execute(query.values(revoked_at=now))

    def used(self, at: Mapping[str, datetime]) -> None:
        """Record when tokens were last used."""
        for token_id, used_at in at.items():
            self.session.execute(update(TokenRow).where(TokenRow.id == token_id).values(last_used_at=used_at))

    def remove_dead(self, bearer: datetime, access: datetime) -> int:
        """Remove tokens that expired or were revoked before a time per kind; returns their number."""
        gone = 0
        for kind, before in ((TokenKind.BEARER, bearer), (TokenKind.ACCESS, access)):
            # A token leads to the tokens exchanged for it, so it stays until its chain has ended.
            over = or_(TokenRow.renewable_until.is_(None), TokenRow.renewable_until < before)
            dead = or_(and_(TokenRow.expires_at < before, over), TokenRow.revoked_at < before)
            query = delete(TokenRow).where(TokenRow.kind == kind, dead)
            gone += len(self.session.execute(query.returning(TokenRow.id)).all())
        return gone


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _token(row: TokenRow) -> Token:
    values = {name: getattr(row, name) for name in Token.__slots__}
    roles = None if row.roles is None else tuple(RoleName(name) for name in row.roles)
    catalogs = None if row.catalogs is None else tuple(CatalogName(name) for name in row.catalogs)
    typed = {"kind": TokenKind(row.kind), "owner": PrincipalId(row.owner), "roles": roles, "catalogs": catalogs}
    return Token(**{**values, **typed})
