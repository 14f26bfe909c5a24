"""What is known of a keyed table's keys: what the last count of them has found, and whether base has moved since."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from catalog.jobs.job import Job, JobId, JobKind, JobStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedKey:
    """One key that more than one row has, and some of the files in which these rows lie."""

    key: Mapping[str, str]
    rows: int
    files: Sequence[str]
    more_files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Uniqueness:
    """What a count of all keys in base has found. `moved` says that base has another snapshot since.

    After a job that made one row of each key nothing is repeated: `removed_rows` were too many.
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
    """What the newest count among these jobs has found; None without one. `head` is base's snapshot now."""
    known = (job for job in past if job.kind is JobKind.KEYS and job.status is JobStatus.SUCCEEDED)
    last = max(known, key=lambda job: job.created_at, default=None)
    if last is None or last.ended_at is None:
        return None
    resolved = last.committed_by is not None  # it says so also of an optimizer that died before it could report
    snapshot_id = last.committed_snapshot_id if resolved else _number(last.result.get("snapshot_id"))
    return Uniqueness(
        job_id=last.id,
        checked_at=last.ended_at,
        snapshot_id=snapshot_id,
        moved=snapshot_id != head,
        keys=0 if resolved else _number(last.result.get("keys")) or 0,
        surplus_rows=0 if resolved else _number(last.result.get("surplus_rows")) or 0,
        removed_rows=(_number(last.result.get("surplus_rows")) or 0) if resolved else 0,
        sample=() if resolved else tuple(_sampled(last.result.get("sample"))),
    )


def _sampled(told: Any) -> Iterable[RepeatedKey]:
    """An optimizer may say anything."""
    for one in told if isinstance(told, list) else ():
        key, files = one.get("key"), one.get("files")
        if isinstance(key, Mapping) and isinstance(files, list):
            yield RepeatedKey(
                key={str(name): str(value) for name, value in key.items()},
                rows=_number(one.get("rows")) or 0,
                files=[str(file) for file in files],
                more_files=_number(one.get("more_files")) or 0,
            )


def _number(told: object) -> int | None:
    """Snapshot ids come as text."""
    if isinstance(told, str) and told.isdecimal():
        return int(told)
    return told if isinstance(told, int) and not isinstance(told, bool) else None
