"""Checks files that Hive has added before a sync takes them over.

A partition waits if one of its files cannot be read, or holds rows without a key.

The sync takes over all other partitions. The statistics of files that base registers are kept for the registration. A
job reads its files itself, and gets none that would end it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

from catalog.errors import Invalid
from catalog.files.data_file import FileFormat, FileStats, Unreadable
from catalog.hive.baseline import PartitionBaseline
from catalog.hive.columns import ColumnFileRule, FileCheck
from catalog.hive.decision import Filter, apply_filters
from catalog.hive.drift import Additions, DroppedPartition, NewPartition, Rebuild
from catalog.hive.listing import ListedFile
from catalog.hive.model import HiveColumn
from catalog.hive.partition_names import to_partition_record
from catalog.hive.sync_decisions import (
    Changed,
    News,
    SyncDecision,
    SyncFilter,
    SyncKind,
    build_known_filter,
    build_torn_filter,
    first_of,
    list_origins,
)
from catalog.iceberg.json import Json
from catalog.iceberg.table import current_schema
from catalog.keyed.spec import KeySpec
from catalog.ports.files import TableFiles
from server.service.hive.change_set import ChangeSet
from server.service.hive.hive_state import HiveState, LinkedTable, Unit, join
from server.service.hive.task_columns import as_hive_calls, list_key_columns

_REMOVE_ROWS = "Remove these rows, or write them again with a value."


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncClassification:
    """A decision about each partition, and the facts that taking over needs."""

    decisions: Mapping[str, SyncDecision]
    changes: ChangeSet
    """The changes without partitions that a filter holds back."""
    stats: Mapping[str, FileStats] = field(default_factory=dict)
    """The statistics of files that base registers, by location."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Files of one partition to check."""

    name: str
    format: FileFormat
    locations: Sequence[str]
    is_registered: bool
    """Whether base takes the files as they are; else a job reads their rows."""


@dataclass(frozen=True, slots=True)
class _Problem:
    """Why a sync cannot take over a partition."""

    reason: str
    is_gone: bool


@dataclass(frozen=True, slots=True)
class _Keys:
    """The key columns and the sequence field of new files."""

    columns: Sequence[Json]
    """The table's fields of the columns that files hold."""
    in_names: Sequence[tuple[int, HiveColumn]] = ()
    """The columns in partition names, each with its position there."""

    @classmethod
    def of(cls, state: HiveState, spec: KeySpec | None, schema: Json) -> _Keys:
        key = {name.lower() for name in (spec.primary_key if spec else ())}
        numbered = enumerate(state.table.partition_columns)
        in_names = [(place, column) for place, column in numbered if column.name.lower() in key]
        return cls(list_key_columns(state.table, spec, schema), in_names)

    def explain_missing_partition_key(self, values: Sequence[str]) -> str | None:
        """Explain why no row of a partition has a key; None if its values are complete."""
        for at, column in self.in_names:
            if to_partition_record([column], [values[at]]) == (None,):
                return f"its value of {column.name!r} is null, which no row may lack. {_REMOVE_ROWS}"
        return None

    def explain_missing_key(self, stats: FileStats, *, is_registered: bool) -> str | None:
        """Explain why rows of a file lack a key. A job has to read a file without counts; base cannot register it."""
        for column in self.columns:
            name = column["name"]
            if not is_registered and not stats.null_counts.get(column["id"]):
                continue
            try:
                count = stats.count_nulls(column["id"], name)
            except Invalid as error:
                return f"{error.message}. {error.hint}"
            if count:
                return (
                    f"{stats.location} holds nulls in {name!r} ({count} found), which no row may lack. {_REMOVE_ROWS}"
                )
        return None


@dataclass(frozen=True)
class FileCheckRunner:
    """Checks the files that came to one table."""

    files: TableFiles
    linked: LinkedTable
    state: HiveState
    base: Json
    """The metadata of the table, or of its base store."""

    def classify(self, changes: ChangeSet, checks: Sequence[FileCheck] = ()) -> SyncClassification:
        """Decide about each partition; `checks` apply to files while columns differ."""
        stats, digests, bad = self._read(changes)
        changes = with_digests(changes, digests)
        unreadable = {name: problem.reason for name, problem in bad.items() if not problem.is_gone}
        vanished = {
            name: f"{problem.reason}, and was listed a moment ago" for name, problem in bad.items() if problem.is_gone
        }
        filters = [
            build_known_filter("unreadable", SyncKind.HOLD, unreadable),
            build_known_filter("vanished", SyncKind.WAIT, vanished),
            filter_unfit(changes, checks, self.files),
            build_torn_filter(lambda partitions: self._explain_torn(changes, partitions, vanished)),
        ]
        _, decisions = apply_filters(changes.news, filters)
        remaining = _hold_back(changes, decisions, self.linked.baselines)
        return SyncClassification(decisions=remaining.decisions, changes=remaining, stats=stats)

    def _read(self, changes: ChangeSet) -> tuple[dict[str, FileStats], dict[str, int | None], dict[str, _Problem]]:
        """Read the statistics of files to register, the digests of all files, and the bad partitions.

        A bad partition has a file that cannot be read, or rows without a key.
        """
        stats: dict[str, FileStats] = {}
        digests: dict[str, int | None] = {}
        bad: dict[str, _Problem] = {}
        parts = self._parts(changes)
        for part in parts:
            unit = changes.units.get(part.name)
            if unit is not None and (unfit := self._keys.explain_missing_partition_key(unit.values)) is not None:
                bad[part.name] = _Problem(unfit, is_gone=False)
        registered = [part for part in parts if part.is_registered]
        read = [part for part in parts if not part.is_registered]
        nulls_of = [column["id"] for column in self._keys.columns]
        for part, result in chain(self._examine(registered, bad, nulls_of), self._examine(read, bad, ())):
            if (reason := self._explain_refusal(part, result)) is not None:
                bad.setdefault(part.name, _Problem(reason, is_gone=isinstance(result, Unreadable) and result.is_gone))
            elif isinstance(result, FileStats):
                digests[result.location] = result.digest
                if part.is_registered:
                    stats[result.location] = result
        return stats, digests, bad

    def _explain_torn(
        self, changes: ChangeSet, partitions: Mapping[str, News], vanished: Collection[str]
    ) -> str | None:
        """Find a partition that is held back and has lost files that base needs, or that may have moved to others."""
        if not self.linked.is_keyed:
            return None
        held = {*changes.held, *(changes.news.keys() - partitions.keys() - set(vanished))}
        if away := first_of(list_origins(partitions) & held):
            return away
        rebuilds = {
            name: change for name, change in changes.changed.items() if name in held and isinstance(change, Rebuild)
        }
        lost = {
            join(self.linked.baselines[name].location, file.path): name
            for name, change in rebuilds.items()
            for file in change.removed
        }
        live = self.files.live_files(self.base) if lost else ()
        return next((lost[file.location] for file in live if file.location in lost), None)

    def _parts(self, changes: ChangeSet) -> list[_Part]:
        """The files to read of each partition."""
        parts = []
        for name, change in changes.changed.items():
            unit = changes.units.get(name)
            if unit is not None and not isinstance(change, DroppedPartition):
                is_registered = not self.linked.is_keyed or (self.linked.trusts and not isinstance(change, Rebuild))
                parts.append(_Part(name, unit.format, self._locations(unit, change), is_registered))
        is_registered, usual = not self.linked.is_keyed, self.state.table.file_format or FileFormat.PARQUET
        for late in changes.late:
            unit = changes.units.get(late.name)
            if unit is not None or is_registered:
                locations = [join(late.directory.location, file.path) for file in late.files]
                parts.append(_Part(late.name, unit.format if unit else usual, locations, is_registered))
        return parts

    def _locations(self, unit: Unit, change: Additions | NewPartition | Rebuild) -> list[str]:
        """All files of a partition that a job rebuilds or that Hive overwrites; else the files that came."""
        is_whole = self.linked.is_keyed or self.linked.overwrite_wins
        files = change.added if isinstance(change, Rebuild) and not is_whole else change.files
        return [join(unit.location, file.path) for file in files]

    def _examine(
        self, parts: Sequence[_Part], bad: Mapping[str, _Problem], nulls_of: Collection[int]
    ) -> Iterator[tuple[_Part, FileStats | Unreadable]]:
        """Read the footers of the files; a partition known to be bad needs no more reads."""
        formats: dict[str, FileFormat] = {}
        parts_read: deque[_Part] = deque()

        def locations() -> Iterator[str]:
            for part in parts:
                for location in part.locations:
                    if part.name in bad:
                        break
                    parts_read.append(part)
                    formats[location] = part.format
                    yield location

        called = as_hive_calls(self.base, self.state.table.columns)
        for result in self.files.examined(called, locations(), formats, nulls_of=nulls_of):
            yield parts_read.popleft(), result

    def _explain_refusal(self, part: _Part, result: FileStats | Unreadable) -> str | None:
        """Explain why a sync cannot take over a file; problems that only rows show end the job."""
        if isinstance(result, Unreadable):
            return None if result.has_rows and not part.is_registered else result.reason
        return self._keys.explain_missing_key(result, is_registered=part.is_registered)

    @cached_property
    def _keys(self) -> _Keys:
        return _Keys.of(self.state, self.linked.spec, current_schema(self.base))


def _hold_back(
    changes: ChangeSet, decisions: Mapping[str, SyncDecision], baselines: Mapping[str, PartitionBaseline]
) -> ChangeSet:
    """The changes without these partitions: the next sync lists them again, whatever their signals say."""
    held = {name: decision for name, decision in decisions.items() if decision.kind is SyncKind.HOLD}
    postponed = {name: decision for name, decision in decisions.items() if name not in held}
    unsettled = {name: replace(baselines[name], settled=False) for name in decisions if name in baselines}
    return replace(
        changes,
        changed={name: change for name, change in changes.changed.items() if name not in decisions},
        refreshed={**changes.refreshed, **unsettled},
        held={**changes.held, **held},
        postponed={**changes.postponed, **postponed},
        late=[late for late in changes.late if late.name not in decisions],
    )


def filter_unfit(changes: ChangeSet, checks: Sequence[FileCheck], files: TableFiles) -> SyncFilter:
    """Partitions to which files came that cannot be read as they are meant, while both sides differ in a column."""

    def find(partitions: Mapping[str, News]) -> dict[str, str]:
        arrived = _locations(changes, partitions) if checks else []
        return {name: why for name, kind, some in arrived if (why := _explain_unfit(files, checks, kind, some))}

    return Filter("columns-differ", SyncKind.HOLD, "", find)


def _locations(changes: ChangeSet, partitions: Mapping[str, News]) -> Iterator[tuple[str, FileFormat, list[str]]]:
    """The files that came to each of these partitions, and those that came to directories it has left."""
    there = {name: (changes.units[name], news) for name, news in partitions.items() if name in changes.units}
    for name, (unit, news) in there.items():
        if news.change is not None:
            yield name, unit.format, [join(unit.location, path) for path in _list_new_files(news.change)]
    for name, (unit, news) in there.items():
        for late in news.late:
            yield name, unit.format, [join(late.directory.location, file.path) for file in late.files]


def with_digests(changes: ChangeSet, digests: Mapping[str, int | None]) -> ChangeSet:
    """The changes with the digests of their files; `digests` are by location."""

    def add_digests(directory: str, files: Sequence[ListedFile]) -> tuple[ListedFile, ...]:
        with_digest = ((file, digests.get(join(directory, file.path))) for file in files)
        return tuple(file if digest is None else replace(file, digest=digest) for file, digest in with_digest)

    changed = dict(changes.changed)
    for name, change in changes.changed.items():
        if not isinstance(change, DroppedPartition):
            baseline = replace(change.baseline, files=add_digests(change.baseline.location, change.baseline.files))
            changed[name] = replace(change, baseline=baseline)
    late = [
        replace(
            late, directory=replace(late.directory, files=add_digests(late.directory.location, late.directory.files))
        )
        for late in changes.late
    ]
    return replace(changes, changed=changed, late=late)


def _explain_unfit(
    files: TableFiles, checks: Sequence[FileCheck], kind: FileFormat, locations: Sequence[str]
) -> str | None:
    """Why one of these files of one format cannot be taken over; None when all can."""
    formats = dict.fromkeys(locations, kind)
    for check in checks:
        schema, nulls_of = {"type": "struct", "fields": [check.field]}, [check.field["id"]]
        try:
            for stats in files.footers(schema, locations, formats, nulls_of=nulls_of):
                if reason := _explain_check(check, stats):
                    return f"{stats.location}: {reason}"
        except Invalid as error:
            return error.message
    return None


def _explain_check(check: FileCheck, stats: FileStats) -> str | None:
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


def _list_new_files(change: Changed) -> list[str]:
    if isinstance(change, DroppedPartition):
        return []
    return [file.path for file in (change.added if isinstance(change, Rebuild) else change.files)]
