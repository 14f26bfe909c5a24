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

from catalog.errors import Invalid
from catalog.files.data_file import FileFormat, FileStats, Unreadable
from catalog.hive.baseline import ListedFile
from catalog.hive.columns import ColumnFileRule, FileCheck
from catalog.hive.decision import Filter, apply_filters
from catalog.hive.drift import Additions, DroppedPartition, NewPartition, Rebuild
from catalog.hive.sync_decisions import (
    Changed,
    News,
    SyncFilter,
    SyncKind,
    build_known_filter,
    build_torn_filter,
    first_of,
    list_origins,
)
from catalog.iceberg.json import Json
from catalog.iceberg.table import current_schema
from catalog.ports.files import TableFiles
from server.service.hive.change_set import ChangeSet
from server.service.hive.hive_state import HiveState, Unit, join
from server.service.hive.keys import Keys
from server.service.hive.link_state import LinkedTable
from server.service.hive.task_columns import as_hive_calls


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
        stats, digests, bad = self._read(found)
        found = with_digests(found, digests)
        unreadable = {name: one.reason for name, one in bad.items() if not one.is_gone}
        vanished = {name: f"{one.reason}, and was listed a moment ago" for name, one in bad.items() if one.is_gone}
        filters = [
            build_known_filter("unreadable", SyncKind.HOLD, unreadable),
            build_known_filter("vanished", SyncKind.WAIT, vanished),
            filter_unfit(found, checks, self.files),
            build_torn_filter(lambda partitions: self._torn(found, partitions, vanished)),
        ]
        _, decisions = apply_filters(found.news, filters)
        return ReadableFiles(found=found.filtered(decisions, self.linked.baselines), stats=stats)

    def _read(self, found: ChangeSet) -> tuple[dict[str, FileStats], dict[str, int | None], dict[str, _Bad]]:
        """What files say that are to be registered, what all are known again by, and which partitions are bad.

        Those have files that cannot be read, or rows without a key.
        """
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
        return stats, digests, bad

    def _torn(self, found: ChangeSet, partitions: Mapping[str, News], vanished: Collection[str]) -> str | None:
        """A partition that is held back and has lost files which base stands on, or which may have moved to others."""
        if not self.linked.is_keyed:
            return None
        held = {*found.held, *(found.news.keys() - partitions.keys() - set(vanished))}
        if away := first_of(list_origins(partitions) & held):
            return away
        rebuilds = {name: one for name, one in found.changed.items() if name in held and isinstance(one, Rebuild)}
        lost = {
            join(self.linked.baselines[name].location, file.path): name
            for name, one in rebuilds.items()
            for file in one.removed
        }
        live = self.files.live_files(self.base) if lost else ()
        return next((lost[file.location] for file in live if file.location in lost), None)

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


def filter_unfit(found: ChangeSet, checks: Sequence[FileCheck], files: TableFiles) -> SyncFilter:
    """Partitions to which files came that cannot be read as they are meant, while both sides differ in a column."""

    def find(partitions: Mapping[str, News]) -> dict[str, str]:
        come = _locations(found, partitions) if checks else []
        return {name: why for name, kind, some in come if (why := _why_unfit(files, checks, kind, some))}

    return Filter("columns-differ", SyncKind.HOLD, "", find)


def _locations(found: ChangeSet, partitions: Mapping[str, News]) -> Iterator[tuple[str, FileFormat, list[str]]]:
    """The files that came to each of these partitions, and those that came to directories it has left."""
    there = {name: (found.units[name], news) for name, news in partitions.items() if name in found.units}
    for name, (unit, news) in there.items():
        if news.change is not None:
            yield name, unit.format, [join(unit.location, path) for path in _come(news.change)]
    for name, (unit, news) in there.items():
        for late in news.late:
            yield name, unit.format, [join(late.directory.location, file.path) for file in late.files]


def with_digests(found: ChangeSet, digests: Mapping[str, int | None]) -> ChangeSet:
    """What was found, with files known again by what was read of them; `digests` are by location."""

    def digested(directory: str, files: Sequence[ListedFile]) -> tuple[ListedFile, ...]:
        told = ((file, digests.get(join(directory, file.path))) for file in files)
        return tuple(file if digest is None else replace(file, digest=digest) for file, digest in told)

    changed = dict(found.changed)
    for name, change in found.changed.items():
        if not isinstance(change, DroppedPartition):
            baseline = replace(change.baseline, files=digested(change.baseline.location, change.baseline.files))
            changed[name] = replace(change, baseline=baseline)
    late = [
        replace(one, directory=replace(one.directory, files=digested(one.directory.location, one.directory.files)))
        for one in found.late
    ]
    return replace(found, changed=changed, late=late)


def _why_unfit(
    files: TableFiles, checks: Sequence[FileCheck], kind: FileFormat, locations: Sequence[str]
) -> str | None:
    """Why one of these files of one format cannot be taken over; None when all can."""
    formats = dict.fromkeys(locations, kind)
    for check in checks:
        schema, nulls_of = {"type": "struct", "fields": [check.field]}, [check.field["id"]]
        try:
            for stats in files.footers(schema, locations, formats, nulls_of=nulls_of):
                if reason := _why(check, stats):
                    return f"{stats.location}: {reason}"
        except Invalid as error:
            return error.message
    return None


def _why(check: FileCheck, stats: FileStats) -> str | None:
    holds, name = _holds(check, stats), check.field["name"]
    if check.rule is ColumnFileRule.LACKS and holds:
        return f"it holds column {name!r}, which both sides mean otherwise"
    if check.rule is ColumnFileRule.HOLDS and (not holds or stats.null_counts.get(check.field["id"])):
        return f"it has no column {name!r}, or nulls in it, and the table's key needs it"
    return None


def _holds(check: FileCheck, stats: FileStats) -> bool:
    """Whether the file has the one column that was asked for. Avro tells by its rows: nulls may be no column at all."""
    if stats.format is FileFormat.AVRO:
        return stats.null_counts.get(check.field["id"], 0) < stats.record_count
    return bool(stats.column_sizes or stats.value_counts)


def _come(change: Changed) -> list[str]:
    if isinstance(change, DroppedPartition):
        return []
    return [file.path for file in (change.added if isinstance(change, Rebuild) else change.files)]
