"""Uniqueness of a keyed table's keys: the result of the last count, and whether base has changed since."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from catalog.jobs.job import Job, JobId, JobKind, JobStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedKey:
    """One key with more than one row, and some of the files that hold these rows."""

    key: Mapping[str, str]
    rows: int
    files: Sequence[str]
    more_files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Uniqueness:
    """The result of a count of all keys in base. `moved` is True if base has another snapshot since.

    After a job that kept one row of each key, no key is repeated: `removed_rows` were surplus.
    """

    job_id: JobId
    checked_at: datetime
    snapshot_id: int | None
    moved: bool
    keys: int
    surplus_rows: int
    removed_rows: int
    sample: Sequence[RepeatedKey]


def read_uniqueness(past: Iterable[Job], head: int | None) -> Uniqueness | None:
    """The result of the newest count among these jobs; None without one. `head` is base's snapshot now."""
    checks = (job for job in past if job.kind is JobKind.KEYS and job.status is JobStatus.SUCCEEDED)
    last = max(checks, key=lambda job: job.created_at, default=None)
    if last is None or last.ended_at is None:
        return None
    resolved = last.committed_by is not None  # also set for an optimizer that died before it could report
    snapshot_id = last.committed_snapshot_id if resolved else _read_number(last.result.get("snapshot_id"))
    return Uniqueness(
        job_id=last.id,
        checked_at=last.ended_at,
        snapshot_id=snapshot_id,
        moved=snapshot_id != head,
        keys=0 if resolved else _read_number(last.result.get("keys")) or 0,
        surplus_rows=0 if resolved else _read_number(last.result.get("surplus_rows")) or 0,
        removed_rows=(_read_number(last.result.get("surplus_rows")) or 0) if resolved else 0,
        sample=() if resolved else tuple(_read_sample(last.result.get("sample"))),
    )


def _read_sample(sample: Any) -> Iterable[RepeatedKey]:
    """The repeated keys in an optimizer's report, which may hold anything."""
    for entry in sample if isinstance(sample, list) else ():
        key, files = entry.get("key"), entry.get("files")
        if isinstance(key, Mapping) and isinstance(files, list):
            yield RepeatedKey(
                key={str(name): str(value) for name, value in key.items()},
                rows=_read_number(entry.get("rows")) or 0,
                files=[str(file) for file in files],
                more_files=_read_number(entry.get("more_files")) or 0,
            )


def _read_number(value: object) -> int | None:
    """A number of a report; snapshot ids come as text."""
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
