"""Deadlines, quotas and reserved slots, each by itself; tests/catalog/jobs/test_fair_queues.py has them all at work."""

from __future__ import annotations

from datetime import timedelta
from itertools import product
from uuid import uuid4

import pytest

from catalog.jobs.job import JobKind
from catalog.jobs.scheduling import (
    LONG_BYTES,
    LONG_SECONDS,
    MAX_PENALTY,
    PRIORITIES,
    SlotRun,
    SlotUsage,
    compute_deadline,
    is_long,
    limit_long_jobs,
    measure_usage,
)
from catalog.maintenance.registry import KINDS, LONGEST_WAIT, kind_of
from catalog.names import CatalogName, RelationId
from catalog.policy.settings import SETTINGS
from tests.factories import LAKE, NOW

HOUR = timedelta(hours=1)


def test_every_kind_has_its_patience_and_every_priority_its_factor() -> None:
    assert {kind.name for kind in KINDS} == set(JobKind)
    for priority in PRIORITIES:
        assert SETTINGS["firn.optimize.priority"].parse(priority) == priority


@pytest.mark.parametrize(("kind", "priority", "penalty"), list(product(JobKind, PRIORITIES, (0.0, 1.0, 1e9))))
def test_no_deadline_lies_further_ahead_than_the_longest_patience(kind: JobKind, priority: str, penalty: float) -> None:
    time_to_begin = compute_deadline(kind_of(kind).max_wait, priority, NOW, penalty=penalty) - NOW
    assert timedelta(0) < time_to_begin <= LONGEST_WAIT


def test_high_waits_a_quarter_and_low_four_times_as_long() -> None:
    waits = {
        priority: compute_deadline(kind_of(JobKind.REWRITE).max_wait, priority, NOW) - NOW for priority in PRIORITIES
    }
    assert waits["high"] * 4 == waits["normal"]
    assert waits["normal"] * 4 == waits["low"]


def test_what_somebody_has_asked_for_goes_before_all_that_is_planned() -> None:
    requested = compute_deadline(kind_of(JobKind.REMOVE_ORPHANS).max_wait, "low", NOW, requested=True)
    assert all(requested < compute_deadline(kind_of(kind).max_wait, "high", NOW) for kind in JobKind)


def test_a_quota_is_free_until_it_is_used_up_and_then_costs_up_to_a_bound() -> None:
    table = RelationId(uuid4())
    backs = []
    for used_seconds in (0.0, 3_600.0, 5_400.0, 1e9):
        used = SlotUsage(slots=2)
        used.add(LAKE, table, used_seconds)
        backs.append(used.penalty(LAKE, table, table_quota=0.5, catalog_quota=1.0))
    assert backs == [0.0, 0.0, 0.5, MAX_PENALTY]


def test_a_catalog_stands_back_by_what_it_has_queued_and_others_do_not() -> None:
    used, flood, quiet = SlotUsage(slots=1), CatalogName("flood"), CatalogName("quiet")
    backs = []
    for _ in range(100):
        table = RelationId(uuid4())
        backs.append(used.penalty(flood, table, table_quota=0.5, catalog_quota=0.5))
        used.add(flood, table, 60.0)
    assert backs[0] == 0.0
    assert backs[-1] == pytest.approx(99 / 30 - 1)
    assert used.penalty(quiet, RelationId(uuid4()), table_quota=0.5, catalog_quota=0.5) == 0.0


def test_a_quota_of_nothing_lets_everything_stand_back_that_has_run() -> None:
    used, table = SlotUsage(slots=1), RelationId(uuid4())
    assert used.penalty(LAKE, table, table_quota=0.0, catalog_quota=1.0) == 0.0
    used.add(LAKE, table, 1.0)
    assert used.penalty(LAKE, table, table_quota=0.0, catalog_quota=1.0) == MAX_PENALTY


def test_only_the_last_hour_counts_and_what_runs_counts_so_far() -> None:
    table, other = RelationId(uuid4()), RelationId(uuid4())
    ran = [
        SlotRun(catalog=LAKE, table=table, since=NOW - 3 * HOUR, until=NOW - HOUR / 2),
        SlotRun(catalog=LAKE, table=table, since=NOW - 5 * HOUR, until=NOW - 2 * HOUR),
        SlotRun(catalog=LAKE, table=other, since=NOW - HOUR / 4),
    ]
    used = measure_usage(ran, 4, NOW)
    assert (used.by_table[table], used.by_table[other]) == (1_800.0, 900.0)
    assert used.by_catalog == {LAKE: 2_700.0}


def test_a_job_is_long_by_its_time_or_its_size() -> None:
    assert [is_long(LONG_SECONDS), is_long(LONG_SECONDS + 1), is_long(0, LONG_BYTES + 1)] == [False, True, True]


@pytest.mark.parametrize(("slots", "reserved", "limit"), [(0, 1, 1), (1, 1, 1), (2, 1, 1), (8, 2, 6), (3, 9, 1)])
def test_long_jobs_leave_the_reserved_slots_but_always_have_one(slots: int, reserved: int, limit: int) -> None:
    assert limit_long_jobs(slots, reserved) == limit
