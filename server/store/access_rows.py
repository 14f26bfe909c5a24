"""The tables of access control: principals, roles, tokens, and the audit log."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import JSON, Index, LargeBinary, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from server.store.rows import BigKey, Row


class PrincipalRow(Row):
    """A person or a service."""

    __tablename__ = "principal"
    __table_args__ = (UniqueConstraint("name"), UniqueConstraint("issuer", "subject"))
    id: Mapped[UUID] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(255))
    kind: Mapped[str] = mapped_column(String(32))
    issuer: Mapped[str | None] = mapped_column(String(512))
    subject: Mapped[str | None] = mapped_column(String(255))
    secret_hash: Mapped[bytes | None] = mapped_column(LargeBinary)
    disabled: Mapped[bool]
    created_at: Mapped[datetime]


class RoleRow(Row):
    """A name for grants."""

    __tablename__ = "role"
    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    description: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime]


class RoleGrantRow(Row):
    """A privilege of a role; `catalog` '' is the server, `namespace` '' the whole catalog, `name` '' no table."""

    __tablename__ = "role_grant"
    role: Mapped[str] = mapped_column(String(255), primary_key=True)
    catalog: Mapped[str] = mapped_column(String(255), primary_key=True)
    namespace: Mapped[str] = mapped_column(String(1024), primary_key=True)
    name: Mapped[str] = mapped_column(String(512), primary_key=True)
    privilege: Mapped[str] = mapped_column(String(32), primary_key=True)


class RoleMemberRow(Row):
    """A role of a principal, given by people or by the claims of the principal's issuer."""

    __tablename__ = "role_member"
    principal_id: Mapped[UUID] = mapped_column(primary_key=True)
    role: Mapped[str] = mapped_column(String(255), primary_key=True)
    by_claim: Mapped[bool] = mapped_column(primary_key=True)


class TokenRow(Row):
    """A token without its secret."""

    __tablename__ = "token"
    __table_args__ = (Index("ix_token_owner", "owner"), Index("ix_token_origin", "origin"))
    id: Mapped[str] = mapped_column(String(12), primary_key=True)
    kind: Mapped[str] = mapped_column(String(32))
    owner: Mapped[UUID]
    name: Mapped[str] = mapped_column(String(255))
    hash: Mapped[bytes] = mapped_column(LargeBinary)
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]
    roles: Mapped[list[str] | None] = mapped_column(JSON(none_as_null=True))
    catalogs: Mapped[list[str] | None] = mapped_column(JSON(none_as_null=True))
    origin: Mapped[str | None] = mapped_column(String(12))
    renewable_until: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]


class AuditRow(Row):
    """One request and what was decided about it."""

    __tablename__ = "audit"
    __table_args__ = (Index("ix_audit_at", "at"), Index("ix_audit_principal", "principal", "id"))
    id: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=True)
    at: Mapped[datetime]
    verdict: Mapped[str] = mapped_column(String(32))
    principal: Mapped[str | None] = mapped_column(String(255))
    principal_id: Mapped[UUID | None]
    token_id: Mapped[str | None] = mapped_column(String(12))
    method: Mapped[str] = mapped_column(String(8))
    route: Mapped[str] = mapped_column(String(255))
    catalog: Mapped[str | None] = mapped_column(String(255))
    target: Mapped[str] = mapped_column(Text)
    detail: Mapped[str] = mapped_column(Text)
    changes: Mapped[bool]
    request_id: Mapped[str] = mapped_column(String(64))
    address: Mapped[str] = mapped_column(String(64))
    status: Mapped[int | None]
