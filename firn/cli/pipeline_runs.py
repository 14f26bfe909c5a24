"""`firn pipeline put|run|list|show|runs|versions|publish|discard|reset|drop`: pipelines of a server, and their runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from firn.cli import pipelines as folders
from firn.cli.context import CliContext, command
from firn.cli.pipeline_definitions import put_folder, show_put
from firn.cli.pipeline_held import show_held_rows
from firn.cli.show import moment, size
from firn.cli.watch import format_span, note_waiting_run, watch_run
from firn.errors import Invalid, NotFound
from firn.pipeline_client import Pipeline
from firn.protocol.backfills import BackfillOut
from firn.protocol.jobs import JobStatus
from firn.protocol.pipelines import InputChanges, PipelineOut, PipelineTableOut, RunOut, RunResult
from firn.protocol.validators import ValidatorResult

app = folders.app  # these are commands of `firn pipeline` too
NameArg = Annotated[str, typer.Argument(metavar="PIPELINE", help="Name of the pipeline.")]
TableArg = Annotated[str, typer.Argument(metavar="TABLE", help="A table of the pipeline, NAMESPACE.TABLE or TABLE.")]
LimitOption = Annotated[int, typer.Option(min=1, help="The largest number of entries to show.")]
PIPELINE_COLUMNS = ("pipeline", "catalog", "version", "tables", "state", "owner", "changed")
TABLE_COLUMNS = ("table", "state", "kind", "inputs behind", "since", "checkpoint", "last run", "next run")
_COUNTS = ("mode", "written", "unchanged", "deleted", "dropped")
RUN_COLUMNS = ("run", "table", "status", *_COUNTS, "created", "took", "error")
_WORST_FIRST = ("failed", "held", "running", "rebuild", "behind", "new", "current")
SHOWN_BACKFILLS = 10


@command(app, "put")
def put(
    ctx: CliContext,
    folder: folders.FolderArg = Path(),
    *,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Accept that tables with a changed query are computed in full.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what the command would do, and change nothing.")
    ] = False,
) -> None:
    """Store the pipeline of a folder on the server, as a new version.

    The server refuses a changed query of a table that is built, unless you say --rebuild.
    """
    result = put_folder(ctx, folder, rebuild=rebuild, dry_run=dry_run)
    ctx.show.emit(result.json_value(), lambda: show_put(ctx, result, dry_run=dry_run))


@command(app, "run", waits=True)
def run(
    ctx: CliContext,
    name: NameArg,
    table: TableArg,
    *,
    full: Annotated[bool, typer.Option("--full", help="Compute all rows, not only what changed.")] = False,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="TIME", help="Take commits to the inputs up to then, no later ones."),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the end of the run.")] = True,
) -> None:
    """Run one table of a pipeline: compute what changed since its last run, and commit it at once.

    The tables that move together with it (`consistent` in firn-pipeline.yml) run, too.

    Exits with 1 if the run fails.
    """
    until = None if to is None else parse_time(to)
    if to is not None and until is None:
        hint = "write it as in 2026-11-20T08:00; it is UTC unless it says another zone"
        raise Invalid(f"{to!r} is no time", hint=hint)
    if full and to is not None:
        raise Invalid("--full and --to exclude each other", hint="a run of all rows reads the inputs as they are now")
    started = ctx.client.pipelines[name].run(table, full=full, to=until)
    if not wait:
        note_waiting_run(ctx, started)
    ended = watch_run(ctx, started) if wait else started.started
    ctx.show.emit(ended.json_value(), lambda: show_run(ctx, ended))
    if ended.status in (JobStatus.FAILED, JobStatus.CANCELED):
        raise typer.Exit(1)


def show_run(ctx: CliContext, run: RunOut) -> None:
    """Print the state of a run, and its result if it has ended."""
    ctx.show.facts({"run": run.job_id, "table": run.table, "status": run.status, "error": run.error})
    if run.result:
        ctx.show.facts(dict(_describe_result(RunResult.model_validate(run.result), run)))


def parse_time(text: str) -> datetime | None:
    """A time in ISO 8601, in UTC unless it says another zone; None for another text."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _describe_result(result: RunResult, run: RunOut) -> Iterator[tuple[str, str | None]]:
    yield "mode", ": ".join(filter(None, (result.mode, result.reason)))
    for changes in result.inputs:
        yield f"input {changes.table}", _describe_input(changes)
    if result.mode != "nothing":
        yield "computed", _describe_rows(result)
    if result.commits_left:
        bound = "" if run.to is None else f" after {moment(run.to)}"
        yield "left", f"{_count(result.commits_left, 'commit')}{bound}: the next run continues"
    if result.validators:
        passed = sum(validator.passed for validator in result.validators)
        yield "audited", f"{passed:,} of {_count(len(result.validators), 'validator')} passed"
    for validator in result.validators:
        if not validator.passed:
            yield f"{validator.severity} {validator.name}", _describe_violations(validator)
    nothing = "nothing" if run.error is not None else "nothing differs"
    if result.held:
        nothing = f"waits: firn pipeline publish {run.pipeline} {run.table}"
    yield "published", nothing if result.snapshot_id is None else f"snapshot {result.snapshot_id}"
    for name, other in result.together.items():
        snapshot = nothing if other.snapshot_id is None else f"snapshot {other.snapshot_id}"
        rows = f"{_count(other.written, 'row')} written, {other.deleted:,} deleted{_describe_dropped(other)}"
        yield f"with {name}", f"{rows}, {snapshot}"
    yield "checkpoint", result.checkpoint
    yield "took", _describe_cost(run)


def _describe_cost(run: RunOut) -> str | None:
    """How long the run took, beside its prediction and the last full run."""
    took = _describe_duration(run)
    if took is None:
        return None
    predicted = None if run.predicted_seconds is None else f"at most {format_span(run.predicted_seconds)} predicted"
    full = None if run.full_seconds is None else f"the last full run took {format_span(run.full_seconds)}"
    return "; ".join(filter(None, (took, predicted, full)))


def _describe_rows(result: RunResult) -> str:
    recomputed = result.recomputed
    added = "" if recomputed is None else f" (changes added to counts and sums, {recomputed:,} recomputed)"
    keys = "" if result.keys is None else f"{_count(result.keys, 'affected value')}{added}: "
    keys += f"{_count(result.chunks, 'chunk')} of a backfill: " if result.chunks else ""
    unchanged = f"{result.unchanged:,} left out (unchanged)"
    written = f"{_count(result.written, 'row')} written, {unchanged}, {result.deleted:,} deleted"
    absent = f", {result.absent:,} without a row in the table" if result.absent else ""
    return f"{keys}{written}{absent}{_describe_dropped(result)}"


def _describe_dropped(result: RunResult) -> str:
    """How many rows the validators have dropped, and where they are."""
    if not result.dropped:
        return ""
    place = "" if result.quarantine is None else f" into {result.quarantine}"
    return f", {result.dropped:,} dropped by validators{place}"


def _describe_input(changes: InputChanges) -> str:
    """What is known about the changes of an input."""
    parts = [
        None if changes.commits is None else _count(changes.commits, "commit"),
        None if changes.files is None else _count(changes.files, "file"),
        None if changes.bytes is None else size(changes.bytes),
    ]
    return ", ".join(filter(None, parts)) or "changed"


def _describe_violations(validator: ValidatorResult) -> str:
    count = None if validator.violations is None else _count(validator.violations, "violation")
    return ", ".join(filter(None, (count, validator.detail))) or "not passed"


def _describe_duration(run: RunOut) -> str | None:
    if run.leased_at is None or run.ended_at is None:
        return None
    return format_span((run.ended_at - run.leased_at).total_seconds())


@command(app, "list")
def list_pipelines(ctx: CliContext, limit: LimitOption = 50) -> None:
    """List pipelines with the state of their tables."""
    show = ctx.show
    listed = show.first(ctx.client.pipelines.list(limit=limit + 1), limit)
    rows = [_pipeline_row(pipeline) for pipeline in listed]
    none = "no pipelines: `firn pipeline put DIR` stores one"
    show.emit([pipeline.json_value() for pipeline in listed], lambda: show.table(PIPELINE_COLUMNS, rows, none=none))


def _pipeline_row(pipeline: PipelineOut) -> tuple[object, ...]:
    states = [table.state for table in pipeline.tables]
    counts = ", ".join(f"{states.count(state):,} {state}" for state in _WORST_FIRST if state in states)
    version = (pipeline.version, len(pipeline.tables), counts)
    return (pipeline.name, pipeline.catalog, *version, pipeline.owner, moment(pipeline.changed_at))


@command(app, "show")
def show_pipeline(
    ctx: CliContext,
    name: NameArg,
    table: Annotated[str | None, typer.Argument(metavar="TABLE", help="One table (default: all).")] = None,
    *,
    held: Annotated[
        bool, typer.Option("--held", help="Show rows of the run of TABLE that waits for approval.")
    ] = False,
) -> None:
    """Show a pipeline: its tables with state, checkpoint and last run. With TABLE, the definition of one."""
    show, handle = ctx.show, ctx.client.pipelines[name]
    if held:
        show_held_rows(ctx, name, table)
        return
    pipeline = handle.show()
    if table is None:
        show.emit(pipeline.json_value(), lambda: _show_tables(ctx, pipeline))
        return
    full_name = handle.find_table(table)
    chosen = next((entry for entry in pipeline.tables if entry.name == full_name), None)
    if chosen is None:
        hint = f"it has {', '.join(entry.name for entry in pipeline.tables)}"
        raise NotFound(f"{name} has no table {table}", hint=hint)
    backfills = list(handle.backfills(full_name, limit=SHOWN_BACKFILLS))
    document = {**chosen.json_value(), "backfills": [entry.json_value() for entry in backfills]}
    show.emit(document, lambda: _show_table(ctx, chosen, backfills))


def _show_tables(ctx: CliContext, pipeline: PipelineOut) -> None:
    ctx.show.facts(
        {
            "pipeline": pipeline.name,
            "catalog": pipeline.catalog,
            "version": pipeline.version,
            "owner": pipeline.owner,
            "created": pipeline.created_at,
            "changed": pipeline.changed_at,
        }
    )
    ctx.show.table(TABLE_COLUMNS, [_table_row(table) for table in pipeline.tables], none="no tables")


def _table_row(table: PipelineTableOut) -> tuple[object, ...]:
    kind = "incremental" if table.definition.get("incremental") else "full"
    pinned_at = None if table.checkpoint is None else table.checkpoint.get("pinned_at")
    last = None if table.last_run is None else f"{table.last_run.status}, {moment(table.last_run.created_at)}"
    return (
        table.name,
        table.state,
        kind,
        table.behind,
        moment(table.behind_since),
        moment(pinned_at),
        last,
        _describe_next(table),
    )


def _describe_next(table: PipelineTableOut) -> str | None:
    return None if table.next_run is None else f"{moment(table.next_run.at)}: {table.next_run.reason}"


def _show_table(ctx: CliContext, table: PipelineTableOut, backfills: Sequence[BackfillOut]) -> None:
    definition = table.definition
    facts: dict[str, Any] = {
        "table": table.name,
        "state": table.state,
        "file": f"{definition.get('path')}, line {definition.get('line')}",
        "refresh": definition.get("refresh"),
        "key": definition.get("key") or None,
        "partitioned by": definition.get("partitioned_by") or None,
        "inputs": definition.get("inputs"),
        "incremental": definition.get("incremental"),
        "scope": definition.get("scope") or None,
        "moves with": [name for name in definition.get("consistent") or () if name != table.name] or None,
        "commits in a run": definition.get("max_commits") and f"at most {definition['max_commits']:,}",
        "inputs behind": table.behind,
        "behind since": table.behind_since,
        "next run": _describe_next(table),
        "waits for approval": None if table.held_run is None else f"run {table.held_run.job_id}",
    }
    ctx.show.facts(facts)
    for backfill in backfills:
        scope = backfill.where if backfill.since is None else f"what has changed since checkpoint {backfill.since}"
        progress = f"{backfill.done:,} of {backfill.total:,} chunks of {scope}"
        ctx.show.line(
            ": ".join(filter(None, (f"backfill {backfill.id}: {backfill.status}, {progress}", backfill.error)))
        )
    for reason in definition.get("reasons") or ():
        line = "" if reason.get("line") is None else f" (line {reason['line']})"
        ctx.show.line(f"full because of: {reason.get('text')}{line}. {reason.get('remedy') or ''}".rstrip())
    for pin in (table.checkpoint or {}).get("pins", ()):
        unit = "version" if pin.get("keyed") else "snapshot"
        ctx.show.line(f"checkpoint: {pin.get('table')} at {unit} {pin.get('version') or 'none (empty)'}")
    ctx.show.line(str(definition.get("query")))


@command(app, "runs")
def list_runs(
    ctx: CliContext,
    name: NameArg,
    table: Annotated[str | None, typer.Argument(metavar="TABLE", help="List only runs of this table.")] = None,
    limit: LimitOption = 20,
) -> None:
    """List the runs of a pipeline, the newest first."""
    show = ctx.show
    runs = show.first(ctx.client.pipelines[name].runs(table, limit=limit + 1), limit)
    rows = [_run_row(run) for run in runs]
    none = f"no runs: `firn pipeline run {name} TABLE` starts one"
    show.emit([run.json_value() for run in runs], lambda: show.table(RUN_COLUMNS, rows, none=none))


def _run_row(run: RunOut) -> tuple[object, ...]:
    result = run.result
    counts = tuple(map(result.get, _COUNTS))
    state = (run.job_id, run.table, run.status)
    return (*state, *counts, moment(run.created_at), _describe_duration(run), run.error)


@command(app, "versions")
def list_versions(
    ctx: CliContext,
    name: NameArg,
    version: Annotated[int | None, typer.Argument(metavar="VERSION", min=1, help="Print the files of one.")] = None,
    limit: LimitOption = 20,
) -> None:
    """List the versions of a pipeline, the newest first. With VERSION, print its files."""
    show, handle = ctx.show, ctx.client.pipelines[name]
    if version is not None:
        chosen = handle.get_version(version)

        def write_files() -> None:
            for file in chosen.files:
                show.line(f"-- {file.get('path')}")
                show.line(str(file.get("text")))

        show.emit(chosen.json_value(), write_files)
        return
    versions = show.first(handle.versions(limit=limit + 1), limit)
    rows = [(entry.version, moment(entry.created_at), entry.author) for entry in versions]
    columns = ("version", "created", "author")
    show.emit([entry.json_value() for entry in versions], lambda: show.table(columns, rows, none="no versions"))


OptionalTableArg = Annotated[
    str | None, typer.Argument(metavar="TABLE", help="A table of the pipeline (default: all that wait).")
]


@command(app, "publish")
def publish(ctx: CliContext, name: NameArg, table: OptionalTableArg = None) -> None:
    """Let readers see the rows of runs that wait for approval (`audit: hold` in firn-pipeline.yml).

    One transaction commits all tables of a run.
    """
    _approve(ctx, name, table, "published", lambda pipeline, held: pipeline.publish(held).tables)


@command(app, "discard")
def discard(ctx: CliContext, name: NameArg, table: OptionalTableArg = None) -> None:
    """Forget the rows of runs that wait for approval. The next run computes from the same checkpoint."""
    _approve(ctx, name, table, "discarded", lambda pipeline, held: pipeline.discard(held).tables)


def _approve(
    ctx: CliContext, name: str, table: str | None, verb: str, decide: Callable[[Pipeline, str], list[str]]
) -> None:
    """Decide about the held run of a table, or about each of the pipeline."""
    handle, done = ctx.client.pipelines[name], list[str]()
    tables = handle.show().tables if table is None else []
    for held in [entry.name for entry in tables if entry.held_run is not None] if table is None else [table]:
        if held not in done:
            done += decide(handle, held)
    text = f"{verb}: {', '.join(done)}" if done else f"no run of {name} waits for approval"
    ctx.show.emit({"tables": done}, lambda: ctx.show.line(text))


@command(app, "drop")
def drop(ctx: CliContext, name: NameArg) -> None:
    """Drop a pipeline. Its tables stay, and no run commits to them any more."""
    ctx.client.pipelines[name].drop()
    ctx.show.emit({}, lambda: ctx.show.line(f"pipeline {name} is dropped; its tables stay"))


def _count(number: int, word: str) -> str:
    return f"1 {word}" if number == 1 else f"{number:,} {word}s"
