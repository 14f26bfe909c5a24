"""The commands that start processes (`firn up`, `serve`, `metastore`, `kafka`, `optimizer`), and `firn admin check`."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from firn import embedded
from firn.cli.context import CliContext, command
from firn.client import DEFAULT_URL, connect
from firn.embedded.ports import KAFKA_PORT, METASTORE_PORT
from firn.embedded.process import require_java
from firn.embedded.pyspark_jars import require_pyspark
from firn.embedded.python import python_module, require_server
from firn.embedded.service import EmbeddedService
from firn.local import LocalFirn
from firn.transport import Json

CHECK_SECONDS = 1.0

admin = typer.Typer(help="Check the server.", no_args_is_help=True)


def add_to(app: typer.Typer) -> None:
    """Add the commands that start processes."""
    command(app, "up", local=True)(up)
    app.command("serve")(serve)
    command(app, "metastore", local=True)(metastore)
    command(app, "kafka", local=True)(kafka)


def up(  # noqa: PLR0913 -- one for each option
    ctx: CliContext,
    data_dir: Annotated[Path, typer.Option(help="Directory for the database, tables and logs.")] = Path("firn-data"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the server; 0 takes a free one.")] = 8630,
    master: Annotated[str, typer.Option(help="Spark master of the optimizer.")] = "local[*]",
    memory: Annotated[str, typer.Option(help="Heap size of the optimizer's JVM.")] = "2g",
    *,
    with_kafka: Annotated[bool, typer.Option("--kafka", help="Run a Kafka broker too, and streams.")] = False,
    kafka_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the Kafka broker; 0 takes a free one.")
    ] = KAFKA_PORT,
    allow_code: Annotated[
        bool,
        typer.Option("--allow-code", help="Let the optimizer run the Python of pipelines: it can do all that you can."),
    ] = False,
) -> None:
    """Run server, Hive Metastore and an optimizer on this machine, until Ctrl-C."""
    require_server("firn up", extra="spark")
    require_pyspark("firn up")
    show = ctx.show
    local = LocalFirn(data_dir, port=port, master=master, memory=memory, notify=show.note, show_token=show.warn)
    local.kafka_port = kafka_port if with_kafka else None
    local.allow_code = allow_code
    with stop_event() as stopping, local:
        facts = {"url": local.url, "metastore": local.metastore.uri, "data_dir": str(local.data_dir)}
        if local.kafka is not None:
            facts["kafka"] = local.kafka.brokers
        show.emit(facts, lambda: show.line(f"Firn answers at {local.url} (data in {local.data_dir}); Ctrl-C stops it"))
        while not stopping.wait(CHECK_SECONDS):
            local.restart_ended()
        show.note(f"stopping: optimizer, server, {'Kafka, ' if with_kafka else ''}metastore …")
    show.note("stopped")


def serve(
    data_dir: Annotated[Path | None, typer.Option(help="Directory for the database and the warehouse.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Number of server processes.")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with settings.")] = None,
    metastore: Annotated[str | None, typer.Option(help="Metastore of the catalog `lake`: thrift://HOST:PORT.")] = None,
    database_url: Annotated[str | None, typer.Option(help="SQLAlchemy URL; default: SQLite.")] = None,
) -> None:
    """Run the server alone. It prints its address when it is ready, and stops on SIGTERM."""
    flags = {
        "--data-dir": data_dir,
        "--port": port,
        "--workers": workers,
        "--config": config,
        "--metastore": metastore,
        "--database-url": database_url,
    }
    become_server(flags, needed_by="firn serve")


def become_server(flags: Mapping[str, object], *more: str, needed_by: str) -> None:
    """Replace this process by the server, with all flags that are not None; raise ServerMissing without firn-server."""
    require_server(needed_by)
    arguments = [part for name, value in flags.items() if value is not None for part in (name, str(value))]
    _become(python_module("server", *arguments, *more))


def run_optimizer(  # noqa: PLR0913 -- one for each option
    server: str | None,
    token: str | None,
    flags: Sequence[str] = (),
    *,
    group: str,
    slots: int | None,
    streams: int,
    master: str,
    memory: str,
) -> None:
    """Replace this process by an optimizer. It gets the `flags` as they are."""
    require_server("firn optimizer", extra="spark")
    require_pyspark("firn optimizer")
    require_java()
    url = server or DEFAULT_URL
    connect(url, token=token).health()  # fails with a clear error; the optimizer would only log it and retry
    if token is not None:
        os.environ["FIRN_TOKEN"] = token  # other users of the machine can read a command line, not an environment
    slot_flags: tuple[str, ...] = () if slots is None else ("--slots", str(slots))
    slot_flags += ("--streams", str(streams)) if streams else ()
    spark_flags = ("--master", master, "--driver-memory", memory)
    _become(python_module("optimizer", "--server", url, "--group", group, *spark_flags, *slot_flags, *flags))


def metastore(
    ctx: CliContext,
    data_dir: Annotated[Path, typer.Option(help="Directory for the metastore's database and tables.")] = Path(
        "firn-metastore"
    ),
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")
    ] = METASTORE_PORT,
) -> None:
    """Run a real Hive Metastore on Derby, until Ctrl-C."""
    require_server("firn metastore", extra="spark")
    require_pyspark("firn metastore")
    running = embedded.EmbeddedMetastore(data_dir, port=port)
    _run_until_stopped(ctx, running, "the metastore", lambda: {"uri": running.uri})


def kafka(
    ctx: CliContext,
    data_dir: Annotated[Path, typer.Option(help="Directory for Kafka's topics.")] = Path("firn-kafka"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = KAFKA_PORT,
) -> None:
    """Run a real Kafka broker on this machine, until Ctrl-C. The first run fetches its jars, 44 MB."""
    require_server("firn kafka", extra="spark")
    require_pyspark("firn kafka")
    running = embedded.EmbeddedKafka(data_dir, port=port)
    _run_until_stopped(ctx, running, "Kafka", lambda: {"brokers": running.brokers})


def _run_until_stopped(ctx: CliContext, service: EmbeddedService, name: str, address: Callable[[], Json]) -> None:
    """Run a service until Ctrl-C. Exits with 1 if it ends before; its address is known once it has started."""
    show = ctx.show
    with stop_event() as stopping, service:
        place = address()
        facts = {**place, "data_dir": str(service.data_dir), "log": str(service.log)}
        where = next(iter(place.values()))
        text = f"{service.name.removeprefix('The ')} answers at {where} (data in {service.data_dir})"
        show.emit(facts, lambda: show.line(text))
        while not stopping.wait(CHECK_SECONDS):
            if not service.running:
                show.note(f"{name} has ended unexpectedly; read its log {service.log}")
                raise typer.Exit(1)


class Part(StrEnum):
    """A part of `firn admin check`."""

    SERVER = "server"
    LOCATIONS = "locations"
    HADOOP = "hadoop"
    POSITIONS = "positions"


@command(admin, "check")
def check(
    ctx: CliContext,
    only: Annotated[
        list[Part] | None, typer.Option("--only", help="Check only this part; repeat it for several parts.")
    ] = None,
) -> None:
    """Check the server with its background tasks, tables' locations, writers' positions, and HDFS clusters.

    The command exits with 1 if a task fails, if a table or its files are outside of the allowed locations, if the
    position of a writer contradicts its table, or if a check of a cluster fails. To check a cluster, the server writes
    small files into the warehouse and deletes them.
    """
    parts = only or [*Part]
    results = [_CHECKS[part](ctx) for part in dict.fromkeys(parts)]

    def people() -> None:
        for result in results:
            result.show()

    ctx.show.emit({key: value for result in results for key, value in result.facts.items()}, people)
    if any(result.has_failed for result in results):
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class _Result:
    """The result of one part: facts for programs, and a function that prints them for people."""

    facts: Json
    show: Callable[[], None]
    has_failed: bool


def _check_server(ctx: CliContext) -> _Result:
    show, health = ctx.show, ctx.client.health()
    task_rows = [(task["name"], task["status"], task["error"], task["does"]) for task in health["tasks"]]

    def people() -> None:
        show.facts({"version": health["version"], "database": health["database"], "leads": health["leads"]})
        show.table(("task", "last", "error", "does"), task_rows, none="no background tasks")

    return _Result(health, people, any(task["error"] for task in health["tasks"]))


def _check_locations(ctx: CliContext) -> _Result:
    misplaced = [
        {"catalog": catalog.name, **table}
        for catalog in ctx.client.catalogs.list()
        for table in ctx.client.catalogs.misplaced(catalog.name)
    ]
    rows = [(table["catalog"], table["table"], table["problem"], table["advice"]) for table in misplaced]

    def people() -> None:
        columns = ("catalog", "table", "problem", "what to do")
        ctx.show.table(columns, rows, none="all tables are in allowed locations")

    return _Result({"misplaced": misplaced}, people, bool(misplaced))


def _check_hadoop(ctx: CliContext) -> _Result:
    findings = ctx.client.check_clusters()
    names = ("hop", "severity", "location", "message", "hint")
    rows = [tuple(finding[name] for name in names) for finding in findings]

    def people() -> None:
        ctx.show.table(("hop", "result", "at", "message", "what to do"), rows, none="no warehouse is on HDFS")

    return _Result({"hadoop": findings}, people, any(finding["severity"] == "failed" for finding in findings))


def _check_positions(ctx: CliContext) -> _Result:
    problems = [
        {"catalog": catalog.name, **problem}
        for catalog in ctx.client.catalogs.list()
        for problem in ctx.client.catalogs.position_problems(catalog.name)
    ]
    names = ("catalog", "table", "writer", "problem", "advice")
    rows = [tuple(problem[name] for name in names) for problem in problems]

    def people() -> None:
        columns = ("catalog", "table", "writer", "problem", "what to do")
        ctx.show.table(columns, rows, none="the positions of all writers fit their tables")

    return _Result({"positions": problems}, people, bool(problems))


_CHECKS = {
    Part.SERVER: _check_server,
    Part.LOCATIONS: _check_locations,
    Part.HADOOP: _check_hadoop,
    Part.POSITIONS: _check_positions,
}


@contextmanager
def stop_event() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set. A second signal changes nothing, so an orderly stop can finish."""
    stopping = threading.Event()
    before = {number: signal.signal(number, lambda *_: stopping.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _become(command: list[str]) -> None:
    """Replace this process by another program, which takes over its process id, its signals and its exit code."""
    os.execv(command[0], command)  # noqa: S606 -- no shell is wanted here
