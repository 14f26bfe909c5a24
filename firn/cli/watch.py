"""Seeing long work through to its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from firn.cli.show import Show, moment
from firn.cli.told import Told
from firn.errors import FirnError
from firn.wire import Job, JobStatus, Operation, OperationStatus

_MORE = "; `firn job show` tells how far it is, `firn job cancel` gives it up"


def watch_job(told: Told, job: Job) -> Job:
    """The job once it has ended, its progress shown on the way."""
    if job.status is JobStatus.PENDING and not told.client.optimizers():
        told.show.note("no optimizer is registered: the job waits for one, start it with `firn optimizer`")
    with _going_on(told, f"job {job.id}", _MORE), told.show.progress(f"{job.kind} {job.table}") as seen:
        return told.client.jobs.wait(
            job.id,
            seconds=told.timeout,
            seen=lambda now: seen(_stage(now), _count(now, "done"), _count(now, "total")),
        )


def watch_operation(told: Told, operation: Operation) -> Operation:
    """The operation once it has ended, its progress shown on the way."""
    what = f"{operation.kind} of {operation.target} (operation {operation.id})"
    with _going_on(told, what), told.show.progress(f"{operation.kind} {operation.target}") as seen:
        return told.client.operations.wait(
            operation.id, seconds=told.timeout, seen=lambda now: seen(_phase(now), now.done, now.total)
        )


@contextmanager
def _going_on(told: Told, what: str, more: str = "") -> Iterator[None]:
    """Whoever stops waiting has not stopped the work."""
    try:
        yield
    except KeyboardInterrupt:
        told.show.note(f"{what} goes on{more}")
        raise


def tell_job(show: Show, job: Job) -> None:
    """How it ended, for people; a failed one ends the command with 1."""
    if not show.json:
        facts = {"job": job.id, "did": f"{job.kind} {job.table}", "status": job.status, "error": job.error}
        numbers = {name: value for name, value in job.result.items() if isinstance(value, int | float | str)}
        show.facts({**facts, **numbers})
    if job.status in (JobStatus.FAILED, JobStatus.CANCELED):
        raise typer.Exit(1)


def check_operation(operation: Operation) -> None:
    """Fail as the operation did."""
    if operation.status is not OperationStatus.SUCCEEDED:
        why = operation.error or f"it was {operation.status}"
        raise FirnError(f"{operation.kind} of {operation.target}: {why}", hint=operation.hint)


def job_row(job: Job) -> tuple[object, ...]:
    """One line of a list of jobs."""
    return (job.id, f"{job.catalog}.{job.table}", job.kind, job.status, job.reason, moment(job.created_at), job.error)


JOB_COLUMNS = ("job", "table", "kind", "status", "reason", "created", "error")


def _stage(job: Job) -> str:
    if job.status is JobStatus.PENDING:
        return "waiting for an optimizer"
    return str(job.progress.get("stage") or job.status)


def _phase(operation: Operation) -> str:
    """Where it is, and why when it waits."""
    return operation.phase if operation.error is None else f"{operation.phase}: {operation.error}"


def _count(job: Job, name: str) -> int:
    value = job.progress.get(name)
    return value if isinstance(value, int) else 0
