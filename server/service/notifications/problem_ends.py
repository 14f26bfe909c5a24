"""How a reported problem has ended. Only a known end is a message: a dropped table is no good news."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from catalog.errors import NotFound
from catalog.jobs.job import JobId, JobKind
from catalog.jobs.stream import StreamId
from catalog.names import RelationId
from catalog.notifications.problem import OpenProblem
from catalog.ports.store import UnitOfWork
from firn.protocol.notifications import ProblemKind
from firn.protocol.streams import StreamStatus


def explain_end(uow: UnitOfWork, problem: OpenProblem) -> str | None:
    """How the problem has ended; None if nobody can say, or if its kind has no end."""
    explain = _EXPLANATIONS.get(problem.kind)
    try:
        return None if explain is None else explain(uow, problem)
    except NotFound:
        return None


def _explain_job(uow: UnitOfWork, problem: OpenProblem) -> str | None:
    subject, _, kind = problem.key.partition(":")
    later = uow.problem_facts.last_success(UUID(subject), kind, problem.since)
    return None if later is None else f"A later job succeeded: {later.id}."


def _explain_unknown_job(uow: UnitOfWork, problem: OpenProblem) -> str | None:
    job = uow.jobs.get(JobId(UUID(problem.key)))
    return f"The server has settled it: the job is {job.status}."


def _explain_optimizer(uow: UnitOfWork, problem: OpenProblem) -> str | None:
    optimizer = uow.optimizers.find(problem.key)
    is_back = optimizer is not None and optimizer.last_seen_at >= problem.since
    return "It has sent a sign of life." if is_back else None


def _explain_stream(uow: UnitOfWork, problem: OpenProblem) -> str | None:
    stream = uow.streams.get(StreamId(UUID(problem.key))).stream
    return None if stream.status is StreamStatus.STOPPED else f"The stream is {stream.status}."


def _explain_sync(uow: UnitOfWork, problem: OpenProblem) -> str | None:
    link = uow.baselines.link(RelationId(UUID(problem.key)))
    return "Both sides agree." if link is not None and link.drift is None else None


def _explain_keys(uow: UnitOfWork, problem: OpenProblem) -> str | None:
    later = uow.problem_facts.last_success(UUID(problem.key), JobKind.KEYS, problem.since)
    if later is None or later.ended_at == problem.since:  # the check that found them has become too old
        return None
    return "A later check found every key once, or removed the rows that were too many."


_EXPLANATIONS: dict[ProblemKind, Callable[[UnitOfWork, OpenProblem], str | None]] = {
    ProblemKind.JOB_FAILED: _explain_job,
    ProblemKind.JOB_UNKNOWN: _explain_unknown_job,
    ProblemKind.OPTIMIZER_LOST: _explain_optimizer,
    ProblemKind.STREAM_STOPPED: _explain_stream,
    ProblemKind.OUT_OF_SYNC: _explain_sync,
    ProblemKind.DUPLICATE_KEYS: _explain_keys,
}
