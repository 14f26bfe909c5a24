"""The commits between two versions of a keyed table that change what readers see (docs/protocols.md, rules 7.1 to 7.3).

A change feed reads the appends to the change store, and the state at its first version. Merges, cleans, compactions and
rewrites change no row. Other commits to base, such as those of ttl jobs, change rows without a change: the feed
compares base before and after them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from catalog.errors import Conflict, Invalid
from catalog.history.lineage import Lineage
from catalog.iceberg.json import Json
from catalog.iceberg.summaries import read_number
from catalog.iceberg.table import current_snapshot_id
from catalog.keyed.spec import MERGED_FROM, MERGED_THROUGH, REASON, KeyedTable, Version
from catalog.names import TableName


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedCommit:
    """A snapshot of one store, and the first version that shows it."""

    snapshot_id: int
    parent_id: int | None
    sequence_number: int
    version: Version


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedSegment:
    """A part of a feed. Where `is_direct`, its commit changes base without changes."""

    since: Version
    until: Version
    is_direct: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFeed:
    """What lies between two versions."""

    since: Version
    until: Version
    appends: Sequence[FeedCommit]
    """Appends to the change store, oldest first."""
    direct: Sequence[FeedCommit]
    """Commits that change rows of base without changes, oldest first."""
    is_base_known: bool
    """False if base's snapshots in between have expired, so that `direct` may lack commits."""
    segments: Sequence[FeedSegment]
    """The parts for a feed of each change; empty for a net feed."""


@dataclass(frozen=True, kw_only=True)
class FeedHistory:
    """The history of a keyed table: both stores, and the versions that are left, oldest first."""

    name: TableName
    keyed: KeyedTable
    base: Json
    change: Json
    versions: Sequence[Version]

    @cached_property
    def _changes(self) -> Lineage:
        return Lineage.of(self.change)

    @cached_property
    def _bases(self) -> Lineage:
        return Lineage.of(self.base)

    @cached_property
    def _chain(self) -> list[int]:
        """The change store's snapshots as far back as they are known, newest first."""
        return self._changes.ancestors(current_snapshot_id(self.change))

    @cached_property
    def _by_number(self) -> Mapping[int, Version]:
        return {version.version: version for version in self.versions}

    def is_readable(self, version: Version) -> bool:
        """Whether the version's rows, and all changes since then, are left."""
        base_id, change_id = version.base_snapshot_id, version.change_snapshot_id
        has_base = base_id is None or base_id in self._bases.snapshots
        return has_base and (change_id in self._chain if change_id is not None else self._reaches_start())

    def require(self, number: int) -> Version:
        """The version of this number; Conflict if it has expired, Invalid if the table has not reached it."""
        newest = self.keyed.version
        if number > newest:
            raise Invalid(f"{self.name} has no version {number}: its newest version is {newest}")
        version = self._by_number.get(number)
        if version is not None and self.is_readable(version):
            return version
        raise expired(self.name, f"version {number}", self.find_first_left(number))

    def find_first_left(self, number: int = 0) -> int:
        """The first version from this one on that a feed can start from. The newest one always can."""
        return next((v.version for v in self.versions if v.version >= number and self.is_readable(v)), number)

    def read_sequence_number(self, version: Version) -> int:
        """The sequence number of the change store at a version; 0 before its first snapshot."""
        if version.change_snapshot_id is None:
            return 0
        return int(self._changes.snapshots[version.change_snapshot_id].get("sequence-number") or 0)

    def plan(self, since: int, until: int, *, each: bool) -> ChangeFeed:
        """What lies between two versions. See `require` for failures; Invalid if `until` comes first."""
        start = self.require(since)
        if until < since:
            raise Invalid(f"version {until} of {self.name} comes before version {since}")
        end = self.require(until)
        appends = self._list_commits(self._changes, start, end, _change_id, is_append)
        direct = self._list_commits(self._bases, start, end, _base_id, is_direct)
        known = _reaches(self._bases, end.base_snapshot_id, start.base_snapshot_id)
        return ChangeFeed(
            since=start,
            until=end,
            appends=appends,
            direct=direct,
            is_base_known=known,
            segments=self._list_segments(start, end, direct, is_base_known=known) if each else (),
        )

    def _reaches_start(self) -> bool:
        return _reaches(self._changes, current_snapshot_id(self.change), None)

    def _list_commits(
        self,
        lineage: Lineage,
        start: Version,
        end: Version,
        snapshot_of: Callable[[Version], int | None],
        is_wanted: Callable[[Json], bool],
    ) -> list[FeedCommit]:
        shown = {snapshot_of(v): v for v in reversed(self.versions) if start.version < v.version <= end.version}
        commits, version = list[FeedCommit](), end
        for snapshot_id in lineage.only_in(snapshot_of(end), snapshot_of(start)):  # newest first
            snapshot = lineage.snapshots[snapshot_id]
            version = shown.get(snapshot_id, version)
            if is_wanted(snapshot):
                commits.append(
                    FeedCommit(
                        snapshot_id=snapshot_id,
                        parent_id=snapshot.get("parent-snapshot-id"),
                        sequence_number=int(snapshot.get("sequence-number") or 0),
                        version=version,
                    )
                )
        return commits[::-1]

    def _list_segments(
        self, start: Version, end: Version, direct: Sequence[FeedCommit], *, is_base_known: bool
    ) -> list[FeedSegment]:
        """Cut the feed at direct commits. With a sequence field also at cleans: they drop deletes that older changes
        lose to.
        """
        if not is_base_known:
            raise self._lacks_parts()
        changed = {commit.version.version for commit in direct}
        cleans = (
            self._list_commits(self._changes, start, end, _change_id, _is_clean)
            if self.keyed.spec.sequence_field
            else ()
        )
        cuts = {commit.version.version for commit in cleans} | changed | {number - 1 for number in changed}
        numbers = sorted({number for number in cuts if number > start.version} | {end.version})
        segments, since = list[FeedSegment](), start
        for number in numbers:
            until = self._by_number.get(number)
            if until is None or not self.is_readable(until):
                raise self._lacks_parts()
            if number > since.version:
                segments.append(FeedSegment(since=since, until=until, is_direct=number in changed))
            since = until
        return segments

    def _lacks_parts(self) -> Conflict:
        return Conflict(
            f"the feed of each change of {self.name} needs states in between that have expired",
            hint="read the net changes (each='net'), or start at a later version",
        )


def read_watermark_at(base: Json, snapshot_id: int | None) -> int:
    """The watermark of a snapshot of base; 0 before its first one."""
    snapshot = Lineage.of(base).snapshots.get(snapshot_id) if snapshot_id is not None else None
    return 0 if snapshot is None else read_number(snapshot.get("summary") or {}, MERGED_THROUGH)


def expired(name: TableName, start: str, first_left: int) -> Conflict:
    """The refusal of a feed whose start has expired."""
    return Conflict(
        f"{start} of {name} has expired; the first version that is left is {first_left}",
        hint=f"read the table as a whole, and then its changes since version {first_left}",
    )


def _change_id(version: Version) -> int | None:
    return version.change_snapshot_id


def _base_id(version: Version) -> int | None:
    return version.base_snapshot_id


def is_append(snapshot: Json) -> bool:
    """Whether a snapshot of the change store brings changes."""
    return (snapshot.get("summary") or {}).get("operation") == "append"


def _is_clean(snapshot: Json) -> bool:
    return (snapshot.get("summary") or {}).get("operation") == "delete"


def is_direct(snapshot: Json) -> bool:
    """Whether a snapshot of base changes rows by itself. A merge gives no reason; ttl jobs and rebuilds do."""
    summary = snapshot.get("summary") or {}
    is_merge = MERGED_FROM in summary and REASON not in summary
    return summary.get("operation") != "replace" and not is_merge


def _reaches(lineage: Lineage, snapshot_id: int | None, ancestor: int | None) -> bool:
    """Whether the history from the snapshot back to `ancestor`, or to the empty table, is there."""
    if snapshot_id == ancestor:
        return True
    line = lineage.ancestors(snapshot_id)
    if ancestor is not None:
        return ancestor in line
    return bool(line) and lineage.snapshots[line[-1]].get("parent-snapshot-id") is None
