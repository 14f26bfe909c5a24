"""Rewrite deletes: pack position delete files, and drop delete files that no longer delete any row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Any

from catalog.files.change_packing import SMALL_SHARE
from catalog.files.file_layout import FEWEST_FILES
from catalog.files.manifest_entries import ManifestEntry
from catalog.iceberg.json import Json
from catalog.jobs.job import Job, JobKind
from catalog.keyed.file_tasks import build_deletes_task, name_files_table
from catalog.maintenance.context import JobContext
from catalog.maintenance.dry_run import (
    DryRun,
    count_by_partition,
    group_by_pack,
    measure_files,
    measure_gain,
    read_size_property,
)
from catalog.maintenance.estimate import Effect, TableSize
from catalog.maintenance.kind import WITH_QUARANTINES, JobOptions, MaintenanceKind
from catalog.maintenance.rewrite import WITH_VECTORS
from catalog.planning.dry_run_result import AffectedItems, DryRunResult, list_largest_partitions
from catalog.planning.facts import Due, TableFacts
from catalog.planning.trigger_result import format_count
from catalog.tables.relation import RelationKind
from firn.protocol.tasks.files import DeletesTask

_DELETE_TARGET = ("write.delete.target-file-size-bytes", 64 * 2**20)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletesOptions(JobOptions):
    """No options: a request packs all files that can be packed."""

    def as_params(self) -> dict[str, Any]:
        """The parameters of the job."""
        return {"min_files": str(FEWEST_FILES)}


def trigger(facts: TableFacts, _past: Sequence[Job], _now: datetime) -> Due | None:
    """Due by the number of delete files. A table of format 3 has deletion vectors, which are never packed."""
    stats, min_files = facts.stats, facts.policy["firn.deletes.min-files"]
    if stats.format_version >= WITH_VECTORS or not stats.position_deletes or stats.delete_files < min_files:
        return None
    reason = f"{format_count(stats.delete_files, 'delete file')} (limit {min_files:,})"
    return Due(kind=JobKind.REWRITE_DELETES, reason=reason, state=str(stats.snapshot_id))


def estimate(facts: TableFacts, before: TableSize, _params: Mapping[str, Any]) -> Effect:
    """Assumes that half of them remain, or one for each data file if that is less. Their data files are unknown."""
    stats = facts.stats
    left = min(ceil(stats.delete_files / 2), max(stats.data_files, 1), stats.delete_files)
    gone = stats.delete_files - left
    after = TableSize(files=before.files, bytes=before.bytes, deletes=before.deletes - gone)
    return Effect(after, min(stats.bytes, 20 * (stats.position_deletes + stats.equality_deletes)))


def build_task(context: JobContext) -> DeletesTask:
    """The task for a plain table, or for a keyed table's base; a change store has no delete files."""
    job = context.job
    min_files = int(job.params.get("min_files") or context.policy["firn.deletes.min-files"])
    return build_deletes_task(name_files_table(job.table, is_keyed=context.keyed is not None), min_files=min_files)


def dry_run(run: DryRun) -> DryRunResult:
    """Delete files of removed data files, and small ones that can be packed; deletion vectors cannot."""
    metadata, task = run.context.main_store[1], run.task_as(DeletesTask)
    files = run.live(metadata)
    data = {file.location for file in files if not file.content}
    delete_files = [file for file in files if file.content]
    dangling = [file for file in delete_files if file.of is not None and file.of not in data]
    loose = [file for file in delete_files if file.content == 1 and not file.is_vector and file not in dangling]
    groups = _group_small_files(metadata, loose, task.min_files)
    chosen = [file for group in groups for file in group]
    nameless = any(file.of is None for file in delete_files)
    return DryRunResult(
        action=f"drop {format_count(len(dangling), 'delete file')} of {len(delete_files):,} and pack {len(chosen):,}",
        affected=[
            AffectedItems("delete files of data files that are gone", *measure_files(dangling)),
            AffectedItems("delete files to pack", *measure_files(chosen)),
            AffectedItems("delete files to leave", len(delete_files) - len(dangling) - len(chosen)),
            *list_largest_partitions(count_by_partition(metadata, [*dangling, *chosen])),
        ],
        gain=measure_gain(metadata, deletes=len(dangling) + len(chosen) - len(groups)),
        exact=not nameless and not chosen,
        notes=_list_notes(nameless=nameless, packs=bool(chosen)),
    )


def _list_notes(*, nameless: bool, packs: bool) -> list[str]:
    notes = ["delete files that name no data file may apply to nothing: found when it runs"] if nameless else []
    return notes + (["into how many files they are packed depends on what they still delete"] if packs else [])


def _group_small_files(metadata: Json, files: Sequence[ManifestEntry], min_files: int) -> list[list[ManifestEntry]]:
    target = read_size_property(metadata, *_DELETE_TARGET)
    small = group_by_pack(metadata, (file for file in files if file.size < SMALL_SHARE * target))
    return [
        group for group in small if len(group) > 1 and (len(group) >= min_files or measure_files(group)[1] > target)
    ]


REWRITE_DELETES = MaintenanceKind(
    name=JobKind.REWRITE_DELETES,
    max_wait=timedelta(hours=1),
    trigger=trigger,
    estimate=estimate,
    build_task=build_task,
    dry_run=dry_run,
    options=DeletesOptions,
    tables=WITH_QUARANTINES,
    commits={RelationKind.BASE: frozenset({"replace"})},
    is_for_gain=True,
)
