"""`firn table history|compare|refs|tag|branch|drop-ref|fast-forward|rollback`"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from firn.cli import tables
from firn.cli.context import CliContext, command
from firn.cli.show import Show, moment, size
from firn.cli.tables import DryRun, Limit, TableArg
from firn.durations import duration_ms, duration_text
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
    entries = show.first(ctx.client.tables[table].history(limit + 1, kinds=kind or ()), limit)
    if full and not show.json:
        for entry in entries:
            _show_entry(show, entry)
        return
    rows = [
        (
            f"@{entry['id']}",
            moment(entry["committed_at"]),
            entry["principal"],
            entry["engine"] or (f"job {entry['job_id'][:8]}" if entry["job_id"] else None),
            entry["table"],
            entry["operation"],
            entry["headline"],
            entry["snapshot_id"],
        )
        for entry in entries
    ]
    columns = ("entry", "when", "who", "engine", "table", "operation", "what changed", "snapshot")
    show.emit(entries, lambda: show.table(columns, rows, none="no commits yet"))


def _show_entry(show: Show, entry: Any) -> None:
    by = ", ".join(author for author in (entry["principal"], entry["engine"]) if author) or "–"
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
    first: Annotated[
        str, typer.Argument(help="First state: a snapshot id, a branch or tag, or an entry of the history such as @12.")
    ],
    second: Annotated[str, typer.Argument(help="Second state, in the same form.")] = "main",
) -> None:
    """Compare two states of a table: columns, properties, rows and commits."""
    show, comparison = ctx.show, ctx.client.tables[table].compare(first, second)
    show.emit(comparison, lambda: _show_comparison(show, comparison, first, second))


def _show_comparison(show: Show, comparison: Any, first: str, second: str) -> None:
    for change in comparison["changes"]:
        show.line(f"· {change['description']}")
    for message in comparison["unknown"]:
        show.line(f"? {message}")
    if not comparison["changes"] and not comparison["unknown"]:
        show.line("columns, properties and layout are the same")
    added = comparison["only_in_second"]
    sides = [
        (
            figure,
            comparison["first"]["totals"][figure],
            comparison["second"]["totals"][figure],
            added[f"added_{figure}"],
        )
        for figure in ("rows", "files", "bytes")
    ]
    show.table(("", first, second, "added between"), sides, none="")
    for name, lacking, part in ((first, second, "only_in_first"), (second, first, "only_in_second")):
        commits = comparison[part]["commits"]
        show.line(f"{commits:,} commit{'' if commits == 1 else 's'} only in {name}, not in {lacking}")


@command(app, "refs")
def list_refs(ctx: CliContext, table: TableArg) -> None:
    """List branches and tags. For a keyed table, the base store's are listed."""
    show, refs = ctx.show, ctx.client.tables[table].refs()
    rows = [
        (
            ref["name"],
            ref["type"],
            ref["snapshot_id"],
            moment(ref["committed_at"]),
            ref["totals"]["rows"],
            ref["ahead"],
            ref["behind"],
            _describe_retention(ref),
        )
        for ref in refs
    ]
    columns = ("name", "type", "snapshot", "written", "rows", "ahead", "behind", "kept")
    show.emit(refs, lambda: show.table(columns, rows, none="no branch or tag yet: main begins with the first write"))


def _describe_retention(ref: Any) -> str | None:
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
    created = ctx.client.tables[table].tag(name, snapshot=at, max_ref_age_ms=duration_ms(retain), replace=replace)
    ctx.show.emit(created, lambda: ctx.show.line(f"tag {name} is at snapshot {created['snapshot_id']}"))


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
    created = ctx.client.tables[table].branch(
        name,
        snapshot=at,
        max_ref_age_ms=duration_ms(retain),
        max_snapshot_age_ms=duration_ms(retain_snapshots),
        min_snapshots_to_keep=keep,
        replace=replace,
    )
    ctx.show.emit(created, lambda: ctx.show.line(f"branch {name} is at snapshot {created['snapshot_id']}"))


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
    moved = ctx.client.tables[table].fast_forward(branch, to=to)
    ctx.show.emit(moved, lambda: ctx.show.line(f"branch {branch} is at snapshot {moved['snapshot_id']}"))


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
        raise Invalid("the rollback needs a target", hint="give one of --to-snapshot and --to-time")
    done = ctx.client.tables[table].rollback(
        snapshot=to_snapshot, at=None if to_time is None else _parse_time(to_time), dry_run=dry_run
    )
    ctx.show.emit(done, lambda: _show_rollback(ctx.show, done))


def _show_rollback(show: Show, done: Any) -> None:
    if not done["changes"]:
        show.line(done["description"])
        return
    show.line(f"{'did' if done['done'] else 'would'} {done['description']}")
    rows = [
        (
            verb,
            snapshot["snapshot_id"],
            moment(snapshot["committed_at"]),
            snapshot["operation"],
            *_count_rows(snapshot["summary"]),
        )
        for verb, part in (("leaves", "leaving"), ("returns", "returning"))
        for snapshot in done[part]["newest"]
    ]
    show.table(("", "snapshot", "when", "operation", "+rows", "-rows", "size"), rows, none="")
    for snapshot_id, names in done["held"].items():
        show.line(f"snapshot {snapshot_id} does not expire while {', '.join(names)} holds it")


def _count_rows(summary: Any) -> tuple[int, int, str]:
    added, removed = int(summary.get("added-records", 0)), int(summary.get("deleted-records", 0))
    return added, removed, size(int(summary.get("added-files-size", 0)))


def _parse_time(text: str) -> datetime:
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError as error:
        raise Invalid(
            f"{text!r} is not a time", hint="write it as 2026-11-21T10:00, or with a zone: …+01:00"
        ) from error
    return parsed.astimezone(UTC)  # a time without a zone is in the user's zone
