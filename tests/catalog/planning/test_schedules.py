"""When the moments of a schedule come for a table, and what answers them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from catalog.jobs.job import JobKind, JobStatus
from catalog.maintenance import decide_next_job
from catalog.names import RelationId
from catalog.planning import Due
from catalog.planning.schedules import SPREAD
from catalog.policy.settings import SETTINGS
from catalog.tables.relation import TableStats
from tests.catalog.planning.due import AT_THREE, HOUR, THREE, due, not_due
from tests.catalog.planning.tables import DAY, ended, plain
from tests.factories import NOW


@pytest.mark.parametrize(
    ("changes", "is_due"),
    [
        ({"status": JobStatus.CANCELED, "params": {"state": "withdrawn"}}, True),
        ({"params": {"state": "requested", "dry_run": True}}, True),
        ({"status": JobStatus.CANCELED, "params": {"state": "requested"}}, False),
        ({"params": {"state": "requested"}}, False),
    ],
)
def test_a_scheduled_job_is_due_until_it_has_run_or_a_user_cancels_it(*, changes: dict[str, Any], is_due: bool) -> None:
    facts = plain(AT_THREE, created_at=NOW - DAY, last_commit_at=NOW)
    assert isinstance(decide_next_job(facts, [ended(JobKind.REMOVE_ORPHANS, **changes)], NOW), Due) == is_due


def test_default_schedules_are_spread_over_the_tables() -> None:
    """All tables of all catalogs would else be due in the same minute of Sunday."""
    sunday = THREE + DAY
    begin: list[datetime] = []
    for number in range(200):
        facts = replace(plain(), stats=TableStats(relation_id=RelationId(UUID(int=number)), last_commit_at=NOW))
        waits = not_due(facts)
        assert waits.next_at is not None
        due(facts, now=waits.next_at)
        not_due(facts, now=waits.next_at - timedelta(seconds=1))
        done = ended(JobKind.REMOVE_ORPHANS, created_at=waits.next_at)
        assert not_due(facts, [done], waits.next_at + HOUR).next_at == waits.next_at + 7 * DAY
        begin.append(waits.next_at)
    assert sunday <= min(begin) < sunday + HOUR
    assert sunday + 5 * HOUR < max(begin) < sunday + 6 * HOUR
    assert len(set(begin)) > 100


def test_a_schedule_of_the_policy_is_not_spread() -> None:
    chosen = plain({"firn.orphans.schedule": "0 3 * * 0"}, last_commit_at=NOW)
    assert not_due(chosen).next_at == THREE + DAY
    misspelled = plain({"firn.orphans.schedule": "on Sundays"}, last_commit_at=NOW)
    assert not_due(misspelled).next_at == not_due(plain(last_commit_at=NOW)).next_at


def test_default_schedules_leave_time_for_all_tables() -> None:
    defaults = [
        setting.parse(setting.default)
        for key, setting in SETTINGS.items()
        if key.endswith(".schedule") and setting.default
    ]
    for schedule in defaults:
        first = schedule.following(NOW, ZoneInfo("UTC"))
        assert schedule.following(first, ZoneInfo("UTC")) - first >= SPREAD
