"""While both sides differ in a column, files are looked at before they are taken over: only those it concerns wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from catalog.errors import Invalid
from catalog.files.data_file import FileFormat, FileStats
from catalog.hive.baseline import ListedFile
from catalog.hive.columns import ColumnFileRule, FileCheck
from catalog.hive.drift import DroppedPartition, Rebuild
from catalog.ports.files import TableFiles
from server.service.hive.detect_changes import Changed, ChangeSet
from server.service.hive.hive_state import join
from server.service.hive.link_state import LinkedTable


def without_unfit(found: ChangeSet, linked: LinkedTable, checks: Sequence[FileCheck], files: TableFiles) -> ChangeSet:
    """What was found, with partitions held back to which files came that cannot be read as they are meant."""
    if not checks:
        return found
    units = found.units
    come = [
        (name, units[name].format, [join(units[name].location, path) for path in _come(one)])
        for name, one in found.changed.items()
        if name in units
    ]
    come += [
        (one.name, units[one.name].format, [join(one.directory.location, file.path) for file in one.files])
        for one in found.late
        if one.name in units
    ]
    held = {name: reason for name, kind, some in come if (reason := _why_unfit(files, checks, kind, some))}
    return without(found, linked, held)


def without(
    found: ChangeSet, linked: LinkedTable, held: Mapping[str, str], gone: Mapping[str, str] = MappingProxyType({})
) -> ChangeSet:
    """What was found, without partitions that are held back, or that wait because files of them have gone."""
    waiting = held.keys() | gone.keys()
    again = {name: replace(linked.baselines[name], settled=False) for name in waiting if name in linked.baselines}
    return replace(
        found,
        changed={name: change for name, change in found.changed.items() if name not in waiting},
        refreshed={**found.refreshed, **again},
        held={**found.held, **held},
        postponed={**found.postponed, **gone},
        late=[one for one in found.late if one.name not in waiting],
    )


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
