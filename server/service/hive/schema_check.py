"""While both sides differ in a column, files are looked at before they are taken over: only those it concerns wait."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from catalog.errors import Invalid
from catalog.files.data_file import FileFormat, FileStats
from catalog.hive.baseline import ListedFile
from catalog.hive.columns import ColumnFileRule, FileCheck
from catalog.hive.decision import Filter
from catalog.hive.drift import DroppedPartition, Rebuild
from catalog.hive.sync_decisions import Changed, News, SyncFilter, SyncKind
from catalog.ports.files import TableFiles
from server.service.hive.change_set import ChangeSet
from server.service.hive.hive_state import join


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
