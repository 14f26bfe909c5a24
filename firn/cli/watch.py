"""Waits for the end of jobs, operations, publishes and batches, and shows their progress."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from firn.cli.context import CliContext
from firn.cli.show import Show, moment
from firn.errors import FirnError
from firn.pipeline_client import Run
from firn.protocol.answers.jobs import JobOut
from firn.protocol.answers.operations import BatchOut, OperationOut
from firn.protocol.jobs import JobStatus
from firn.protocol.operations import OperationStatus
from firn.protocol.pipelines import RunOut
from firn.protocol.validators import ValidatorKind
from firn.transport import Json

NOTHING_TO_DO = "nothing to do"
_MAX_NAMED_TABLES = 500
_MIN_PACE_SECONDS = 0.5
_ROUND_PACE = 10
"""Items a second from which the pace has no decimals."""
_OPERATION_COMMANDS = "; `firn operation show` shows its progress, `firn operation cancel` cancels it"
_NO_OPTIMIZER = "the job waits, because no optimizer is registered: start one with `firn optimizer`"
_NO_CODE = "the run waits, because no optimizer runs Python of pipelines: start one with `firn optimizer --allow-code`"
_COUNTS = ("done", "total")
_JOB_COMMANDS = "; `firn job show` shows its progress, `firn job cancel` cancels it"


def watch_job(ctx: CliContext, job: JobOut) -> JobOut:
    """Wait for the end of a job, and show its progress."""
    note_missing_optimizers(ctx, job)
    with _continues(ctx, f"job {job.id}", _JOB_COMMANDS), ctx.show.progress(f"{job.kind} {job.table}") as report:
        return ctx.client.jobs.wait(
            job.id,
            seconds=ctx.timeout,
            on_progress=lambda state: report(_stage(state), _count(state, "done"), _count(state, "total")),
        )


def watch_run(ctx: CliContext, run: Run) -> RunOut:
    """Wait for the end of a run of a pipeline's table, and show its progress."""
    note_waiting_run(ctx, run)
    hint = f"; `firn pipeline runs {run.pipeline.name}` shows its state, `firn job cancel {run.id}` cancels it"
    work = f"run {run.id}"
    with _continues(ctx, work, hint), ctx.show.progress(f"run {run.started.table}") as report:

        def report_state(state: RunOut) -> None:
            stage = "waiting for an optimizer" if state.status == JobStatus.PENDING else state.progress.get("stage")
            done, total = (value if isinstance(value, int) else 0 for value in map(state.progress.get, _COUNTS))
            report(str(stage or state.status), done, total)

        return run.wait(seconds=ctx.timeout, on_progress=report_state)


def note_waiting_run(ctx: CliContext, run: Run) -> None:
    """Note that no optimizer can begin a pending run."""
    if run.started.status != JobStatus.PENDING:
        return
    optimizers = ctx.client.optimizers()
    if not optimizers:
        ctx.show.note(_NO_OPTIMIZER)
    elif not any(optimizer["facts"].get("code") for optimizer in optimizers) and _has_code(run):
        ctx.show.note(_NO_CODE)


def _has_code(run: Run) -> bool:
    """Whether the table of the run is computed or checked by Python."""
    definition = next(table.definition for table in run.pipeline.show().tables if table.name == run.started.table)
    kinds = [validator["kind"] for validator in definition.get("validators", ())]
    return definition.get("code") is not None or ValidatorKind.PYTHON in kinds


def note_missing_optimizers(ctx: CliContext, job: JobOut) -> None:
    """Note that no optimizer can run a pending job."""
    if job.status is JobStatus.PENDING and not ctx.client.optimizers():
        ctx.show.note(_NO_OPTIMIZER)


def watch_operation(ctx: CliContext, operation: OperationOut) -> OperationOut:
    """Wait for the end of an operation, and show its progress."""
    name, title = f"{operation.kind} of {operation.target}", f"{operation.kind} {operation.target}"
    work = f"{name} (operation {operation.id})"
    with _continues(ctx, work, _OPERATION_COMMANDS), ctx.show.progress(title) as report:
        return ctx.client.operations.wait(
            operation.id,
            seconds=ctx.timeout,
            on_progress=lambda state: report(_describe_phase(state), state.done, state.total, describe_pace(state)),
        )


def watch_publish(ctx: CliContext, table: str) -> Json:
    """Wait for the end of the last publish request of a table, and show the progress of its jobs."""
    hint = "; `firn hive show` shows its progress"
    with _continues(ctx, f"the publish of {table}", hint), ctx.show.progress(f"publish {table}") as report:

        def report_job(request: Json) -> None:
            if request["job_id"] is None or request["step"] in ("done", "failed"):
                return report(request["message"], 0, 0)
            job = ctx.client.jobs.get(request["job_id"])
            return report(f"{job.kind}: {_stage(job)}", _count(job, "done"), _count(job, "total"))

        return ctx.client.hive.wait_for_publish(table, seconds=ctx.timeout, on_progress=report_job)


def watch_batch(ctx: CliContext, batch: BatchOut, catalog: str, *, or_paused: bool = False) -> BatchOut:
    """Wait for the end of a batch, or with `or_paused` until failures have stopped it.

    Show the number of tables by outcome, and the progress of the running ones.
    """
    title = f"{batch.kind} of {batch.tables:,} tables"
    hint = f"; `firn operation list --batch {batch.id}` shows its progress, `firn operation pause --batch …` pauses it"
    with _continues(ctx, f"{title} (batch {batch.id})", hint), ctx.show.progress(title) as report:

        def report_counts(state: BatchOut) -> None:
            ended = state.tables - state.unfinished
            report("", ended, state.tables, _describe_counts(ctx, state))

        return ctx.client.hive.wait_for_batch(
            batch.id, catalog, seconds=ctx.timeout, on_progress=report_counts, or_paused=or_paused
        )


def _describe_counts(ctx: CliContext, batch: BatchOut) -> str:
    """The number of tables by outcome, and the running ones by name; a large batch names none."""
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(batch.outcomes.items()))
    if not batch.outcomes.get("running") or batch.tables > _MAX_NAMED_TABLES or not ctx.show.has_bars:
        return counts
    running = [operation for operation in ctx.client.operations.list(batch=batch.id) if operation.outcome == "running"]
    return "\n".join([counts, *map(_describe_progress, running)])


def _describe_progress(operation: OperationOut) -> str:
    return f"{operation.target}: {_describe_phase(operation)}, {describe_pace(operation)}".rstrip(", ")


def describe_pace(operation: OperationOut) -> str:
    """The progress of an operation, its pace, and the time that it still needs; empty without a known total."""
    done, total, since = operation.done, operation.total, operation.phase_at
    if not total:
        return ""
    parts = [f"{done:,} of {total:,} {operation.unit}".rstrip()]
    seconds = 0.0 if since is None else (operation.updated_at - since).total_seconds()
    if done and seconds >= _MIN_PACE_SECONDS and operation.status is OperationStatus.RUNNING:
        pace = done / seconds
        parts.append(f"{pace:,.0f}/s" if pace >= _ROUND_PACE else f"{pace:.1f}/s")
        parts.append(f"{format_span((total - done) / pace)} left")
    return ", ".join(parts)


def format_span(seconds: float) -> str:
    """Format a duration in its two largest units."""
    rounded = round(seconds)
    for size, unit, smaller_size, smaller_unit in (
        (86_400, "d", 3_600, "h"),
        (3_600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if rounded >= size:
            rest = rounded % size // smaller_size
            return f"{rounded // size} {unit} {rest} {smaller_unit}" if rest else f"{rounded // size} {unit}"
    return f"{rounded} s"


@contextmanager
def _continues(ctx: CliContext, work: str, hint: str) -> Iterator[None]:
    """Note on Ctrl-C that the server continues the work; the interrupt ends only the waiting."""
    try:
        yield
    except KeyboardInterrupt:
        ctx.show.note(f"{work} continues{hint}")
        raise


def finish_job(show: Show, job: JobOut) -> None:
    """Show the status and the result of a job; a failed or canceled job ends the command with 1."""
    if not show.json:
        facts = {"job": job.id, "action": f"{job.kind} {job.table}", "status": state_of(job), "error": job.error}
        numbers = {name: value for name, value in job.result.items() if isinstance(value, int | float | str)}
        show.facts({**facts, **numbers})
    if job.status in (JobStatus.FAILED, JobStatus.CANCELED):
        raise typer.Exit(1)


def state_of(job: JobOut) -> str:
    """The status of a job; `nothing to do` for one that succeeded without a change."""
    return job.outcome if job.outcome == NOTHING_TO_DO else str(job.status)


def check_operation(operation: OperationOut) -> None:
    """Raise FirnError with the operation's error if it did not succeed."""
    if operation.status is not OperationStatus.SUCCEEDED:
        reason = operation.error or f"it was {operation.status}"
        raise FirnError(f"{operation.kind} of {operation.target}: {reason}", hint=operation.hint)


def job_row(job: JobOut) -> tuple[object, ...]:
    """The cells of a job in JOB_COLUMNS."""
    state = (job.kind, state_of(job), job.reason)
    return (job.id, f"{job.catalog}.{job.table}", *state, moment(job.created_at), job.error)


JOB_COLUMNS = ("job", "table", "kind", "status", "reason", "created", "error")


def _stage(job: JobOut) -> str:
    if job.status is JobStatus.PENDING:
        return "waiting for an optimizer"
    return str(job.progress.get("stage") or job.status)


def _describe_phase(operation: OperationOut) -> str:
    """Describe the phase, and what it waits for or does."""
    if operation.status is OperationStatus.PAUSED:
        return f"paused: `firn operation resume {operation.id}` resumes it"
    return ": ".join(filter(None, (operation.phase, operation.message, operation.error)))


def _count(job: JobOut, name: str) -> int:
    value = job.progress.get(name)
    return value if isinstance(value, int) else 0
