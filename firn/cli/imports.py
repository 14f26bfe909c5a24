"""`firn catalog import` and `firn table register`: tables that are somewhere already."""

from __future__ import annotations

from typing import Annotated

import typer

from firn.cli import tables
from firn.cli.told import Told, command
from firn.cli.watch import check_operation, watch_operation
from firn.errors import Invalid
from firn.wire import ImportEntry, ImportOptions, Operation

NEEDS_A_PERSON = ("conflict", "ambiguous", "failed")
_FROM = "Where from"
_WHICH = "Which"


def add_to(catalog: typer.Typer, table: typer.Typer) -> None:
    """Give both groups their command."""
    command(table, "register")(register_table)
    command(catalog, "import")(import_tables)


def register_table(
    this: Told,
    table: tables.TableArg,
    metadata_location: Annotated[str, typer.Option(help="The table's current metadata file.")],
    *,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what has the name; its files stay.")] = False,
    dry_run: tables.DryRun = False,
) -> None:
    """Take over an existing Iceberg table by its metadata file.

    No other catalog may write to it any more: two catalogs that commit to one table lose data.
    """
    show = this.show
    done = this.client.tables[table].register(metadata_location, overwrite=overwrite, dry_run=dry_run)
    told = {"table": done["table"], "state": done["state"], "location": done["location"], "because": done["reason"]}

    def people() -> None:
        show.facts(told)
        for warning in done["warnings"]:
            show.note(f"note: {warning}")

    show.emit(done, people)


def import_tables(  # noqa: PLR0913, PLR0917 -- its options are what people type
    this: Told,
    name: Annotated[str, typer.Argument(metavar="CATALOG", help="The catalog that takes the tables.")],
    from_warehouse: Annotated[
        str | None, typer.Option(help="Scan file:///…, s3://… or hdfs://… for tables.", rich_help_panel=_FROM)
    ] = None,
    from_rest: Annotated[
        str | None, typer.Option(help="Another Iceberg REST catalog: http(s)://…", rich_help_panel=_FROM)
    ] = None,
    from_hive: Annotated[
        str | None, typer.Option(help="Iceberg tables of a Hive Metastore: thrift://HOST:PORT", rich_help_panel=_FROM)
    ] = None,
    warehouse: Annotated[
        str | None, typer.Option(help="The other REST catalog's warehouse parameter.", rich_help_panel=_FROM)
    ] = None,
    source_token: Annotated[
        str | None,
        typer.Option(envvar="FIRN_SOURCE_TOKEN", help="Token for the other REST catalog.", rich_help_panel=_FROM),
    ] = None,
    source_credential: Annotated[
        str | None,
        typer.Option(envvar="FIRN_SOURCE_CREDENTIAL", help="CLIENT_ID:CLIENT_SECRET for it.", rich_help_panel=_FROM),
    ] = None,
    token_server: Annotated[
        str | None, typer.Option(help="Where it takes credentials, if elsewhere.", rich_help_panel=_FROM)
    ] = None,
    scope: Annotated[str | None, typer.Option(help="Scope of the token to ask for.", rich_help_panel=_FROM)] = None,
    into: Annotated[
        str | None, typer.Option(help="Put everything below this namespace.", rich_help_panel=_WHICH)
    ] = None,
    namespace_depth: Annotated[
        int | None,
        typer.Option(min=0, help="Directories above a table's that are its namespace (all).", rich_help_panel=_WHICH),
    ] = None,
    include: Annotated[
        list[str] | None, typer.Option(help="Only these, such as 'sales.*'; may be repeated.", rich_help_panel=_WHICH)
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(help="Not these; may be repeated.", rich_help_panel=_WHICH)
    ] = None,
    resume: Annotated[
        str | None, typer.Option(metavar="OPERATION", help="Go on with this import now, and watch it.")
    ] = None,
    *,
    dry_run: tables.DryRun = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace other tables that have the name; their files stay.")
    ] = False,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Let tables that are here follow a source that has moved on.")
    ] = False,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Return at once; the import goes on in the server.")
    ] = False,
) -> None:
    """Register the Iceberg tables and views of a warehouse or of another catalog; no file is copied or changed.

    It goes on in the server if this command is interrupted, and can be repeated: what is there is not taken twice.
    Import is for moving: stop the writers of the other catalog, two catalogs that commit to one table lose data.
    """
    sources = {"warehouse": from_warehouse, "rest": from_rest, "hive": from_hive}
    named = [(kind, address) for kind, address in sources.items() if address is not None]
    if len(named) != (0 if resume else 1):
        raise Invalid(
            "where to import from is not clear", hint="give one of --from-warehouse, --from-rest, --from-hive, --resume"
        )
    if resume is not None:
        started = this.client.imports.resume(name, resume)
    else:
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
        )
        started = this.client.imports.start(name, *named[0], options)
    if no_wait:
        said = f"import {started.id} runs; watch it with `firn catalog import {name} --resume {started.id}`"
        this.show.emit(started.json_value(), lambda: this.show.line(said))
        return
    _tell(this, name, watch_operation(this, started))


def _tell(this: Told, catalog: str, ended: Operation) -> None:
    show = this.show
    entries = [one for one in this.client.imports.entries(catalog, ended.id) if one.kind != "namespace"]
    is_plan = bool(ended.result.get("dry_run"))
    show.emit(
        {"operation": ended.json_value(), "entries": [one.json_value() for one in entries]},
        lambda: _show(this, ended, entries if is_plan else [one for one in entries if _is_worth_a_line(one)]),
    )
    check_operation(ended)
    if any(one.state in NEEDS_A_PERSON for one in entries):
        raise typer.Exit(1)


def _show(this: Told, ended: Operation, entries: list[ImportEntry]) -> None:
    show = this.show
    if entries:
        rows = [(one.name, one.kind, one.state, _remark(one), one.metadata_location) for one in entries]
        show.table(("table", "kind", "state", "because", "metadata"), rows, none="")
    counts = ended.result.get("counts", {})
    show.line(", ".join(f"{state} {count:,}" for state, count in counts.items()) or "nothing was found")
    for note in (*ended.result.get("notes", ()), *([ended.hint] if ended.hint else [])):
        show.note(f"note: {note}")


def _is_worth_a_line(entry: ImportEntry) -> bool:
    return entry.state not in ("registered", "there") or bool(entry.reason or entry.warnings)


def _remark(entry: ImportEntry) -> str | None:
    return "; ".join([*([entry.reason] if entry.reason else []), *entry.warnings]) or None
