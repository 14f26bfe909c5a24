"""Decides how many optimizers a group needs now, and which launches to start and end. Pure: it reads only its
arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from catalog.launch.settings import Launch, LaunchId, LaunchKind, Scaling

FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(minutes=10)
KILL_FACTOR = 1.5
"""A multiple of the memory limit: the server kills an optimizer above it instead of draining it."""
RETRIES = timedelta(seconds=40)
"""The longest time between two attempts of an optimizer to reach a server that does not answer."""
LEAVING = timedelta(minutes=2)
"""The time that a draining optimizer without jobs has to end."""


class LaunchStatus(StrEnum):
    """The status of a launch."""

    STARTING = "starting"  # the optimizer has not registered yet
    WORKING = "working"
    DRAINING = "draining"  # the server asked it to end
    ENDED = "ended"
    FAILED = "failed"  # it ended without a request, or was killed

    @property
    def is_over(self) -> bool:
        """Whether the launch has no running process."""
        return self in (LaunchStatus.ENDED, LaunchStatus.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetMember:
    """One launch that is not over, as the server sees it now."""

    id: LaunchId
    status: LaunchStatus
    started_at: datetime
    busy_at: datetime
    """When it last held a job, a stream or a query, or registered."""
    jobs: int = 0
    streams: int = 0
    queries: int = 0
    silent_for: timedelta = timedelta()
    """The silence of the optimizer, without times when the server did not listen."""
    resident: int | None = None
    """Memory of its processes in bytes; None if it cannot be measured."""
    asked_at: datetime | None = None
    """The time at which the server asked it to end."""

    @property
    def work(self) -> int:
        """The number of its jobs, streams and queries."""
        return self.jobs + self.streams + self.queries


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchHistory:
    """The outcome of a group's newest launches since the last change of its settings."""

    failures: int = 0
    """The number of successive failures up to the newest launch."""
    failed_at: datetime | None = None
    error: str | None = None
    changed_at: datetime | None = None
    """When the server last changed the number of optimizers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDemand:
    """The group's queued jobs, its streams that could run now, and the queries that wait for any optimizer."""

    jobs: int = 0
    since: datetime | None = None
    """When the oldest of the jobs was planned."""
    streams: int = 0
    streams_since: datetime | None = None
    """Since when the oldest of the streams could run."""
    queries_since: datetime | None = None
    """Since when the oldest query waits; None if none waits."""
    starts_for_queries: bool = True
    """Whether this group is the one that starts an optimizer for a query."""

    @property
    def needs_start_since(self) -> datetime | None:
        """Since when something waits for which this group starts an optimizer; None if nothing does."""
        moments = (self.since, self.streams_since, self.queries_since if self.starts_for_queries else None)
        return min((since for since in moments if since is not None), default=None)

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return self.since is None and self.streams_since is None and self.queries_since is None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchEnd:
    """The end of a launch: by draining, or at once."""

    launch: LaunchId
    reason: str
    at_once: bool = False
    is_failure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetDecision:
    """The wanted number of optimizers, the launches to start and end, and the reason if it holds starts back."""

    wanted: int
    start: int = 0
    ends: Sequence[LaunchEnd] = ()
    held_back: str | None = None


def decide_launches(
    launch: Launch,
    members: Sequence[FleetMember],
    waiting: QueueDemand,
    past: LaunchHistory,
    now: datetime,
    *,
    lease: timedelta,
) -> FleetDecision:
    """The decision for one group at `now`. A member that is silent for longer than a lease holds no job any more."""
    scaling = launch.scaling
    ends = [end for member in members if (end := _find_reason_to_end(member, launch, now, lease)) is not None]
    ending = {end.launch for end in ends}
    staying = [member for member in _list_staying(members) if member.id not in ending]
    if launch.kind is LaunchKind.NONE:
        drained = (_drain_member(member, "the group no longer starts optimizers") for member in staying)
        return FleetDecision(wanted=0, ends=(*ends, *drained))
    if not launch.streams:
        waiting = replace(waiting, streams=0, streams_since=None)
    if not launch.sql:
        waiting = replace(waiting, queries_since=None)
    calm = past.changed_at is None or now - past.changed_at >= timedelta(seconds=scaling.cool_down_seconds)
    wanted = _count_wanted(scaling, staying, waiting, now, calm=calm)
    by_work = sorted(staying, key=lambda member: (member.work, member.busy_at))
    surplus = by_work[: max(len(staying) - wanted, 0)]
    over_maximum = len(staying) > scaling.maximum
    reason = "more than the group's maximum" if over_maximum else f"idle for {scaling.idle_seconds} s"
    ends += [_drain_member(member, reason) for member in surplus]
    missing = max(wanted - len(staying), 0)
    held_back = _find_hold_back_reason(scaling, past, now) if missing else None
    return FleetDecision(wanted=wanted, start=0 if held_back else missing, ends=tuple(ends), held_back=held_back)


def _list_staying(members: Sequence[FleetMember]) -> list[FleetMember]:
    return [member for member in members if member.status in (LaunchStatus.STARTING, LaunchStatus.WORKING)]


def _count_wanted(
    scaling: Scaling, staying: Sequence[FleetMember], waiting: QueueDemand, now: datetime, *, calm: bool
) -> int:
    count = len(staying)
    if count < scaling.minimum or count > scaling.maximum:
        return min(max(count, scaling.minimum), scaling.maximum)
    if (since := waiting.needs_start_since) is not None:
        if not count:
            return min(1, scaling.maximum)
        is_late = now - since >= timedelta(seconds=scaling.queue_seconds)
        all_work = all(member.status is LaunchStatus.WORKING for member in staying)
        return min(count + 1, scaling.maximum) if is_late and all_work and calm else count
    if not waiting.is_empty:  # an idle optimizer may take the query
        return count
    idle_since = now - timedelta(seconds=scaling.idle_seconds)
    idle = [
        member
        for member in staying
        if member.status is LaunchStatus.WORKING and not member.work and member.busy_at <= idle_since
    ]
    return max(count - 1, scaling.minimum) if idle and calm else count


def _find_hold_back_reason(scaling: Scaling, past: LaunchHistory, now: datetime) -> str | None:
    if not past.failures or past.failed_at is None:
        return None
    if past.failures >= scaling.max_attempts:
        failed = f"{past.failures} starts in a row have failed; the last error is: {past.error}"
        return f"{failed}; set the group's launch again to continue"
    pause = min(FIRST_PAUSE * 2 ** min(past.failures - 1, 10), LONGEST_PAUSE)
    again = past.failed_at + pause
    return None if now >= again else f"the last start failed: {past.error}; the next is at {again:%H:%M:%S} UTC"


def is_lost(silent_for: timedelta, lease: timedelta) -> bool:
    """Whether a registered optimizer is silent for too long to be merely between two attempts."""
    return silent_for > lease + RETRIES


def _find_reason_to_end(member: FleetMember, launch: Launch, now: datetime, lease: timedelta) -> LaunchEnd | None:
    """The reason to end a member whatever the numbers are; None without one."""
    limit = launch.memory_limit
    if limit is not None and member.resident is not None and member.resident > limit * KILL_FACTOR:
        return _kill_member(member, f"it took {member.resident:,} bytes of memory, far more than its {limit:,}")
    if member.status is LaunchStatus.STARTING:
        is_late = member.silent_for >= timedelta(seconds=launch.scaling.start_seconds)
        return _kill_member(member, f"it did not register within {launch.scaling.start_seconds} s") if is_late else None
    if is_lost(member.silent_for, lease):
        return _kill_member(member, "it has stopped sending heartbeats")
    if member.status is LaunchStatus.DRAINING:
        has_time = member.jobs or member.asked_at is None or now - max(member.asked_at, member.busy_at) < LEAVING
        return None if has_time else _kill_member(member, "it was asked to end and holds no job, but did not end")
    if limit is not None and member.resident is not None and member.resident > limit:
        return _drain_member(member, f"it takes {member.resident:,} bytes of memory, more than its {limit:,}")
    return None


def _kill_member(member: FleetMember, reason: str) -> LaunchEnd:
    return LaunchEnd(launch=member.id, reason=reason, at_once=True, is_failure=True)


def _drain_member(member: FleetMember, reason: str) -> LaunchEnd:
    """Ends a launch by draining. One that has not registered holds no job, so it ends at once."""
    return LaunchEnd(launch=member.id, reason=reason, at_once=member.status is LaunchStatus.STARTING)
