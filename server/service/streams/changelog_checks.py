"""Finds jobs of Flink that seem to insert a changelog into a change store, where it loses its row kinds.

Flink's insert sends the old row, its retraction and the new row without their kinds. With a constant `_op`, rows that
the query has deleted come back. The bounds of `_op` in the manifests tell which values a commit has, so no data file is
read.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from cachetools import LRUCache

from catalog.errors import CatalogError
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema
from catalog.keyed.schema import OP
from catalog.keyed.streams import list_direct_commits
from catalog.ports.column_statistics import ColumnStatisticsReading
from catalog.timestamps import from_milliseconds
from server.service.locations.location_rule import load_file_rule
from server.service.tables.keyed_tables import KeyedTables, Pin

MOST_JOBS = 5
MOST_COMMITS = 5
"""Commits of each job that the check reads: a job that has also sent deletes computes its operations."""
MOST_FILES = 1_000
_CACHED_COMMITS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspectedChangelog:
    """A job of Flink whose newest commits to a change store have one operation only."""

    job: str
    op: str
    commits: int
    """The number of its commits that were read."""
    snapshot_id: int
    committed_at: datetime

    @property
    def message(self) -> str:
        """What it means, for people."""
        commits = "commit has" if self.commits == 1 else f"{self.commits} commits have"
        return (
            f"Flink's job {self.job} inserts into the change store, and its last {commits} rows with "
            f"_op='{self.op}' only. If its query updates or deletes rows, such as one with GROUP BY, deleted rows come "
            "back: write it to the topic with upsert-kafka, or to the table with write.upsert.enabled"
        )


@dataclass(frozen=True)
class ChangelogChecks:
    """Any number of threads may use it at once. What a commit has never changes, so each is read once."""

    keyed: KeyedTables
    manifests: ColumnStatisticsReading
    _known: LRUCache[tuple[str, int], str | None] = field(default_factory=lambda: LRUCache(_CACHED_COMMITS))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def find_pinned(self, pin: Pin) -> Sequence[SuspectedChangelog]:
        """The suspected jobs of a keyed table. Commits that nobody can read are no reason for a warning."""
        jobs = list_direct_commits(pin.change, most_jobs=MOST_JOBS, most_commits=MOST_COMMITS)
        if not jobs:
            return []
        try:
            return self._judge(pin, jobs)
        except CatalogError:
            return []

    def _judge(self, pin: Pin, jobs: Mapping[str, Sequence[Json]]) -> Sequence[SuspectedChangelog]:
        database, files = self.keyed.database, self.keyed.metadata.files
        manifests = self.manifests.confined(load_file_rule(database, files, pin.change_store, pin.change))
        suspected = []
        for job, snapshots in jobs.items():
            ops = {self._find_op(manifests, pin.change, snapshot) for snapshot in snapshots}
            op = ops.pop() if len(ops) == 1 else None
            if op in ("I", "U"):
                newest = snapshots[0]
                suspected.append(
                    SuspectedChangelog(
                        job=job,
                        op=op,
                        commits=len(snapshots),
                        snapshot_id=newest["snapshot-id"],
                        committed_at=from_milliseconds(newest["timestamp-ms"]),
                    )
                )
        return suspected

    def _find_op(self, manifests: ColumnStatisticsReading, change: Json, snapshot: Json) -> str | None:
        key = (str(change["table-uuid"]), int(snapshot["snapshot-id"]))
        with self._lock:
            if key in self._known:
                return self._known[key]
        column = next(field["id"] for field in current_schema(change)["fields"] if field["name"] == OP)
        op = manifests.find_only_value(change, snapshot, column, most_files=MOST_FILES)
        with self._lock:
            self._known[key] = op
        return op
