"""What planning knows of a table, and what it says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from catalog.blocker import Blocker
from catalog.gain import Predicted
from catalog.job import JobKind
from catalog.keyed.spec import KeyedTable
from catalog.policy.policy import Policy
from catalog.relation import TableStats


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A job to plan. `state` names the table's state it is planned for: what changed nothing is not done twice."""

    kind: JobKind
    why: str
    state: str
    params: Mapping[str, Any] = field(default_factory=dict)
    predicted: Predicted | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotDue:
    """Why nothing is to be done now; `next_at` when time alone will change that, `kind` what comes next."""

    why: str
    next_at: datetime | None = None
    kind: JobKind | None = None
    predicted: Predicted | None = None
    blocked_by: Blocker | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """What is known of a table: its own counters, or those of its two stores."""

    policy: Policy
    stats: TableStats
    """Of the table itself, or of the base store."""
    keyed: KeyedTable | None = None
    change: TableStats | None = None
    hive_linked: bool = False
    created_at: datetime | None = None
    """From when on schedules count; without it none of them makes a job due."""
    blockers: tuple[Blocker, ...] = ()
    keeps_orphans: str | None = None
    """Why no file of it is ever taken for an orphan, as far as that is known without a look at other tables."""

    @property
    def keeps_hive_files(self) -> bool:
        """A plain table linked to Hive keeps the files that Hive lists: a sync could not tell what became of them."""
        return self.hive_linked and self.keyed is None

    @property
    def expiring(self) -> Sequence[TableStats]:
        """The stores whose snapshots expire. A linked table's change history stays: rebuilds after Hive replay it."""
        return [self.stats] if self.change is None or self.hive_linked else [self.stats, self.change]

    @property
    def deleted_share(self) -> float:
        """The share of rows that delete files take away, as far as they say; an equality delete counts as one row."""
        deletes = self.stats.position_deletes + self.stats.equality_deletes
        return min(deletes / self.stats.records, 1.0) if self.stats.records else 0.0
