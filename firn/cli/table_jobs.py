"""Starting a maintenance job and seeing it through: what every command that does so shares."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from firn.cli.context import CliContext
from firn.cli.dry_run import show_dry_run
from firn.cli.watch import tell_job, watch_job
from firn.protocol.answers.jobs import DryRunOut, JobOut
from firn.transport import Json


def run_job(
    ctx: CliContext,
    table: str,
    kind: str,
    options: Mapping[str, Json] | None = None,
    *,
    dry_run: bool,
    wait: bool,
    show_result: Callable[[JobOut], None] = lambda _: None,
) -> JobOut | None:
    """The job once it has ended or, without `wait`, as it was started; None for a dry run that the server answered.

    `show_result` shows people what the job has found, before how it ended. A job that failed ends the command.
    """
    show, handle = ctx.show, ctx.client.tables[table]
    started: DryRunOut | JobOut
    started = handle.dry_run(kind, **(options or {})) if dry_run else handle.start_job(kind, **(options or {}))
    if isinstance(started, DryRunOut):
        planned = started
        show.emit(planned.json_value(), lambda: show_dry_run(show, planned))
        return None
    if dry_run:
        show.note(f"only a job can tell what it would do: job {started.id} finds out and changes nothing")
    job = watch_job(ctx, started) if wait else started
    if show.json:
        show.write_json(job.json_value())
    else:
        show_result(job)
    tell_job(show, job)
    return job
