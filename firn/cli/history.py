"""`firn table history|compare|refs|tag|branch|drop-ref|fast-forward|rollback`"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from firn.cli import tables
from firn.cli.context import CliContext, command
from firn.cli.durations import duration_ms, duration_text
from firn.cli.show import Show, moment, size
from firn.cli.tables import DryRun, Limit, TableArg
from firn.errors import Invalid
from firn.protocol.history import Topic

app = tables.app  # these are commands of `firn table` too; they fill a file of their own


RefArg = Annotated[str, typer.Argument(help="Name of the branch or tag.")]
At = Annotated[str, typer.Option("--snapshot", help="Snapshot id, or a branch or tag that points at it.")]
Retain = Annotated[str | None, typer.Option(help="Retention, such as 7d (default: forever).")]
Replace = Annotated[bool, typer.Option("--replace", help="Move an existing tag or branch.")]


@command(app, "history")
def show_history(
    ctx: CliContext,
    table: TableArg,
    limit: Limit = 50,
    kind: Annotated[list[Topic] | None, typer.Option(help="List only commits of this kind; may be repeated.")] = None,
    *,
    full: Annotated[bool, typer.Option("--full", help="Show every change of each commit, and SQL as a diff.")] = False,
) -> None:
    """List the commits of a table or view, newest first: when, by whom, with which engine, and the changes."""
    show = ctx.show
    found = show.first(ctx.client.tables[table].history(limit + 1, kinds=kind or ()), limit)
    if full and not show.json:
        for one in found:
            _tell(show, one)
        return
    rows = [
        (
            f"@{one['id']}",
            moment(one["committed_at"]),
            one["principal"],
            one["engine"] or (f"job {one['job_id'][:8]}" if one["job_id"] else None),
            one["table"],
            one["operation"],
            one["headline"],
            one["snapshot_id"],
        )
        for one in found
    ]
    columns = ("entry", "when", "who", "engine", "table", "operation", "what changed", "snapshot")
    show.emit(found, lambda: show.table(columns, rows, none="nothing has happened yet"))


def _tell(show: Show, entry: Any) -> None:
    by = ", ".join(one for one in (entry["principal"], entry["engine"]) if one) or "–"
    show.line(f"@{entry['id']}  {moment(entry['committed_at'])}  {entry['table']}  {entry['operation']}  by {by}")
    show.line(f"    {entry['headline']}")
    for change in entry["changes"]:
        show.line(f"    · {change['description']}")
        for line in change["diff"] or ():
            show.line(f"        {line['sign']} {line['text']}")


@command(app, "compare")
def compare(
    ctx: CliContext,
    table: TableArg,
    one: Annotated[
        str, typer.Argument(help="First state: a snapshot id, a branch or tag, or an entry of the history such as @12.")
    ],
    other: Annotated[str, typer.Argument(help="Second state, in the same form.")] = "main",
) -> None:
    """Compare two states of a table: columns, properties, rows and commits."""
    show, found = ctx.show, ctx.client.tables[table].compare(one, other)
    show.emit(found, lambda: _show_comparison(show, found, one, other))


def _show_comparison(show: Show, found: Any, one: str, other: str) -> None:
    for change in found["changes"]:
        show.line(f"· {change['description']}")
    for words in found["unknown"]:
        show.line(f"? {words}")
    if not found["changes"] and not found["unknown"]:
        show.line("columns, properties and layout are the same")
    added = found["only_in_second"]
    sides = [
        (figure, found["first"]["totals"][figure], found["second"]["totals"][figure], added[f"added_{figure}"])
        for figure in ("rows", "files", "bytes")
    ]
    show.table(("", one, other, "added between"), sides, none="")
    for name, lacking, part in ((one, other, "only_in_first"), (other, one, "only_in_second")):
        commits = found[part]["commits"]
        show.line(f"{commits:,} commit{'' if commits == 1 else 's'} that {name} has and {lacking} has not")


@command(app, "refs")
def list_refs(ctx: CliContext, table: TableArg) -> None:
    """List branches and tags; for a keyed table, of its base store."""
    show, found = ctx.show, ctx.client.tables[table].refs()
    rows = [
        (
            one["name"],
            one["type"],
            one["snapshot_id"],
            moment(one["committed_at"]),
            one["totals"]["rows"],
            one["ahead"],
            one["behind"],
            _kept(one),
        )
        for one in found
    ]
    columns = ("name", "type", "snapshot", "written", "rows", "ahead", "behind", "kept")
    show.emit(found, lambda: show.table(columns, rows, none="no branch or tag yet: main begins with the first write"))


def _kept(ref: Any) -> str | None:
    parts = [
        duration_text(ref["max_ref_age_ms"]),
        ref["max_snapshot_age_ms"] and f"snapshots {duration_text(ref['max_snapshot_age_ms'])}",
        ref["min_snapshots_to_keep"] and f"at least {ref['min_snapshots_to_keep']}",
    ]
    return ", ".join(part for part in parts if part) or None


@command(app, "tag")
def tag(
    ctx: CliContext, table: TableArg, name: RefArg, at: At = "main", retain: Retain = None, *, replace: Replace = False
) -> None:
    """Create a tag for a snapshot. The snapshot does not expire while the tag exists."""
    made = ctx.client.tables[table].tag(name, snapshot=at, max_ref_age_ms=duration_ms(retain), replace=replace)
    ctx.show.emit(made, lambda: ctx.show.line(f"tag {name} is at snapshot {made['snapshot_id']}"))


@command(app, "branch")
def branch(  # noqa: PLR0913 -- its options are what people type
    ctx: CliContext,
    table: TableArg,
    name: RefArg,
    at: At = "main",
    retain: Retain = None,
    retain_snapshots: Annotated[str | None, typer.Option(help="Retention of its snapshots, such as 2d.")] = None,
    keep: Annotated[int | None, typer.Option(min=1, help="The number of its snapshots to keep at least.")] = None,
    *,
    replace: Replace = False,
) -> None:
    """Create a branch of a plain table. Engines read and write it by its name."""
    made = ctx.client.tables[table].branch(
        name,
        snapshot=at,
        max_ref_age_ms=duration_ms(retain),
        max_snapshot_age_ms=duration_ms(retain_snapshots),
        min_snapshots_to_keep=keep,
        replace=replace,
    )
    ctx.show.emit(made, lambda: ctx.show.line(f"branch {name} is at snapshot {made['snapshot_id']}"))


@command(app, "drop-ref")
def drop_ref(ctx: CliContext, table: TableArg, name: RefArg) -> None:
    """Drop a branch or tag. Its snapshots stay until they expire."""
    ctx.client.tables[table].drop_ref(name)
    ctx.show.emit({"dropped": name}, lambda: ctx.show.line(f"dropped {name}; its snapshots stay until they expire"))


@command(app, "fast-forward")
def fast_forward(
    ctx: CliContext,
    table: TableArg,
    branch: RefArg,
    to: Annotated[str, typer.Option(help="Target: a branch, tag or snapshot id.")],
) -> None:
    """Move a branch to a newer state. The server refuses if the branch would lose commits."""
    made = ctx.client.tables[table].fast_forward(branch, to=to)
    ctx.show.emit(made, lambda: ctx.show.line(f"branch {branch} is at snapshot {made['snapshot_id']}"))


@command(app, "rollback")
def rollback(
    ctx: CliContext,
    table: TableArg,
    to_snapshot: Annotated[str | None, typer.Option(help="Target: a snapshot id, a branch or a tag.")] = None,
    to_time: Annotated[
        str | None, typer.Option(help="Target: the state at this time, such as 2026-11-21T10:00.")
    ] = None,
    *,
    dry_run: DryRun = False,
) -> None:
    """Roll a plain table back to an older snapshot. Nothing is deleted; another rollback undoes it."""
    if (to_snapshot is None) == (to_time is None):
        raise Invalid("where to roll back to is not known", hint="give one of --to-snapshot and --to-time")
    done = ctx.client.tables[table].rollback(
        snapshot=to_snapshot, at=None if to_time is None else _moment(to_time), dry_run=dry_run
    )
    ctx.show.emit(done, lambda: _show_rollback(ctx.show, done))


def _show_rollback(show: Show, done: Any) -> None:
    if not done["changes"]:
        show.line(done["description"])
        return
    show.line(f"{'did' if done['done'] else 'would'} {done['description']}")
    rows = [
        (verb, one["snapshot_id"], moment(one["committed_at"]), one["operation"], *_counted(one["summary"]))
        for verb, part in (("leaves", "leaving"), ("returns", "returning"))
        for one in done[part]["newest"]
    ]
    show.table(("", "snapshot", "when", "operation", "+rows", "-rows", "size"), rows, none="")
    for snapshot, names in done["held"].items():
        show.line(f"snapshot {snapshot} does not expire while {', '.join(names)} holds it")


def _counted(summary: Any) -> tuple[int, int, str]:
    added, removed = int(summary.get("added-records", 0)), int(summary.get("deleted-records", 0))
    return added, removed, size(int(summary.get("added-files-size", 0)))


def _moment(text: str) -> datetime:
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError as error:
        raise Invalid(
            f"{text!r} is not a time", hint="write it as 2026-11-21T10:00, or with a zone: …+01:00"
        ) from error
    return parsed.astimezone(UTC)  # without a zone: the reader's own
