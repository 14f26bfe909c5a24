"""`firn catalog import` and `firn table register`: tables that are somewhere already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from firn.cli import import_options as given
from firn.cli import tables
from firn.cli.context import CliContext, command
from firn.cli.watch import check_operation, watch_operation
from firn.errors import Invalid
from firn.imports import ImportOptions
from firn.protocol.answers.imports import EntryOut
from firn.protocol.answers.operations import OperationOut

NEEDS_A_PERSON = ("conflict", "ambiguous", "failed")


def add_to(catalog: typer.Typer, table: typer.Typer) -> None:
    """Give both groups their command."""
    command(table, "register")(register_table)
    command(catalog, "import")(import_tables)


def register_table(
    ctx: CliContext,
    table: tables.TableArg,
    metadata_location: Annotated[str, typer.Option(help="Location of the table's current metadata file.")],
    *,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a table of the same name; its files stay.")
    ] = False,
    dry_run: tables.DryRun = False,
) -> None:
    """Register an existing Iceberg table by its metadata file.

    No other catalog may write to it from now on: two catalogs that commit to one table lose data.
    """
    show = ctx.show
    done = ctx.client.tables[table].register(metadata_location, overwrite=overwrite, dry_run=dry_run)
    told = {"table": done["table"], "state": done["state"], "location": done["location"], "because": done["reason"]}

    def people() -> None:
        show.facts(told)
        for warning in done["warnings"]:
            show.note(f"note: {warning}")

    show.emit(done, people)


def import_tables(  # noqa: PLR0913, PLR0917 -- its options are what people type
    ctx: CliContext,
    name: given.Name,
    from_warehouse: given.FromWarehouse = None,
    from_rest: given.FromRest = None,
    from_hive: given.FromHive = None,
    warehouse: given.Warehouse = None,
    source_token: given.SourceToken = None,
    source_credential: given.SourceCredential = None,
    token_server: given.TokenServer = None,
    scope: given.Scope = None,
    into: given.Into = None,
    namespace_depth: given.NamespaceDepth = None,
    include: given.Include = None,
    exclude: given.Exclude = None,
    allow: given.Allow = None,
    resume: given.Resume = None,
    *,
    allow_source: given.AllowSource = False,
    dry_run: tables.DryRun = False,
    overwrite: given.Overwrite = False,
    refresh: given.Refresh = False,
    no_wait: given.NoWait = False,
) -> None:
    """Import the Iceberg tables and views of a warehouse or another catalog. No file is copied or changed.

    The server continues if this command is interrupted. A repeated import skips tables that are already registered.
    Stop the writers of the other catalog first: two catalogs that commit to one table lose data.
    """
    options = ImportOptions(
        warehouse=warehouse,
        token=source_token,
        credential=source_credential,
        token_server=token_server,
        scope=scope,
        into=into,
        namespace_depth=namespace_depth,
        include=include or [],
        exclude=exclude or [],
        dry_run=dry_run,
        overwrite=overwrite,
        refresh=refresh,
        allow_locations=[*(allow or []), *([from_warehouse] if allow_source and from_warehouse else ())],
    )
    sources = {"warehouse": from_warehouse, "rest": from_rest, "hive": from_hive}
    _watch(ctx, name, _started(ctx, name, sources, options, resume), no_wait=no_wait)


def _started(
    ctx: CliContext, name: str, sources: Mapping[str, str | None], options: ImportOptions, resume: str | None
) -> OperationOut:
    named = [(kind, address) for kind, address in sources.items() if address is not None]
    if len(named) != (0 if resume else 1):
        raise Invalid(
            "where to import from is not clear", hint="give one of --from-warehouse, --from-rest, --from-hive, --resume"
        )
    if resume is not None:
        return ctx.client.imports.resume(name, resume)
    kind, address = named[0]
    return ctx.client.imports.start(name, kind, address, options)


def _watch(ctx: CliContext, name: str, started: OperationOut, *, no_wait: bool) -> None:
    if no_wait:
        said = f"import {started.id} runs; watch it with `firn catalog import {name} --resume {started.id}`"
        ctx.show.emit(started.json_value(), lambda: ctx.show.line(said))
        return
    _tell(ctx, name, watch_operation(ctx, started))


def _tell(ctx: CliContext, catalog: str, ended: OperationOut) -> None:
    show = ctx.show
    entries = [entry for entry in ctx.client.imports.entries(catalog, ended.id) if entry.kind != "namespace"]
    is_plan = bool(ended.result.get("dry_run"))
    show.emit(
        {"operation": ended.json_value(), "entries": [entry.json_value() for entry in entries]},
        lambda: _show(ctx, ended, entries if is_plan else [entry for entry in entries if _is_worth_a_line(entry)]),
    )
    check_operation(ended)
    if any(entry.state in NEEDS_A_PERSON for entry in entries):
        raise typer.Exit(1)


def _show(ctx: CliContext, ended: OperationOut, entries: list[EntryOut]) -> None:
    show = ctx.show
    if entries:
        rows = [(entry.name, entry.kind, entry.state, _remark(entry), entry.metadata_location) for entry in entries]
        show.table(("table", "kind", "state", "because", "metadata"), rows, none="")
    counts = ended.result.get("counts", {})
    show.line(", ".join(f"{state} {count:,}" for state, count in counts.items()) or "nothing was found")
    for note in (*ended.result.get("notes", ()), *([ended.hint] if ended.hint else [])):
        show.note(f"note: {note}")


def _is_worth_a_line(entry: EntryOut) -> bool:
    return entry.state not in ("registered", "there") or bool(entry.reason or entry.warnings)


def _remark(entry: EntryOut) -> str | None:
    reason = [one for one in (entry.reason, entry.hint) if one]
    return "; ".join([*reason, *entry.warnings]) or None
