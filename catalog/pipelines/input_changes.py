"""The changes of a run's input since its pin, as the summaries of its snapshots count them; no manifest is read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

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


def count_plain_changes(metadata: Json, since: int | None, until: int | None) -> ChangeCounts:
    """The changes of a table without a key between two snapshots of one history.

    A compaction changes no row, but a run reads the files that it has written.
    """
    lineage = Lineage.of(metadata)
    return _count(lineage.snapshots[snapshot_id] for snapshot_id in lineage.only_in(until, since))


def count_keyed_changes(base: Json, change: Json, since: Version | None) -> ChangeCounts:
    """The changes of a keyed table since a version: appends to the change store, and commits to base that are none of
    merges or rewrites.
    """
    bases, changes = Lineage.of(base), Lineage.of(change)
    base_id, change_id = (None, None) if since is None else (since.base_snapshot_id, since.change_snapshot_id)
    appended = (changes.snapshots[key] for key in changes.only_in(current_snapshot_id(change), change_id))
    direct = (bases.snapshots[key] for key in bases.only_in(current_snapshot_id(base), base_id))
    return _count([*filter(is_append, appended), *filter(is_direct, direct)])


def _count(snapshots: Iterable[Json]) -> ChangeCounts:
    commits = files = size = rows = 0
    for snapshot in snapshots:
        summary = snapshot.get("summary") or {}
        commits += 1
        files += _sum(summary, _FILES)
        size += _sum(summary, _BYTES)
        rows += 0 if summary.get("operation") == "replace" else _sum(summary, _ROWS)
    return ChangeCounts(commits=commits, files=files, bytes=size, rows=rows)


def _sum(summary: Json, names: Iterable[str]) -> int:
    return sum(read_number(summary, name) for name in names)
