"""The tables of notifications: rules, and messages with their delivery."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import JSON, Index, String, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from server.store.rows import BigKey, Row

OPEN_PROBLEM = text("ended_at IS NULL")


class NotificationRuleRow(Row):
    """A rule; its address and its secret are encrypted with a key that the database does not have."""

    __tablename__ = "notification_rule"
    id: Mapped[UUID] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(128), unique=True)
    kinds: Mapped[list[str]]
    channel: Mapped[str] = mapped_column(String(32))
    catalog: Mapped[str | None] = mapped_column(String(255))
    shown_address: Mapped[str | None] = mapped_column(Text)
    sealed_url: Mapped[str | None] = mapped_column(Text)
    sealed_secret: Mapped[str | None] = mapped_column(Text)
    recipients: Mapped[list[str]]
    resolved: Mapped[bool]
    silenced_until: Mapped[datetime | None]
    silences: Mapped[dict[str, str]]
    created_at: Mapped[datetime]
    created_by: Mapped[str | None] = mapped_column(String(255))
    tables: Mapped[list[str] | None] = mapped_column(JSON(none_as_null=True))
    events_until: Mapped[int | None]
    """The number of the last commit event that a rule of table events has read."""
    jobs_until: Mapped[datetime | None]


class NotificationRow(Row):
    """A message of a rule. A problem that goes on has one message of a rule that has not ended: the first one."""

    __tablename__ = "notification"
    __table_args__ = (
        Index(
            "uq_notification_open",
            "rule_id",
            "kind",
            "key",
            unique=True,
            sqlite_where=OPEN_PROBLEM,
            postgresql_where=OPEN_PROBLEM,
        ),
        Index("ix_notification_rule", "rule_id", "number"),
        Index("ix_notification_due", "state", "next_attempt_at"),
        Index("ix_notification_waiting", "rule_id", "state", "number"),
    )
    number: Mapped[int] = mapped_column(BigKey, primary_key=True, autoincrement=True)
    id: Mapped[UUID] = mapped_column(unique=True)
    rule_id: Mapped[UUID]
    rule: Mapped[str] = mapped_column(String(128))
    kind: Mapped[str] = mapped_column(String(32))
    key: Mapped[str] = mapped_column(String(255))
    catalog: Mapped[str | None] = mapped_column(String(255))
    subject: Mapped[str] = mapped_column(Text)
    title: Mapped[str] = mapped_column(Text)
    message: Mapped[str] = mapped_column(Text)
    link: Mapped[str] = mapped_column(Text)
    since: Mapped[datetime]
    created_at: Mapped[datetime]
    is_resolution: Mapped[bool]
    ended_at: Mapped[datetime | None]
    state: Mapped[str] = mapped_column(String(32))
    attempts: Mapped[int]
    next_attempt_at: Mapped[datetime | None]
    sent_at: Mapped[datetime | None]
    error: Mapped[str | None] = mapped_column(Text)
    data: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
