"""The facts about a table that planning uses, and its decisions."""

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
    """A job to plan. `state` names the table's state; the planner does not repeat a job for a state without effect."""

    kind: JobKind
    reason: str
    state: str
    params: Mapping[str, Any] = field(default_factory=dict)
    predicted: Prediction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotDue:
    """Why no job is due now. `next_at` is set if time alone changes that; `kind` is the next kind."""

    reason: str
    next_at: datetime | None = None
    kind: JobKind | None = None
    predicted: Prediction | None = None
    blocked_by: Blocker | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """The facts about a table: its own counters, or those of its two stores."""

    policy: Policy
    stats: TableStats
    """The counters of the table itself, or of the base store."""
    keyed: KeyedTable | None = None
    change: TableStats | None = None
    layout: FileLayout | None = None
    """The last counted layout of the files of `stats`."""
    change_layout: FileLayout | None = None
    hive_linked: bool = False
    created_at: datetime | None = None
    """When schedules start to count. None makes no schedule due."""
    blockers: tuple[Blocker, ...] = ()
    keeps_orphans: str | None = None
    """Why orphan removal never takes a file of it, as far as the table alone tells."""
    has_held_run: bool = False
    """Whether a run of a pipeline waits for approval, and its commit is refused once the table has another snapshot."""

    @property
    def keeps_hive_files(self) -> bool:
        """Whether the table keeps the files that Hive lists. A sync of a plain linked table could not recognize packed
        files.
        """
        return self.hive_linked and self.keyed is None

    @property
    def sure_layout(self) -> FileLayout | None:
        """The least that a rewrite would find; None if files have gone since the count."""
        layout = self.layout
        return layout if layout is not None and layout.still_holds(self.stats, rewrite_rule(self.policy)) else None

    @property
    def sure_change_layout(self) -> FileLayout | None:
        """The least that a compaction would find; None if files have gone since the count."""
        if self.keyed is None or self.change is None or self.change_layout is None:
            return None
        rule = compact_rule(self.policy, self.keyed)
        return self.change_layout if self.change_layout.still_holds(self.change, rule) else None

    @property
    def is_counted(self) -> bool:
        """Whether `layout` describes the table's current files."""
        return self.layout is not None and self.layout.is_of(self.stats, rewrite_rule(self.policy))

    @property
    def to_count(self) -> Sequence[RelationId]:
        """The relations to count again: the table's files, and those of a change store if packing may be due."""
        wanted = [] if self.is_counted or self.stats.snapshot_id is None else [self.stats.relation_id]
        keyed, change = self.keyed, self.change
        if keyed is None or change is None or change.data_files < self.policy["firn.compact.min-files"]:
            return wanted
        layout = self.change_layout
        is_counted = layout is not None and layout.is_of(change, compact_rule(self.policy, keyed))
        return wanted if is_counted else [*wanted, change.relation_id]

    @property
    def expiring(self) -> Sequence[TableStats]:
        """The stores whose snapshots expire. A linked table keeps its change history, because rebuilds replay it."""
        return [self.stats] if self.change is None or self.hive_linked else [self.stats, self.change]

    @property
    def deleted_share(self) -> float:
        """The share of deleted rows, as far as delete files tell. An equality delete counts as one row."""
        deletes = self.stats.position_deletes + self.stats.equality_deletes
        return min(deletes / self.stats.records, 1.0) if self.stats.records else 0.0
