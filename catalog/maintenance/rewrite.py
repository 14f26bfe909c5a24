"""Rewrite: bin-pack, sort or z-order the data files of a plain table or of a base store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from catalog.errors import Invalid
from catalog.files.bin_packing import AppliedDeletes, RewriteRule, Selection
from catalog.files.file_layout import APPLY_DELETES, FEWEST_FILES, FileLayout, LayoutCounter, summarize_packing
from catalog.files.manifest_entries import ManifestEntry
from catalog.history.tables import format_sort_order
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema, field_by_name
from catalog.jobs.job import Job, JobKind
from catalog.keyed.file_tasks import build_rewrite_task, name_files_table
from catalog.maintenance.context import JobContext
from catalog.maintenance.dry_run import DryRun, count_by_partition, measure_gain
from catalog.maintenance.estimate import Effect, TableSize
from catalog.maintenance.kind import WITH_QUARANTINES, JobOptions, MaintenanceKind
from catalog.planning.dry_run_result import NOTHING_TO_DO, AffectedItems, DryRunResult, list_largest_partitions
from catalog.planning.facts import Due, TableFacts
from catalog.planning.file_rules import rewrite_policy
from catalog.planning.schedules import find_due_times
from catalog.planning.trigger_result import NotYet, format_count, format_time
from catalog.tables.relation import Relation, RelationKind, TableStats
from firn.protocol.tasks.files import RewriteStrategy, RewriteTask

WITH_VECTORS = 3
"""From this format version on, a data file has at most one deletion vector, so there is nothing to pack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteOptions(JobOptions):
    """Options of one rewrite; the table's policy decides the rest.

    `where` is an SQL condition: the job takes only files that may hold such rows. `everything` takes files of any
    size.
    """

    strategy: RewriteStrategy | None = None
    sort_order: Sequence[str] = ()
    where: str | None = None
    everything: bool = False

    def as_params(self) -> dict[str, Any]:
        """The parameters of the job; Invalid for options that contradict each other."""
        if self.sort_order and self.strategy not in (RewriteStrategy.SORT, RewriteStrategy.ZORDER):
            raise Invalid("sort_order is set, but the strategy does not sort", hint="add the strategy sort or zorder")
        if self.where is not None and not self.where.strip():
            raise Invalid("the condition is empty", hint="leave it out to rewrite files of the whole table")
        wanted: dict[str, Any] = {
            "strategy": None if self.strategy is None else str(self.strategy),
            "sort_order": [*self.sort_order],
            "filter": self.where,
            "everything": self.everything,
        }
        return {"min_files": str(FEWEST_FILES)} | {key: value for key, value in wanted.items() if value}


def check_takes(relation: Relation, facts: TableFacts) -> None:
    """Invalid for a plain table that is linked to Hive."""
    if facts.hive_linked and relation.kind is not RelationKind.KEYED:
        raise Invalid(f"{relation.name} keeps the files that Hive lists: a sync could not recognize packed files")


def trigger(facts: TableFacts, past: Sequence[Job], now: datetime) -> Due | NotYet | None:
    """Due for small files, and for files with many deleted rows, which the job writes without them.

    Not due if the counted files show that the job would find nothing to do.
    """
    stats, layout = facts.stats, facts.sure_layout
    if facts.keeps_hive_files or stats.snapshot_id is None or layout is None:
        return None
    reason = _find_reason_of_deletes(facts)
    if reason is not None:
        params = _build_delete_params(stats)
        if layout.packing(params).files:
            return Due(kind=JobKind.REWRITE, reason=reason, state=str(stats.snapshot_id), params=params)
    return _decide_packing(facts, layout, past, now)


def _find_reason_of_deletes(facts: TableFacts) -> str | None:
    stats, share, max_ratio = facts.stats, facts.deleted_share, facts.policy["firn.rewrite.max-delete-ratio"]
    if share >= max_ratio and share > 0:
        return f"{share:.0%} of rows are deleted (limit {max_ratio:.0%})"
    if stats.equality_deletes and stats.delete_files >= facts.policy["firn.deletes.min-files"]:
        return f"{format_count(stats.delete_files, 'delete file')}, some of them equality deletes"
    return None


def _build_delete_params(stats: TableStats) -> dict[str, Any]:
    """The parameters of a rewrite for deletes.

    A deletion vector counts the deleted rows of its one file. For other deletes nobody knows which files have lost
    rows.
    """
    are_vectors = stats.format_version >= WITH_VECTORS and not stats.equality_deletes
    return {"because": "deletes"} | ({} if are_vectors else {APPLY_DELETES: True})


def _decide_packing(facts: TableFacts, layout: FileLayout, past: Sequence[Job], now: datetime) -> Due | NotYet | None:
    """Due for many small files in partitions that have several, or for few in so many partitions that half of all
    files would go.

    The second case packs the files that the first leaves, so it needs at least half.
    """
    state, min_files = str(facts.stats.snapshot_id), max(facts.policy["firn.rewrite.min-files"], FEWEST_FILES)
    few = {"min_files": str(FEWEST_FILES)}
    unrequested, requestable = layout.planned.packable_files, layout.requested.packable_files
    if unrequested >= min_files:
        reason = f"{format_count(unrequested, 'small file')} can be packed (limit {min_files:,})"
        return Due(kind=JobKind.REWRITE, reason=reason, state=state)
    if measure_spread(layout, min_files) >= 1:
        saved = layout.requested.saved_files
        groups = f"{layout.requested.groups:,} partitions"
        reason = f"{saved:,} of {format_count(layout.data_files, 'file')} would go: small ones of {groups}"
        return Due(kind=JobKind.REWRITE, reason=reason, state=state, params=few)
    if requestable < FEWEST_FILES:
        return None
    small = f"{format_count(requestable, 'small file')} can be packed"
    schedule = find_due_times(JobKind.REWRITE, "firn.rewrite.schedule", facts, past, now)
    if schedule.due_since is not None:
        reason = f"{small}, and it was scheduled for {format_time(schedule.due_since)}"
        return Due(kind=JobKind.REWRITE, reason=reason, state=state, params=few)
    return NotYet(kind=JobKind.REWRITE, reason=f"{small} by schedule", next_at=schedule.following)


def measure_spread(layout: FileLayout, min_files: int) -> float:
    """How close a rewrite of a few files in each of several partitions is; from 1 on it is due."""
    saved = layout.requested.saved_files
    if layout.requested.groups < FEWEST_FILES or not layout.data_files:
        return 0.0
    return min(2 * saved / min_files, 2 * saved / layout.data_files)


def describe_packable(layout: FileLayout, least: int) -> str:
    """How many files can be packed, and how many of them count for an unscheduled rewrite."""
    every, planned = layout.requested.packable_files, layout.planned.packable_files
    fewest = layout.rule["min_files"]
    of_them = "" if planned == every else f", {planned:,} of them with {fewest} or more to a partition"
    return f"{every:,} can be packed{of_them} (a rewrite is due at {least:,})"


def idle_note(facts: TableFacts) -> str | None:
    """The number of small files, for a table of which nothing is due."""
    layout, least = facts.sure_layout, facts.policy["firn.rewrite.min-files"]
    if facts.keeps_hive_files or facts.stats.snapshot_id is None:
        return None
    if layout is None:
        return "its files are being counted"
    return f"of {format_count(layout.small_files, 'small file')} {describe_packable(layout, least)}"


def estimate(facts: TableFacts, before: TableSize, params: Mapping[str, Any]) -> Effect:
    """The effect according to the last count of files, within one job's limit. With many
    deletes, deleted rows go too.
    """
    stats, layout = facts.stats, facts.layout
    if layout is None:
        return Effect(before, 0)
    packing = layout.packing(params)
    work = min(packing.bytes, int(facts.policy["firn.rewrite.max-job-size"]))
    part = work / packing.bytes if packing.bytes else 0.0
    gone = stats.bytes * facts.deleted_share if params.get("because") == "deletes" else 0.0
    after = TableSize(
        files=before.files - round(packing.saved_files * part),
        bytes=before.bytes - int(min(gone, packing.bytes) * part),
        deletes=before.deletes - round(packing.delete_files * part),
    )
    return Effect(after, work)


def build_task(context: JobContext) -> RewriteTask:
    """The task for a plain table, or for a keyed table's base."""
    job = context.job
    table = name_files_table(job.table, is_keyed=context.keyed is not None)
    return build_rewrite_task(table, rewrite_policy(context.policy, job.params))


def dry_run(run: DryRun) -> DryRunResult:
    """Files that Iceberg's planner would choose with the job's options: small ones, ones with many deleted rows, or
    all.

    The job packs within partitions, and sorts on request.
    """
    metadata, task = run.context.main_store[1], run.task_as(RewriteTask)
    order, rule = _describe_order(metadata, task), RewriteRule.of_task(task.model_dump())
    files = run.live(metadata)
    data = [file for file in files if not file.content]
    deletes = AppliedDeletes()
    for file in files:
        if file.content:
            deletes.add(file)
    selection = _select_files(metadata, data, deletes, rule)
    packing = summarize_packing(selection, rule.files_after)
    chosen = [file for group in selection.groups() for file in group.items]
    notes = _list_notes(metadata, task, deletes, chosen)
    noun = "small file" if all(file.size < rule.small_below for file in chosen) else "file"
    after = f"into about {packing.files_after:,}{order}"
    return DryRunResult(
        action=f"pack {format_count(packing.files, noun)} of {len(data):,} {after}" if chosen else NOTHING_TO_DO,
        affected=[
            AffectedItems("files to rewrite", packing.files, packing.bytes),
            AffectedItems("files to leave", len(data) - packing.files, _sum_sizes(data) - packing.bytes),
            AffectedItems("partitions", packing.groups),
            *list_largest_partitions(count_by_partition(metadata, chosen)),
        ],
        gain=measure_gain(metadata, files=packing.files - packing.files_after, deletes=packing.delete_files),
        exact=not notes,
        notes=notes,
        is_empty=not chosen,
    )


def _select_files(
    metadata: Json, data: Sequence[ManifestEntry], deletes: AppliedDeletes, rule: RewriteRule
) -> Selection[ManifestEntry]:
    counter = LayoutCounter(metadata, {}, rule.small_below)
    selection: Selection[ManifestEntry] = Selection(rule, deletes, spec_id=counter.spec_id, width=counter.width)
    for file in data:
        selection.add(file, file)
    return selection


def _sum_sizes(files: Sequence[ManifestEntry]) -> int:
    return sum(file.size for file in files)


def _describe_order(metadata: Json, task: RewriteTask) -> str:
    """The sort order in words; Invalid if the job would fail for it."""
    if task.strategy == "binpack":
        return ""
    schema = current_schema(metadata)
    unknown = [
        name
        for name in task.sort_order
        if all(field_by_name(schema, part) is None for part in (name, name.partition(".")[0]))
    ]
    if unknown:
        raise Invalid(f"cannot sort by {', '.join(unknown)}: the table has no such column", hint="case matters")
    by = ", ".join(task.sort_order) or format_sort_order(metadata)
    if by is None:
        raise Invalid("the table has no sort order", hint="set one, or name the columns to sort by")
    return f", {'sorted' if task.strategy == 'sort' else 'z-ordered'} by {by}"


def _list_notes(
    metadata: Json, task: RewriteTask, deletes: AppliedDeletes, chosen: Sequence[ManifestEntry]
) -> list[str]:
    """The limits of this dry run."""
    notes: list[str] = []
    if not chosen:
        return notes
    if task.filter is not None:
        notes.append(f"of these only files are taken that may hold rows where {task.filter}: found when it runs")
    if not task.everything and _sum_sizes(chosen) > task.max_job_bytes:
        most = format_count(task.max_job_bytes, "byte")
        notes.append(f"one job takes {most} (firn.rewrite.max-job-size), or one partition's more: the next goes on")
    if deletes.count:
        notes.append("deleted rows are not written again")
    if task.apply_deletes and deletes.nameless:
        notes.append("delete files of several data files may apply to fewer of them: found when it runs")
    if any(file.spec_id != metadata["default-spec-id"] for file in chosen):
        notes.append("files of an older partitioning are written to current partitions")
    return notes


REWRITE = MaintenanceKind(
    name=JobKind.REWRITE,
    max_wait=timedelta(hours=1),
    trigger=trigger,
    estimate=estimate,
    build_task=build_task,
    dry_run=dry_run,
    options=RewriteOptions,
    check_takes=check_takes,
    tables=WITH_QUARANTINES,
    commits={RelationKind.BASE: frozenset({"replace"})},
    idle_note=idle_note,
    is_for_gain=True,
    result_if_nothing={
        "groups_done": 0,
        "groups_failed": 0,
        "left_files": 0,
        "rewritten_files": 0,
        "added_files": 0,
        "removed_delete_files": 0,
    },
)
