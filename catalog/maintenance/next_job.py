"""Decides which job a table needs now, or why it needs none. Pure: statistics, policy,
past jobs and the time go in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import takewhile

from catalog.jobs.blocker import find_longest_blocker
from catalog.jobs.job import Job, JobKind
from catalog.jobs.scheduling import compute_deadline
from catalog.maintenance.prediction import predict_job
from catalog.maintenance.registry import KINDS, kind_of
from catalog.planning.backoff import find_backoff
from catalog.planning.facts import Due, NotDue, TableFacts
from catalog.planning.trigger_result import NotApplicable, NotYet, format_time
from catalog.planning.windows import open_from

MAX_TURNS = 4
"""After this many jobs of one kind in a row another due kind takes its turn. Otherwise
merges would starve the rest.
"""

_NEVER = datetime.min.replace(tzinfo=UTC)


def decide_next_job(facts: TableFacts, past: Sequence[Job], now: datetime) -> Due | NotDue:
    """The job to plan now, or the reason for none. `past` is newest first and holds the last few jobs of each kind."""
    if not facts.policy["firn.optimize.enabled"]:
        return NotDue(reason="optimizing is switched off by policy (firn.optimize.enabled=false)")
    active = next((job for job in past if job.status.is_active), None)
    past = [job for job in past if not (job.was_withdrawn or job.status.is_active)]
    decision = (
        _decide_without_active(facts, past, now) if active is None else _decide_beside_active(active, facts, past, now)
    )
    if decision.kind is not None:
        params = decision.params if isinstance(decision, Due) else {}
        decision = replace(decision, predicted=predict_job(decision.kind, facts, past, params))
    return decision


def _decide_beside_active(active: Job, facts: TableFacts, past: Sequence[Job], now: datetime) -> Due | NotDue:
    """The decision for a table with an active job. A queued job gives way to one with an earlier deadline."""
    plannable, _ = (
        _split_by_admission(_evaluate_triggers(facts, past, now), facts, past, now)
        if active.is_preemptible
        else ([], [])
    )
    priority = facts.policy["firn.optimize.priority"]
    others = [
        (compute_deadline(kind_of(due.kind).max_wait, priority, now), due)
        for due in plannable
        if due.kind is not active.kind
    ]
    until, due = min(others, key=lambda pair: pair[0], default=(active.deadline, None))
    if due is not None and until < active.deadline:
        return due
    return NotDue(reason=f"a {active.kind} job is {active.status} already", kind=active.kind)


def _decide_without_active(facts: TableFacts, past: Sequence[Job], now: datetime) -> Due | NotDue:
    needs = _evaluate_triggers(facts, past, now)
    plannable, held = _split_by_admission(needs, facts, past, now)
    if plannable:
        return _choose_turn(plannable, past)
    laters = [_delay_to_window(need, facts) for need in needs if isinstance(need, NotYet)]
    decision = _explain_nothing_due(facts, held, laters, now)
    never = [f"no {need.kind}: {need.reason}" for need in needs if isinstance(need, NotApplicable)]
    return replace(decision, reason="; ".join([decision.reason, *never]))


def _evaluate_triggers(facts: TableFacts, past: Sequence[Job], now: datetime) -> list[Due | NotYet | NotApplicable]:
    triggers = [kind.trigger for kind in KINDS if kind.trigger is not None]
    return [need for trigger in triggers if (need := trigger(facts, past, now)) is not None]


def _split_by_admission(
    needs: Sequence[Due | NotYet | NotApplicable], facts: TableFacts, past: Sequence[Job], now: datetime
) -> tuple[list[Due], list[NotDue]]:
    """The due jobs to plan now, and the reasons that hold the others back."""
    plannable: list[Due] = []
    held: list[NotDue] = []
    for due in needs:
        if isinstance(due, Due):
            refused = _find_refusal(due, facts, past, now)
            if refused is None:
                plannable.append(due)
            else:
                held.append(refused)
    return plannable, held


def _find_refusal(due: Due, facts: TableFacts, past: Sequence[Job], now: datetime) -> NotDue | None:
    """Why a due job may not be planned now: a blocker, a held run of a pipeline, a backoff, or the hours."""
    for_gain = kind_of(due.kind).is_for_gain
    return (
        _find_blocker_refusal(due, facts, now)
        or _find_held_run_refusal(due, facts)
        or find_backoff(due, past, now, for_gain=for_gain)
        or _find_window_refusal(due, facts, now)
    )


def _choose_turn(ready: list[Due], past: Sequence[Job]) -> Due:
    """The most urgent job. After MAX_TURNS in a row, the one whose kind has waited longest. Syncs do not count."""
    first, *others = ready
    turns = len(
        list(takewhile(lambda job: job.kind is first.kind, (job for job in past if job.kind is not JobKind.SYNC)))
    )
    if not others or turns < MAX_TURNS:
        return first
    return min(others, key=lambda due: max((job.created_at for job in past if job.kind is due.kind), default=_NEVER))


def _find_blocker_refusal(due: Due, facts: TableFacts, now: datetime) -> NotDue | None:
    blocker = find_longest_blocker(facts.blockers, (due.kind,), now)
    if blocker is None:
        return None
    reason = f"{due.kind} is due ({due.reason}), but the table is {blocker}"
    return NotDue(reason=reason, next_at=open_from(facts.policy, blocker.until), kind=due.kind, blocked_by=blocker)


def _find_held_run_refusal(due: Due, facts: TableFacts) -> NotDue | None:
    if not (facts.has_held_run and kind_of(due.kind).only_rewrites):
        return None
    reason = (
        f"{due.kind} is due ({due.reason}), but a run of a pipeline waits for approval, which could not be published "
        "after it"
    )
    return NotDue(reason=reason, kind=due.kind)


def _find_window_refusal(due: Due, facts: TableFacts, now: datetime) -> NotDue | None:
    opens = open_from(facts.policy, now)
    if opens == now:
        return None
    until = "and no moment is both within firn.optimize.window and outside firn.optimize.not-during"
    if opens is not None:
        until = f"but jobs may not begin before {format_time(opens)} (firn.optimize.window, firn.optimize.not-during)"
    return NotDue(reason=f"{due.kind} is due ({due.reason}), {until}", next_at=opens, kind=due.kind)


def _delay_to_window(later: NotYet, facts: TableFacts) -> NotDue:
    """A later job begins when its time has come, no blocker applies, and the window is open."""
    when = later.next_at
    if when is not None:
        blocker = find_longest_blocker(facts.blockers, (later.kind,), when)
        when = open_from(facts.policy, when if blocker is None else blocker.until)
    return NotDue(reason=later.reason, next_at=when, kind=later.kind)


def _explain_nothing_due(facts: TableFacts, held: list[NotDue], laters: list[NotDue], now: datetime) -> NotDue:
    """The reason for no job: a held-back job, else a pending merge. Adds the job that comes next, and its time."""
    pending = next((decision for decision in laters if decision.kind is JobKind.MERGE), None)
    result = held[0] if held else pending or NotDue(reason=_describe_idle(facts))
    timed = [(decision.next_at, decision) for decision in (*held, *laters) if decision.next_at is not None]
    if timed:
        _, soonest = min(timed, key=lambda pair: pair[0])
        if soonest is not result:
            reason = soonest.reason if soonest.kind is result.kind else f"{soonest.kind} comes next: {soonest.reason}"
            result = replace(result, reason=f"{result.reason}; {reason}", next_at=soonest.next_at, kind=soonest.kind)
    blocker = find_longest_blocker(facts.blockers, tuple(JobKind), now)
    if blocker is None or result.blocked_by is not None:
        return result
    return replace(result, reason=f"{result.reason}; the table is {blocker}", blocked_by=blocker)


def _describe_idle(facts: TableFacts) -> str:
    nothing = "nothing to do" if facts.keyed is None else "nothing pending"
    notes = [note for kind in KINDS if kind.idle_note is not None and (note := kind.idle_note(facts)) is not None]
    return "; ".join([nothing, *notes])
