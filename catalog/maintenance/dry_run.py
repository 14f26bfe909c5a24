"""Dry runs: the effect of a job now, computed from its task, metadata and the manifests of heads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from catalog.files.bin_packing import group_key
from catalog.files.file_layout import LayoutCounter
from catalog.files.manifest_entries import ManifestEntry, ManifestFile
from catalog.files.partition_text import make_partition_formatter
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_snapshot
from catalog.iceberg.summaries import read_number
from catalog.keyed.spec import CHANGE
from catalog.maintenance.context import JobContext
from catalog.names import TableName
from catalog.planning.dry_run_result import AffectedItems, DryRunResult
from catalog.ports.manifest_reading import ManifestReading
from firn.protocol.base import Task

TaskModel = TypeVar("TaskModel", bound=Task)
MAX_MANIFESTS = 500
MAX_FILES = 100_000
"""The dry run of a larger table reads only summaries, because a user waits for the answer."""


class TooMany(Exception):
    """A dry run would read more manifests or files than a user waits for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """One dry run: the context of the job, the task that it would be given, and ports to read further."""

    context: JobContext
    task: Task
    manifests: Callable[[Json], ManifestReading]
    """Returns a reader of the files that this metadata may name."""
    why_files_stay: Callable[[], str | None]
    """Returns the reason why no file of the table may be deleted; None if files may be."""

    def task_as(self, model: type[TaskModel]) -> TaskModel:
        """The task as the model of its kind; TypeError for another kind's."""
        if not isinstance(self.task, model):
            raise TypeError(f"a dry run of {type(self.task).__name__} is no {model.__name__}")
        return self.task

    def lines(self, metadata: Json) -> list[ManifestFile]:
        """The manifests of main's head; TooMany above the limits."""
        head = current_snapshot(metadata)
        lines = [] if head is None else list(self.manifests(metadata).lines(metadata, head))
        check_not_too_many(lines)
        return lines

    def live(self, metadata: Json, *, bounds_of: int | None = None) -> list[ManifestEntry]:
        """All live files of main's head; TooMany above the limits."""
        lines = self.lines(metadata)
        manifests = self.manifests(metadata)
        return [file for line in lines for file in manifests.files(metadata, line, bounds_of=bounds_of)]


def check_not_too_many(lines: Iterable[ManifestFile]) -> None:
    """TooMany above MAX_MANIFESTS or MAX_FILES."""
    all_lines = list(lines)
    if len(all_lines) > MAX_MANIFESTS or sum(line.files or 0 for line in all_lines) > MAX_FILES:
        raise TooMany


def count_by_partition(metadata: Json, files: Iterable[ManifestEntry]) -> dict[str, tuple[int, int]]:
    """Files and bytes by partition text."""
    shown = make_partition_formatter(metadata)
    totals_of: dict[str, tuple[int, int]] = {}
    for file in files:
        name = shown(file.spec_id, file.partition)
        count, size = totals_of.get(name, (0, 0))
        totals_of[name] = (count + 1, size + file.size)
    return totals_of


def group_by_pack(metadata: Json, files: Iterable[ManifestEntry]) -> list[list[ManifestEntry]]:
    """Files in groups that a job may pack together: one partition each, and one group for all older specs."""
    counter = LayoutCounter(metadata, {}, 0)
    groups: dict[object, list[ManifestEntry]] = {}
    for file in files:
        key = group_key(file, spec_id=counter.spec_id, older=(None,) * counter.width)
        groups.setdefault(key, []).append(file)
    return list(groups.values())


def measure_files(files: Iterable[ManifestEntry]) -> tuple[int, int]:
    """The number of files and their bytes."""
    sizes = [file.size for file in files]
    return len(sizes), sum(sizes)


def read_totals(metadata: Json) -> dict[str, int]:
    """The totals of the whole table in its head's summary."""
    summary: Mapping[str, str] = (current_snapshot(metadata) or {}).get("summary") or {}
    return {
        "files": read_number(summary, "total-data-files"),
        "bytes": read_number(summary, "total-files-size"),
        "deletes": read_number(summary, "total-delete-files"),
        "rows": read_number(summary, "total-records"),
    }


def measure_gain(metadata: Json, *, files: int = 0, bytes: int = 0, deletes: int = 0) -> dict[str, int]:
    """Totals before and after a job removes this much of each."""
    now = read_totals(metadata)
    removed = {"files": files, "bytes": bytes, "deletes": deletes}
    gain: dict[str, int] = {}
    for name, count in removed.items():
        gain |= {f"{name}_before": now[name], f"{name}_after": max(now[name] - count, 0)}
    return gain


def summarize(run: DryRun, *, of_changes: bool) -> DryRunResult:
    """A dry run from the head's summary, for a table with too many manifests."""
    context = run.context
    name, metadata = context.main_store
    if of_changes:
        name, metadata = TableName(context.relation.name.as_namespace, CHANGE), context.metadata[CHANGE]
    now = read_totals(metadata)
    return DryRunResult(
        action=f"{context.job.kind} {name}: it has too many files to read each",
        affected=[
            AffectedItems("data files", now["files"], now["bytes"]),
            AffectedItems("delete files", now["deletes"]),
        ],
        exact=False,
        notes=[f"from the head's summary alone: the table has more than {MAX_FILES:,} files or many manifests"],
    )


def read_size_property(metadata: Json, key: str, default: int) -> int:
    """A table property in bytes; the default if it is not a number."""
    text = str(metadata.get("properties", {}).get(key, ""))
    return int(text) if text.isdecimal() and int(text) else default
