"""The job queue for operators: waiting jobs and finished jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from catalog.jobs.job import JobKind, JobStatus
from catalog.jobs.optimizer_group import GroupName

_MAX_BYTES = 2**53
"""The largest count of one job that is added up, so that sums fit into the database's 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedJobs:
    """Jobs of one group, kind and priority that wait for a slot."""

    group: GroupName
    kind: JobKind
    priority: str
    jobs: int
    oldest: datetime
    """When the oldest of them was planned."""
    deadline: datetime
    """Their earliest deadline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedJobs:
    """Finished jobs of one kind and status within some time, and their effect on files."""

    kind: JobKind
    status: JobStatus
    jobs: int
    tables: int
    bytes_rewritten: int
    bytes_freed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedInHour:
    """The jobs that ended within one hour."""

    begins: datetime
    succeeded: int = 0
    failed: int = 0
    canceled: int = 0
    bytes_freed: int = 0


def count_bytes_rewritten(result: Mapping[str, Any]) -> int:
    """Count the bytes of files that a rewrite, a merge or a compaction replaced, from its result."""
    return _read_bytes(result, "rewritten_bytes") + _read_bytes(result, "packed_bytes")


def count_bytes_freed(result: Mapping[str, Any]) -> int:
    """The bytes that a job deleted from storage, from its result."""
    return _read_bytes(result, "freed_bytes")


def _read_bytes(result: Mapping[str, Any], key: str) -> int:
    value = result.get(key)
    return value if isinstance(value, int) and 0 <= value < _MAX_BYTES else 0
