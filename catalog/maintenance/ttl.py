"""Ttl: delete the rows that are older than the policy allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from catalog.files.manifest_entries import ManifestEntry
from catalog.iceberg.json import Json
from catalog.jobs.job import Job, JobKind
from catalog.keyed.merge_task import MergePolicy, build_merge_task, build_pair
from catalog.keyed.spec import CHANGE
from catalog.maintenance.context import JobContext
from catalog.maintenance.dry_run import DryRun, count_by_partition, measure_gain
from catalog.maintenance.estimate import reads_all_data
from catalog.maintenance.kind import MaintenanceKind
from catalog.maintenance.scheduled import due_by_schedule
from catalog.planning.dry_run_result import AffectedItems, DryRunResult, list_largest_partitions
from catalog.planning.facts import Due, TableFacts
from catalog.planning.trigger_result import NotApplicable, NotYet, format_count
from catalog.policy.units import format_duration
from catalog.retention.ttl import (
    Cutoff,
    TtlPolicy,
    build_keyed_facts,
    build_ttl_task,
    check_takes_ttl,
    compute_ttl_cutoff,
)
from catalog.tables.relation import RelationKind
from firn.protocol.tasks.retention import TtlTask

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def trigger(facts: TableFacts, past: Sequence[Job], now: datetime) -> Due | NotYet | NotApplicable | None:
    """Due by schedule, because rows grow old without a commit. Not applicable to a linked table: its rows are Hive's
    too.
    """
    column, age = facts.policy["firn.ttl.field"], facts.policy["firn.ttl.max-age"]
    if not column or age is None or not facts.stats.records:
        return None
    if facts.hive_linked:
        return NotApplicable(kind=JobKind.TTL, reason="the table is linked to Hive, which would bring the rows back")
    action = f"rows whose {column} is older than {format_duration(age)} go"
    return due_by_schedule(JobKind.TTL, "firn.ttl.schedule", action, facts, past, now)


def find_cutoff(context: JobContext) -> Cutoff:
    """The cutoff for old rows of this table; Invalid or CommitRefused if no rows may be deleted."""
    check_takes_ttl(context.relation.name, hive_linked=context.relation.hive_name is not None)
    policy = TtlPolicy(
        field=context.policy["firn.ttl.field"],
        max_age=context.policy["firn.ttl.max-age"],
        zone=context.policy["firn.optimize.time-zone"],
        whole_partitions=context.policy["firn.ttl.whole-partitions"],
    )
    return compute_ttl_cutoff(context.main_store[1], policy, context.now)


def build_task(context: JobContext) -> TtlTask:
    """A delete from a plain table. For a keyed table also the merge without old rows that may replace it."""
    cutoff, (name, base) = find_cutoff(context), context.main_store
    task = build_ttl_task([*name.namespace, name.name], cutoff)
    if context.keyed is None:
        return task
    change = context.metadata[CHANGE]
    # Without a limit of rows, because a merge in parts would leave old rows pending.
    policy = MergePolicy(
        target_file_bytes=context.policy["firn.rewrite.target-file-size"],
        deletes_through=context.deletes_through,
    )
    merge = build_merge_task(context.keyed, context.relation.name, base, change, policy=policy)
    pair = build_pair(context.keyed, context.relation.name, base, change)
    return task.model_copy(update={"keyed": build_keyed_facts(pair, cutoff, merge)})


@dataclass(slots=True)
class _OldFiles:
    """Files with old rows, by the way they are removed."""

    whole: list[ManifestEntry] = field(default_factory=list)
    part: list[ManifestEntry] = field(default_factory=list)
    rows: int = 0
    """Rows in `part`, estimated between their bounds."""


def dry_run(run: DryRun) -> DryRunResult:
    """Rows that are too old: in whole partitions and files, and in parts of files according to their bounds."""
    metadata, cutoff = run.context.main_store[1], find_cutoff(run.context)
    files = run.live(metadata, bounds_of=cutoff.field_id)
    has_deletes = any(file.content for file in files)
    old = _find_old_files(metadata, cutoff, [file for file in files if not file.content])
    rows = old.rows + sum(file.record_count for file in old.whole)
    size = sum(file.size for file in old.whole)
    pending = run.context.keyed is not None and run.context.keyed.pending_commits > 0
    notes = ["rows in part of a file are estimated from its bounds"] if old.part else []
    notes += ["rows that delete files take away already are counted too"] if has_deletes else []
    notes += ["pending changes are not counted"] if pending else []
    qualifier = "about " if notes else ""
    return DryRunResult(
        action=f"delete {qualifier}{format_count(rows, 'row')} in which {cutoff.column} is before {cutoff.at}",
        affected=[
            AffectedItems("rows", rows),
            AffectedItems("files that go whole, unopened", len(old.whole), size),
            AffectedItems("files that lose some rows", len(old.part), sum(file.size for file in old.part)),
            *list_largest_partitions(count_by_partition(metadata, [*old.whole, *old.part])),
        ],
        gain=measure_gain(metadata, files=len(old.whole), bytes=size),
        exact=not notes,
        notes=notes,
    )


def _find_old_files(metadata: Json, cutoff: Cutoff, files: list[ManifestEntry]) -> _OldFiles:
    old = _OldFiles()
    specs = {spec["spec-id"]: spec["fields"] for spec in metadata["partition-specs"]}
    for file in files:
        if _has_only_nulls(specs[file.spec_id], file, cutoff):
            continue
        lower, upper = _find_range(specs[file.spec_id], file, cutoff)
        if lower is not None and lower >= cutoff.value:
            continue
        if upper is not None and upper < cutoff.value:
            old.whole.append(file)
        else:
            old.part.append(file)
            old.rows += _estimate_old_rows(file, lower, upper, cutoff.value)
    return old


def _has_only_nulls(fields: list[Json], file: ManifestEntry, cutoff: Cutoff) -> bool:
    """Whether all of the file's rows have no value. Every transform maps null, and nothing else, to null."""
    pairs = zip(fields, file.partition, strict=True)
    return any(
        partition_field["source-id"] == cutoff.field_id and partition_field["transform"] != "void" and value is None
        for partition_field, value in pairs
    )


def _find_range(fields: list[Json], file: ManifestEntry, cutoff: Cutoff) -> tuple[int | None, int | None]:
    """The lowest and highest value that a row of the file may have, by its bounds or its partition."""
    lower, upper = file.lower, file.upper
    for partition_field, value in zip(fields, file.partition, strict=True):
        if partition_field["source-id"] != cutoff.field_id or not isinstance(value, int):
            continue
        start, end = _find_partition_range(partition_field["transform"], value, cutoff.kind)
        lower = start if lower is None else lower
        upper = end if upper is None else upper
    return lower, upper


def _find_partition_range(transform: str, value: int, kind: str) -> tuple[int | None, int | None]:
    """The first and last value of a partition, in the column's unit."""
    if transform == "identity":
        return value, value
    starts = [_find_start(transform, number) for number in (value, value + 1)]
    if None in starts:
        return None, None
    unit = timedelta(days=1) if kind == "date" else timedelta(microseconds=1)
    first, following = ((start - _EPOCH) // unit for start in starts if start is not None)
    return first, following - 1


def _find_start(transform: str, value: int) -> datetime | None:
    try:
        match transform:
            case "hour":
                return _EPOCH + timedelta(hours=value)
            case "day":
                return _EPOCH + timedelta(days=value)
            case "month":
                return datetime(1970 + value // 12, value % 12 + 1, 1, tzinfo=UTC)
            case "year":
                return datetime(1970 + value, 1, 1, tzinfo=UTC)
            case _:
                return None
    except (OverflowError, ValueError):  # a time outside of Python's calendar
        return None


def _estimate_old_rows(file: ManifestEntry, lower: int | None, upper: int | None, cutoff: int) -> int:
    if lower is None or upper is None:
        return file.record_count
    return round(file.record_count * (cutoff - lower) / (upper - lower + 1))


TTL = MaintenanceKind(
    name=JobKind.TTL,
    max_wait=timedelta(hours=3),
    trigger=trigger,
    estimate=reads_all_data,
    build_task=build_task,
    dry_run=dry_run,
    commits={
        RelationKind.BASE: frozenset({"append", "overwrite", "delete"}),
        RelationKind.CHANGE: frozenset({"delete"}),
    },
    is_only_scheduled=True,
    checks_request=True,
)
