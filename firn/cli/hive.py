"""`firn hive …`"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated, Any

import typer

from firn.cli.columns import parse_pairs
from firn.cli.context import CliContext, command
from firn.cli.hive_key_count import count_keys
from firn.cli.hive_report import show_column_differences, show_report
from firn.cli.hive_status import (
    describe_downgrade_wait,
    describe_drift,
    describe_publish_gap,
    describe_publish_preview,
    describe_publish_request,
    describe_superseded_directories,
    load_publish_gap,
)
from firn.cli.show import moment
from firn.cli.watch import check_operation, note_missing_optimizers, watch_job, watch_operation, watch_publish
from firn.errors import FirnError, NotFound
from firn.protocol.answers.jobs import JobOut
from firn.transport import Json

app = typer.Typer(help="Manage the tables of the catalog's Hive Metastore.", no_args_is_help=True)

Tables = Annotated[list[str], typer.Argument(metavar="TABLE…", help="DATABASE.TABLE, or a pattern such as 'sales.*'")]
PATTERN = "*?["
_CHANGES = {
    "added": "Hive added files",
    "new": "Hive created the partition",
    "rebuilt": "Hive replaced files",
    "dropped": "Hive dropped the partition",
    "late": "a late writer added files to a superseded directory",
    "published": "published to Hive",
}


class Subdirectories(StrEnum):
    """Whether Firn reads or ignores files in sub-directories."""

    READ = "read"
    IGNORE = "ignore"


SubdirectoriesOption = Annotated[
    Subdirectories | None,
    typer.Option(help="Read or ignore files in sub-directories, as Hive is configured to."),
]


PropertiesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        help="KEY=VALUE of the upgraded table, such as firn.log.topic=orders, which is fixed then; may be repeated.",
    ),
]


def build_properties(texts: list[str] | None, subdirectories: Subdirectories | None) -> dict[str, str]:
    """The properties of an upgraded table; Invalid for a text that is no KEY=VALUE."""
    chosen = {} if subdirectories is None else {"firn.hive.subdirectories": str(subdirectories)}
    return parse_pairs(texts) | chosen


@command(app, "list")
def list_hive(
    ctx: CliContext,
    pattern: Annotated[str, typer.Argument(help="Pattern of names, such as 'sales.*'.")] = "*",
    *,
    refresh: Annotated[bool, typer.Option("--refresh", help="List the metastore anew first.")] = False,
) -> None:
    """List the tables of the metastore with their state."""
    show = ctx.show
    if refresh:
        ctx.client.hive.refresh()
    tables = [table for table in ctx.client.hive.list() if fnmatchcase(_name(table), pattern)]
    rows = [
        (
            _name(table),
            table["format"],
            table["partition_columns"],
            table["state"],
            table["upgraded_to"],
            "; ".join(blocker["message"] for blocker in table["blockers"]) or table["drift"],
        )
        for table in tables
    ]
    _warn_metastore_down(ctx)
    columns = ("table", "format", "partitioned by", "state", "upgraded to", "why not, or drift")
    none = "no tables; the server lists new tables within a minute, or at once with --refresh"
    show.emit(tables, lambda: show.table(columns, rows, none=none))


@command(app, "show")
def show_hive(ctx: CliContext, table: Annotated[str, typer.Argument(help="DATABASE.TABLE")]) -> None:
    """Show the state of a table, and the columns that differ between Firn and Hive."""
    show, status = ctx.show, ctx.client.hive.show(table)
    superseded = ctx.client.hive.superseded_directories(table) if status["published_at"] else None
    is_plain = status["upgraded_to"] is not None and status["unpublished"] is None
    gap = load_publish_gap(ctx, table) if is_plain else None

    def people() -> None:
        names = ("state", "format", "location", "partition_columns", "upgraded_to")
        facts = {name.replace("_", " "): status[name] for name in names}
        facts |= {f"{action} at": moment(status[f"{action}_at"]) for action in ("synced", "published")}
        lock_warning = {"last publish": f"without a lock: {status['lock_warning']}"} if status["lock_warning"] else {}
        show.facts(
            {
                "table": _name(status),
                **facts,
                **describe_drift(status),
                **describe_publish_gap(status, gap),
                **describe_publish_request(status),
                **lock_warning,
                **describe_superseded_directories(superseded),
            }
        )
        show_column_differences(ctx, status["column_differences"])

    show.emit({**status, "superseded_directories": superseded, "behind": gap}, people)


@command(app, "history")
def history_hive(
    ctx: CliContext,
    table: Annotated[str, typer.Argument(help="DATABASE.TABLE")],
    partition: Annotated[str | None, typer.Option(help="List only this partition, such as day=2026-11-21.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="The largest number of entries to show.")] = 50,
) -> None:
    """List the changes of syncs and publishes by partition, newest first."""
    show = ctx.show
    entries = show.first(ctx.client.hive.history(table, partition=partition), limit)
    rows = [
        (
            moment(entry["at"]),
            _CHANGES[entry["kind"]],
            f"{entry['partitions']:,} others"
            if entry["partition"] is None
            else entry["partition"] or "the whole table",
            entry["files"],
            entry["rows"],
            entry["snapshot_id"],
        )
        for entry in entries
    ]
    columns = ("when", "what", "partition", "files", "rows", "snapshot")
    none = "no sync or publish has changed anything since the upgrade"
    show.emit(entries, lambda: show.table(columns, rows, none=none))


@command(app, "check", waits=True)
def check_hive(
    ctx: CliContext,
    tables: Tables,
    primary_key: Annotated[str, typer.Option(help="Key columns to check, separated by commas.")] = "",
    subdirectories: SubdirectoriesOption = None,
    properties: PropertiesOption = None,
    *,
    unique: Annotated[
        bool, typer.Option("--unique", help="Read all rows, and count duplicate keys and nulls in the key.")
    ] = False,
) -> None:
    """Check whether tables can be upgraded, and what prevents it. Nothing changes."""
    show = ctx.show
    key, chosen = split_names(primary_key), build_properties(properties, subdirectories)
    if unique:
        count_keys(ctx, _match_names(ctx, tables), key, chosen)
        return
    reports = [ctx.client.hive.check(name, primary_key=key, properties=chosen) for name in _match_names(ctx, tables)]

    def people() -> None:
        for report in reports:
            show_report(ctx, report)

    show.emit(reports, people)
    if not all(report["eligible"] for report in reports):
        raise typer.Exit(1)


@command(app, "sync", waits=True)
def sync_hive(
    ctx: CliContext,
    tables: Tables,
    *,
    everything: Annotated[
        bool, typer.Option("--everything", help="List every directory, even if the metastore reports no change.")
    ] = False,
) -> None:
    """Apply the changes that Hive-side writers made since the last sync."""
    show = ctx.show
    done = []
    for name in _match_names(ctx, tables, only_upgraded=True):
        synced = ctx.client.hive.sync(name, everything=everything)
        if synced["job"] is not None:
            synced["job"] = watch_job(ctx, JobOut.read(synced["job"])).json_value()
        done.append(synced)
    rows = [
        (result["table"], result["outcome"], result["message"], result["job"] and result["job"]["status"])
        for result in done
    ]
    show.emit(done, lambda: show.table(("table", "outcome", "message", "job"), rows, none="nothing to sync"))
    if any(result["conflict"] or (result["job"] and result["job"]["status"] == "failed") for result in done):
        raise typer.Exit(1)


@command(app, "publish", waits=True)
def publish_hive(
    ctx: CliContext,
    tables: Tables,
    *,
    merge: Annotated[bool, typer.Option(help="Merge pending changes before the publish.")] = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what differs and which permissions Firn may set; publish nothing.")
    ] = False,
) -> None:
    """Publish changes to Hive: write the changed partitions for Hive and point the metastore at them."""
    show = ctx.show
    if dry_run:
        _preview_publish(ctx, _match_names(ctx, tables, only_upgraded=True))
        return
    done = [_publish(ctx, name, merge=merge) for name in _match_names(ctx, tables, only_upgraded=True)]
    rows = [
        (
            result["table"],
            result["step"],
            result["message"],
            result["job"] and result["job"]["status"],
            result["not_in_hive"],
        )
        for result in done
    ]
    columns = ("table", "step", "message", "job", "not published yet")
    show.emit(done, lambda: show.table(columns, rows, none="nothing to publish"))
    if any(result["step"] == "failed" for result in done):
        raise typer.Exit(1)


@command(app, "downgrade", waits=True)
def downgrade_hive(
    ctx: CliContext,
    tables: Tables,
    *,
    wait_for_writers: Annotated[
        bool, typer.Option(help="Wait for Hive jobs that started before the last publish.")
    ] = True,
    purge: Annotated[
        bool, typer.Option("--purge", help="Delete Firn's own files when the retention of the dropped table ends.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the remaining steps, and change nothing.")] = False,
) -> None:
    """Downgrade tables: publish all changes to Hive, and drop the tables from Firn."""
    show, names = ctx.show, _match_names(ctx, tables, only_upgraded=True)
    if dry_run:
        _show_remaining_steps(ctx, names)
        return
    started = [ctx.client.hive.downgrade(name, wait_for_writers=wait_for_writers, purge=purge) for name in names]
    done: list[Json] = []
    problems: list[FirnError] = []
    for operation in started:
        try:
            ended = watch_operation(ctx, operation)
            check_operation(ended)
        except FirnError as error:
            problems.append(error)
            continue
        done.append(ended.json_value())
        until = moment(ended.result["kept_until"])
        show.note(
            f"{operation.target} is a plain Hive table again; `firn table undrop` restores it in Firn until {until}"
        )
    show.emit(done, lambda: None)
    _raise_all(problems, tables=len(started))


def _show_remaining_steps(ctx: CliContext, names: list[str]) -> None:
    previews = [ctx.client.hive.preview_downgrade(name) for name in names]
    rows = [
        (
            preview["table"],
            preview["partitions"],
            preview["pending_rows"],
            preview["differing"],
            moment(preview["ends_after"]),
            preview["blocked"] or preview["drift"],
        )
        for preview in previews
    ]
    columns = ("table", "partitions", "rows to merge", "partitions to publish", "ends after", "to fix first")

    def people() -> None:
        ctx.show.table(columns, rows, none="no table to downgrade")
        for preview in previews:
            for line in describe_downgrade_wait(preview):
                ctx.show.note(line)

    ctx.show.emit(previews, people)


def _warn_metastore_down(ctx: CliContext) -> None:
    """Warn that the list is old while the metastore does not answer."""
    outage = ctx.client.catalogs.get(ctx.catalog).metastore_down
    if outage is not None:
        ctx.show.warn(
            f"the metastore of {ctx.catalog} has not answered since {moment(outage.since)}; the list shows its tables "
            f"at that time: {outage.reason}"
        )


def _publish(ctx: CliContext, name: str, *, merge: bool) -> Json:
    """Publish a table and wait for the end. Returns the outcome, the last job, and the changes that Hive still lacks.

    The server itself continues from the merge to the publish.
    """
    requested = ctx.client.hive.publish(name, merge=merge)
    if requested["job"] is not None:
        note_missing_optimizers(ctx, JobOut.read(requested["job"]))
    ended = watch_publish(ctx, name)
    return {
        "table": requested["table"],
        "step": ended["step"],
        "message": ended["message"],
        "job": None if ended["job_id"] is None else ctx.client.jobs.get(ended["job_id"]).json_value(),
        "not_in_hive": describe_publish_gap(ctx.client.hive.show(name)).get("not published yet"),
    }


def _preview_publish(ctx: CliContext, names: Sequence[str]) -> None:
    """Show what a publish has to do. Exits with 1 if one would fail."""
    previews = [ctx.client.hive.preview_publish(name, permissions=True) for name in names]

    def people() -> None:
        for preview in previews:
            ctx.show.facts(describe_publish_preview(preview))

    ctx.show.emit(previews, people)
    if any(preview["permissions"] and preview["permissions"]["refused"] for preview in previews):
        raise typer.Exit(1)


def _match_names(ctx: CliContext, patterns: list[str], *, only_upgraded: bool = False) -> list[str]:
    """Keep plain names and replace patterns by the matching tables; raise NotFound if a pattern matches nothing."""
    tables: dict[str, None] = {}
    for pattern in patterns:
        if not any(sign in pattern for sign in PATTERN):
            tables[pattern] = None
            continue
        hive_tables = ctx.client.hive.list()
        names = [_name(table) for table in hive_tables if not only_upgraded or table["state"] == "upgraded"]
        matching = [name for name in names if fnmatchcase(name, pattern)]
        if not matching:
            raise NotFound(f"no Hive table matches {pattern!r}", hint="`firn hive list --refresh` lists all tables")
        tables |= dict.fromkeys(matching)
    return list(tables)


def _raise_all(problems: list[FirnError], *, tables: int) -> None:
    if len(problems) == 1:
        raise problems[0]
    if problems:
        messages = "".join(f"\n      {error.message}" for error in problems)
        raise FirnError(f"{len(problems)} of {tables} downgrades failed:{messages}", hint=problems[0].hint)


def _name(table: Any) -> str:
    return f"{table['database']}.{table['name']}"


def split_names(text: str) -> list[str]:
    """Split names at commas."""
    return [name.strip() for name in text.split(",") if name.strip()]
