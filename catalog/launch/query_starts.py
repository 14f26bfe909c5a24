"""Decides for all groups together: of several groups that answer queries, one alone starts an optimizer for a query
that waits. Pure: it reads only its arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from catalog.jobs.optimizer_group import GroupName
from catalog.launch.fleet import (
    FleetDecision,
    FleetMember,
    LaunchHistory,
    LaunchStatus,
    QueueDemand,
    decide_launches,
)
from catalog.launch.settings import Launch, LaunchKind


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSituation:
    """A group, as the server sees it now."""

    launch: Launch
    members: Sequence[FleetMember]
    waiting: QueueDemand
    past: LaunchHistory

    @property
    def answers_queries(self) -> bool:
        """Whether the server starts optimizers in this group, and they answer queries."""
        return bool(self.launch.sql) and self.launch.kind is not LaunchKind.NONE


def decide_fleets(
    groups: Mapping[GroupName, GroupSituation], now: datetime, *, lease: timedelta, free_for_queries: int
) -> Mapping[GroupName, FleetDecision]:
    """The decisions for all groups at `now`.

    No group starts an optimizer for a query while there is room for one (`free_for_queries`), or while an optimizer
    that will answer queries starts. Otherwise the group with the largest `sql` does; of equal ones the first by name.
    A group that cannot start, because of its maximum or of failures, leaves it to the next.
    """
    decisions = {group: _decide(situation, now, lease, starts_for_queries=False) for group, situation in groups.items()}
    answering = {group: situation for group, situation in groups.items() if situation.answers_queries}
    if free_for_queries or any(_has_start(situation, decisions[group]) for group, situation in answering.items()):
        return decisions
    candidates = {
        group: _decide(answering[group], now, lease, starts_for_queries=True)
        for group in sorted(answering, key=lambda group: (-answering[group].launch.sql, group))
    }
    for group, decision in candidates.items():
        if decision.start > decisions[group].start:
            return {**decisions, group: decision}
    for group, decision in candidates.items():
        if decision.held_back:  # no group can start: one says why
            return {**decisions, group: decision}
    return decisions


def _decide(situation: GroupSituation, now: datetime, lease: timedelta, *, starts_for_queries: bool) -> FleetDecision:
    waiting = replace(situation.waiting, starts_for_queries=starts_for_queries)
    return decide_launches(situation.launch, situation.members, waiting, situation.past, now, lease=lease)


def _has_start(situation: GroupSituation, decision: FleetDecision) -> bool:
    """Whether an optimizer of the group starts, and goes on to start."""
    ending = {end.launch for end in decision.ends}
    starting = (
        member for member in situation.members if member.status is LaunchStatus.STARTING and member.id not in ending
    )
    return bool(decision.start) or any(starting)
