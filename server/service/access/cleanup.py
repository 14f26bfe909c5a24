"""What access control does by itself: write what was buffered, forget what is old."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from catalog.ports.store import Database
from server.service.access.audit_log import AuditLog, Flushed
from server.service.access.token_check import TokenChecker

TOKENS_KEPT = timedelta(days=30)
"""How long a token that has ended is still listed."""
ACCESS_KEPT = timedelta(hours=1)
"""The same for short-lived ones: engines ask for many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """What was forgotten."""

    entries: int
    tokens: int


@dataclass(frozen=True)
class AccessCleanup:
    """Safe to run at any time, any number of times."""

    database: Database
    token_checker: TokenChecker
    audit_log: AuditLog
    audit_kept: timedelta

    def flush(self) -> Flushed:
        """Write the buffered audit entries of this server, and when its tokens were used."""
        used = self.token_checker.take_used()
        if used:
            with self.database.writing() as uow:
                uow.tokens.used(used)
        return self.audit_log.flush()

    def remove_expired(self) -> Forgotten:
        """Forget old audit entries and tokens that ended long ago."""
        with self.database.writing() as uow:
            now = uow.now()
            return Forgotten(
                entries=uow.audit.remove_before(now - self.audit_kept),
                tokens=uow.tokens.remove_dead(now - TOKENS_KEPT, now - ACCESS_KEPT),
            )
