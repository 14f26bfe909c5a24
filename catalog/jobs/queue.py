"""The queue of jobs as operators see it: what waits, and what was done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from catalog.jobs.job import JobKind, JobStatus
from catalog.jobs.optimizer_group import GroupName

_MOST = 2**53
"""No job moves more; sums of many jobs' counts still fit into the database's 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedJobs:
    """Jobs of one group, kind and priority that wait for a slot."""

    group: GroupName
    kind: JobKind
    priority: str
    jobs: int
    oldest: datetime
    """When the first of them was planned."""
    deadline: datetime
    """The earliest of theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedJobs:
    """Jobs of one kind that ended in one way within some time, and what they did to files."""

    kind: JobKind
    status: JobStatus
    jobs: int
    tables: int
    bytes_rewritten: int
    bytes_freed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedInHour:
    """What ended within one hour."""

    begins: datetime
    succeeded: int = 0
    failed: int = 0
    canceled: int = 0
    bytes_freed: int = 0


def count_bytes_rewritten(result: Mapping[str, Any]) -> int:
    """What a job says in its result that it wrote anew."""
    return _bytes(result, "rewritten_bytes")


def count_bytes_freed(result: Mapping[str, Any]) -> int:
    """What a job says in its result that it deleted from storage."""
    return _bytes(result, "freed_bytes")


def _bytes(result: Mapping[str, Any], key: str) -> int:
    said = result.get(key)
    return said if isinstance(said, int) and 0 <= said < _MOST else 0
