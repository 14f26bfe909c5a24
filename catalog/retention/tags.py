"""Tags by schedule: one for each scheduled moment, of what main was then, however late it is made.

A tag is named for its moment, so making it twice makes it once. Its snapshot's time and its age together end at the
moment plus the age that the policy gives it, a whole second: by that and by the name Firn knows its own again, and
drops no other. Engines' own expiry drops it at that time too, as the table specification has it.
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

MOST_AT_ONCE = 100
"""Moments that one job makes up for; of a longer gap the newest."""
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TagPolicy:
    """What the owner of a table asked of its automatic tags."""

    schedule: Schedule | None
    name: str
    max_age: timedelta
    zone: ZoneInfo

    def name_of(self, moment: datetime) -> str:
        """What the tag of a moment is called, on the owner's wall clock."""
        return moment.astimezone(self.zone).strftime(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class TagPlan:
    """What the tags of a table lack and have too many of, and the moments for which no tag can be made, with why."""

    make: Sequence[NewTag]
    drop: Mapping[str, int]
    """With the snapshot that each was seen at."""
    missed: Mapping[str, str]


def plan_tags(metadata: Json, policy: TagPolicy, now: datetime) -> TagPlan:
    """The tags of all scheduled moments since the newest of Firn's own; of the last one alone where there is none.

    Invalid when no schedule is set.
    """
    if policy.schedule is None:
        raise Invalid("no tag is due: firn.tags.schedule is not set", hint="such as firn.tags.schedule='0 0 * * *'")
    refs: Mapping[str, Any] = metadata.get("refs") or {}
    own = {name: moment for name, ref in refs.items() if (moment := _made_for(name, ref, metadata, policy)) is not None}
    make: dict[str, NewTag] = {}
    missed: dict[str, str] = {}
    for moment in _moments(policy.schedule, policy, since=max(own.values(), default=None), now=now):
        name = policy.name_of(moment)
        if name in refs or name in make:
            continue
        try:
            make[name] = _new_tag(name, find_snapshot_at(metadata, moment), moment, metadata, policy)
        except NotFound as error:
            missed[name] = error.message
    over = {name: refs[name]["snapshot-id"] for name, moment in own.items() if moment + policy.max_age <= now}
    return TagPlan(make=list(make.values()), drop=over, missed=missed)


def build_tags_task(parts: Sequence[str], metadata: Json, plan: TagPlan) -> TagsTask:
    """The facts for making and dropping tags."""
    return TagsTask(
        parts=list(parts),
        table_uuid=metadata["table-uuid"],
        make=list(plan.make),
        drop=dict(plan.drop),
        missed=dict(plan.missed),
    )


def _moments(schedule: Schedule, policy: TagPolicy, *, since: datetime | None, now: datetime) -> list[datetime]:
    """Scheduled moments after `since`, oldest first, none that would be too old at once."""
    found: list[datetime] = []
    moment = schedule.last(now, policy.zone)
    oldest = now - policy.max_age
    while moment is not None and moment > (since or moment - _SECOND) and moment > oldest and len(found) < MOST_AT_ONCE:
        found.append(moment)
        moment = schedule.last(moment - timedelta(minutes=1), policy.zone)
        if since is None:
            break
    return found[::-1]


def _new_tag(name: str, snapshot_id: int, moment: datetime, metadata: Json, policy: TagPolicy) -> NewTag:
    snapshot = snapshot_by_id(metadata, snapshot_id)
    if snapshot is None:
        raise NotFound("what was current then has expired")
    ends = (moment + policy.max_age).replace(microsecond=0)
    return NewTag(
        name=name, snapshot_id=snapshot_id, max_ref_age_ms=to_milliseconds(ends) - int(snapshot["timestamp-ms"])
    )


def _made_for(name: str, ref: Mapping[str, Any], metadata: Json, policy: TagPolicy) -> datetime | None:
    """The moment that one of Firn's own tags stands for; None for a tag of anybody else's."""
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
