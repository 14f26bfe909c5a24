"""`firn table …`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from firn.cli import blockers, health, lineage
from firn.cli.columns import parse_columns, parse_pairs
from firn.cli.context import CliContext, command
from firn.cli.describe import add_table_to as add_describe_to
from firn.cli.dropped import add_to, list_dropped
from firn.cli.keys import add_to as add_keys_to
from firn.cli.keys import describe_keys
from firn.cli.orphans import add_to as add_orphans_to
from firn.cli.show import Show, moment, size
from firn.cli.table_jobs import run_job
from firn.errors import Invalid
from firn.protocol.answers.tables import TableOut
from firn.protocol.tables import Sort, TableKind
from firn.protocol.tasks.files import RewriteStrategy
from firn.protocol.tasks.merge import MergeMode

app = typer.Typer(help="Manage plain and keyed tables.", no_args_is_help=True)
add_to(app)
health.add_to(app)
lineage.add_to(app)
blockers.add_to(app)
add_orphans_to(app)
add_keys_to(app)
add_describe_to(app)

TableArg = Annotated[str, typer.Argument(metavar="TABLE", help="NAMESPACE.TABLE or CATALOG.NAMESPACE.TABLE")]
Limit = Annotated[int, typer.Option(min=1, help="The largest number of entries to show.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what the command would do, and change nothing.")]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Return at once; `firn job show` shows the progress.")]


@command(app, "list")
def list_tables(  # noqa: PLR0913 -- its options are what people type
    ctx: CliContext,
    namespace: Annotated[str | None, typer.Argument(help="List only tables of this namespace.")] = None,
    kind: Annotated[TableKind | None, typer.Option(help="Show only this kind; may be repeated.")] = None,
    search: Annotated[str | None, typer.Option(help="List only names that contain this text.")] = None,
    health_below: Annotated[
        int | None, typer.Option(min=0, max=101, help="List only tables with a lower health score.")
    ] = None,
    sort: Annotated[Sort, typer.Option(help="Order of the list: the worst, largest or newest first.")] = Sort.NAME,
    limit: Limit = 1000,
    *,
    dropped: Annotated[bool, typer.Option("--dropped", help="List dropped tables that can be restored.")] = False,
) -> None:
    """List tables."""
    show = ctx.show
    if dropped:
        if kind is not None:
            raise Invalid("--dropped and --kind exclude each other", hint="leave --kind out")
        list_dropped(ctx, namespace=namespace, search=search, limit=limit)
        return
    relations = ctx.client.tables.list(
        namespace=namespace, kind=kind, search=search, health_below=health_below, sort=sort, limit=limit + 1
    )
    tables = show.first(relations, limit)
    rows = [
        (
            table.full_name,
            table.kind,
            table.records,
            size(table.bytes),
            table.data_files,
            table.pending_rows,
            table.health,
            moment(table.last_commit_at),
        )
        for table in tables
    ]
    columns = ("table", "kind", "rows", "size", "files", "pending", "health", "last commit")
    none = f"no tables in {ctx.client.catalog}" + (f".{namespace}" if namespace else "")
    show.emit([table.json_value() for table in tables], lambda: show.table(columns, rows, none=none))


@command(app, "show")
def show_table(ctx: CliContext, table: TableArg) -> None:
    """Show everything about a table."""
    show, loaded = ctx.show, ctx.client.tables[table].show()
    show.emit(loaded.json_value(), lambda: _show(show, loaded))


@command(app, "create")
def create_table(  # noqa: PLR0913, PLR0917 -- its options are what people type
    ctx: CliContext,
    table: TableArg,
    columns: Annotated[
        str | None, typer.Option(help="Columns, such as 'id long, day date, amount decimal(10,2)'.")
    ] = None,
    schema: Annotated[
        Path | None, typer.Option(help="File with the columns, or with a CREATE TABLE statement.")
    ] = None,
    like: Annotated[str | None, typer.Option(help="Copy the columns and partitioning of this table.")] = None,
    primary_key: Annotated[
        str, typer.Option(help="Key columns, separated by commas. The table is then a keyed table.")
    ] = "",
    sequence_field: Annotated[str | None, typer.Option(help="Column that decides which change is newer.")] = None,
    partition_by: Annotated[
        list[str] | None, typer.Option(help="Partition transform, such as days(created_at); may be repeated.")
    ] = None,
    property: Annotated[list[str] | None, typer.Option(help="KEY=VALUE; may be repeated.")] = None,
) -> None:
    """Create a table. With --primary-key it is a keyed table."""
    client, show = ctx.client, ctx.show
    if sum(source is not None for source in (columns, schema, like)) != 1:
        raise Invalid("a new table needs columns", hint="give one of --columns, --schema and --like")
    partitioning = list(partition_by or [])
    if like is not None:
        model = client.tables[like].show()
        parsed = [{"name": column.name, "type": column.type, "comment": column.comment} for column in model.columns]
        partitioning = partitioning or model.partition_by
    else:
        parsed = parse_columns(columns or "" if schema is None else _read_file(schema))
    created = client.tables.create(
        table,
        parsed,
        primary_key=_split_names(primary_key),
        sequence_field=sequence_field,
        partition_by=partitioning,
        properties=parse_pairs(property),
    )
    name = f"{created.catalog}.{created.full_name}"
    show.emit(created.json_value(), lambda: show.line(f"created {created.kind} table {name}"))


@command(app, "files")
def list_files(ctx: CliContext, table: TableArg, limit: Limit = 1000) -> None:
    """List the data and delete files of a table; for a keyed table, of both stores."""
    show = ctx.show
    files = show.first(ctx.client.files(table), limit)
    rows = [
        (file["store"], file["content"], file["records"], size(file["bytes"]), file["partition"], file["path"])
        for file in files
    ]
    columns = ("store", "content", "rows", "size", "partition", "file")
    show.emit(files, lambda: show.table(columns, rows, none="no files"))


@command(app, "snapshots")
def list_snapshots(ctx: CliContext, table: TableArg) -> None:
    """List snapshots, newest first; for a keyed table, of both stores."""
    show, snapshots = ctx.show, ctx.client.tables[table].get("/snapshots")
    rows = [
        (
            snapshot["store"],
            snapshot["snapshot_id"],
            snapshot["sequence_number"],
            moment(snapshot["committed_at"]),
            snapshot["operation"],
            snapshot["refs"],
        )
        for snapshot in snapshots
    ]
    columns = ("store", "snapshot", "sequence", "when", "operation", "refs")
    show.emit(snapshots, lambda: show.table(columns, rows, none="no snapshots yet"))


@command(app, "properties")
def change_properties(
    ctx: CliContext,
    table: TableArg,
    set: Annotated[list[str] | None, typer.Option(help="KEY=VALUE; may be repeated.")] = None,
    remove: Annotated[list[str] | None, typer.Option(help="KEY to remove; may be repeated.")] = None,
) -> None:
    """Show a table's properties, or change them."""
    show, handle = ctx.show, ctx.client.tables[table]
    changed = handle.set_properties(parse_pairs(set), remove or []) if set or remove else handle.show()
    rows = sorted(changed.properties.items())
    show.emit(changed.properties, lambda: show.table(("property", "value"), rows, none="no properties"))


@command(app, "merge", waits=True)
def merge_table(
    ctx: CliContext,
    table: TableArg,
    mode: Annotated[MergeMode | None, typer.Option(help="How the merge writes the base store.")] = None,
    *,
    dry_run: DryRun = False,
    no_wait: NoWait = False,
) -> None:
    """Merge pending changes into the base store now."""
    options = {} if mode is None else {"mode": mode}
    run_job(ctx, table, "merge", options, dry_run=dry_run, wait=not no_wait)


@command(app, "rewrite", waits=True)
def rewrite_table(  # noqa: PLR0913 (one for each choice)
    ctx: CliContext,
    table: TableArg,
    strategy: Annotated[
        RewriteStrategy | None, typer.Option(help="Pack files only, or also sort or z-order the rows.")
    ] = None,
    sort_by: Annotated[
        str, typer.Option(help="Columns to sort by, separated by commas (default: the table's sort order).")
    ] = "",
    where: Annotated[
        str | None, typer.Option(help="SQL condition: rewrite only files that may hold such rows.")
    ] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Rewrite files of any size.")] = False,
    dry_run: DryRun = False,
    no_wait: NoWait = False,
) -> None:
    """Rewrite small files, and files with many deleted rows, now."""
    settings = {"strategy": strategy, "sort_order": _split_names(sort_by), "where": where, "everything": everything}
    options = {key: value for key, value in settings.items() if value not in (None, [], False)}
    run_job(ctx, table, "rewrite", options, dry_run=dry_run, wait=not no_wait)


@command(app, "compact", waits=True)
def compact_table(ctx: CliContext, table: TableArg, *, dry_run: DryRun = False, no_wait: NoWait = False) -> None:
    """Pack the small files of a keyed table's change store now."""
    run_job(ctx, table, "compact", dry_run=dry_run, wait=not no_wait)


@command(app, "rewrite-deletes", waits=True)
def pack_deletes(ctx: CliContext, table: TableArg, *, dry_run: DryRun = False, no_wait: NoWait = False) -> None:
    """Pack delete files now, and drop those that no longer apply to any row."""
    run_job(ctx, table, "rewrite-deletes", dry_run=dry_run, wait=not no_wait)


@command(app, "rewrite-manifests", waits=True)
def rewrite_manifests(ctx: CliContext, table: TableArg, *, dry_run: DryRun = False, no_wait: NoWait = False) -> None:
    """Rewrite the manifests of a table now: fewer, and grouped by partition."""
    run_job(ctx, table, "rewrite-manifests", dry_run=dry_run, wait=not no_wait)


@command(app, "clean", waits=True)
def clean_table(ctx: CliContext, table: TableArg, *, dry_run: DryRun = False, no_wait: NoWait = False) -> None:
    """Drop merged files from the change store's current snapshot now."""
    run_job(ctx, table, "clean", dry_run=dry_run, wait=not no_wait)


@command(app, "expire", waits=True)
def expire_table(ctx: CliContext, table: TableArg, *, dry_run: DryRun = False, no_wait: NoWait = False) -> None:
    """Remove old snapshots, and the files that only they need, now."""
    run_job(ctx, table, "expire", dry_run=dry_run, wait=not no_wait)


@command(app, "ttl", waits=True)
def delete_old_rows(ctx: CliContext, table: TableArg, *, dry_run: DryRun = False, no_wait: NoWait = False) -> None:
    """Delete rows that are older than firn.ttl.max-age now."""
    run_job(ctx, table, "ttl", dry_run=dry_run, wait=not no_wait)


@command(app, "tags", waits=True)
def make_tags(ctx: CliContext, table: TableArg, *, dry_run: DryRun = False, no_wait: NoWait = False) -> None:
    """Create the tags that firn.tags.schedule asks for now, and drop expired ones."""
    run_job(ctx, table, "tags", dry_run=dry_run, wait=not no_wait)


@command(app, "statistics", waits=True)
def count_values(ctx: CliContext, table: TableArg, *, dry_run: DryRun = False, no_wait: NoWait = False) -> None:
    """Count distinct values of firn.statistics.columns, or of all columns, now."""
    run_job(ctx, table, "statistics", dry_run=dry_run, wait=not no_wait)


def _show(show: Show, table: TableOut) -> None:
    show.facts(_table_facts(table))
    heads: tuple[str, ...] = ("column", "type", "", "comment")
    columns: list[tuple[object, ...]] = [
        (column.name, column.type, "key" if column.is_key else "", column.comment or "") for column in table.columns
    ]
    if table.properties.get("firn.partial") == "true":  # changes name the columns that they set by their ids
        heads = ("id", *heads)
        columns = [(column.id, *cells) for column, cells in zip(table.columns, columns, strict=True)]
    show.table(heads, columns, none="no columns")
    stores = [
        (
            role,
            f"v{store.format_version}",
            store.records,
            size(store.bytes),
            store.data_files,
            store.delete_files,
            store.snapshots,
            store.location,
        )
        for role, store in table.stores.items()
    ]
    show.table(("store", "format", "rows", "size", "files", "deletes", "snapshots", "location"), stores, none="")


def _table_facts(table: TableOut) -> dict[str, object]:
    pending, job = table.pending_rows, table.active_job
    return {
        "table": f"{table.catalog}.{table.full_name}",
        "kind": table.kind,
        "primary key": table.primary_key or None,
        "sequence field": table.sequence_field,
        "insert-only": "the first row of a key wins" if table.properties.get("firn.insert-only") == "true" else None,
        "reads hide": table.hides,
        "keys": None if table.keys is None else describe_keys(table.keys),
        "partitioned by": table.partition_by or None,
        "rows": table.records,
        "size": size(table.bytes),
        "pending": f"{pending:,} rows since {moment(table.pending_since)}" if pending else None,
        "watermark": table.watermark,
        "version": table.version if table.kind == "keyed" else None,
        "upgraded from": table.hive_name,
        "last commit": table.last_commit_at,
        "next": ("due now: " if table.next.due else "") + table.next.reason,
        "job": None if job is None else f"{job.kind} {job.status}",
    }


def _split_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _read_file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"cannot read {path}: {error}", hint="give a text file with the columns") from error
