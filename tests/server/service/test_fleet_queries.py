"""Of several groups that answer queries, one starts an optimizer for a query that waits, also beside two servers."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from catalog.jobs.optimizer_group import DEFAULT_GROUP, Group, GroupName
from catalog.launch.query_starts import decide_fleets
from catalog.launch.settings import Launch, LaunchKind, Scaling
from catalog.names import CatalogName
from catalog.queries.query import Query, create_query_id
from firn.protocol.leases import PROTOCOL
from firn.protocol.queries import QueryEngineName, QueryState
from server.background.leadership import Leadership
from server.service.optimizers import fleet as fleet_module
from server.service.optimizers.optimizers import Registration
from tests.server.service.fleet_stage import Stage

SQL, SPARE = GroupName("sql"), GroupName("spare")
ANSWERING = Launch(kind=LaunchKind.LOCAL, sql=2, scaling=Scaling(maximum=2))


@pytest.fixture
def groups(stage: Stage) -> Stage:
    """Three groups that answer queries."""
    for name in (SQL, SPARE):
        stage.lake.services.groups.create(Group(name=name))
    for group in (DEFAULT_GROUP, SQL, SPARE):
        stage.fleet.set(group, ANSWERING)
    stage.fleet.set(SQL, replace(ANSWERING, sql=4))
    return stage


def queue_query(stage: Stage) -> None:
    with stage.lake.services.database.writing() as uow:
        now = uow.now()
        query = Query(
            id=create_query_id(),
            owner=None,
            statement="SELECT 1",
            catalog=CatalogName("lake"),
            namespace="",
            explain=False,
            tables=(),
            state=QueryState.QUEUED,
            created_at=now,
            seen_at=now,
            engine=QueryEngineName.SPARK,
        )
        uow.queries.add(query)


def launched(stage: Stage) -> list[GroupName]:
    """The groups of all launches so far."""
    fleets = stage.fleet.show_all()
    return [launch.group for fleet in fleets.values() for launch in fleet.launches]


def register(stage: Stage, group: GroupName, sql: object, launch: str | None = None) -> str:
    coming = Registration(
        group=group, host="h", pid=7, version="0", protocol=PROTOCOL, launch=launch, facts={"sql": sql}
    )
    return stage.lake.services.optimizers.register(coming).id


def test_one_group_starts_one_optimizer(groups: Stage) -> None:
    queue_query(groups)
    for _ in range(3):
        groups.fleet.activate()
    assert launched(groups) == [SQL]
    shown = groups.fleet.show_all()
    assert {group: fleet.decision.wanted for group, fleet in shown.items()} == {DEFAULT_GROUP: 0, SQL: 1, SPARE: 0}


def test_the_next_query_starts_none_until_the_first_optimizer_is_busy(groups: Stage) -> None:
    queue_query(groups)
    groups.fleet.activate()
    [launch] = groups.fleet.show(SQL).launches
    optimizer = register(groups, SQL, 1, launch.id)
    groups.fleet.activate()
    assert launched(groups) == [SQL]  # it has room for the query
    queries = groups.lake.services.queries.spark
    queue_query(groups)
    assert queries.take(optimizer) is not None
    groups.fleet.activate()
    assert sorted(launched(groups)) == [DEFAULT_GROUP, SQL]


@pytest.mark.parametrize("facts", [True, -4, "9", None, 1.5])
def test_an_optimizer_that_says_nonsense_about_its_room_has_none(groups: Stage, facts: object) -> None:
    register(groups, DEFAULT_GROUP, facts)
    queue_query(groups)
    groups.fleet.activate()
    assert launched(groups) == [SQL]


def test_one_that_people_started_takes_the_query_unless_it_drains(groups: Stage) -> None:
    by_hand = register(groups, DEFAULT_GROUP, 1)
    queue_query(groups)
    groups.fleet.activate()
    assert launched(groups) == []
    groups.lake.services.optimizers.drain(by_hand, "night")
    groups.fleet.activate()
    assert launched(groups) == [SQL]


def test_of_two_servers_the_one_that_does_not_lead_any_more_starts_none(groups: Stage) -> None:
    database = groups.lake.services.database
    paused, following = (Leadership(database, timedelta(0), holder=holder) for holder in "ab")
    assert paused.leads()
    fence = paused.fence()
    assert following.leads()
    queue_query(groups)
    assert groups.fleet.activate(fence).started == 0
    assert launched(groups) == []
    other = groups.next_server()
    assert other.fleet.activate(following.fence()).started == 1
    assert (launched(groups), groups.launcher.commands) == ([SQL], [])


def test_a_leader_that_is_paused_after_its_decision_starts_none(groups: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    database = groups.lake.services.database
    paused, following = (Leadership(database, timedelta(0), holder=holder) for holder in "ab")
    assert paused.leads()
    queue_query(groups)
    other = groups.next_server()

    def decide_slowly(*args: object, **more: object) -> object:
        decisions = decide_fleets(*args, **more)  # type: ignore[arg-type]
        monkeypatch.setattr(fleet_module, "decide_fleets", decide_fleets)
        assert following.leads()
        assert other.fleet.activate(following.fence()).started == 1
        return decisions

    monkeypatch.setattr(fleet_module, "decide_fleets", decide_slowly)
    assert groups.fleet.activate(paused.fence()).started == 0
    assert (launched(groups), groups.launcher.commands, len(other.launcher.commands)) == ([SQL], [], 1)
