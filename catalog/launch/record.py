"""Launches as the database stores them, so that the next server knows them too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from catalog.jobs.optimizer_group import GroupName
from catalog.launch.fleet import LaunchHistory, LaunchStatus
from catalog.launch.settings import Launch, LaunchId, LaunchKind

CALM = timedelta(minutes=10)
"""An optimizer that lived this long did start well, however it ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLaunch:
    """A group's launch settings, and when they were set."""

    group: GroupName
    launch: Launch
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process of one machine. Its start time distinguishes it from a later process with the same number."""

    host: str
    pid: int
    started: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRecord:
    """One optimizer that a server started, or tried to start."""

    id: LaunchId
    group: GroupName
    kind: LaunchKind
    status: LaunchStatus
    started_at: datetime
    busy_at: datetime
    process: Process | None = None
    asked_at: datetime | None = None
    ended_at: datetime | None = None
    reason: str | None = None
    """The reason for its end, or its failure."""


def summarize_launches(newest_first: Sequence[LaunchRecord], since: datetime) -> LaunchHistory:
    """The outcome of a group's newest launches since the last change of its settings."""
    relevant = [record for record in newest_first if record.started_at >= since]
    failed: list[LaunchRecord] = []
    for record in relevant:
        if record.status in (LaunchStatus.WORKING, LaunchStatus.ENDED):
            break
        if record.status is LaunchStatus.FAILED:
            failed.append(record)
            if record.ended_at is not None and record.ended_at - record.started_at >= CALM:
                break
    changes = [moment for record in relevant for moment in (record.started_at, record.asked_at) if moment is not None]
    newest = failed[0] if failed else None
    return LaunchHistory(
        failures=len(failed),
        failed_at=None if newest is None else newest.ended_at,
        error=None if newest is None else newest.reason,
        changed_at=max(changes, default=None),
    )
