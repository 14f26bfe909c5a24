"""`firn job …`"""

from __future__ import annotations

import json
from typing import Annotated
from uuid import UUID

import typer

from firn.cli.columns import parse_pairs
from firn.cli.context import CliContext, command
from firn.cli.orphans import show_batches
from firn.cli.show import Show, moment
from firn.cli.table_jobs import run_job
from firn.cli.watch import JOB_COLUMNS, finish_job, job_row, state_of, watch_job
from firn.protocol.answers.jobs import AttemptOut, JobOut
from firn.protocol.jobs import JobStatus
from firn.transport import Json

app = typer.Typer(help="Start, list and cancel background jobs.", no_args_is_help=True)

JobArg = Annotated[UUID, typer.Argument(metavar="JOB", help="Id of the job.")]


@command(app, "list")
def list_jobs(
    ctx: CliContext,
    table: Annotated[str | None, typer.Option(help="List only jobs of this table.")] = None,
    status: Annotated[list[JobStatus] | None, typer.Option(help="List only these; may be repeated.")] = None,
    kind: Annotated[list[str] | None, typer.Option(help="List only these; may be repeated.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="The largest number of entries to show.")] = 50,
) -> None:
    """List jobs, newest first."""
    client, show = ctx.client, ctx.show
    if table is not None:
        matching_jobs = client.tables[table].jobs(None if status or kind else limit + 1)
        matching = [
            job for job in matching_jobs if (not status or job.status in status) and (not kind or job.kind in kind)
        ]
    else:
        matching = [*client.jobs.list(status=status or (), kind=kind or (), limit=limit + 1)]
    jobs = show.first(matching, limit)
    rows = [job_row(job) for job in jobs]
    show.emit([job.json_value() for job in jobs], lambda: show.table(JOB_COLUMNS, rows, none="no jobs"))


@command(app, "show")
def show_job(ctx: CliContext, job: JobArg) -> None:
    """Show a job."""
    show, loaded = ctx.show, ctx.client.jobs.get(job)
    show.emit(loaded.json_value(), lambda: _show(show, loaded))


@command(app, "logs")
def show_logs(ctx: CliContext, job: JobArg) -> None:
    """Show the log of a job."""
    show, lines = ctx.show, ctx.client.jobs.logs(job)

    def people() -> None:
        for line in lines:
            show.line(f"{moment(line.at)}  {line.line}")

    show.emit([line.json_value() for line in lines], people)


@command(app, "start", waits=True)
def start_job(
    ctx: CliContext,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="NAMESPACE.TABLE or CATALOG.NAMESPACE.TABLE")],
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="Kind of the job, such as rewrite, expire or statistics.")
    ],
    option: Annotated[list[str] | None, typer.Option(help="KEY=VALUE; may be repeated. VALUE may be JSON.")] = None,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what the command would do, and change nothing.")
    ] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Return at once.")] = False,
) -> None:
    """Start a maintenance job of any kind now, with the options that the API document lists."""
    options = {key: _parse_value(text) for key, text in parse_pairs(option).items()}
    run_job(ctx, table, kind, options, dry_run=dry_run, wait=not no_wait)


def _parse_value(text: str) -> Json:
    """Parse JSON such as `true`, `5` or `["a", "b"]`; anything else is text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


@command(app, "deleted")
def show_deleted(ctx: CliContext, job: JobArg) -> None:
    """List the files that a job quarantined or deleted, with their state."""
    show_batches(ctx, list(ctx.client.jobs.deleted(job)), none="this job has quarantined or deleted no files")


@command(app, "cancel")
def cancel_job(ctx: CliContext, job: JobArg) -> None:
    """Cancel a job. The server refuses once the job has committed."""
    show, canceled = ctx.show, ctx.client.jobs.cancel(job)
    show.emit(canceled.json_value(), lambda: show.line(f"job {canceled.id} is {canceled.status}"))


@command(app, "retry", waits=True)
def retry_job(
    ctx: CliContext,
    job: JobArg,
    *,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Return at once.")] = False,
) -> None:
    """Run a failed or canceled job again, as a new one."""
    retried = ctx.client.jobs.retry(job)
    if not no_wait:
        retried = watch_job(ctx, retried)
    if ctx.show.json:
        ctx.show.write_json(retried.json_value())
    finish_job(ctx.show, retried)


def _show(show: Show, job: JobOut) -> None:
    document = job.json_value()
    show.facts(
        {
            "job": job.id,
            "table": f"{job.catalog}.{job.table}",
            "kind": job.kind,
            "status": state_of(job),
            "reason": job.reason,
            "attempt": job.attempt,
            "optimizer": job.owner,
            "created": job.created_at,
            "ended": job.ended_at,
            "error": job.error,
            "snapshot": document.get("committed_snapshot_id"),
        }
    )
    show.facts({f"attempt {attempt.number}": _describe_attempt(attempt) for attempt in job.attempts})
    for part in ("progress", "predicted", "result"):
        show.facts({f"{part} {name}": value for name, value in document.get(part, {}).items()})


def _describe_attempt(attempt: AttemptOut) -> str:
    until = "" if attempt.ended_at is None else f" to {moment(attempt.ended_at)}: {attempt.outcome}"
    return f"{attempt.optimizer}, {moment(attempt.leased_at)}{until}"
