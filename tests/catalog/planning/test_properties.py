"""What holds of decisions whatever the table, its policy and its past."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.jobs.job import Job, JobStatus
from catalog.maintenance import decide_next_job
from catalog.planning import Due, NotDue, TableFacts
from catalog.planning.windows import open_from, open_now
from catalog.policy.policy import merge_layers
from tests.catalog.planning.tables import ended, histories, policies, tables
from tests.factories import NOW


@settings(max_examples=150)
@given(facts=tables(), past=histories(), later=st.integers(0, 10**6))
def test_what_was_done_for_a_state_is_never_planned_for_it_again(
    facts: TableFacts, past: list[Job], later: int
) -> None:
    """An endless loop: a job that changes nothing leads to the same state, and so to the same decision."""
    done: set[tuple[str, str]] = set()
    while isinstance(due := decide_next_job(facts, past, NOW), Due):
        assert (due.kind, due.state) not in done
        done.add((due.kind, due.state))
        past = [ended(due.kind, params={"state": due.state, **due.params}), *past]
        again = decide_next_job(facts, past, NOW + timedelta(seconds=later))
        assert isinstance(again, NotDue) or (again.kind, again.state) not in done


@settings(max_examples=150)
@given(facts=tables(), past=histories())
def test_a_table_that_is_not_due_without_its_past_is_not_due_with_it(facts: TableFacts, past: list[Job]) -> None:
    """So that nobody has to look up the jobs of idle tables."""
    if isinstance(decide_next_job(facts, (), NOW), NotDue):
        assert isinstance(decide_next_job(facts, past, NOW), NotDue)


@settings(max_examples=150)
@given(facts=tables(), past=histories())
def test_waiting_for_what_is_next_ends(facts: TableFacts, past: list[Job]) -> None:
    """`next_at` lies ahead, or whoever looks again then would look for ever."""
    decision = decide_next_job(facts, past, NOW)
    if isinstance(decision, NotDue):
        assert decision.reason
        assert decision.next_at is None or decision.next_at > NOW
    else:
        assert open_now(facts.policy, NOW)
        assert decision.predicted is not None


@settings(max_examples=150)
@given(facts=tables())
def test_nothing_becomes_due_before_the_time_that_was_told(facts: TableFacts) -> None:
    decision = decide_next_job(facts, (), NOW)
    if isinstance(decision, Due):
        return
    end = decision.next_at or NOW + timedelta(days=400)
    for moment in (NOW + (end - NOW) / 3, end - timedelta(seconds=1)):
        if moment > NOW:
            assert isinstance(decide_next_job(facts, (), moment), NotDue)


@settings(max_examples=150)
@given(policy=policies, hours=st.integers(0, 24 * 400))
def test_jobs_may_begin_from_the_moment_that_is_told_and_not_before(policy: dict[str, str], hours: int) -> None:
    """Over both changes of the clocks."""
    now = NOW + timedelta(hours=hours)
    chosen = merge_layers([("table", policy)])
    opens = open_from(chosen, now)
    if opens is None:
        assert not open_now(chosen, now)
        return
    assert opens >= now
    assert open_now(chosen, opens)
    assert open_now(chosen, now) == (opens == now)
    if opens > now:
        assert not open_now(chosen, opens - timedelta(seconds=1))


@given(facts=tables(), failures=st.integers(1, 12))
def test_whatever_fails_waits_and_says_so(facts: TableFacts, failures: int) -> None:
    due = decide_next_job(facts, (), NOW)
    if isinstance(due, NotDue):
        return
    failed = ended(due.kind, JobStatus.FAILED, error="no disk", params={"state": due.state})
    again = decide_next_job(facts, [failed] * failures, NOW)
    assert isinstance(again, NotDue) or again.kind is not due.kind
