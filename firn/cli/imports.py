"""`firn catalog import` and `firn table register`: tables that are somewhere already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from pydantic import SecretStr

from firn.cli import catalogs, import_options, tables
from firn.cli.context import CliContext, command
from firn.cli.watch import check_operation, watch_operation
from firn.errors import Invalid
from firn.protocol.answers.imports import EntryOut
from firn.protocol.answers.operations import OperationOut
from firn.protocol.imports import ImportOptions

SOURCES = ("warehouse", "rest", "hive")
"""The kinds of sources, in the order of their options."""
NEEDS_A_PERSON = ("conflict", "ambiguous", "failed")


@command(tables.app, "register")
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
    facts = {"table": done["table"], "state": done["state"], "location": done["location"], "reason": done["reason"]}

    def people() -> None:
        show.facts(facts)
        for warning in done["warnings"]:
            show.note(f"note: {warning}")

    show.emit(done, people)


@command(catalogs.app, "import")
def import_tables(  # noqa: PLR0913, PLR0917 -- its options are what people type
    ctx: CliContext,
    name: import_options.Name,
    from_warehouse: import_options.FromWarehouse = None,
    from_rest: import_options.FromRest = None,
    from_hive: import_options.FromHive = None,
    warehouse: import_options.Warehouse = None,
    source_token: import_options.SourceToken = None,
    source_credential: import_options.SourceCredential = None,
    token_server: import_options.TokenServer = None,
    scope: import_options.Scope = None,
    into: import_options.Into = None,
    namespace_depth: import_options.NamespaceDepth = None,
    include: import_options.Include = None,
    exclude: import_options.Exclude = None,
    allow: import_options.Allow = None,
    resume: import_options.Resume = None,
    *,
    allow_source: import_options.AllowSource = False,
    dry_run: tables.DryRun = False,
    overwrite: import_options.Overwrite = False,
    refresh: import_options.Refresh = False,
    no_wait: import_options.NoWait = False,
) -> None:
    """Import the Iceberg tables and views of a warehouse or another catalog. No file is copied or changed.

    The server continues if this command is interrupted. A repeated import skips tables that are already registered.
    Stop the writers of the other catalog first: two catalogs that commit to one table lose data.
    """
    options = ImportOptions(
        warehouse=warehouse,
        token=None if source_token is None else SecretStr(source_token),
        credential=None if source_credential is None else SecretStr(source_credential),
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
    _watch(ctx, name, _start(ctx, name, (from_warehouse, from_rest, from_hive), options, resume), no_wait=no_wait)


def _start(
    ctx: CliContext, name: str, addresses: Sequence[str | None], options: ImportOptions, resume: str | None
) -> OperationOut:
    sources = [(kind, address) for kind, address in zip(SOURCES, addresses, strict=True) if address is not None]
    if len(sources) != (0 if resume else 1):
        raise Invalid(
            "the import needs one source", hint="give one of --from-warehouse, --from-rest, --from-hive, --resume"
        )
    if resume is not None:
        return ctx.client.imports.resume(name, resume)
    kind, address = sources[0]
    return ctx.client.imports.start(name, kind, address, options)


def _watch(ctx: CliContext, name: str, started: OperationOut, *, no_wait: bool) -> None:
    if no_wait:
        message = f"import {started.id} runs; watch it with `firn catalog import {name} --resume {started.id}`"
        ctx.show.emit(started.json_value(), lambda: ctx.show.line(message))
        return
    _show_result(ctx, name, watch_operation(ctx, started))


def _show_result(ctx: CliContext, catalog: str, ended: OperationOut) -> None:
    entries = [entry for entry in ctx.client.imports.entries(catalog, ended.id) if entry.kind != "namespace"]
    is_plan = bool(ended.result.get("dry_run"))
    ctx.show.emit(
        {"operation": ended.json_value(), "entries": [entry.json_value() for entry in entries]},
        lambda: _show_entries(ctx, ended, entries if is_plan else [entry for entry in entries if _is_notable(entry)]),
    )
    check_operation(ended)
    if any(entry.state in NEEDS_A_PERSON for entry in entries):
        raise typer.Exit(1)


def _show_entries(ctx: CliContext, ended: OperationOut, entries: list[EntryOut]) -> None:
    show = ctx.show
    if entries:
        rows = [(entry.name, entry.kind, entry.state, _remark(entry), entry.metadata_location) for entry in entries]
        show.table(("table", "kind", "state", "reason", "metadata"), rows, none="")
    counts = ended.result.get("counts", {})
    show.line(
        ", ".join(f"{state} {count:,}" for state, count in counts.items())
        or "the source has no Iceberg tables or views"
    )
    for note in (*ended.result.get("notes", ()), *([ended.hint] if ended.hint else [])):
        show.note(f"note: {note}")


def _is_notable(entry: EntryOut) -> bool:
    return entry.state not in ("registered", "there") or bool(entry.reason or entry.warnings)


def _remark(entry: EntryOut) -> str | None:
    texts = (entry.reason, entry.hint, *entry.warnings)
    return "; ".join(text for text in texts if text) or None
