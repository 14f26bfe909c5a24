"""How many optimizers a group wants, by what waits and what there is."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from catalog.jobs.optimizer_group import DEFAULT_GROUP
from catalog.launch.fleet import FleetDecision, FleetMember, LaunchHistory, LaunchStatus, QueueDemand, decide_launches
from catalog.launch.record import LaunchRecord, summarize_launches
from catalog.launch.settings import Launch, LaunchId, LaunchKind, Scaling

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
SCALING = Scaling(minimum=0, maximum=3, queue_seconds=10, idle_seconds=600, cool_down_seconds=60, start_seconds=300)
LEASE = timedelta(seconds=60)
LAUNCH = Launch(kind=LaunchKind.LOCAL, scaling=SCALING, memory_limit=1000)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def member(number: int = 1, **changes: Any) -> FleetMember:
    fleet_member = FleetMember(
        id=LaunchId(f"l{number}"), status=LaunchStatus.WORKING, started_at=ago(3600), busy_at=ago(1), resident=500
    )
    return replace(fleet_member, **changes)


def waiting(seconds: float, jobs: int = 1) -> QueueDemand:
    return QueueDemand(jobs=jobs, since=ago(seconds))


def look(
    *members: FleetMember, waits: QueueDemand | None = None, went: LaunchHistory | None = None, launch: Launch = LAUNCH
) -> FleetDecision:
    return decide_launches(launch, members, waits or QueueDemand(), went or LaunchHistory(), NOW, lease=LEASE)


def bounds(minimum: int, maximum: int) -> Launch:
    return replace(LAUNCH, scaling=replace(SCALING, minimum=minimum, maximum=maximum))


def test_nothing_waits_and_nothing_is_started() -> None:
    assert look() == FleetDecision(wanted=0)


def test_the_minimum_is_there_whether_anything_waits_or_not() -> None:
    assert look(member(), launch=bounds(2, 3)).start == 1


def test_the_first_is_started_as_soon_as_a_job_waits() -> None:
    assert look(waits=waiting(0)).start == 1
    assert look(waits=waiting(0), launch=bounds(0, 0)).start == 0


def test_another_is_started_when_a_job_has_waited_long_enough_and_the_last_change_is_over() -> None:
    assert look(member(jobs=2), waits=waiting(9)).start == 0
    assert look(member(jobs=2), waits=waiting(11)).start == 1
    assert look(member(jobs=2), waits=waiting(11), went=LaunchHistory(changed_at=ago(59))).start == 0
    assert look(member(jobs=2), waits=waiting(11), went=LaunchHistory(changed_at=ago(61))).start == 1


def test_while_one_starts_no_other_does() -> None:
    starting = member(2, status=LaunchStatus.STARTING, started_at=ago(20))
    assert look(member(jobs=2), starting, waits=waiting(100)).start == 0


def test_there_are_never_more_than_the_maximum() -> None:
    assert look(*(member(n, jobs=1) for n in range(3)), waits=waiting(10**4)).start == 0
    ends = look(*(member(n, jobs=n) for n in range(5)), waits=waiting(10**4)).ends
    assert [(end.launch, end.at_once) for end in ends] == [("l0", False), ("l1", False)]


def test_one_that_idles_long_enough_is_drained_down_to_the_minimum() -> None:
    idle = member(1, busy_at=ago(601))
    assert [end.launch for end in look(idle, member(2, jobs=1)).ends] == ["l1"]
    assert look(replace(idle, busy_at=ago(599))).ends == ()
    assert look(idle, launch=bounds(1, 3)).ends == ()
    assert look(idle, waits=waiting(0)).ends == ()
    assert look(idle, went=LaunchHistory(changed_at=ago(59))).ends == ()
    assert "idle for 600 s" in look(idle).ends[0].reason


def test_one_that_holds_a_stream_is_not_idle() -> None:
    holder = member(1, busy_at=ago(601), streams=1)
    assert look(holder).ends == ()
    assert [end.launch for end in look(member(1, streams=2), member(2), launch=bounds(0, 1)).ends] == ["l2"]


def test_a_stream_that_waits_starts_one_if_the_launch_gives_it_streams() -> None:
    waits = QueueDemand(streams=1, streams_since=ago(11))
    assert look(waits=waits).start == 0
    streaming = replace(LAUNCH, streams=4)
    assert look(waits=waits, launch=streaming).start == 1
    assert look(member(streams=4), waits=waits, launch=streaming).start == 1
    assert look(member(streams=4), waits=replace(waits, streams_since=ago(9)), launch=streaming).start == 0
    assert look(member(streams=4), waits=replace(waits, since=ago(12), jobs=1), launch=LAUNCH).start == 1


def test_one_that_answers_a_query_is_not_idle() -> None:
    assert look(member(1, busy_at=ago(601), queries=1)).ends == ()
    assert [end.launch for end in look(member(1, queries=2), member(2), launch=bounds(0, 1)).ends] == ["l2"]


def test_a_query_that_waits_starts_one_if_the_launch_answers_queries() -> None:
    waits = QueueDemand(queries_since=ago(1))
    assert look(waits=waits).start == 0
    answering = replace(LAUNCH, sql=2)
    assert look(waits=waits, launch=answering).start == 1
    assert look(member(queries=2), waits=waits, launch=answering).start == 0
    assert look(member(queries=2), waits=QueueDemand(queries_since=ago(11)), launch=answering).start == 1


def test_a_draining_one_is_not_counted_and_not_drained_again() -> None:
    draining = member(1, status=LaunchStatus.DRAINING, busy_at=ago(10**4))
    assert look(draining, launch=bounds(1, 1)) == FleetDecision(wanted=1, start=1)


def test_memory_over_the_limit_is_drained_and_replaced_and_far_over_it_killed() -> None:
    over = look(member(resident=1001), launch=replace(bounds(1, 1), memory_limit=1000))
    assert [(end.at_once, end.is_failure) for end in over.ends] == [(False, False)]
    assert over.start == 1
    far = look(member(resident=1501))
    assert [(end.at_once, end.is_failure) for end in far.ends] == [(True, True)]
    assert look(member(resident=None)).ends == ()
    draining = member(status=LaunchStatus.DRAINING, resident=1501)
    assert [end.at_once for end in look(draining).ends] == [True]


def silent(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


def test_one_that_does_not_register_in_time_is_killed() -> None:
    late = member(status=LaunchStatus.STARTING, started_at=ago(400), silent_for=silent(300))
    assert [(end.at_once, end.is_failure) for end in look(late).ends] == [(True, True)]
    assert look(replace(late, silent_for=silent(299)), waits=waiting(1)).ends == ()


def test_one_that_falls_silent_is_killed_and_replaced() -> None:
    killed = look(member(silent_for=silent(101)), launch=bounds(1, 1))
    assert ([end.at_once for end in killed.ends], killed.start) == ([True], 1)


def test_one_that_may_only_have_missed_its_server_is_waited_for() -> None:
    assert look(member(silent_for=silent(100)), launch=bounds(1, 1)) == FleetDecision(wanted=1)


def test_one_that_was_asked_to_end_and_hangs_is_killed_once_it_holds_no_job() -> None:
    hanging = member(status=LaunchStatus.DRAINING, asked_at=ago(900), busy_at=ago(120))
    assert [(end.launch, end.at_once) for end in look(hanging).ends] == [("l1", True)]
    assert [end.at_once for end in look(hanging, launch=Launch()).ends] == [True]
    assert look(replace(hanging, busy_at=ago(119))).ends == ()
    assert look(replace(hanging, jobs=1)).ends == ()
    assert look(replace(hanging, asked_at=ago(119), busy_at=ago(900))).ends == ()


@pytest.mark.parametrize(("failures", "pause"), [(1, 5), (2, 10), (3, 20), (4, 40)])
def test_after_failures_the_next_start_waits_twice_as_long_each_time(failures: int, pause: int) -> None:
    def went(seconds: float) -> LaunchHistory:
        return LaunchHistory(failures=failures, failed_at=ago(seconds), error="no Java")

    held = look(waits=waiting(1), went=went(pause - 1))
    assert (held.start, held.wanted) == (0, 1)
    assert "no Java" in (held.held_back or "")
    assert look(waits=waiting(1), went=went(pause)).start == 1


def test_starts_are_given_up_after_too_many_failures_and_the_reason_is_shown() -> None:
    given_up = look(waits=waiting(1), went=LaunchHistory(failures=5, failed_at=ago(10**6), error="refused"))
    assert given_up.start == 0
    assert "5 starts in a row have failed; the last error is: refused" in (given_up.held_back or "")


def test_a_group_that_is_not_launched_any_more_drains_what_runs() -> None:
    ends = look(member(1), member(2, status=LaunchStatus.DRAINING), launch=Launch()).ends
    assert [end.launch for end in ends] == ["l1"]


def launched(number: int, status: LaunchStatus, lived: float = 5, **changes: Any) -> LaunchRecord:
    """Newer with lower numbers."""
    began = ago(number * 1000)
    record = LaunchRecord(
        id=LaunchId(f"l{number}"),
        group=DEFAULT_GROUP,
        kind=LaunchKind.LOCAL,
        status=status,
        started_at=began,
        busy_at=began,
        ended_at=began + timedelta(seconds=lived) if status.is_over else None,
        reason=f"reason {number}",
    )
    return replace(record, **changes)


def test_failures_in_a_row_are_those_since_something_worked_or_the_settings_changed() -> None:
    failed = [launched(n, LaunchStatus.FAILED) for n in (1, 2, 3)]
    ever = ago(10**6)
    assert (summarize_launches(failed, ever).failures, summarize_launches(failed, ever).error) == (3, "reason 1")
    assert summarize_launches([launched(0, LaunchStatus.STARTING), *failed], ever).failures == 3
    assert summarize_launches([launched(0, LaunchStatus.WORKING), *failed], ever).failures == 0
    assert summarize_launches([failed[0], launched(2, LaunchStatus.ENDED), failed[2]], ever).failures == 1
    assert summarize_launches([failed[0], launched(2, LaunchStatus.FAILED, lived=700), failed[2]], ever).failures == 2
    assert summarize_launches(failed, ago(1500)).failures == 1
    assert summarize_launches(failed, ago(500)) == LaunchHistory()


def test_whatever_happens_there_are_between_minimum_and_maximum() -> None:
    dice = random.Random(7)
    for _ in range(3000):
        low = dice.randint(0, 3)
        high = low + dice.randint(0, 3)
        members = [
            member(
                number,
                status=dice.choice([LaunchStatus.STARTING, LaunchStatus.WORKING, LaunchStatus.DRAINING]),
                started_at=ago(dice.randint(0, 400)),
                busy_at=ago(dice.randint(0, 1000)),
                jobs=dice.randint(0, 2),
                silent_for=silent(dice.choice([0, 0, 0, 200, 400])),
                asked_at=dice.choice([None, ago(50), ago(500)]),
                resident=dice.choice([None, 500, 1200, 1600]),
            )
            for number in range(dice.randint(0, 8))
        ]
        decision = look(*members, waits=waiting(dice.randint(0, 20), dice.randint(0, 1)), launch=bounds(low, high))
        ended = {end.launch for end in decision.ends}
        left = [member for member in members if member.status is not LaunchStatus.DRAINING and member.id not in ended]
        assert low <= len(left) + decision.start <= max(high, low)
        assert len(ended) == len(decision.ends)
