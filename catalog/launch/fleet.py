"""How many optimizers a group wants now, and what to do about it: a pure look at what there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from catalog.launch.settings import Launch, LaunchId, LaunchKind, Scaling

FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(minutes=10)
KILL_FACTOR = 1.5
"""Of its memory limit: from there on an optimizer is not asked any more."""
RETRIES = timedelta(seconds=40)
"""Longest time between two attempts of an optimizer to reach a server that did not answer."""
LEAVING = timedelta(minutes=2)
"""Time to end, for one that was asked to and holds no job any more."""


class LaunchStatus(StrEnum):
    """Where a launch stands."""

    STARTING = "starting"  # it has not registered yet
    WORKING = "working"
    DRAINING = "draining"  # it was asked to end
    ENDED = "ended"
    FAILED = "failed"  # it ended without being asked to, or was killed

    @property
    def is_over(self) -> bool:
        """Whether nothing of it runs any more."""
        return self in (LaunchStatus.ENDED, LaunchStatus.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetMember:
    """One launch that is not over, as it is seen now."""

    id: LaunchId
    status: LaunchStatus
    started_at: datetime
    busy_at: datetime
    """When it last held a job, or came to work."""
    jobs: int = 0
    silent_for: timedelta = timedelta()
    """How long nothing was heard of it while the server listened."""
    resident: int | None = None
    """Bytes of its processes, where they can be counted."""
    asked_at: datetime | None = None
    """When it was asked to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchHistory:
    """How the newest launches of a group went; since its settings were last changed."""

    failures: int = 0
    """In a row, the newest among them."""
    failed_at: datetime | None = None
    error: str | None = None
    changed_at: datetime | None = None
    """When the number of optimizers was last changed on purpose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDemand:
    """The group's jobs that nobody has taken."""

    jobs: int = 0
    since: datetime | None = None
    """When the oldest of them was planned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchEnd:
    """End a launch: in order, or at once."""

    launch: LaunchId
    reason: str
    at_once: bool = False
    is_failure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetDecision:
    """How many are wanted, what to do, and why nothing is started although more are wanted."""

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
    """What to do for one group, now. Who is silent for longer than a lease holds nothing any more."""
    scaling = launch.scaling
    ends = [end for one in members if (end := _unfit(one, launch, now, lease)) is not None]
    ending = {end.launch for end in ends}
    staying = [one for one in _staying(members) if one.id not in ending]
    if launch.kind is LaunchKind.NONE:
        left = (_drained(one, "the group starts none any more") for one in staying)
        return FleetDecision(wanted=0, ends=(*ends, *left))
    calm = past.changed_at is None or now - past.changed_at >= timedelta(seconds=scaling.cool_down_seconds)
    wanted = _wanted(scaling, staying, waiting, now, calm=calm)
    surplus = sorted(staying, key=lambda one: (one.jobs, one.busy_at))[: max(len(staying) - wanted, 0)]
    over_maximum = len(staying) > scaling.maximum
    reason = "more than the group's maximum" if over_maximum else f"idle for {scaling.idle_seconds} s"
    ends += [_drained(one, reason) for one in surplus]
    missing = max(wanted - len(staying), 0)
    held_back = _held_back(scaling, past, now) if missing else None
    return FleetDecision(wanted=wanted, start=0 if held_back else missing, ends=tuple(ends), held_back=held_back)


def _staying(members: Sequence[FleetMember]) -> list[FleetMember]:
    return [one for one in members if one.status in (LaunchStatus.STARTING, LaunchStatus.WORKING)]


def _wanted(
    scaling: Scaling, staying: Sequence[FleetMember], waiting: QueueDemand, now: datetime, *, calm: bool
) -> int:
    count = len(staying)
    if count < scaling.minimum or count > scaling.maximum:
        return min(max(count, scaling.minimum), scaling.maximum)
    if waiting.jobs and waiting.since is not None:
        if not count:
            return min(1, scaling.maximum)
        is_late = now - waiting.since >= timedelta(seconds=scaling.queue_seconds)
        all_work = all(one.status is LaunchStatus.WORKING for one in staying)
        return min(count + 1, scaling.maximum) if is_late and all_work and calm else count
    idle_since = now - timedelta(seconds=scaling.idle_seconds)
    idle = [one for one in staying if one.status is LaunchStatus.WORKING and not one.jobs and one.busy_at <= idle_since]
    return max(count - 1, scaling.minimum) if idle and calm else count


def _held_back(scaling: Scaling, past: LaunchHistory, now: datetime) -> str | None:
    if not past.failures or past.failed_at is None:
        return None
    if past.failures >= scaling.max_attempts:
        return f"{past.failures} starts in a row have failed, the last one: {past.error}; set the launch anew to go on"
    pause = min(FIRST_PAUSE * 2 ** min(past.failures - 1, 10), LONGEST_PAUSE)
    again = past.failed_at + pause
    return None if now >= again else f"the last start has failed: {past.error}; the next is at {again:%H:%M:%S} UTC"


def is_lost(silent_for: timedelta, lease: timedelta) -> bool:
    """Whether one that was registered is silent for so long that it cannot only have missed its server."""
    return silent_for > lease + RETRIES


def _unfit(one: FleetMember, launch: Launch, now: datetime, lease: timedelta) -> LaunchEnd | None:
    """Why a member must go, whatever the numbers are."""
    limit = launch.memory_limit
    if limit is not None and one.resident is not None and one.resident > limit * KILL_FACTOR:
        return _killed(one, f"it took {one.resident:,} bytes of memory, far more than its {limit:,}")
    if one.status is LaunchStatus.STARTING:
        is_late = one.silent_for >= timedelta(seconds=launch.scaling.start_seconds)
        return _killed(one, f"it has not registered within {launch.scaling.start_seconds} s") if is_late else None
    if is_lost(one.silent_for, lease):
        return _killed(one, "nothing is heard of it")
    if one.status is LaunchStatus.DRAINING:
        has_time = one.jobs or one.asked_at is None or now - max(one.asked_at, one.busy_at) < LEAVING
        return None if has_time else _killed(one, "it was asked to end, holds no job, and has not ended")
    if limit is not None and one.resident is not None and one.resident > limit:
        return _drained(one, f"it takes {one.resident:,} bytes of memory, more than its {limit:,}")
    return None


def _killed(one: FleetMember, reason: str) -> LaunchEnd:
    return LaunchEnd(launch=one.id, reason=reason, at_once=True, is_failure=True)


def _drained(one: FleetMember, reason: str) -> LaunchEnd:
    """Asked to end; one that has not even registered holds nothing that it could finish."""
    return LaunchEnd(launch=one.id, reason=reason, at_once=one.status is LaunchStatus.STARTING)
