"""Blockers: a user keeps jobs from a table for a while, and gives the reason."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NewType
from uuid import UUID

from catalog.errors import Invalid
from catalog.jobs.job import JobKind
from catalog.names import RelationId

BlockerId = NewType("BlockerId", UUID)

LONGEST = timedelta(days=30)
"""The limit on a blocker's duration: a forgotten one must not keep a table unmaintained."""
LONGEST_REASON = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """Keeps jobs of these kinds from a table until a time; without kinds, all jobs."""

    id: BlockerId
    relation_id: RelationId
    reason: str
    created_at: datetime
    until: datetime
    kinds: frozenset[JobKind] = frozenset()
    set_by: str | None = None
    """The user who set it; None without authentication."""

    def blocks(self, kind: JobKind, now: datetime) -> bool:
        """Whether the blocker keeps a job of this kind from starting now."""
        return now < self.until and (not self.kinds or kind in self.kinds)

    def __str__(self) -> str:
        by = f" by {self.set_by}" if self.set_by else ""
        kinds = f" for {', '.join(sorted(self.kinds))}" if self.kinds else ""
        return f"blocked{by}{kinds} until {self.until:%Y-%m-%d %H:%M} UTC: {self.reason}"


def check_blocker(*, reason: str, until: datetime, now: datetime) -> None:
    """Invalid for a blocker without a reason, or one that ends too late or has already ended."""
    if not reason.strip() or len(reason) > LONGEST_REASON:
        raise Invalid(
            f"a blocker has a reason of 1 to {LONGEST_REASON} characters", hint="say what it waits for: others read it"
        )
    if until <= now:
        raise Invalid(f"{until:%Y-%m-%d %H:%M} UTC has passed: it would block nothing")
    if until > now + LONGEST:
        raise Invalid(
            f"a blocker ends within {LONGEST.days} days, not at {until:%Y-%m-%d %H:%M} UTC",
            hint="set firn.optimize.enabled=false to switch jobs off for good",
        )


def find_longest_blocker(blockers: Iterable[Blocker], kinds: Collection[JobKind], now: datetime) -> Blocker | None:
    """The blocker that ends last among those that block one of these kinds now; None without one."""
    blocking = [blocker for blocker in blockers if any(blocker.blocks(kind, now) for kind in kinds)]
    return max(blocking, key=lambda blocker: blocker.until, default=None)
