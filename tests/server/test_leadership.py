"""Leaders and their terms: of two servers one plans, however their clocks and pauses fall."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from catalog.ports.store import Database
from server.background.leadership import Leadership
from server.service.planning import planner_loop
from tests.factories import LATER, NOW
from tests.server.clocks import HOUR, Clock
from tests.server.lake import PLAIN, Lake, a_lake


@pytest.fixture
def lake(database: Database, tmp_path: Path) -> Lake:
    return a_lake(database, tmp_path)


def two(lake: Lake, seconds: float = 30) -> tuple[Leadership, Leadership]:
    first, second = (Leadership(lake.services.database, timedelta(seconds=seconds), holder=holder) for holder in "ab")
    return first, second


def test_each_takeover_begins_a_new_term_and_a_renewal_does_not(database: Database) -> None:
    with database.writing() as uow:
        assert uow.leaders.claim("a", now=NOW, until=LATER) == 1
        assert uow.leaders.claim("a", now=NOW, until=LATER) == 1
        assert uow.leaders.claim("b", now=NOW, until=LATER) is None
        after = LATER + timedelta(seconds=1)
        assert uow.leaders.claim("b", now=after, until=after + timedelta(minutes=5)) == 2
        assert (uow.leaders.holds("a", 1), uow.leaders.holds("b", 2), uow.leaders.holds("b", 1)) == (False, True, False)


def test_a_paused_leader_that_wakes_plans_nothing(lake: Lake) -> None:
    lake.create()
    paused, next_one = two(lake, seconds=0)  # claims lapse at once
    assert paused.leads()
    fence = paused.fence()
    assert next_one.leads()
    status = lake.services.planner_loop.run_once(fence)
    assert (status.deposed, status.assessed) == (True, 0)
    assert lake.services.planner_loop.run_once(next_one.fence()).assessed == 1


def test_a_leader_that_is_paused_between_its_decision_and_its_write_plans_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.create()
    paused, next_one = two(lake, seconds=0)
    assert paused.leads()
    decide = planner_loop._decide

    def slowly(*args: object) -> object:
        assert next_one.leads()
        return decide(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(planner_loop, "_decide", slowly)
    assert lake.services.planner_loop.run_once(paused.fence()).deposed
    with lake.services.database.reading() as uow:
        assert uow.table_statuses.worst(limit=9) == []


def test_who_was_deposed_asks_again_before_it_does_more(lake: Lake) -> None:
    lake.create()
    old, new = two(lake)
    assert old.leads()
    with lake.services.database.writing() as uow:
        later = uow.now() + timedelta(seconds=31)
        assert uow.leaders.claim("b", now=later, until=later + timedelta(seconds=15)) is not None
    assert old.leads()  # as far as it knows: it need not ask yet
    assert lake.services.planner_loop.run_once(old.fence()).deposed
    assert not old.leads()
    assert new.leads()


def test_a_leader_that_comes_back_after_another_has_a_term_of_its_own(lake: Lake) -> None:
    lake.create(PLAIN)
    first, second = two(lake, seconds=0)
    assert first.leads()
    stale = first.fence()
    assert second.leads()
    assert first.leads()
    assert lake.services.planner_loop.run_once(stale).deposed
    assert not lake.services.planner_loop.run_once(first.fence()).deposed


@pytest.mark.parametrize("jump", [-HOUR, HOUR], ids=["back", "forward"])
def test_when_the_clock_jumps_one_of_two_servers_plans(lake: Lake, clock: Clock, jump: timedelta) -> None:
    lake.create()
    servers = two(lake)
    assert [server.leads() for server in servers] == [True, False]
    clock.wrong = jump
    for server in servers:
        server._held_until = 0.0  # it is time to ask
    lake.append(PLAIN)
    assert sorted(server.leads() for server in reversed(servers)) == [False, True]
    done = [lake.services.planner_loop.run_once(server.fence()) for server in servers]
    assert sorted(status.deposed for status in done) == [False, True]
