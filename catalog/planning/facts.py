"""What planning knows of a table, and what it says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from catalog.files.file_layout import FileLayout
from catalog.jobs.blocker import Blocker
from catalog.jobs.job import JobKind
from catalog.jobs.prediction import Prediction
from catalog.keyed.spec import KeyedTable
from catalog.names import RelationId
from catalog.planning.file_rules import compact_rule, rewrite_rule
from catalog.policy.policy import Policy
from catalog.tables.relation import TableStats


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A job to plan. `state` names the table's state it is planned for: what changed nothing is not done twice."""

    kind: JobKind
    reason: str
    state: str
    params: Mapping[str, Any] = field(default_factory=dict)
    predicted: Prediction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotDue:
    """Why nothing is to be done now; `next_at` when time alone will change that, `kind` what comes next."""

    reason: str
    next_at: datetime | None = None
    kind: JobKind | None = None
    predicted: Prediction | None = None
    blocked_by: Blocker | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """What is known of a table: its own counters, or those of its two stores."""

    policy: Policy
    stats: TableStats
    """Of the table itself, or of the base store."""
    keyed: KeyedTable | None = None
    change: TableStats | None = None
    layout: FileLayout | None = None
    """How the files of `stats` lay when they were counted last."""
    change_layout: FileLayout | None = None
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
    def sure_layout(self) -> FileLayout | None:
        """What a rewrite would find at least; None where that is not known, because files have gone since the count."""
        layout = self.layout
        return layout if layout is not None and layout.still_holds(self.stats, rewrite_rule(self.policy)) else None

    @property
    def sure_change_layout(self) -> FileLayout | None:
        """The same of a compaction."""
        if self.keyed is None or self.change is None or self.change_layout is None:
            return None
        rule = compact_rule(self.policy, self.keyed)
        return self.change_layout if self.change_layout.still_holds(self.change, rule) else None

    @property
    def is_counted(self) -> bool:
        """Whether `layout` is of the table as it is now."""
        return self.layout is not None and self.layout.is_of(self.stats, rewrite_rule(self.policy))

    @property
    def to_count(self) -> Sequence[RelationId]:
        """What is to be counted again: the files of the table always, those of a change store if packing may be due."""
        wanted = [] if self.is_counted or self.stats.snapshot_id is None else [self.stats.relation_id]
        keyed, change = self.keyed, self.change
        if keyed is None or change is None or change.data_files < self.policy["firn.compact.min-files"]:
            return wanted
        layout = self.change_layout
        is_counted = layout is not None and layout.is_of(change, compact_rule(self.policy, keyed))
        return wanted if is_counted else [*wanted, change.relation_id]

    @property
    def expiring(self) -> Sequence[TableStats]:
        """The stores whose snapshots expire. A linked table's change history stays: rebuilds after Hive replay it."""
        return [self.stats] if self.change is None or self.hive_linked else [self.stats, self.change]

    @property
    def deleted_share(self) -> float:
        """The share of rows that delete files take away, as far as they say; an equality delete counts as one row."""
        deletes = self.stats.position_deletes + self.stats.equality_deletes
        return min(deletes / self.stats.records, 1.0) if self.stats.records else 0.0
