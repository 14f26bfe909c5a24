"""`firn job …`"""

from __future__ import annotations

import json
from typing import Annotated
from uuid import UUID

import typer

from firn.cli.columns import pairs
from firn.cli.context import CliContext, command
from firn.cli.orphans import show_batches
from firn.cli.show import Show, moment
from firn.cli.table_jobs import run_job
from firn.cli.watch import JOB_COLUMNS, job_row, state_of, tell_job, watch_job
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
        listed = client.tables[table].jobs(None if status or kind else limit + 1)
        asked = [job for job in listed if (not status or job.status in status) and (not kind or job.kind in kind)]
    else:
        asked = [*client.jobs.list(status=status or (), kind=kind or (), limit=limit + 1)]
    found = show.first(asked, limit)
    rows = [job_row(job) for job in found]
    show.emit([job.json_value() for job in found], lambda: show.table(JOB_COLUMNS, rows, none="no jobs"))


@command(app, "show")
def show_job(ctx: CliContext, job: JobArg) -> None:
    """Show a job."""
    show, found = ctx.show, ctx.client.jobs.get(job)
    show.emit(found.json_value(), lambda: _show(show, found))


@command(app, "logs")
def show_logs(ctx: CliContext, job: JobArg) -> None:
    """Show the log of a job."""
    show, found = ctx.show, ctx.client.jobs.logs(job)

    def people() -> None:
        for one in found:
            show.line(f"{moment(one.at)}  {one.line}")

    show.emit([one.json_value() for one in found], people)


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
    options = {key: _value(text) for key, text in pairs(option).items()}
    run_job(ctx, table, kind, options, dry_run=dry_run, wait=not no_wait)


def _value(text: str) -> Json:
    """JSON such as `true`, `5` or `["a", "b"]`; anything else is text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


@command(app, "deleted")
def show_deleted(ctx: CliContext, job: JobArg) -> None:
    """List the files that a job quarantined or deleted, with their state."""
    show_batches(ctx, list(ctx.client.jobs.deleted(job)), none="this job has taken no file")


@command(app, "cancel")
def cancel_job(ctx: CliContext, job: JobArg) -> None:
    """Cancel a job. The server refuses once the job has committed."""
    show, found = ctx.show, ctx.client.jobs.cancel(job)
    show.emit(found.json_value(), lambda: show.line(f"job {found.id} is {found.status}"))


@command(app, "retry", waits=True)
def retry_job(
    ctx: CliContext,
    job: JobArg,
    *,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Return at once.")] = False,
) -> None:
    """Run a failed or canceled job again, as a new one."""
    again = ctx.client.jobs.retry(job)
    if not no_wait:
        again = watch_job(ctx, again)
    if ctx.show.json:
        ctx.show.write_json(again.json_value())
    tell_job(ctx.show, again)


def _show(show: Show, job: JobOut) -> None:
    told_of = job.json_value()
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
            "snapshot": told_of.get("committed_snapshot_id"),
        }
    )
    show.facts({f"attempt {attempt.number}": _attempt(attempt) for attempt in job.attempts})
    for part in ("progress", "predicted", "result"):
        show.facts({f"{part} {name}": value for name, value in told_of.get(part, {}).items()})


def _attempt(one: AttemptOut) -> str:
    until = "" if one.ended_at is None else f" to {moment(one.ended_at)}: {one.outcome}"
    return f"{one.optimizer}, {moment(one.leased_at)}{until}"
