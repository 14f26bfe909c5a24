"""`firn hive …`"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated, Any

import typer

from firn.cli.show import size
from firn.cli.told import Told, command
from firn.cli.watch import check_operation, watch_job, watch_operation
from firn.errors import FirnError, Invalid, NotFound
from firn.transport import Json
from firn.wire import Job, JobStatus

app = typer.Typer(help="Tables of the catalog's Hive Metastore.", no_args_is_help=True)

Tables = Annotated[list[str], typer.Argument(metavar="TABLE…", help="DATABASE.TABLE, or a pattern such as 'sales.*'")]
_PATTERN = "*?["


@command(app, "list")
def list_hive(
    this: Told,
    pattern: Annotated[str, typer.Argument(help="Such as 'sales.*'.")] = "*",
    *,
    refresh: Annotated[bool, typer.Option("--refresh", help="Ask the metastore first.")] = False,
) -> None:
    """List the metastore's tables and where each stands."""
    show = this.show
    if refresh:
        this.client.hive.refresh()
    found = [one for one in this.client.hive.list() if fnmatchcase(_name(one), pattern)]
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
    columns = ("table", "format", "partitioned by", "state", "upgraded to", "why not, or drift")
    none = "no tables; a new one is seen within a minute, or at once with --refresh"
    show.emit(found, lambda: show.table(columns, rows, none=none))


@command(app, "check")
def check_hive(
    this: Told,
    tables: Tables,
    primary_key: Annotated[str, typer.Option(help="The key to look at: columns, separated by commas.")] = "",
) -> None:
    """Say whether tables can be upgraded, and what stands in the way; changes nothing."""
    show = this.show
    reports = [this.client.hive.check(name, primary_key=_names(primary_key)) for name in _matching(this, tables)]

    def people() -> None:
        for report in reports:
            _tell_report(this, report)

    show.emit(reports, people)
    if not all(report["eligible"] for report in reports):
        raise typer.Exit(1)


@command(app, "upgrade", waits=True)
def upgrade_hive(
    this: Told,
    tables: Tables,
    primary_key: Annotated[str, typer.Option(help="Columns, separated by commas: makes keyed tables.")] = "",
    sequence_field: Annotated[str | None, typer.Option(help="Column that decides which change is newer.")] = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only the report; changes nothing.")] = False,
) -> None:
    """Make Hive tables Firn tables in place: their files are registered where they are, none is changed."""
    show, keys = this.show, _names(primary_key)
    if dry_run:
        check_hive(this, tables, primary_key)
        return
    if sequence_field is not None and not keys:
        raise Invalid("--sequence-field orders the changes of keys", hint="give --primary-key too")
    done: list[Json] = []
    problems: list[FirnError] = []
    for name in _matching(this, tables):
        try:
            started = this.client.hive.upgrade(name, primary_key=keys, sequence_field=sequence_field)
            ended = watch_operation(this, started)
            check_operation(ended)
        except FirnError as error:
            problems.append(error)
            continue
        done.append(ended.json_value())
        show.note(f"upgraded {name}")
    show.emit(done, lambda: None)
    _raise_all(problems, of=len(problems) + len(done))


@command(app, "sync", waits=True)
def sync_hive(
    this: Told,
    tables: Tables,
    *,
    everything: Annotated[bool, typer.Option("--everything", help="List every directory, whatever Hive says.")] = False,
) -> None:
    """Take over what Hive-side writers did since the last sync."""
    show = this.show
    done = []
    for name in _matching(this, tables, only_upgraded=True):
        synced = this.client.hive.sync(name, everything=everything)
        if synced["job"] is not None:
            synced["job"] = watch_job(this, Job.model_validate(synced["job"])).json_value()
        done.append(synced)
    rows = [(one["table"], one["did"], one["job"] and one["job"]["status"]) for one in done]
    show.emit(done, lambda: show.table(("table", "did", "job"), rows, none="nothing to sync"))
    if any(one["conflict"] or (one["job"] and one["job"]["status"] == "failed") for one in done):
        raise typer.Exit(1)


@command(app, "publish", waits=True)
def publish_hive(
    this: Told,
    tables: Tables,
    *,
    merge: Annotated[bool, typer.Option(help="Whether pending changes are merged first.")] = True,
) -> None:
    """Give Hive what was changed here: merged rows, as files that it reads, where its partitions lie from then on."""
    show = this.show
    done = [_published(this, name, merge=merge) for name in _matching(this, tables, only_upgraded=True)]
    rows = [(one["table"], one["did"], one["job"] and one["job"]["status"]) for one in done]
    show.emit(done, lambda: show.table(("table", "did", "job"), rows, none="nothing to publish"))
    if any(one["job"] and one["job"]["status"] == "failed" for one in done):
        raise typer.Exit(1)


def _published(this: Told, name: str, *, merge: bool) -> Json:
    """What was done, with its job once that has ended; a merge that fails is the end of it."""
    told = this.client.hive.publish(name, merge=merge)
    if told["job"] is None:
        return told
    ended = watch_job(this, Job.model_validate(told["job"]))
    if ended.kind == "merge" and ended.status is JobStatus.SUCCEEDED:
        return _published(this, name, merge=False)
    return {**told, "job": ended.json_value()}


def _matching(this: Told, patterns: list[str], *, only_upgraded: bool = False) -> list[str]:
    """Names as they are, patterns as what they match; NotFound when a pattern matches nothing."""
    names: dict[str, None] = {}
    for pattern in patterns:
        if not any(sign in pattern for sign in _PATTERN):
            names[pattern] = None
            continue
        listed = this.client.hive.list()
        found = [_name(one) for one in listed if not only_upgraded or one["state"] == "upgraded"]
        matching = [name for name in found if fnmatchcase(name, pattern)]
        if not matching:
            raise NotFound(f"no Hive table matches {pattern!r}", hint="`firn hive list --refresh` shows what there is")
        names |= dict.fromkeys(matching)
    return list(names)


def _tell_report(this: Told, report: Json) -> None:
    show = this.show
    show.facts(
        {
            "table": report["table"],
            "becomes": report["target"],
            "format": report["format"],
            "location": report["location"],
            "partitions": report["partitions"],
            "files": f"{report['files']:,} ({size(report['bytes'])})",
            "could be keys": report["primary_key_candidates"] or None,
            "verdict": "can be upgraded" if report["eligible"] else "blocked",
        }
    )
    rows = [(one["status"], one["message"], one["advice"]) for one in report["checks"]]
    show.table(("check", "found", "what to do"), rows, none="")


def _raise_all(problems: list[FirnError], *, of: int) -> None:
    if len(problems) == 1:
        raise problems[0]
    if problems:
        said = "".join(f"\n      {error.message}" for error in problems)
        raise FirnError(f"{len(problems)} of {of} upgrades failed:{said}", hint=problems[0].hint)


def _name(table: Any) -> str:
    return f"{table['database']}.{table['name']}"


def _names(listed: str) -> list[str]:
    return [name.strip() for name in listed.split(",") if name.strip()]
