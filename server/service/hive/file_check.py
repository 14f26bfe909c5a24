"""Files that came are looked into before anything is taken over: a partition waits if one of its own cannot be read.

All others are taken over meanwhile.  What files say is kept for whoever registers them; a job reads them itself, and is
spared those that would end it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

from catalog.files.data_file import FileFormat, FileStats, Unreadable
from catalog.hive.columns import FileCheck
from catalog.hive.drift import Additions, DroppedPartition, NewPartition, Rebuild
from catalog.iceberg.json import Json
from catalog.iceberg.table import current_schema
from catalog.ports.files import TableFiles
from server.service.hive.detect_changes import ChangeSet
from server.service.hive.hive_state import HiveState, Unit, join
from server.service.hive.keys import Keys
from server.service.hive.link_state import LinkedTable
from server.service.hive.schema_check import with_digests, without, without_unfit
from server.service.hive.sync_task import as_hive_calls


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadableFiles:
    """What can be taken over, and what the files of it say that are to be registered, by location."""

    found: ChangeSet
    stats: Mapping[str, FileStats] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Part:
    """Files of one partition to be looked into."""

    name: str
    format: FileFormat
    locations: Sequence[str]
    is_registered: bool
    """Whether base takes the files as they are; else a job reads their rows."""


@dataclass(frozen=True, slots=True)
class _Bad:
    """Why a partition is not taken over."""

    reason: str
    is_gone: bool


@dataclass(frozen=True)
class FileCheckRunner:
    """Looks into the files that came to one table."""

    files: TableFiles
    linked: LinkedTable
    state: HiveState
    base: Json
    """The metadata of what is committed to."""

    def readable(self, found: ChangeSet, checks: Sequence[FileCheck] = ()) -> ReadableFiles:
        """What was found, but for partitions that have to wait; `checks` are asked of files while columns differ."""
        readable = self._read(found)
        fitting = without_unfit(readable.found, self.linked, checks, self.files)
        return replace(readable, found=self._without_torn(found, fitting))

    def _read(self, found: ChangeSet) -> ReadableFiles:
        """Without partitions that have files that cannot be read, or rows without a key."""
        stats: dict[str, FileStats] = {}
        digests: dict[str, int | None] = {}
        bad: dict[str, _Bad] = {}
        parts = self._parts(found)
        for part in parts:
            unit = found.units.get(part.name)
            if unit is not None and (unfit := self._keys.why_not_partition(unit.values)) is not None:
                bad[part.name] = _Bad(unfit, is_gone=False)
        registered = [part for part in parts if part.is_registered]
        read = [part for part in parts if not part.is_registered]
        nulls_of = [column["id"] for column in self._keys.columns]
        for part, one in chain(self._examined(registered, bad, nulls_of), self._examined(read, bad, ())):
            if (reason := self._why_not(part, one)) is not None:
                bad.setdefault(part.name, _Bad(reason, is_gone=isinstance(one, Unreadable) and one.is_gone))
            elif isinstance(one, FileStats):
                digests[one.location] = one.digest
                if part.is_registered:
                    stats[one.location] = one
        held = {name: one.reason for name, one in bad.items() if not one.is_gone}
        gone = {name: f"{one.reason}, and was listed a moment ago" for name, one in bad.items() if one.is_gone}
        return ReadableFiles(found=without(with_digests(found, digests), self.linked, held, gone), stats=stats)

    def _without_torn(self, before: ChangeSet, found: ChangeSet) -> ChangeSet:
        """What was found, without rebuilds where base stands on files that a partition held back has lost.

        They read base's rows of all partitions. What is only added needs none of them.
        """
        held = {name: one for name, one in before.changed.items() if name in found.held and isinstance(one, Rebuild)}
        if not self.linked.is_keyed or not found.rebuilds:
            return found
        if away := sorted(_origins(found) & found.held.keys()):
            return without(found, self.linked, dict.fromkeys(found.rebuilds, _torn(away[0])))
        if not held:
            return found
        lost = {
            join(self.linked.baselines[name].location, file.path): name
            for name, one in held.items()
            for file in one.removed
        }
        torn = next((lost[file.location] for file in self.files.live_files(self.base) if file.location in lost), None)
        if torn is None:
            return found
        return without(found, self.linked, dict.fromkeys(found.rebuilds, _torn(torn)))

    def _parts(self, found: ChangeSet) -> list[_Part]:
        """What is to be read of each partition."""
        parts = []
        for name, change in found.changed.items():
            unit = found.units.get(name)
            if unit is not None and not isinstance(change, DroppedPartition):
                is_registered = not self.linked.is_keyed or (self.linked.trusts and not isinstance(change, Rebuild))
                parts.append(_Part(name, unit.format, self._locations(unit, change), is_registered))
        is_registered, usual = not self.linked.is_keyed, self.state.table.file_format or FileFormat.PARQUET
        for one in found.late:
            unit = found.units.get(one.name)
            if unit is not None or is_registered:
                locations = [join(one.directory.location, file.path) for file in one.files]
                parts.append(_Part(one.name, unit.format if unit else usual, locations, is_registered))
        return parts

    def _locations(self, unit: Unit, change: Additions | NewPartition | Rebuild) -> list[str]:
        """A job reads a partition that is built anew whole; so it is registered where Hive wins over changes here."""
        is_whole = self.linked.is_keyed or self.linked.overwrite_wins
        files = change.added if isinstance(change, Rebuild) and not is_whole else change.files
        return [join(unit.location, file.path) for file in files]

    def _examined(
        self, parts: Sequence[_Part], bad: Mapping[str, _Bad], nulls_of: Collection[int]
    ) -> Iterator[tuple[_Part, FileStats | Unreadable]]:
        """What the files say; of a partition that is known to be bad no more are asked for."""
        formats: dict[str, FileFormat] = {}
        asked: deque[_Part] = deque()

        def locations() -> Iterator[str]:
            for part in parts:
                for location in part.locations:
                    if part.name in bad:
                        break
                    asked.append(part)
                    formats[location] = part.format
                    yield location

        called = as_hive_calls(self.base, self.state.table.columns)
        for one in self.files.examined(called, locations(), formats, nulls_of=nulls_of):
            yield asked.popleft(), one

    def _why_not(self, part: _Part, one: FileStats | Unreadable) -> str | None:
        """What keeps a file from being taken over; a job sees what only rows show."""
        if isinstance(one, Unreadable):
            return None if one.has_rows and not part.is_registered else one.reason
        return self._keys.why_not(one, is_registered=part.is_registered)

    @cached_property
    def _keys(self) -> Keys:
        return Keys.of(self.state, self.linked.spec, current_schema(self.base))


def _origins(found: ChangeSet) -> frozenset[str]:
    """Partitions that have lost files to others, or may have: where one is held back nobody knows."""
    return frozenset(name for one in found.rebuilds.values() if isinstance(one, Rebuild) for name in one.origins)


def _torn(name: str) -> str:
    return f"rows of partition {name} are gone, which may have moved here" if name else "rows of it are gone"
