"""`firn hive …`"""

from __future__ import annotations

from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated, Any

import typer

from firn.cli.context import CliContext, command
from firn.cli.hive_report import show_column_differences, show_report
from firn.cli.hive_status import (
    describe_drift,
    describe_publish_gap,
    describe_publish_request,
    describe_retired_directories,
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
_DID = {
    "added": "Hive added files",
    "new": "Hive made it",
    "rebuilt": "Hive replaced files",
    "dropped": "Hive dropped it",
    "late": "a late writer added files where it was before",
    "published": "published to Hive",
}


class Subdirectories(StrEnum):
    """What is done with files in sub-directories."""

    READ = "read"
    IGNORE = "ignore"


SubdirectoriesOption = Annotated[
    Subdirectories | None,
    typer.Option(help="Read or ignore files in sub-directories, as Hive is configured to."),
]


def properties_of(subdirectories: Subdirectories | None) -> dict[str, str]:
    """As a table keeps it."""
    return {} if subdirectories is None else {"firn.hive.subdirectories": str(subdirectories)}


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
    found = [one for one in ctx.client.hive.list() if fnmatchcase(_name(one), pattern)]
    rows = [
        (
            _name(one),
            one["format"],
            one["partition_columns"],
            one["state"],
            one["upgraded_to"],
            "; ".join(blocker["message"] for blocker in one["blockers"]) or one["drift"],
        )
        for one in found
    ]
    _note_away(ctx)
    columns = ("table", "format", "partitioned by", "state", "upgraded to", "why not, or drift")
    none = "no tables; a new one is seen within a minute, or at once with --refresh"
    show.emit(found, lambda: show.table(columns, rows, none=none))


@command(app, "show")
def show_hive(ctx: CliContext, table: Annotated[str, typer.Argument(help="DATABASE.TABLE")]) -> None:
    """Show the state of a table, and the columns that differ between Firn and Hive."""
    show, found = ctx.show, ctx.client.hive.show(table)
    retired = ctx.client.hive.retired_directories(table) if found["published_at"] else None
    is_plain = found["upgraded_to"] is not None and found["unpublished"] is None
    behind = load_publish_gap(ctx, table) if is_plain else None

    def people() -> None:
        names = ("state", "format", "location", "partition_columns", "upgraded_to")
        facts = {name.replace("_", " "): found[name] for name in names}
        facts |= {f"{did} at": moment(found[f"{did}_at"]) for did in ("synced", "published")}
        lock_warning = {"last publish": f"without a lock: {found['lock_warning']}"} if found["lock_warning"] else {}
        show.facts(
            {
                "table": _name(found),
                **facts,
                **describe_drift(found),
                **describe_publish_gap(found, behind),
                **describe_publish_request(found),
                **lock_warning,
                **describe_retired_directories(retired),
            }
        )
        show_column_differences(ctx, found["column_differences"])

    show.emit({**found, "retired_directories": retired, "behind": behind}, people)


@command(app, "history")
def history_hive(
    ctx: CliContext,
    table: Annotated[str, typer.Argument(help="DATABASE.TABLE")],
    partition: Annotated[str | None, typer.Option(help="List only this partition, such as day=2026-11-21.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="The largest number of entries to show.")] = 50,
) -> None:
    """List the changes of syncs and publishes by partition, newest first."""
    show = ctx.show
    found = show.first(ctx.client.hive.history(table, partition=partition), limit)
    rows = [
        (
            moment(one["at"]),
            _DID[one["kind"]],
            f"{one['partitions']:,} others" if one["partition"] is None else one["partition"] or "the whole table",
            one["files"],
            one["rows"],
            one["snapshot_id"],
        )
        for one in found
    ]
    columns = ("when", "what", "partition", "files", "rows", "snapshot")
    none = "nothing has been synced or published since the upgrade"
    show.emit(found, lambda: show.table(columns, rows, none=none))


@command(app, "check")
def check_hive(
    ctx: CliContext,
    tables: Tables,
    primary_key: Annotated[str, typer.Option(help="Key columns to check, separated by commas.")] = "",
    subdirectories: SubdirectoriesOption = None,
) -> None:
    """Check whether tables can be upgraded, and what prevents it. Nothing changes."""
    show = ctx.show
    key, properties = names(primary_key), properties_of(subdirectories)
    reports = [ctx.client.hive.check(name, primary_key=key, properties=properties) for name in _matching(ctx, tables)]

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
    for name in _matching(ctx, tables, only_upgraded=True):
        synced = ctx.client.hive.sync(name, everything=everything)
        if synced["job"] is not None:
            synced["job"] = watch_job(ctx, JobOut.read(synced["job"])).json_value()
        done.append(synced)
    rows = [(one["table"], one["outcome"], one["message"], one["job"] and one["job"]["status"]) for one in done]
    show.emit(done, lambda: show.table(("table", "outcome", "message", "job"), rows, none="nothing to sync"))
    if any(one["conflict"] or (one["job"] and one["job"]["status"] == "failed") for one in done):
        raise typer.Exit(1)


@command(app, "publish", waits=True)
def publish_hive(
    ctx: CliContext,
    tables: Tables,
    *,
    merge: Annotated[bool, typer.Option(help="Merge pending changes before the publish.")] = True,
) -> None:
    """Publish changes to Hive: write the changed partitions for Hive and point the metastore at them."""
    show = ctx.show
    done = [_published(ctx, name, merge=merge) for name in _matching(ctx, tables, only_upgraded=True)]
    rows = [
        (one["table"], one["step"], one["message"], one["job"] and one["job"]["status"], one["not_in_hive"])
        for one in done
    ]
    columns = ("table", "step", "message", "job", "not in Hive yet")
    show.emit(done, lambda: show.table(columns, rows, none="nothing to publish"))
    if any(one["step"] == "failed" for one in done):
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
    show, names = ctx.show, _matching(ctx, tables, only_upgraded=True)
    if dry_run:
        _tell_what_is_left(ctx, names)
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
        show.note(f"{operation.target} is Hive's alone; until {until} `firn table undrop` brings it back here")
    show.emit(done, lambda: None)
    _raise_all(problems, of=len(problems) + len(done), what="downgrades")


def _tell_what_is_left(ctx: CliContext, names: list[str]) -> None:
    left = [ctx.client.hive.left_to_do(name) for name in names]
    rows = [
        (
            one["table"],
            one["partitions"],
            one["pending_rows"],
            one["differing"],
            one["grace_until"],
            one["blocked"] or one["drift"],
        )
        for one in left
    ]
    columns = ("table", "partitions", "rows to merge", "partitions to publish", "grace period ends", "to mend first")
    ctx.show.emit(left, lambda: ctx.show.table(columns, rows, none="nothing to downgrade"))


def _note_away(ctx: CliContext) -> None:
    """That what is listed is old, where it is."""
    away = ctx.client.catalogs.get(ctx.catalog).metastore_down
    if away is not None:
        ctx.show.once(
            f"the metastore of {ctx.catalog} has not answered since {moment(away.since)}, and tables are listed as "
            f"they were then: {away.reason}"
        )


def _published(ctx: CliContext, name: str, *, merge: bool) -> Json:
    """What became of it, with its last job, and what Hive lacks then: the server goes from the merge to the publish."""
    told = ctx.client.hive.publish(name, merge=merge)
    if told["job"] is not None:
        note_missing_optimizers(ctx, JobOut.read(told["job"]))
    over = watch_publish(ctx, name)
    job = None if over["job_id"] is None else ctx.client.jobs.get(over["job_id"]).json_value()
    left = describe_publish_gap(ctx.client.hive.show(name)).get("not in Hive yet")
    return {"table": told["table"], "step": over["step"], "message": over["message"], "job": job, "not_in_hive": left}


def _matching(ctx: CliContext, patterns: list[str], *, only_upgraded: bool = False) -> list[str]:
    """Names as they are, patterns as what they match; NotFound when a pattern matches nothing."""
    wanted: dict[str, None] = {}
    for pattern in patterns:
        if not any(sign in pattern for sign in PATTERN):
            wanted[pattern] = None
            continue
        listed = ctx.client.hive.list()
        found = [_name(one) for one in listed if not only_upgraded or one["state"] == "upgraded"]
        matching = [name for name in found if fnmatchcase(name, pattern)]
        if not matching:
            raise NotFound(f"no Hive table matches {pattern!r}", hint="`firn hive list --refresh` shows what there is")
        wanted |= dict.fromkeys(matching)
    return list(wanted)


def _raise_all(problems: list[FirnError], *, of: int, what: str) -> None:
    if len(problems) == 1:
        raise problems[0]
    if problems:
        said = "".join(f"\n      {error.message}" for error in problems)
        raise FirnError(f"{len(problems)} of {of} {what} failed:{said}", hint=problems[0].hint)


def _name(table: Any) -> str:
    return f"{table['database']}.{table['name']}"


def names(listed: str) -> list[str]:
    return [name.strip() for name in listed.split(",") if name.strip()]
