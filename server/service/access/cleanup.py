"""Background work of access control: writes buffered audit entries, and removes old entries and tokens."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from catalog.ports.store import Database
from server.service.access.audit_log import AuditLog, Flushed
from server.service.access.token_check import TokenChecker

TOKENS_KEPT = timedelta(days=30)
"""How long the server lists an ended token."""
ACCESS_KEPT = timedelta(hours=1)
"""How long the server lists an ended access token; engines request many of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """Numbers of removed audit entries and tokens."""

    entries: int
    tokens: int


@dataclass(frozen=True)
class AccessCleanup:
    """Cleans up access control; safe to run at any time, any number of times."""

    database: Database
    token_checker: TokenChecker
    audit_log: AuditLog
    audit_kept: timedelta

    def flush(self) -> Flushed:
        """Write this server's buffered audit entries, and the times at which tokens were used."""
        used = self.token_checker.take_used()
        if used:
            with self.database.writing() as uow:
                uow.tokens.used(used)
        return self.audit_log.flush()

    def remove_expired(self) -> Forgotten:
        """Remove old audit entries, and tokens that ended long ago."""
        with self.database.writing() as uow:
            now = uow.now()
            return Forgotten(
                entries=uow.audit.remove_before(now - self.audit_kept),
                tokens=uow.tokens.remove_dead(now - TOKENS_KEPT, now - ACCESS_KEPT),
            )
