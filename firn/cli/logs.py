"""`firn log show|check|skip|reset` and `firn drain`: topics of Kafka in front of keyed tables."""

from __future__ import annotations

from typing import Annotated

import typer

import firn.spark
from firn.cli.context import CliContext, command
from firn.cli.spark_session import open_session
from firn.cli.tables import TableArg
from firn.drains.attempt import LightAttempt
from firn.drains.engine import Engine
from firn.errors import Refused
from firn.logs import TableLog, suggest_remedy
from firn.protocol.answers.logs import LogOut, LogRecordOut, LogResetOut

app = typer.Typer(help="Show, check and repair the logs of keyed tables.", no_args_is_help=True)

Master = Annotated[str, typer.Option(help="Spark's master.")]
Memory = Annotated[str, typer.Option(help="Memory of Spark's driver.")]


def add_to(parent: typer.Typer) -> None:
    """Add `firn drain`."""
    command(parent, "drain")(drain)


@command(app, "show")
def show_log(ctx: CliContext, table: TableArg) -> None:
    """Show the topic of a table, its position, and how many records wait."""
    log = ctx.client.tables[table].log.show()
    ctx.show.emit(log.json_value(), lambda: _print_log(ctx, table, log))


@command(app, "check")
def check_log(ctx: CliContext, table: TableArg) -> None:
    """Check topic, retention and the newest records before a drain reads them. Exits with 1 if a check fails."""
    check = ctx.client.tables[table].log.check()
    show, findings = ctx.show, [(finding.severity, finding.message) for finding in check.findings]

    def describe() -> None:
        show.table(("result", "finding"), findings, none="no findings")
        rows = [_describe_record(record) for record in check.sample]
        show.table(("partition", "offset", "op", "row", "problem"), rows, none="no records")

    show.emit(check.json_value(), describe)
    if any(severity == "failed" for severity, _ in findings):
        raise typer.Exit(1)


@command(app, "skip")
def skip(
    ctx: CliContext,
    table: TableArg,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be skipped, and skip nothing.")] = False,
) -> None:
    """Go on after records that the topic no longer has: they stay missing in the table. A running drain ends."""
    skipped = ctx.client.tables[table].log.skip(dry_run=dry_run)
    verb = "would go on" if dry_run else "goes on"
    text = f"{skipped.problem.message}; {table} {verb} from {skipped.position}"
    ctx.show.emit(skipped.json_value(), lambda: ctx.show.line(text))


@command(app, "reset")
def reset(
    ctx: CliContext,
    table: TableArg,
    to: Annotated[
        str,
        typer.Option(
            "--to", help="earliest, latest, a time with its zone, or offsets of all partitions as orders:0:123,1:456."
        ),
    ] = "earliest",
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what it would do, and reset nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Reset without asking.")] = False,
) -> None:
    """Set the position of a log. Records between stay missing in the table, or come again. A running drain ends."""
    log = ctx.client.tables[table].log
    result = log.reset(to, dry_run=dry_run) if dry_run or yes else _agree(table, log, to)
    ctx.show.emit(result.json_value(), lambda: _print_reset(ctx, table, result))


def _agree(table: str, log: TableLog, to: str) -> LogResetOut:
    """Show what a reset does, ask, and reset exactly that."""
    plan = log.reset(to, dry_run=True)
    for warning in plan.warnings:
        typer.echo(warning, err=True)
    typer.confirm(f"Set {table} from {plan.start or 'none'} to {plan.position}?", abort=True, err=True)
    return log.reset(plan.position, start=plan.start or "none")


def _print_reset(ctx: CliContext, table: str, result: LogResetOut) -> None:
    verb = "would go" if result.dry_run else "goes"
    ctx.show.line(f"{table} {verb} from {result.start or 'none'} to {result.position}")
    for warning in result.warnings:
        ctx.show.line(f"  {warning}")
    rows = [(step.partition, step.start, step.position, step.left_out, step.repeated) for step in result.partitions]
    ctx.show.table(("partition", "from", "to", "left out", "again"), rows, none="no partitions")


def drain(
    ctx: CliContext,
    table: TableArg,
    *,
    engine: Annotated[
        Engine, typer.Option(help="light needs no Java; auto takes Spark for tables that only Spark can drain.")
    ] = Engine.AUTO,
    master: Master = "local[2]",
    memory: Memory = "2g",
) -> None:
    """Bring the records of a table's topic into the table, up to the last stable offset, once each.

    If the connection has a user, the command takes the password from $FIRN_KAFKA_PASSWORD.
    """
    commits = records = 0
    added: tuple[str, ...] = ()
    drained, done_by = None, Engine.SPARK
    if engine is not Engine.SPARK:
        light = LightAttempt(ctx.client.tables[table])
        drained, done_by = light.run(), Engine.LIGHT
        if drained is None and engine is Engine.LIGHT:
            raise Refused(f"{table} needs Spark: {light.reason}", hint="--engine auto drains it in Spark")
        if drained is None:
            ctx.show.note(f"{table} needs Spark: {light.reason}")
            commits, records, done_by = light.commits, light.records, Engine.SPARK
            added = light.added_columns
    if drained is None:
        name = str(ctx.client.name(table))
        with open_session(ctx, master=master, memory=memory, kafka=True) as spark:
            drained = firn.spark.drain(name, spark)
    commits, records = commits + drained.commits, records + drained.most_records
    added = tuple(dict.fromkeys((*added, *drained.added_columns)))
    if added:
        ctx.show.note(f"{table} has new columns: {', '.join(added)}")
    result = {
        "commits": commits,
        "most_records": records,
        "position": drained.position,
        "engine": str(done_by),
        "added_columns": [*added],
    }
    in_commits = "1 commit" if commits == 1 else f"{commits:,} commits"
    text = f"{table} is at {drained.position or 'none'}: up to {records:,} records in {in_commits}"
    ctx.show.emit(result, lambda: ctx.show.line(text))


def _print_log(ctx: CliContext, table: str, log: LogOut) -> None:
    show = ctx.show
    show.line(f"{table} reads topic {log.topic} ({log.format}) at {', '.join(log.brokers)}")
    show.line(f"position: {log.position or 'none'}; up to {log.lag:,} records wait")
    if log.problem is not None:
        show.line(f"stopped: {log.problem.message}")
        show.line(f"         {suggest_remedy(log, table)}")
    rows = [(number, log.start[number], log.end[number], log.end[number] - log.start[number]) for number in log.end]
    show.table(("partition", "next", "end", "lag"), rows, none="no partitions")


def _describe_record(record: LogRecordOut) -> tuple[int | str | None, ...]:
    return record.partition, record.offset, record.op, "" if record.row is None else str(record.row), record.problem
