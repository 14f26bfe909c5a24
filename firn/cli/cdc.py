"""`firn cdc validate|plan|run|status`: brings the tables of a database into the lake by one file."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import firn.spark
from firn.cdc.cluster import open_cluster
from firn.cdc.config import read_config
from firn.cdc.schemas import CdcSchemas
from firn.cli.context import CliContext, command
from firn.cli.logs import Master, Memory
from firn.cli.spark_session import open_session
from firn.errors import NotFound
from firn.protocol.answers.streams import StreamOut
from firn.protocol.answers.tables import TableOut
from firn.protocol.avro.wire_format import AVRO_FORMATS
from firn.protocol.cdc.observation import observe
from firn.protocol.cdc.plan import Action, TablePlan, TopicPlan, plan_topic, refuse_shared_tables
from firn.protocol.cdc.routing import CdcConfig
from firn.protocol.envelope_readers import KeyAndValue, build_reader, list_schema_ids

if TYPE_CHECKING:
    from firn.spark.cdc_run import TableProgress

app = typer.Typer(help="Bring the tables of a database into the lake, by change data capture.", no_args_is_help=True)

FileArg = Annotated[Path, typer.Argument(metavar="FILE", help="The configuration, a YAML file.", exists=True)]


@command(app, "validate")
def validate(ctx: CliContext, file: FileArg) -> None:
    """Check the file alone; an error names its line. Asks neither the server nor Kafka."""
    config = read_config(file)
    rules = "1 rule" if len(config.tables) == 1 else f"{len(config.tables)} rules"
    ctx.show.emit(
        {"name": config.name, "format": config.format, "rules": len(config.tables)},
        lambda: ctx.show.line(f"{file} is valid: {config.format}, {rules} for tables"),
    )


@command(app, "plan")
def plan(
    ctx: CliContext,
    file: FileArg,
    records: Annotated[int, typer.Option(min=2, help="The largest number of records to read of each topic.")] = 1000,
) -> None:
    """Show what a run would do, by a sample of the oldest and newest records. Exits with 1 if there is a problem.

    `firn cdc run` looks at all records, so it may find more tables and columns.
    """
    config = read_config(file)
    cluster = open_cluster(config, ctx.client)
    schemas = CdcSchemas(config, ctx.client.connections)
    plans = refuse_shared_tables(
        [
            _plan_topic(ctx, config, schemas, topic, cluster.read_sample(topic, records))
            for topic in cluster.list_topics(config)
        ]
    )
    ctx.show.emit([_write_topic(topic) for topic in plans], lambda: _print_plan(ctx, config, plans))
    if any(topic.problem or any(table.problem for table in topic.tables) for topic in plans):
        raise typer.Exit(1)


@command(app, "run")
def run(
    ctx: CliContext,
    file: FileArg,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between the beginnings of two rounds.")] = 10.0,
    *,
    once: Annotated[bool, typer.Option("--once", help="End when all tables have the records of now.")] = False,
    master: Master = "local[2]",
    memory: Memory = "2g",
) -> None:
    """Create the tables, add columns, and bring all changes, until you stop it with Ctrl-C.

    Optimizers do not drain these tables meanwhile: their streams are paused. The password of a connection comes from
    $FIRN_KAFKA_PASSWORD. With --once, it exits with 1 if a table has a problem.
    """
    config = read_config(file)
    cluster = open_cluster(config, ctx.client)
    with open_session(ctx, master=master, memory=memory, kafka=True) as spark:
        runner = firn.spark.CdcRun(config=config, client=ctx.client, cluster=cluster, spark=spark, say=ctx.show.note)
        while True:
            began = time.monotonic()
            progress = runner.run_once()
            if once:
                _show_progress(ctx, progress)
                break
            _note_progress(ctx, progress)
            time.sleep(max(0.0, began + every - time.monotonic()))
    if any(table.problem for table in progress):
        raise typer.Exit(1)


@command(app, "status")
def status(ctx: CliContext, file: FileArg) -> None:
    """Show position, lag and state of each table whose topic belongs to the file."""
    config = read_config(file)
    streams = [stream for stream in ctx.client.streams.list(catalog=ctx.catalog) if _belongs(config, stream)]
    rows = [
        (stream.table, stream.topic, stream.status, stream.lag_rows, stream.last_commit_at, stream.position)
        for stream in streams
    ]
    columns = ("table", "topic", "stream", "lag", "last commit", "position")
    ctx.show.emit(
        [stream.json_value() for stream in streams],
        lambda: ctx.show.table(columns, rows, none="no tables yet: `firn cdc run` creates them"),
    )


def _belongs(config: CdcConfig, stream: StreamOut) -> bool:
    return stream.topic is not None and config.takes_topic(stream.topic)


def _plan_topic(
    ctx: CliContext, config: CdcConfig, schemas: CdcSchemas, topic: str, sample: Sequence[KeyAndValue]
) -> TopicPlan:
    ids = list_schema_ids(sample) if config.format in AVRO_FORMATS else []
    texts = schemas.load(topic, ids)
    planned = plan_topic(config, topic, observe(build_reader(config.format, texts), sample), _loader(ctx))
    unknown = [number for number in ids if number not in texts]
    stops = unknown and config.unknown_schemas == "stop"
    return replace(planned, problem=schemas.explain_unknown(topic, unknown[0])) if stops else planned


def _loader(ctx: CliContext) -> Any:
    def load(table: str) -> TableOut | None:
        try:
            return ctx.client.tables[table].show()
        except NotFound:
            return None

    return load


def _print_plan(ctx: CliContext, config: CdcConfig, plans: list[TopicPlan]) -> None:
    show = ctx.show
    for topic in plans:
        show.line(f"topic {topic.topic}, by {topic.records:,} records")
        if topic.problem is not None:
            show.line(f"  {topic.problem}")
        for table in topic.tables:
            _print_table(ctx, table)
        if topic.left_out:
            show.line(f"  no rule takes {', '.join(topic.left_out)}")
        for reason, count in topic.bad.items():
            show.line(f"  {count:,} bad record{'' if count == 1 else 's'}: {reason}")
    if not plans:
        show.line("no topic matches")
        where = f"connection {config.connection}" if config.connection else ", ".join(config.brokers)
        patterns = ", ".join(topic.pattern for topic in config.topics)
        show.note(f"{where} has no topic whose whole name matches `topics` of the file: {patterns}")


def _print_table(ctx: CliContext, table: TablePlan) -> None:
    show = ctx.show
    words = {Action.CREATE: "create", Action.CHANGE: "change", Action.NONE: "keep", Action.STOP: "cannot make"}
    show.line(f"  {words[table.action]} {table.table} from {', '.join(table.sources)}")
    if table.problem is not None:
        show.line(f"    {table.problem}")
        return
    show.line(f"    key {', '.join(table.primary_key)}")
    for name, type_ in table.columns.items():
        show.line(f"    {'add ' if table.action is Action.CHANGE else ''}{name} {type_}")


def _write_topic(topic: TopicPlan) -> dict[str, Any]:
    tables = [
        {
            "table": table.table,
            "action": str(table.action),
            "sources": list(table.sources),
            "new_sources": list(table.new_sources),
            "primary_key": list(table.primary_key),
            "columns": dict(table.columns),
            "problem": table.problem,
        }
        for table in topic.tables
    ]
    return {
        "topic": topic.topic,
        "records": topic.records,
        "tables": tables,
        "left_out": list(topic.left_out),
        "bad": dict(topic.bad),
        "problem": topic.problem,
    }


def _note_progress(ctx: CliContext, progress: list[TableProgress]) -> None:
    for table in progress:
        if table.problem is not None:
            ctx.show.note(f"{table.table or table.topic}: {table.problem}")
        elif table.commits:
            ctx.show.note(f"{table.table} is at {table.position}: up to {table.most_records:,} records")


def _show_progress(ctx: CliContext, progress: list[TableProgress]) -> None:
    documents = [
        {
            "table": table.table or None,
            "topic": table.topic,
            "commits": table.commits,
            "most_records": table.most_records,
            "position": table.position,
            "problem": table.problem,
        }
        for table in progress
    ]
    rows = [
        (table.table, table.topic, table.most_records, table.commits, table.position, table.problem)
        for table in progress
    ]
    columns = ("table", "topic", "records", "commits", "position", "problem")
    ctx.show.emit(documents, lambda: ctx.show.table(columns, rows, none="no tables: no topic matches"))
