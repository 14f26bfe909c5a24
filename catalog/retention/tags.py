"""Tags by schedule: one for each scheduled time, on main's snapshot of that time, however late the job runs.

A tag's name contains its time, so a repeated job does not create it twice. The tag's age limit makes it end at its
time plus the policy's age, in whole seconds. By this and by the name Firn recognizes its own tags, and drops no
others. Engines' expiry drops a tag at that time too, as in the table specification.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from catalog.errors import Invalid, NotFound
from catalog.history.lineage import find_snapshot_at
from catalog.iceberg.json import Json
from catalog.iceberg.reading import snapshot_by_id
from catalog.policy.schedule import Schedule
from catalog.timestamps import from_milliseconds, to_milliseconds
from firn.protocol.tasks.retention import NewTag, TagsTask

MAX_AT_ONCE = 100
"""The most scheduled times that one job makes up for: the newest ones."""
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TagPolicy:
    """The rules for automatic tags, from the table's policy."""

    schedule: Schedule | None
    name: str
    max_age: timedelta
    zone: ZoneInfo

    def name_of(self, moment: datetime) -> str:
        """The tag's name for this time, in the policy's time zone."""
        return moment.astimezone(self.zone).strftime(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class TagPlan:
    """The tags to create and to drop, and the times without a tag, with the reasons."""

    make: Sequence[NewTag]
    drop: Mapping[str, int]
    """Tags to drop, with the snapshot of each."""
    missed: Mapping[str, str]


def plan_tags(metadata: Json, policy: TagPolicy, now: datetime) -> TagPlan:
    """The tags for all scheduled times since the newest of Firn's own tags; for the last time alone if there is none.

    Invalid without a schedule.
    """
    if policy.schedule is None:
        raise Invalid("no tag is due: firn.tags.schedule is not set", hint="such as firn.tags.schedule='0 0 * * *'")
    refs: Mapping[str, Any] = metadata.get("refs") or {}
    own = {
        name: moment
        for name, ref in refs.items()
        if (moment := _find_scheduled_time(name, ref, metadata, policy)) is not None
    }
    make: dict[str, NewTag] = {}
    missed: dict[str, str] = {}
    for moment in _list_moments(policy.schedule, policy, since=max(own.values(), default=None), now=now):
        name = policy.name_of(moment)
        if name in refs or name in make:
            continue
        try:
            make[name] = _build_tag(name, find_snapshot_at(metadata, moment), moment, metadata, policy)
        except NotFound as error:
            missed[name] = error.message
    over = {name: refs[name]["snapshot-id"] for name, moment in own.items() if moment + policy.max_age <= now}
    return TagPlan(make=list(make.values()), drop=over, missed=missed)


def build_tags_task(parts: Sequence[str], metadata: Json, plan: TagPlan) -> TagsTask:
    """The task that creates and drops tags."""
    return TagsTask(
        parts=list(parts),
        table_uuid=metadata["table-uuid"],
        make=list(plan.make),
        drop=dict(plan.drop),
        missed=dict(plan.missed),
    )


def _list_moments(schedule: Schedule, policy: TagPolicy, *, since: datetime | None, now: datetime) -> list[datetime]:
    """Scheduled times after `since`, oldest first, without those that would be too old at once."""
    moments: list[datetime] = []
    moment = schedule.last(now, policy.zone)
    oldest = now - policy.max_age
    while (
        moment is not None and moment > (since or moment - _SECOND) and moment > oldest and len(moments) < MAX_AT_ONCE
    ):
        moments.append(moment)
        moment = schedule.last(moment - timedelta(minutes=1), policy.zone)
        if since is None:
            break
    return moments[::-1]


def _build_tag(name: str, snapshot_id: int, moment: datetime, metadata: Json, policy: TagPolicy) -> NewTag:
    snapshot = snapshot_by_id(metadata, snapshot_id)
    if snapshot is None:
        raise NotFound("the snapshot of that time has expired")
    ends = (moment + policy.max_age).replace(microsecond=0)
    return NewTag(
        name=name, snapshot_id=snapshot_id, max_ref_age_ms=to_milliseconds(ends) - int(snapshot["timestamp-ms"])
    )


def _find_scheduled_time(name: str, ref: Mapping[str, Any], metadata: Json, policy: TagPolicy) -> datetime | None:
    """The scheduled time of one of Firn's own tags; None for any other tag."""
    snapshot = snapshot_by_id(metadata, ref["snapshot-id"])
    if ref["type"] != "tag" or ref.get("max-ref-age-ms") is None or snapshot is None:
        return None
    ends = from_milliseconds(int(snapshot["timestamp-ms"]) + int(ref["max-ref-age-ms"]))
    if ends.microsecond:
        return None
    try:
        moment = datetime.strptime(name, policy.name).replace(tzinfo=policy.zone).astimezone(UTC)
    except ValueError:
        return None
    return moment if policy.name_of(moment) == name and moment < ends else None
