"""Plans that are handed out in tasks: how the work is cut, what the tasks are called, how long they are good for."""

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
    """A manifest that a scan has to read: its place among the scan's manifests and how many live files it lists.

    The oldest manifests do not say how many.
    """

    at: int
    files: int | None


@dataclass(frozen=True, slots=True)
class Slice:
    """Some live files of one of a scan's manifests, by position; without `stop` all from `start` on."""

    manifest: int
    start: int = 0
    stop: int | None = None


Task = tuple[Slice, ...]

MOST_BYTES_OF_FILTERS = 16 * 1024 * 1024
"""In one answer: each file comes with what is left of the filter to be asked of its rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanLimits:
    """What one answer may hold; a scan of more is handed out in tasks."""

    inline_files: int
    task_files: int
    manifests: int
    plan_seconds: int

    def for_filter(self, written: int) -> ScanLimits:
        """The limits for a filter of so many bytes, which every file of an answer may come with."""
        files = max(1, MOST_BYTES_OF_FILTERS // max(1, written))
        return replace(self, inline_files=min(self.inline_files, files), task_files=min(self.task_files, files))

    def fits(self, sizes: Sequence[ManifestSize]) -> bool:
        """Whether all of it goes into one answer."""
        files = [size.files for size in sizes]
        known = [count for count in files if count is not None]
        return len(known) == len(files) <= self.manifests and sum(known) <= self.inline_files


def whole(sizes: Iterable[ManifestSize]) -> Task:
    """Everything at once."""
    return tuple(Slice(size.at) for size in sizes)


def cut_tasks(sizes: Iterable[ManifestSize], limits: ScanLimits) -> list[Task]:
    """The manifests in tasks: small ones together, large ones in slices; every live file is in exactly one."""
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
    """A plan whose tasks a client fetches, from any server: it is pinned to metadata that never changes."""

    id: PlanId
    table_uuid: str
    metadata_location: str
    request: Json
    """As the client sent it, with the snapshot that it meant."""
    schema_id: int
    tasks: tuple[Task, ...]
    expires_at: datetime
    cancelled: bool = False

    def task_names(self) -> list[str]:
        """What clients ask for the tasks by."""
        return [f"{self.id}.{number}" for number in range(len(self.tasks))]


def create_plan_id() -> PlanId:
    return PlanId(uuid4())


def create_inline_plan_id() -> str:
    """The id of a plan that was answered whole: nothing is kept for it."""
    return f"{_INLINE}{uuid4()}"


def is_inline(plan_id: str) -> bool:
    """Whether it is such an id."""
    return plan_id.startswith(_INLINE)


def parse_plan_id(text: str) -> PlanId:
    """The id in a path; NoSuchPlan when it is none of ours."""
    try:
        return PlanId(UUID(text))
    except ValueError as error:
        raise NoSuchPlan(f"The plan id does not exist: {text}") from error


def parse_task(text: str) -> tuple[PlanId, int]:
    """Plan and number of a task; NoSuchPlanTask when it is none of ours."""
    match = _TASK.fullmatch(text)
    try:
        if match is not None:
            return PlanId(UUID(match[1])), int(match[2])
    except ValueError:
        pass
    raise NoSuchPlanTask(f"The plan task does not exist: {text[:80]}")
