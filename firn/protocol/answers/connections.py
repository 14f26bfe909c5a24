"""Answers about connections to Kafka. None has a password."""

from __future__ import annotations

from datetime import datetime

from firn.protocol.base import Out
from firn.protocol.connections import Mechanism, Security


class ConnectionOut(Out):
    """One connection."""

    name: str
    kind: str
    brokers: list[str]
    security: Security
    mechanism: Mechanism | None
    username: str | None
    has_password: bool
    ca: str | None
    registry_url: str | None
    registry_username: str | None
    has_registry_password: bool
    created_at: datetime | None
    created_by: str | None


class ConnectionCheckOut(Out):
    """A cluster that has answered: its id, and how many brokers and topics the connection's user sees.

    `subjects` are those of the schema registry; null for a connection without one.
    """

    cluster: str | None
    brokers: int
    topics: int
    subjects: int | None
