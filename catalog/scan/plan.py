"""Scan plans: the split into tasks, the names of the tasks, and their expiry."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NewType
from uuid import UUID, uuid4

from catalog.errors import NoSuchPlan, NoSuchPlanTask
from catalog.iceberg.json import Json

PlanId = NewType("PlanId", UUID)
_INLINE = "whole-"
_TASK = re.compile(r"([0-9a-f-]{36})\.(\d{1,9})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestSize:
    """A manifest that a scan must read: its index among the scan's manifests and its number of live files.

    The oldest manifests do not give that number.
    """

    at: int
    files: int | None


@dataclass(frozen=True, slots=True)
class Slice:
    """Some live files of one of a scan's manifests, by position; without `stop`, all from `start` on."""

    manifest: int
    start: int = 0
    stop: int | None = None


Task = tuple[Slice, ...]

MAX_FILTER_BYTES = 16 * 1024 * 1024
"""The limit for one response, because each file comes with its residual filter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanLimits:
    """The limits of one response; a larger scan is split into tasks."""

    inline_files: int
    task_files: int
    manifests: int
    plan_seconds: int

    def for_filter(self, written: int) -> ScanLimits:
        """The limits for a filter of so many bytes, because every file of a response may come with it."""
        files = max(1, MAX_FILTER_BYTES // max(1, written))
        return replace(self, inline_files=min(self.inline_files, files), task_files=min(self.task_files, files))

    def fits(self, sizes: Sequence[ManifestSize]) -> bool:
        """Whether the whole scan fits into one response."""
        files = [size.files for size in sizes]
        counts = [count for count in files if count is not None]
        return len(counts) == len(files) <= self.manifests and sum(counts) <= self.inline_files


def plan_whole_scan(sizes: Iterable[ManifestSize]) -> Task:
    """One task for the whole scan."""
    return tuple(Slice(size.at) for size in sizes)


def cut_tasks(sizes: Iterable[ManifestSize], limits: ScanLimits) -> list[Task]:
    """The manifests split into tasks: small ones together, large ones in slices. Every live file is in exactly one."""
    tasks: list[Task] = []
    bundle: list[Slice] = []
    files = 0
    for size in sizes:
        count = limits.task_files if size.files is None else size.files
        if bundle and (files + count > limits.task_files or len(bundle) == limits.manifests):
            tasks.append(tuple(bundle))
            bundle, files = [], 0
        if size.files is not None and count > limits.task_files:
            starts = range(0, count, limits.task_files)
            last = starts[-1]
            tasks += [(Slice(size.at, at, None if at == last else at + limits.task_files),) for at in starts]
            continue
        bundle.append(Slice(size.at))
        files += count
    return [*tasks, tuple(bundle)] if bundle else tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPlan:
    """A plan whose tasks a client fetches from any server. It is pinned to metadata that never changes."""

    id: PlanId
    table_uuid: str
    metadata_location: str
    request: Json
    """The client's request, with the snapshot that it meant."""
    schema_id: int
    tasks: tuple[Task, ...]
    expires_at: datetime
    cancelled: bool = False

    def task_names(self) -> list[str]:
        """The names by which clients fetch the tasks."""
        return [f"{self.id}.{number}" for number in range(len(self.tasks))]


def create_plan_id() -> PlanId:
    return PlanId(uuid4())


def create_inline_plan_id() -> str:
    """The id of a plan whose response is complete; nothing is stored for it."""
    return f"{_INLINE}{uuid4()}"


def is_inline(plan_id: str) -> bool:
    """Whether this is the id of a plan with a complete response."""
    return plan_id.startswith(_INLINE)


def parse_plan_id(text: str) -> PlanId:
    """The id in a path; NoSuchPlan if it is none of ours."""
    try:
        return PlanId(UUID(text))
    except ValueError as error:
        raise NoSuchPlan(f"The plan id does not exist: {text}") from error


def parse_task(text: str) -> tuple[PlanId, int]:
    """Plan and number of a task; NoSuchPlanTask if it is none of ours."""
    match = _TASK.fullmatch(text)
    try:
        if match is not None:
            return PlanId(UUID(match[1])), int(match[2])
    except ValueError:
        pass
    raise NoSuchPlanTask(f"The plan task does not exist: {text[:80]}")
