"""The changes of a run's input since its pin, as the summaries of its snapshots count them; no manifest is read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from catalog.history.change_feed import is_append, is_direct
from catalog.history.lineage import Lineage
from catalog.iceberg.json import Json
from catalog.iceberg.summaries import read_number
from catalog.iceberg.table import current_snapshot_id
from catalog.keyed.spec import Version

_FILES = ("added-data-files", "deleted-data-files", "added-delete-files")
_BYTES = ("added-files-size", "removed-files-size")
_ROWS = ("added-records", "deleted-records", "added-position-deletes")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeCounts:
    """The commits since a pin, and the files, bytes and rows that they have added and removed."""

    commits: int = 0
    files: int = 0
    bytes: int = 0
    rows: int = 0


@dataclass(frozen=True)
class PlainChangeCounter:
    """Counts the changes of a table without a key, for any number of pins: it reads each summary once."""

    lineage: Lineage
    _counted: dict[int, ChangeCounts] = field(default_factory=dict)

    def count(self, since: int | None, until: int | None) -> ChangeCounts:
        """The changes between two snapshots of one history.

        A compaction changes no row, but a run reads the files that it has written.
        """
        return _total(self._count(snapshot_id) for snapshot_id in self.lineage.only_in(until, since))

    def _count(self, snapshot_id: int) -> ChangeCounts:
        if snapshot_id not in self._counted:
            self._counted[snapshot_id] = _count(self.lineage.snapshots[snapshot_id])
        return self._counted[snapshot_id]


def count_keyed_changes(base: Json, change: Json, since: Version | None) -> ChangeCounts:
    """The changes of a keyed table since a version: appends to the change store, and commits to base that are none of
    merges or rewrites.
    """
    bases, changes = Lineage.of(base), Lineage.of(change)
    base_id, change_id = (None, None) if since is None else (since.base_snapshot_id, since.change_snapshot_id)
    appended = (changes.snapshots[key] for key in changes.only_in(current_snapshot_id(change), change_id))
    direct = (bases.snapshots[key] for key in bases.only_in(current_snapshot_id(base), base_id))
    return _total(map(_count, [*filter(is_append, appended), *filter(is_direct, direct)]))


def _count(snapshot: Json) -> ChangeCounts:
    summary = snapshot.get("summary") or {}
    return ChangeCounts(
        commits=1,
        files=_sum(summary, _FILES),
        bytes=_sum(summary, _BYTES),
        rows=0 if summary.get("operation") == "replace" else _sum(summary, _ROWS),
    )


def _total(counts: Iterable[ChangeCounts]) -> ChangeCounts:
    commits = files = size = rows = 0
    for entry in counts:
        commits += entry.commits
        files += entry.files
        size += entry.bytes
        rows += entry.rows
    return ChangeCounts(commits=commits, files=files, bytes=size, rows=rows)


def _sum(summary: Json, names: Iterable[str]) -> int:
    return sum(read_number(summary, name) for name in names if name in summary)
