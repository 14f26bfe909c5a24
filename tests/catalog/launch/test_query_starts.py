"""Of several groups that answer queries, one alone starts an optimizer for a query that waits."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from catalog.jobs.optimizer_group import GroupName
from catalog.launch.fleet import FleetDecision, LaunchHistory, LaunchStatus, QueueDemand
from catalog.launch.query_starts import GroupSituation, decide_fleets
from catalog.launch.settings import LaunchKind
from tests.catalog.launch.test_fleet import LAUNCH, LEASE, NOW, SCALING, ago, bounds, member

QUERY = QueueDemand(queries_since=ago(1))
FAILED = LaunchHistory(failures=1, failed_at=ago(1), error="no Java")


def group(sql: int = 2, waiting: QueueDemand = QUERY, **changes: Any) -> GroupSituation:
    situation = GroupSituation(launch=replace(LAUNCH, sql=sql), members=(), waiting=waiting, past=LaunchHistory())
    return replace(situation, **changes)


def decide(groups: Mapping[str, GroupSituation], free: int = 0) -> dict[str, FleetDecision]:
    named = {GroupName(name): situation for name, situation in groups.items()}
    return {str(name): each for name, each in decide_fleets(named, NOW, lease=LEASE, free_for_queries=free).items()}


def starts(groups: Mapping[str, GroupSituation], free: int = 0) -> dict[str, int]:
    return {name: decision.start for name, decision in decide(groups, free).items() if decision.start}


def test_the_group_with_the_most_queries_starts_and_of_equal_ones_the_first_by_name() -> None:
    assert starts({"a": group(2), "b": group(4), "c": group(0)}) == {"b": 1}
    assert starts({"b": group(2), "a": group(2)}) == {"a": 1}
    assert starts({"c": group(0)}) == {}
    assert starts({"a": group(waiting=QueueDemand()), "b": group(waiting=QueueDemand())}) == {}


def test_a_group_that_people_start_by_hand_starts_none() -> None:
    by_hand = group(8, launch=replace(LAUNCH, sql=8, kind=LaunchKind.NONE))
    assert starts({"a": by_hand, "b": group(1)}) == {"b": 1}


def test_nobody_starts_while_an_optimizer_has_room() -> None:
    assert starts({"a": group(), "b": group()}, free=1) == {}


@pytest.mark.parametrize("which", ["a", "b"])
def test_nobody_starts_while_an_optimizer_that_answers_queries_starts(which: str) -> None:
    starting = group(members=[member(status=LaunchStatus.STARTING)])
    assert starts({"a": group(), "b": group(), which: starting}) == {}
    assert starts({"a": group(), "z": replace(starting, launch=LAUNCH)}) == {"a": 1}  # that one answers none


def test_a_start_for_a_job_is_enough() -> None:
    with_job = group(waiting=QueueDemand(jobs=1, since=ago(1), queries_since=ago(1)))
    assert starts({"a": group(4), "b": with_job}) == {"b": 1}


def test_one_that_does_not_register_in_time_keeps_nobody() -> None:
    late = group(8, members=[member(status=LaunchStatus.STARTING, silent_for=NOW - ago(300))], past=FAILED)
    assert starts({"a": group(2), "b": late}) == {"a": 1}


def test_a_group_that_cannot_start_leaves_it_to_the_next() -> None:
    full = group(8, launch=replace(bounds(0, 1), sql=8), members=[member(queries=8)])
    never = group(8, launch=replace(bounds(0, 0), sql=8))
    assert starts({"a": full, "b": never, "c": group(8, past=FAILED), "d": group(1)}) == {"d": 1}


def test_if_none_can_start_one_says_why() -> None:
    decisions = decide({"a": group(2), "b": group(4, past=FAILED), "c": group(4, past=FAILED)})
    assert [name for name, decision in decisions.items() if decision.start] == ["a"]
    decisions = decide({"a": group(2, past=FAILED), "b": group(4, past=FAILED)})
    assert decisions["a"].held_back is None
    assert "no Java" in (decisions["b"].held_back or "")


def test_an_idle_optimizer_is_not_drained_while_a_query_waits() -> None:
    idle = group(1, members=[member(busy_at=ago(601))])
    assert decide({"a": group(2), "b": idle}, free=1)["b"].ends == ()
    assert [end.launch for end in decide({"b": replace(idle, waiting=QueueDemand())}, free=1)["b"].ends] == ["l1"]


def test_groups_and_their_order_never_start_more_than_one_for_a_query() -> None:
    dice = random.Random(11)
    for _ in range(2000):
        groups = {
            f"g{number}": group(
                dice.randint(0, 3),
                launch=replace(LAUNCH, sql=dice.randint(0, 3), scaling=replace(SCALING, maximum=dice.randint(0, 3))),
                members=[
                    member(n, status=dice.choice([LaunchStatus.STARTING, LaunchStatus.WORKING]), queries=1)
                    for n in range(dice.randint(0, 2))
                ],
                past=dice.choice([LaunchHistory(), FAILED]),
                waiting=QueueDemand(queries_since=ago(dice.randint(0, 20))),
            )
            for number in range(dice.randint(1, 5))
        }
        started = starts(groups)
        assert sum(started.values()) <= 1
        assert started == starts(dict(reversed(groups.items())))
        could = [
            name
            for name, each in groups.items()
            if each.launch.sql and each.launch.scaling.maximum and not each.members and not each.past.failures
        ]
        comes = any(
            m.status is LaunchStatus.STARTING for each in groups.values() if each.launch.sql for m in each.members
        )
        assert started or comes or not could  # a group without optimizers would start at once
