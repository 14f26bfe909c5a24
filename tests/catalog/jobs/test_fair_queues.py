"""No starvation under any mix: thousands of tables, tenants that flood, long jobs, dying optimizers; simulated.

Only jobs with an earlier deadline go before a job, and whatever is planned after that deadline has a later one. So what
can be before it is known when its deadline has come, and is worked off by all slots together. What somebody has asked
for comes between, at every second lease at most.
"""

from __future__ import annotations

import random
from statistics import mean

from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.jobs.job import JobKind
from catalog.jobs.scheduling import MAX_PENALTY, PRIORITIES, limit_long_jobs
from catalog.maintenance.registry import LONGEST_WAIT, kind_of
from tests.catalog.jobs.queue_model import Ended, PlannedJob, Rules, worked

MINUTE, HOUR = 60.0, 3_600.0
KINDS = (JobKind.MERGE, JobKind.REWRITE, JobKind.EXPIRE, JobKind.REMOVE_ORPHANS)


def check_all_began(ended: list[Ended]) -> None:
    assert all(job_end.ended >= job_end.began >= job_end.planned for job_end in ended)


@st.composite
def loads(draw: st.DrawFn) -> tuple[list[PlannedJob], int, int]:
    """Jobs of up to 300 tables, of any kind and priority, in bursts or spread; slots, and reserved ones."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    tables, slots = draw(st.integers(1, 300)), draw(st.integers(1, 12))
    longest = draw(st.sampled_from([20.0, 200.0, 2_000.0]))
    burst = draw(st.sampled_from([1.0, 10 * MINUTE, 6 * HOUR]))
    jobs = [
        PlannedJob(
            at=rng.uniform(0, burst),
            table=table,
            seconds=rng.uniform(1, longest),
            kind=rng.choice(KINDS),
            priority=rng.choice(list(PRIORITIES)),
            catalog=f"c{table % 3}",
            is_requested=rng.random() < 0.02,
        )
        for table in range(tables)
        for _ in range(rng.randint(1, 4))
    ]
    return jobs, slots, draw(st.integers(0, slots + 1))


@settings(max_examples=60)
@given(load=loads(), quotas=st.tuples(st.floats(0.05, 1), st.floats(0.05, 1)))
def test_a_job_waits_for_what_has_an_earlier_deadline_or_was_asked_for_and_for_nothing_else(
    load: tuple[list[PlannedJob], int, int], quotas: tuple[float, float]
) -> None:
    jobs, slots, reserved = load
    ended = worked(jobs, Rules(slots=slots, reserved=reserved, table_quota=quotas[0], catalog_quota=quotas[1]))
    check_all_began(ended)
    longest = max(job_end.job.seconds for job_end in ended)
    for planned_job in (planned for planned in ended if not planned.job.is_requested):
        before = [
            other.job
            for other in ended
            if (other.deadline <= planned_job.deadline or other.job.is_requested)
            and other.ended > planned_job.planned
            and other is not planned_job
        ]
        short = sum(job.seconds for job in before if not job.is_long)
        long = sum(job.seconds for job in before if job.is_long)
        if planned_job.job.is_long:  # it may need a slot of those for long jobs, and short ones may have that before it
            most = 2 * longest + long / limit_long_jobs(slots, reserved) + short
        else:
            most = longest + (short + long) / slots
        assert planned_job.waited <= most + 0.001


def steady(tables: int, every: float, hours: float, seconds: float, seed: int = 0) -> list[PlannedJob]:
    """Each table now and then, at its own times."""
    rng = random.Random(seed)
    jobs_found = []
    for table in range(tables):
        at = rng.uniform(0, every)
        while at < hours * HOUR:
            jobs_found.append(
                PlannedJob(at=at, table=table, seconds=rng.uniform(0.5, 1.5) * seconds, kind=KINDS[table % 4])
            )
            at += rng.uniform(0.5, 1.5) * every
    return jobs_found


def test_with_capacity_for_the_load_thousands_of_tables_all_begin_before_their_deadline() -> None:
    ended = worked(steady(3_000, every=HOUR, hours=6, seconds=8.0), Rules(slots=8))  # 83 % of the time
    check_all_began(ended)
    assert len(ended) > 15_000
    assert max(job_end.began - job_end.deadline for job_end in ended) <= 0


def test_with_more_work_than_time_all_tables_of_a_kind_wait_alike() -> None:
    jobs = [
        PlannedJob(at=arrival.at, table=arrival.table, seconds=arrival.seconds)
        for arrival in steady(2_000, HOUR, 8, seconds=24.0)
    ]
    ended = worked(jobs, Rules(slots=6))  # more than twice the capacity
    check_all_began(ended)
    served: dict[int, list[float]] = {}
    for job_end in ended:
        served.setdefault(job_end.job.table, []).append(job_end.waited)
    waits = [mean(each) for each in served.values()]
    assert len(served) == 2_000
    assert mean(waits) > 30 * MINUTE  # or nothing was shared
    assert max(waits) <= 2.5 * mean(waits)


def test_a_tenant_that_floods_the_queue_delays_others_no_longer_than_their_patience() -> None:
    flood = [
        PlannedJob(at=float(number % 5), table=10_000 + number, seconds=60.0, catalog="flood") for number in range(800)
    ]
    quiet = [
        PlannedJob(at=300.0 + 60 * number, table=number, seconds=30.0, catalog=f"q{number}") for number in range(60)
    ]
    ended = worked([*flood, *quiet], Rules(slots=4, catalog_quota=0.25))
    check_all_began(ended)
    patience = kind_of(JobKind.REWRITE).max_wait.total_seconds()
    waits = {
        name: [job_end.waited for job_end in ended if job_end.job.catalog.startswith(name)] for name in ("flood", "q")
    }
    assert max(waits["q"]) <= patience + 2 * MINUTE
    assert mean(waits["q"]) < mean(waits["flood"])
    # It would be first come, first served for hours without the quota:
    open_to_all = worked([*flood, *quiet], Rules(slots=4))
    assert max(job_end.waited for job_end in open_to_all if job_end.job.catalog.startswith("q")) > 2 * patience


def test_short_jobs_find_a_slot_while_long_ones_wait_in_their_hundreds() -> None:
    long = [PlannedJob(at=0.0, table=number, seconds=1_800.0) for number in range(300)]
    short = [PlannedJob(at=60.0 * number, table=1_000 + number, seconds=20.0) for number in range(300)]
    ended = worked([*long, *short], Rules(slots=8, reserved=1))
    check_all_began(ended)
    waits = [job_end.waited for job_end in ended if job_end.job.seconds == 20.0]
    assert max(waits) <= 20.0
    unreserved = worked([*long, *short], Rules(slots=8, reserved=0))
    assert max(job_end.waited for job_end in unreserved if job_end.job.seconds == 20.0) > 10 * MINUTE


def test_long_jobs_alone_have_all_slots_but_the_reserved_ones() -> None:
    jobs = [PlannedJob(at=0.0, table=number, seconds=1_000.0) for number in range(30)]
    assert max(job_end.ended for job_end in worked(jobs, Rules(slots=5, reserved=2))) == 10 * 1_000.0  # three at a time
    assert max(job_end.ended for job_end in worked(jobs, Rules(slots=1, reserved=1))) == 30 * 1_000.0


def test_streams_of_urgent_jobs_do_not_starve_the_patient_ones() -> None:
    """With a queue for each priority the last one waits for ever; deadlines come."""
    patient = PlannedJob(at=1.0, table=0, seconds=10.0, kind=JobKind.REMOVE_ORPHANS, priority="low")
    urgent = [
        PlannedJob(at=float(at), table=1 + at % 500, seconds=9.0, kind=JobKind.MERGE) for at in range(0, 200_000, 5)
    ]
    requested = [
        PlannedJob(at=float(at), table=1_000 + at, seconds=9.0, is_requested=True) for at in range(0, 200_000, 50)
    ]
    ended = worked([patient, *urgent, *requested], Rules(slots=1))  # twice what one slot can do
    (first,) = (job_end for job_end in ended if job_end.job.table == 0)
    assert first.waited <= LONGEST_WAIT.total_seconds() + 10 * MINUTE
    assert first.waited > HOUR  # the others did go first


def test_what_is_asked_for_begins_at_once_behind_thousands_that_are_overdue() -> None:
    overdue = [PlannedJob(at=0.0, table=number, seconds=20.0) for number in range(3_000)]
    requested = [
        PlannedJob(at=30_000.0 + 500 * number, table=5_000 + number, seconds=20.0, is_requested=True)
        for number in range(20)
    ]
    ended = worked([*overdue, *requested], Rules(slots=1))
    check_all_began(ended)
    assert max(job_end.waited for job_end in ended if job_end.job.is_requested) <= 20.0


def test_who_asks_without_end_halves_the_speed_of_the_rest_and_no_more() -> None:
    planned = [PlannedJob(at=0.0, table=number, seconds=10.0) for number in range(200)]
    requested = [PlannedJob(at=0.0, table=1_000 + number, seconds=10.0, is_requested=True) for number in range(2_000)]
    ended = worked([*planned, *requested], Rules(slots=1))
    assert max(job_end.ended for job_end in ended if not job_end.job.is_requested) <= 2 * 200 * 10.0


def test_optimizers_that_die_delay_jobs_and_lose_none() -> None:
    rng = random.Random(1)
    jobs = steady(500, every=HOUR, hours=4, seconds=20.0)
    dies = sorted(rng.uniform(0, 4 * HOUR) for _ in range(100))
    ended = worked(jobs, Rules(slots=6, dies=dies))
    check_all_began(ended)
    whole = worked(jobs, Rules(slots=6))
    assert mean(job_end.waited for job_end in ended) >= mean(job_end.waited for job_end in whole)
    assert max(job_end.began - job_end.deadline for job_end in ended) <= 0


def test_a_table_that_uses_more_than_its_quota_stands_back_and_still_comes() -> None:
    greedy = [PlannedJob(at=float(at), table=0, seconds=200.0) for at in range(0, 40_000, 10)]
    others = [PlannedJob(at=float(at), table=1 + at, seconds=200.0) for at in range(0, 40_000, 210)]
    patience = kind_of(JobKind.REWRITE).max_wait.total_seconds()

    def served(table_quota: float) -> list[Ended]:
        ended = worked([*greedy, *others], Rules(slots=1, table_quota=table_quota))
        return [job_end for job_end in ended if job_end.job.table == 0]

    limited, free = served(0.05), served(1.0)
    assert {job_end.deadline - job_end.planned for job_end in free} == {patience}
    assert max(job_end.deadline - job_end.planned for job_end in limited) <= patience * (1 + MAX_PENALTY)
    assert 1 < len(limited) < len(free)
