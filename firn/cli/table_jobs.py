"""Starts a maintenance job and waits for its end, for all commands that run jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from firn.cli.context import CliContext
from firn.cli.dry_run import show_dry_run
from firn.cli.watch import finish_job, watch_job
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
    """Start a job and wait for its end; without `wait`, return it at once. None if the server itself does the dry run.

    `show_result` prints the job's result for people, before its status. A failed job ends the command with 1.
    """
    show, handle = ctx.show, ctx.client.tables[table]
    started: DryRunOut | JobOut
    started = handle.dry_run(kind, **(options or {})) if dry_run else handle.start_job(kind, **(options or {}))
    if isinstance(started, DryRunOut):
        result = started
        show.emit(result.json_value(), lambda: show_dry_run(show, result))
        return None
    if dry_run:
        show.note(f"this dry run needs an optimizer: job {started.id} runs it and changes nothing")
    job = watch_job(ctx, started) if wait else started
    if show.json:
        show.write_json(job.json_value())
    else:
        show_result(job)
    finish_job(show, job)
    return job
