"""Dry runs: what a job would do now, by the task that it would be given, from metadata and the manifests of heads."""

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
from catalog.planning.dry_run import AffectedItems, DryRunResult
from catalog.ports.manifest_reading import ManifestReading
from firn.protocol.base import Task

TaskModel = TypeVar("TaskModel", bound=Task)
MAX_MANIFESTS = 500
MAX_FILES = 100_000
"""Somebody waits for the answer: the dry run of a larger table reads summaries alone."""


class TooMany(Exception):
    """There is more to read than somebody would wait for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """One dry run: the context of the job, the task that it would be given, and ports to read further."""

    context: JobContext
    task: Task
    manifests: Callable[[Json], ManifestReading]
    """Reads what the table of this metadata may name."""
    why_files_stay: Callable[[], str | None]
    """Why no file of the table may be deleted, if that is so."""

    def task_as(self, model: type[TaskModel]) -> TaskModel:
        """The task as the model of its kind; TypeError where it is another kind's."""
        if not isinstance(self.task, model):
            raise TypeError(f"a dry run of {type(self.task).__name__} is no {model.__name__}")
        return self.task

    def lines(self, metadata: Json) -> list[ManifestFile]:
        """The manifests of main's head; TooMany when nobody would wait until they are read."""
        head = current_snapshot(metadata)
        lines = [] if head is None else list(self.manifests(metadata).lines(metadata, head))
        check_not_too_many(lines)
        return lines

    def live(self, metadata: Json, *, bounds_of: int | None = None) -> list[ManifestEntry]:
        """All live files of main's head; TooMany as above."""
        lines = self.lines(metadata)
        manifests = self.manifests(metadata)
        return [file for line in lines for file in manifests.files(metadata, line, bounds_of=bounds_of)]


def check_not_too_many(lines: Iterable[ManifestFile]) -> None:
    """TooMany for more than somebody would wait for."""
    listed = list(lines)
    if len(listed) > MAX_MANIFESTS or sum(line.files or 0 for line in listed) > MAX_FILES:
        raise TooMany


def count_by_partition(metadata: Json, files: Iterable[ManifestEntry]) -> dict[str, tuple[int, int]]:
    """Files and bytes per partition, as people read it."""
    shown = make_partition_formatter(metadata)
    totals_of: dict[str, tuple[int, int]] = {}
    for file in files:
        name = shown(file.spec_id, file.partition)
        count, size = totals_of.get(name, (0, 0))
        totals_of[name] = (count + 1, size + file.size)
    return totals_of


def group_by_pack(metadata: Json, files: Iterable[ManifestEntry]) -> list[list[ManifestEntry]]:
    """Files that a job may pack with each other: those of one partition, and those of all older specs."""
    counter = LayoutCounter(metadata, {}, 0)
    groups: dict[object, list[ManifestEntry]] = {}
    for file in files:
        key = group_key(file, spec_id=counter.spec_id, older=(None,) * counter.width)
        groups.setdefault(key, []).append(file)
    return list(groups.values())


def measure_files(files: Iterable[ManifestEntry]) -> tuple[int, int]:
    """How many files there are, and how large they are together."""
    sizes = [file.size for file in files]
    return len(sizes), sum(sizes)


def read_totals(metadata: Json) -> dict[str, int]:
    """What the head's summary says of the whole table."""
    summary: Mapping[str, str] = (current_snapshot(metadata) or {}).get("summary") or {}
    return {
        "files": read_number(summary, "total-data-files"),
        "bytes": read_number(summary, "total-files-size"),
        "deletes": read_number(summary, "total-delete-files"),
        "rows": read_number(summary, "total-records"),
    }


def measure_gain(metadata: Json, *, files: int = 0, bytes: int = 0, deletes: int = 0) -> dict[str, int]:
    """Before and after, when so much of each is taken away."""
    now = read_totals(metadata)
    less = {"files": files, "bytes": bytes, "deletes": deletes}
    gain: dict[str, int] = {}
    for name, gone in less.items():
        gain |= {f"{name}_before": now[name], f"{name}_after": max(now[name] - gone, 0)}
    return gain


def summarize(run: DryRun, *, of_changes: bool) -> DryRunResult:
    """What the head's summary says of a table whose manifests are too many to read while somebody waits."""
    context = run.context
    name, metadata = context.main_store
    if of_changes:
        name, metadata = TableName(context.relation.name.as_namespace, CHANGE), context.metadata[CHANGE]
    now = read_totals(metadata)
    return DryRunResult(
        action=f"{context.job.kind} {name}: it has too many files to look at each",
        affected=[
            AffectedItems("data files", now["files"], now["bytes"]),
            AffectedItems("delete files", now["deletes"]),
        ],
        exact=False,
        notes=[f"told from the head's summary alone: there are more than {MAX_FILES:,} files or many manifests"],
    )


def read_size_property(metadata: Json, key: str, default: int) -> int:
    """A table property that is a number of bytes; the default where it is none."""
    text = str(metadata.get("properties", {}).get(key, ""))
    return int(text) if text.isdecimal() and int(text) else default
