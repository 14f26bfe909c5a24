"""Seeing long work through to its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from firn.cli.context import CliContext
from firn.cli.show import Show, moment
from firn.errors import FirnError
from firn.protocol.answers.jobs import JobOut
from firn.protocol.answers.operations import BatchOut, OperationOut
from firn.protocol.jobs import JobStatus
from firn.protocol.operations import OperationStatus
from firn.transport import Json

NOTHING_TO_DO = "nothing to do"
_NAMED_BELOW = 500
_SOONEST_SECONDS = 0.5
_WHOLE = 10
_OPERATIONS = "; `firn operation show` tells how far it is, `firn operation cancel` gives it up"
_MORE = "; `firn job show` tells how far it is, `firn job cancel` gives it up"


def watch_job(told: CliContext, job: JobOut) -> JobOut:
    """The job once it has ended, its progress shown on the way."""
    note_missing_optimizers(told, job)
    with _going_on(told, f"job {job.id}", _MORE), told.show.progress(f"{job.kind} {job.table}") as seen:
        return told.client.jobs.wait(
            job.id,
            seconds=told.timeout,
            seen=lambda now: seen(_stage(now), _count(now, "done"), _count(now, "total")),
        )


def note_missing_optimizers(told: CliContext, job: JobOut) -> None:
    """Say so where a job has nobody to run it."""
    if job.status is JobStatus.PENDING and not told.client.optimizers():
        told.show.note("no optimizer is registered: the job waits for one, start it with `firn optimizer`")


def watch_operation(told: CliContext, operation: OperationOut) -> OperationOut:
    """The operation once it has ended, its progress shown on the way."""
    what = f"{operation.kind} of {operation.target} (operation {operation.id})"
    with _going_on(told, what, _OPERATIONS), told.show.progress(f"{operation.kind} {operation.target}") as seen:
        return told.client.operations.wait(
            operation.id,
            seconds=told.timeout,
            seen=lambda now: seen(_describe_phase(now), now.done, now.total, pace_of(now)),
        )


def watch_publish(told: CliContext, table: str) -> Json:
    """The last publish of a table that was asked for, once it is over, with what its jobs say on the way."""
    more = ": the server carries it on, `firn hive show` tells how far it is"
    with _going_on(told, f"the publish of {table}", more), told.show.progress(f"publish {table}") as seen:

        def tell(asked: Json) -> None:
            if asked["job_id"] is None or asked["step"] in ("done", "failed"):
                return seen(asked["message"], 0, 0)
            job = told.client.jobs.get(asked["job_id"])
            return seen(f"{job.kind}: {_stage(job)}", _count(job, "done"), _count(job, "total"))

        return told.client.hive.wait_for_publish(table, seconds=told.timeout, seen=tell)


def watch_batch(told: CliContext, batch: BatchOut, catalog: str) -> BatchOut:
    """All of it once it has ended: how many stand where, and how far those are that run."""
    what = f"{batch.kind} of {batch.tables:,} tables"
    more = f"; `firn operation list --batch {batch.id}` tells how far it is, `firn operation pause --batch …` holds it"
    with _going_on(told, f"{what} (batch {batch.id})", more), told.show.progress(what) as seen:

        def tell(now: BatchOut) -> None:
            ended = now.tables - now.unfinished
            seen("", ended, now.tables, _counts(told, now))

        return told.client.hive.wait_for_batch(batch.id, catalog, seconds=told.timeout, seen=tell)


def _counts(told: CliContext, batch: BatchOut) -> str:
    """In words, with what runs by name: nobody reads more than a few lines of them."""
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(batch.outcomes.items()))
    if not batch.outcomes.get("running") or batch.tables > _NAMED_BELOW or not told.show.has_bars:
        return counts
    running = [operation for operation in told.client.operations.list(batch=batch.id) if operation.outcome == "running"]
    return "\n".join(
        [counts, *(f"{one.target}: {_describe_phase(one)}, {pace_of(one)}".rstrip(", ") for one in running)]
    )


def pace_of(operation: OperationOut) -> str:
    """How far it is, at which speed, and how long it will take at that speed."""
    done, total, since = operation.done, operation.total, operation.phase_at
    if not total:
        return ""
    parts = [f"{done:,} of {total:,} {operation.unit}".rstrip()]
    seconds = 0.0 if since is None else (operation.updated_at - since).total_seconds()
    if done and seconds >= _SOONEST_SECONDS and operation.status is OperationStatus.RUNNING:
        pace = done / seconds
        parts.append(f"{pace:,.0f}/s" if pace >= _WHOLE else f"{pace:.1f}/s")
        parts.append(f"{span((total - done) / pace)} left")
    return ", ".join(parts)


def span(seconds: float) -> str:
    """A length of time in its two largest units."""
    whole = round(seconds)
    for size, unit, smaller, below in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {unit} {rest} {below}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"


@contextmanager
def _going_on(told: CliContext, what: str, more: str = "") -> Iterator[None]:
    """Whoever stops waiting has not stopped the work."""
    try:
        yield
    except KeyboardInterrupt:
        told.show.note(f"{what} goes on{more}")
        raise


def tell_job(show: Show, job: JobOut) -> None:
    """How it ended, for people; a failed one ends the command with 1."""
    if not show.json:
        facts = {"job": job.id, "did": f"{job.kind} {job.table}", "status": state_of(job), "error": job.error}
        numbers = {name: value for name, value in job.result.items() if isinstance(value, int | float | str)}
        show.facts({**facts, **numbers})
    if job.status in (JobStatus.FAILED, JobStatus.CANCELED):
        raise typer.Exit(1)


def state_of(job: JobOut) -> str:
    """Its status; of a job that has succeeded and changed nothing that there was nothing to do."""
    return job.outcome if job.outcome == NOTHING_TO_DO else str(job.status)


def check_operation(operation: OperationOut) -> None:
    """Fail as the operation did."""
    if operation.status is not OperationStatus.SUCCEEDED:
        reason = operation.error or f"it was {operation.status}"
        raise FirnError(f"{operation.kind} of {operation.target}: {reason}", hint=operation.hint)


def job_row(job: JobOut) -> tuple[object, ...]:
    """One line of a list of jobs."""
    stands = (job.kind, state_of(job), job.reason)
    return (job.id, f"{job.catalog}.{job.table}", *stands, moment(job.created_at), job.error)


JOB_COLUMNS = ("job", "table", "kind", "status", "reason", "created", "error")


def _stage(job: JobOut) -> str:
    if job.status is JobStatus.PENDING:
        return "waiting for an optimizer"
    return str(job.progress.get("stage") or job.status)


def _describe_phase(operation: OperationOut) -> str:
    """Describe the phase, and what it waits for or does."""
    if operation.status is OperationStatus.PAUSED:
        return f"paused: `firn operation resume {operation.id}` lets it go on"
    return ": ".join(filter(None, (operation.phase, operation.message, operation.error)))


def _count(job: JobOut, name: str) -> int:
    value = job.progress.get(name)
    return value if isinstance(value, int) else 0
