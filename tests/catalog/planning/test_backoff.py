"""What is due and may not begin: outside windows, on blocked tables, after predictions that were missed."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from catalog.errors import Invalid
from catalog.jobs.blocker import LONGEST, Blocker, BlockerId, check_blocker
from catalog.jobs.job import JobKind, JobStatus, LeaseToken
from catalog.maintenance import decide_next_job
from catalog.planning import Due, NotDue
from tests.catalog.planning.tables import DAY, KEYED, ended, plain
from tests.factories import NOW

HOUR = timedelta(hours=1)
NIGHT = {"firn.optimize.window": "0 22 * * * for 8 h"}
SMALL: dict[str, Any] = {"small_files": 100, "data_files": 100, "bytes": 10**6}


def a_blocker(**changes: Any) -> Blocker:
    values: dict[str, Any] = {"id": BlockerId(uuid4()), "relation_id": KEYED.base_id, "reason": "a load"}
    return Blocker(**values | {"created_at": NOW, "until": NOW + HOUR, **changes})


def not_due(facts: Any, past: Any = (), now: datetime = NOW) -> NotDue:
    decision = decide_next_job(facts, past, now)
    assert isinstance(decision, NotDue), decision.reason
    return decision


# --- windows ---------------------------------------------------------------------------------------------------------


def test_a_job_that_is_due_waits_for_its_window() -> None:
    waits = not_due(plain(NIGHT, **SMALL))
    assert waits.next_at == NOW.replace(hour=22, minute=0)
    assert waits.kind is JobKind.REWRITE
    assert "may not begin before 2026-11-21 22:00 UTC" in waits.reason
    assert isinstance(decide_next_job(plain(NIGHT, **SMALL), (), waits.next_at), Due)
    assert isinstance(decide_next_job(plain(NIGHT, **SMALL), (), waits.next_at + 8 * HOUR), NotDue)


def test_a_window_is_of_its_own_time_zone() -> None:
    policy = NIGHT | {"firn.optimize.time-zone": "Europe/Berlin"}
    assert not_due(plain(policy, **SMALL)).next_at == NOW.replace(hour=21, minute=0)


def test_a_pause_within_the_window_holds_jobs_up_too() -> None:
    policy = NIGHT | {"firn.optimize.not-during": "0 21 * * * for 2 h"}
    assert not_due(plain(policy, **SMALL)).next_at == NOW.replace(hour=23, minute=0)
    not_during = {"firn.optimize.not-during": "0 9 * * * for 3 h"}
    assert not_due(plain(not_during, **SMALL)).next_at == NOW.replace(hour=12, minute=0)


def test_the_reason_says_that_a_window_never_opens() -> None:
    policy = NIGHT | {"firn.optimize.not-during": "0 20 * * * for 12 h"}
    waits = not_due(plain(policy, **SMALL))
    assert waits.next_at is None
    assert "no moment is both within" in waits.reason


def test_a_job_that_is_scheduled_outside_the_window_waits_until_it_opens() -> None:
    facts = plain(NIGHT | {"firn.orphans.schedule": "0 12 * * *"}, last_commit_at=NOW)
    waits = not_due(facts)
    opens = NOW.replace(hour=22, minute=0)
    assert (waits.kind, waits.next_at) == (JobKind.REMOVE_ORPHANS, opens)
    assert isinstance(decide_next_job(facts, (), opens), Due)


# --- blockers --------------------------------------------------------------------------------------------------------


def test_a_blocked_table_gets_no_job_and_says_who_blocks_it_and_until_when() -> None:
    blocker = a_blocker(set_by="ann")
    waits = not_due(plain(**SMALL, blockers=(blocker,)))
    assert waits.blocked_by == blocker
    assert waits.next_at == blocker.until
    assert "the table is blocked by ann until 2026-11-21 11:30 UTC: a load" in waits.reason
    assert isinstance(decide_next_job(plain(**SMALL, blockers=(blocker,)), (), blocker.until), Due)


def test_a_blocker_of_one_kind_lets_the_others_pass() -> None:
    blocker = a_blocker(kinds=frozenset({JobKind.REWRITE}))
    assert not_due(plain(**SMALL, blockers=(blocker,))).blocked_by == blocker
    old: dict[str, Any] = {"snapshots": 50, "oldest_superseded_at": NOW - 9 * DAY}
    decision = decide_next_job(plain(**SMALL, **old, blockers=(blocker,)), (), NOW)
    assert isinstance(decision, Due)
    assert decision.kind is JobKind.EXPIRE


def test_of_several_blockers_the_last_to_end_counts() -> None:
    short, long = a_blocker(), a_blocker(until=NOW + DAY)
    assert not_due(plain(**SMALL, blockers=(long, short))).next_at == long.until


def test_a_blocked_table_with_nothing_to_do_says_that_it_is_blocked() -> None:
    idle = not_due(plain({"firn.orphans.schedule": ""}, blockers=(a_blocker(),)))
    assert "nothing to do" in idle.reason
    assert "blocked until" in idle.reason


def test_after_a_blocker_the_window_is_waited_for() -> None:
    blocker = a_blocker(until=NOW + 20 * HOUR)
    assert not_due(plain(NIGHT, **SMALL, blockers=(blocker,))).next_at == NOW.replace(hour=22, minute=0) + DAY


@pytest.mark.parametrize(
    ("reason", "until", "words"),
    [
        (" ", NOW + HOUR, "has a reason"),
        ("x" * 501, NOW + HOUR, "has a reason"),
        ("a load", NOW, "has passed"),
        ("a load", NOW + LONGEST + timedelta(seconds=1), "within 30 days"),
    ],
)
def test_a_blocker_has_a_reason_and_an_end(reason: str, until: datetime, words: str) -> None:
    check_blocker(reason="a load", until=NOW + LONGEST, now=NOW)
    with pytest.raises(Invalid, match=words):
        check_blocker(reason=reason, until=until, now=NOW)


# --- predictions -----------------------------------------------------------------------------------------------------


def rewrite(gained: int | None, state: str = "other", **changes: Any) -> Any:
    """A rewrite that was to make ten files of a hundred, and has taken away so many; None when it committed nothing."""
    reported = {} if gained is None else {"gained": {"files_before": 100, "files_after": 100 - gained}}
    committed = None if gained is None else LeaseToken("t")
    fields: dict[str, Any] = {"predicted": {"files_before": 100, "files_after": 10}, "committed_by": committed}
    return ended(JobKind.REWRITE, **fields | {"params": {"state": state}, "result": reported, **changes})


def test_a_kind_that_keeps_missing_its_prediction_backs_off_and_says_so() -> None:
    waits = not_due(plain(**SMALL), [rewrite(22), rewrite(None), rewrite(0)])
    assert "the last 3 gained less than a quarter of what was predicted" in waits.reason
    assert waits.next_at == NOW + timedelta(minutes=2)
    assert isinstance(decide_next_job(plain(**SMALL), [rewrite(0)] * 3, waits.next_at), Due)
    longer = not_due(plain(**SMALL), [rewrite(0)] * 5).next_at
    assert longer is not None
    assert longer > waits.next_at


@pytest.mark.parametrize("last", [23, 90])
def test_a_job_that_gains_enough_ends_the_backoff(last: int) -> None:
    assert isinstance(decide_next_job(plain(**SMALL), [rewrite(last), *[rewrite(0)] * 3], NOW), Due)
    assert isinstance(decide_next_job(plain(**SMALL), [rewrite(0), rewrite(0), rewrite(last), rewrite(0)], NOW), Due)


def test_a_job_without_a_prediction_or_a_result_is_no_miss() -> None:
    unknown = [rewrite(0, predicted={}), rewrite(0, result={}), rewrite(0, result={"gained": "much"}, predicted={})]
    assert isinstance(decide_next_job(plain(**SMALL), unknown, NOW), Due)
    failed = rewrite(None, status=JobStatus.CANCELED)
    assert isinstance(decide_next_job(plain(**SMALL), [failed] * 3, NOW), Due)
