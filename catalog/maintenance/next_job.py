"""Which job a table needs now, and why; or why it needs none. Pure: statistics, policy, history and the time go in."""

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
"""After so many jobs of one kind in a row another kind that is due has its turn: merges alone would starve the rest."""

_NEVER = datetime.min.replace(tzinfo=UTC)


def decide_next_job(facts: TableFacts, past: Sequence[Job], now: datetime) -> Due | NotDue:
    """The job to plan now, or why there is none. `past` is newest first, the last few of each kind."""
    if not facts.policy["firn.optimize.enabled"]:
        return NotDue(reason="optimizing is switched off by policy (firn.optimize.enabled=false)")
    active = next((job for job in past if job.status.is_active), None)
    past = [job for job in past if not (job.was_withdrawn or job.status.is_active)]
    decision = _decided(facts, past, now) if active is None else _beside(active, facts, past, now)
    if decision.kind is not None:
        params = decision.params if isinstance(decision, Due) else {}
        decision = replace(decision, predicted=predict_job(decision.kind, facts, past, params))
    return decision


def _beside(active: Job, facts: TableFacts, past: Sequence[Job], now: datetime) -> Due | NotDue:
    """A table has one job at a time; one that only waits gives its place to what should begin earlier."""
    ready, _ = _judged(_needs(facts, past, now), facts, past, now) if active.is_preemptible else ([], [])
    priority = facts.policy["firn.optimize.priority"]
    others = [
        (compute_deadline(kind_of(due.kind).max_wait, priority, now), due)
        for due in ready
        if due.kind is not active.kind
    ]
    until, due = min(others, key=lambda pair: pair[0], default=(active.deadline, None))
    if due is not None and until < active.deadline:
        return due
    return NotDue(reason=f"a {active.kind} job is {active.status} already", kind=active.kind)


def _decided(facts: TableFacts, past: Sequence[Job], now: datetime) -> Due | NotDue:
    judged = _needs(facts, past, now)
    ready, held = _judged(judged, facts, past, now)
    if ready:
        return _whose_turn(ready, past)
    later = [_permitted(one, facts) for one in judged if isinstance(one, NotYet)]
    decision = _nothing_due(facts, held, later, now)
    never = [f"no {one.kind}: {one.reason}" for one in judged if isinstance(one, NotApplicable)]
    return replace(decision, reason="; ".join([decision.reason, *never]))


def _needs(facts: TableFacts, past: Sequence[Job], now: datetime) -> list[Due | NotYet | NotApplicable]:
    triggers = [kind.trigger for kind in KINDS if kind.trigger is not None]
    return [need for trigger in triggers if (need := trigger(facts, past, now)) is not None]


def _judged(
    needs: Sequence[Due | NotYet | NotApplicable], facts: TableFacts, past: Sequence[Job], now: datetime
) -> tuple[list[Due], list[NotDue]]:
    """What may be planned now, and why the rest of what is due may not."""
    ready: list[Due] = []
    held: list[NotDue] = []
    for due in needs:
        if isinstance(due, Due):
            refused = _refused(due, facts, past, now)
            if refused is None:
                ready.append(due)
            else:
                held.append(refused)
    return ready, held


def _refused(due: Due, facts: TableFacts, past: Sequence[Job], now: datetime) -> NotDue | None:
    """Why a job that is due may not be planned now: a blocker, its own past, or the hours."""
    for_gain = kind_of(due.kind).is_for_gain
    return _blocked(due, facts, now) or find_backoff(due, past, now, for_gain=for_gain) or _closed(due, facts, now)


def _whose_turn(ready: list[Due], past: Sequence[Job]) -> Due:
    """The most urgent; when it has had its turns, of the others the one that has waited longest. Syncs take no turn."""
    first, *others = ready
    turns = len(
        list(takewhile(lambda job: job.kind is first.kind, (job for job in past if job.kind is not JobKind.SYNC)))
    )
    if not others or turns < MAX_TURNS:
        return first
    return min(others, key=lambda due: max((job.created_at for job in past if job.kind is due.kind), default=_NEVER))


def _blocked(due: Due, facts: TableFacts, now: datetime) -> NotDue | None:
    blocker = find_longest_blocker(facts.blockers, (due.kind,), now)
    if blocker is None:
        return None
    reason = f"{due.kind} is due ({due.reason}), but the table is {blocker}"
    return NotDue(reason=reason, next_at=open_from(facts.policy, blocker.until), kind=due.kind, blocked_by=blocker)


def _closed(due: Due, facts: TableFacts, now: datetime) -> NotDue | None:
    opens = open_from(facts.policy, now)
    if opens == now:
        return None
    until = "and no moment is both within firn.optimize.window and outside firn.optimize.not-during"
    if opens is not None:
        until = f"but jobs may not begin before {format_time(opens)} (firn.optimize.window, firn.optimize.not-during)"
    return NotDue(reason=f"{due.kind} is due ({due.reason}), {until}", next_at=opens, kind=due.kind)


def _permitted(later: NotYet, facts: TableFacts) -> NotDue:
    """What time brings begins when it has come, nobody blocks it, and jobs may begin."""
    when = later.next_at
    if when is not None:
        blocker = find_longest_blocker(facts.blockers, (later.kind,), when)
        when = open_from(facts.policy, when if blocker is None else blocker.until)
    return NotDue(reason=later.reason, next_at=when, kind=later.kind)


def _nothing_due(facts: TableFacts, held: list[NotDue], later: list[NotDue], now: datetime) -> NotDue:
    """What is held back, else what is pending; and what time will bring first, which tells when to look again."""
    pending = next((one for one in later if one.kind is JobKind.MERGE), None)
    said = held[0] if held else pending or NotDue(reason=_idle(facts))
    timed = [(one.next_at, one) for one in (*held, *later) if one.next_at is not None]
    if timed:
        _, soonest = min(timed, key=lambda pair: pair[0])
        if soonest is not said:
            reason = soonest.reason if soonest.kind is said.kind else f"{soonest.kind} comes next: {soonest.reason}"
            said = replace(said, reason=f"{said.reason}; {reason}", next_at=soonest.next_at, kind=soonest.kind)
    blocker = find_longest_blocker(facts.blockers, tuple(JobKind), now)
    if blocker is None or said.blocked_by is not None:
        return said
    return replace(said, reason=f"{said.reason}; the table is {blocker}", blocked_by=blocker)


def _idle(facts: TableFacts) -> str:
    nothing = "nothing to do" if facts.keyed is None else "nothing pending"
    notes = [note for kind in KINDS if kind.idle_note is not None and (note := kind.idle_note(facts)) is not None]
    return "; ".join([nothing, *notes])
