"""`firn table drop`, `undrop`, `purge`, `protect`: what goes, what comes back, and what may not go."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer

from firn.cli.context import CliContext, command
from firn.cli.show import moment
from firn.protocol.answers.dropped import DropOut, DroppedOut, UndropOut

TableArg = Annotated[str, typer.Argument(metavar="TABLE", help="NAMESPACE.TABLE or CATALOG.NAMESPACE.TABLE")]
EntryId = Annotated[
    UUID | None, typer.Option("--id", help="Id of the dropped table, if several had this name (default: the newest).")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what the command would do, and change nothing.")]


def add_to(app: typer.Typer) -> None:
    """Make these commands of `firn table`."""
    command(app, "drop")(drop_table)
    command(app, "undrop")(undrop_table)
    command(app, "purge")(purge_table)
    command(app, "protect")(protect_table)
    command(app, "unprotect")(unprotect_table)


def list_dropped(ctx: CliContext, *, namespace: str | None, search: str | None, limit: int) -> None:
    """What `firn table list --dropped` prints."""
    show = ctx.show
    wanted = (one for one in ctx.client.dropped.list() if _is_wanted(one, namespace, search))
    found = show.first(wanted, limit)
    rows = [
        (one.name, one.kind, moment(one.dropped_at), _until(one), _after(one), one.files, str(one.id)) for one in found
    ]
    columns = ("name", "kind", "dropped", "kept until", "then", "files", "id")
    none = f"nothing that was dropped from {ctx.client.catalog} can be brought back"
    show.emit([one.json_value() for one in found], lambda: show.table(columns, rows, none=none))


def drop_table(
    ctx: CliContext,
    table: TableArg,
    *,
    purge: Annotated[
        bool, typer.Option("--purge", help="Delete its files when the retention of dropped tables ends.")
    ] = False,
) -> None:
    """Drop a table or view. `firn table undrop` restores it while the catalog keeps it."""
    show, handle = ctx.show, ctx.client.tables[table]
    done = handle.drop(purge=purge)
    show.emit({"dropped": str(handle.name), **done.json_value()}, lambda: show.line(_dropped(str(handle.name), done)))


def undrop_table(
    ctx: CliContext,
    table: TableArg,
    id: EntryId = None,
    to: Annotated[str | None, typer.Option(help="New name, if the old one is taken: NAMESPACE.TABLE.")] = None,
    *,
    dry_run: DryRun = False,
) -> None:
    """Restore a dropped table or view with its history."""
    catalog = ctx.client.name(table).catalog
    done = ctx.client.dropped.undrop(catalog, _entry(ctx, table, id), to=to, dry_run=dry_run)
    tell_undropped(ctx, done, dry_run=dry_run)


def purge_table(
    ctx: CliContext,
    table: TableArg,
    id: EntryId = None,
    *,
    keep_files: Annotated[
        bool, typer.Option("--keep-files", help="Remove it from the list of dropped tables, and keep its files.")
    ] = False,
    dry_run: DryRun = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete the files of a dropped table now. This cannot be undone."""
    show, name = ctx.show, ctx.client.name(table)
    entry_id = _entry(ctx, table, id)
    if not (dry_run or yes or show.json):
        what = "take it off the list, its files stay" if keep_files else "delete its files"
        typer.confirm(f"{name} cannot be brought back after this: {what}?", abort=True)
    ctx.client.dropped.purge(name.catalog, entry_id, keep_files=keep_files, dry_run=dry_run)
    did = "is off the list; its files are untouched" if keep_files else "is being purged: firn table list --dropped"
    would = "would be taken off the list" if keep_files else "would be purged"
    line = f"{name} {would if dry_run else did}"
    show.emit({"purged": str(name), "id": str(entry_id), "dry_run": dry_run}, lambda: show.line(line))


def protect_table(ctx: CliContext, table: TableArg) -> None:
    """Protect a table against being dropped, from every engine."""
    _protect(ctx, table, protected=True)


def unprotect_table(ctx: CliContext, table: TableArg) -> None:
    """Lift the protection of a table."""
    _protect(ctx, table, protected=False)


def tell_undropped(ctx: CliContext, done: UndropOut, *, dry_run: bool) -> None:
    """What came back, what could not, and how well its files were looked for."""
    show = ctx.show

    def people() -> None:
        for one in done.restored:
            show.line(f"{'would bring back' if dry_run else 'brought back'} {one.kind} {one.name}")
        for name, reason in done.not_restored.items():
            show.line(f"left {name}: {reason}")
        if done.files_of:
            looked = (
                f"all {done.files_of:,}"
                if done.files_checked == done.files_of
                else f"{done.files_checked:,} of {done.files_of:,}"
            )
            show.line(f"files looked for: {looked}")

    show.emit(done.json_value(), people)


def _protect(ctx: CliContext, table: str, *, protected: bool) -> None:
    show, handle = ctx.show, ctx.client.tables[table]
    done = handle.protect(protected=protected)
    shown = "is protected against being dropped" if protected else "can be dropped again"
    show.emit(done, lambda: show.line(f"{handle.name} {shown}"))


def _entry(ctx: CliContext, table: str, entry_id: UUID | None) -> UUID:
    return ctx.client.dropped.find(table).id if entry_id is None else entry_id


def _dropped(name: str, done: DropOut) -> str:
    after = "its files are deleted then" if done.purge else "its files stay"
    if not done.kept:
        return f"dropped {name}; {'its files are being deleted' if done.purge else 'its files are untouched'}"
    return f"dropped {name}; until {moment(done.keep_until)} `firn table undrop` brings it back, {after}"


def _is_wanted(one: DroppedOut, namespace: str | None, search: str | None) -> bool:
    within = namespace is None or one.name == namespace or one.name.startswith(f"{namespace}.")
    return within and (search is None or search.lower() in one.name.lower())


def _until(one: DroppedOut) -> str:
    return "being purged" if one.state == "purging" else moment(one.keep_until)


def _after(one: DroppedOut) -> str:
    if one.kind == "namespace":
        return "forgotten"
    return "files deleted" if one.purge else "files stay"
