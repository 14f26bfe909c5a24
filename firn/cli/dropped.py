"""`firn table drop`, `undrop`, `purge`, `protect` and `unprotect`."""

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
    """Add these commands to `firn table`."""
    command(app, "drop")(drop_table)
    command(app, "undrop")(undrop_table)
    command(app, "purge")(purge_table)
    command(app, "protect")(protect_table)
    command(app, "unprotect")(unprotect_table)


def list_dropped(ctx: CliContext, *, namespace: str | None, search: str | None, limit: int) -> None:
    """Print the output of `firn table list --dropped`."""
    show = ctx.show
    matching = (entry for entry in ctx.client.dropped.list() if _matches(entry, namespace, search))
    entries = show.first(matching, limit)
    rows = [
        (
            entry.name,
            entry.kind,
            moment(entry.dropped_at),
            _describe_end(entry),
            _describe_removal(entry),
            entry.files,
            str(entry.id),
        )
        for entry in entries
    ]
    columns = ("name", "kind", "dropped", "kept until", "then", "files", "id")
    none = f"no dropped tables or views in {ctx.client.catalog}"
    show.emit([entry.json_value() for entry in entries], lambda: show.table(columns, rows, none=none))


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
    show.emit(
        {"dropped": str(handle.name), **done.json_value()}, lambda: show.line(_describe_drop(str(handle.name), done))
    )


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
    done = ctx.client.dropped.undrop(catalog, _find_entry_id(ctx, table, id), to=to, dry_run=dry_run)
    show_undropped(ctx, done, dry_run=dry_run)


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
    entry_id = _find_entry_id(ctx, table, id)
    if not (dry_run or yes or show.json):
        question = "remove it from the list and keep its files" if keep_files else "delete its files"
        typer.confirm(f"{name} cannot be restored after this: {question}?", abort=True)
    ctx.client.dropped.purge(name.catalog, entry_id, keep_files=keep_files, dry_run=dry_run)
    if dry_run:
        outcome = "would be removed from the list" if keep_files else "would be purged"
    else:
        outcome = (
            "is removed from the list; its files stay" if keep_files else "is being purged: firn table list --dropped"
        )
    line = f"{name} {outcome}"
    show.emit({"purged": str(name), "id": str(entry_id), "dry_run": dry_run}, lambda: show.line(line))


def protect_table(ctx: CliContext, table: TableArg) -> None:
    """Protect a table against being dropped, from every engine."""
    _protect(ctx, table, protected=True)


def unprotect_table(ctx: CliContext, table: TableArg) -> None:
    """Lift the protection of a table."""
    _protect(ctx, table, protected=False)


def show_undropped(ctx: CliContext, done: UndropOut, *, dry_run: bool) -> None:
    """Show the restored entries, the others with the reason, and how many files the server checked."""
    show = ctx.show

    def people() -> None:
        for entry in done.restored:
            show.line(f"{'would restore' if dry_run else 'restored'} {entry.kind} {entry.name}")
        for name, reason in done.not_restored.items():
            show.line(f"not restored {name}: {reason}")
        if done.files_of:
            is_all = done.files_checked == done.files_of
            show.line(f"files checked: {'all' if is_all else f'{done.files_checked:,} of'} {done.files_of:,}")

    show.emit(done.json_value(), people)


def _protect(ctx: CliContext, table: str, *, protected: bool) -> None:
    show, handle = ctx.show, ctx.client.tables[table]
    done = handle.protect(protected=protected)
    state = "is protected against being dropped" if protected else "can be dropped again"
    show.emit(done, lambda: show.line(f"{handle.name} {state}"))


def _find_entry_id(ctx: CliContext, table: str, entry_id: UUID | None) -> UUID:
    return ctx.client.dropped.find(table).id if entry_id is None else entry_id


def _describe_drop(name: str, done: DropOut) -> str:
    if not done.kept:
        return f"dropped {name}; {'the server deletes its files now' if done.purge else 'its files stay'}"
    after = "the server deletes its files then" if done.purge else "its files stay"
    return f"dropped {name}; `firn table undrop` restores it until {moment(done.keep_until)}; {after}"


def _matches(entry: DroppedOut, namespace: str | None, search: str | None) -> bool:
    is_in_namespace = namespace is None or entry.name == namespace or entry.name.startswith(f"{namespace}.")
    return is_in_namespace and (search is None or search.lower() in entry.name.lower())


def _describe_end(entry: DroppedOut) -> str:
    return "being purged" if entry.state == "purging" else moment(entry.keep_until)


def _describe_removal(entry: DroppedOut) -> str:
    if entry.kind == "namespace":
        return "removed from the list"
    return "files deleted" if entry.purge else "files stay"
