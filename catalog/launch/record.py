"""Launches as they are remembered, also by the next server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from catalog.jobs.optimizer_group import GroupName
from catalog.launch.fleet import LaunchHistory, LaunchStatus
from catalog.launch.settings import Launch, LaunchId, LaunchKind

CALM = timedelta(minutes=10)
"""Who has lived this long did start well, however it ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLaunch:
    """What was set for a group, and when."""

    group: GroupName
    launch: Launch
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process of one machine. Its start tells it from a later one that was given the same number."""

    host: str
    pid: int
    started: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRecord:
    """One optimizer that a server has started, or tried to."""

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
    """Why it was asked to end, or how it failed."""


def summarize_launches(newest_first: Sequence[LaunchRecord], since: datetime) -> LaunchHistory:
    """What the newest launches of a group say, from the last change of its settings on."""
    relevant = [one for one in newest_first if one.started_at >= since]
    failed: list[LaunchRecord] = []
    for one in relevant:
        if one.status in (LaunchStatus.WORKING, LaunchStatus.ENDED):
            break
        if one.status is LaunchStatus.FAILED:
            failed.append(one)
            if one.ended_at is not None and one.ended_at - one.started_at >= CALM:
                break
    changes = [moment for one in relevant for moment in (one.started_at, one.asked_at) if moment is not None]
    newest = failed[0] if failed else None
    return LaunchHistory(
        failures=len(failed),
        failed_at=None if newest is None else newest.ended_at,
        error=None if newest is None else newest.reason,
        changed_at=max(changes, default=None),
    )
