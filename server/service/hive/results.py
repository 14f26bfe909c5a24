"""Results of a sync or publish of one table: an outcome for programs, and a message for people."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from catalog.hive.decision import HeldBack
from catalog.jobs.job import Job


class SyncOutcome(StrEnum):
    """The outcome of a sync."""

    UNCHANGED = "unchanged"
    """The table has everything that Hive has."""
    SYNCED = "synced"
    """The table took over what Hive has changed."""
    PLANNED = "planned"
    """A job takes it over."""
    WAITING = "waiting"
    """Something else has to end first, or time to pass."""
    CONFLICT = "conflict"
    """The sync took over nothing: a user has to solve a problem first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResult:
    """The result of one sync of one table. A `conflict` may concern only the skipped partitions."""

    table: str
    outcome: SyncOutcome
    message: str
    job: Job | None = None
    conflict: bool = False
    held_back: tuple[HeldBack, ...] = ()
    """Partitions that were not taken over: by which filter, why, and what to do."""

    @property
    def waits(self) -> bool:
        """Whether it is to be asked for again."""
        return self.outcome is SyncOutcome.WAITING

    @property
    def changed(self) -> bool:
        """Whether Hive's side has changed anything, taken over or not."""
        return self.outcome not in (SyncOutcome.UNCHANGED, SyncOutcome.WAITING)


class PublishOutcome(StrEnum):
    """The outcome of a publish request."""

    UP_TO_DATE = "up-to-date"
    """Hive has everything."""
    MERGING = "merging"
    """A job merges pending changes first."""
    PUBLISHING = "publishing"
    """A job writes what differs."""
    HELD_BACK = "held-back"
    """None of the partitions that differ can be published now."""
    WAITING = "waiting"
    """Something else has to end first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishResult:
    """The result of one publish of one table, or of its start."""

    table: str
    outcome: PublishOutcome
    message: str
    job: Job | None = None
    held_back: tuple[HeldBack, ...] = ()
    """Partitions that differ and are not published with this one: by which filter, why, and what to do."""
    never: str | None = None
    """Why some of these wait for what time does not bring, and what to do."""

    @property
    def partitions_waiting(self) -> int:
        """The number of partitions that filters hold back."""
        return sum(held.partitions for held in self.held_back)

    @property
    def waits(self) -> bool:
        """Whether something else has to end first."""
        return self.outcome is PublishOutcome.WAITING
