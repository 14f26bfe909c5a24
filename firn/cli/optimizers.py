"""`firn optimizer …`"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from firn.cli.context import CliContext, command
from firn.cli.processes import run_optimizer
from firn.cli.show import moment, size
from firn.drains.engine import Engine
from firn.embedded.pyspark_jars import require_pyspark
from firn.embedded.python import require_server
from firn.node_package import NodePackage, write_package
from firn.transport import Json

app = typer.Typer(help="Run an optimizer, or manage the running ones.")

OptimizerArg = Annotated[
    str, typer.Argument(metavar="OPTIMIZER", help="Id of the optimizer, as `firn optimizer list` shows it.")
]
Why = Annotated[str | None, typer.Option(help="Reason, which other users see.")]
_GIB = 1024**3
UPLOAD_TO = "hdfs:///apps/firn"


@app.callback(invoke_without_command=True)
def start_optimizer(  # noqa: PLR0913 -- one option each
    ctx: typer.Context,
    group: Annotated[str, typer.Option(help="Group whose jobs it runs.")] = "default",
    slots: Annotated[
        int | None, typer.Option(min=1, help="Number of jobs to run in parallel (default: by the machine's cores).")
    ] = None,
    streams: Annotated[
        int, typer.Option(min=0, help="Number of streams to run in parallel, beside the jobs; see `firn stream list`.")
    ] = 0,
    sql: Annotated[
        int, typer.Option(min=0, help="Number of queries of people to run in parallel: the engine Spark of `firn sql`.")
    ] = 0,
    master: Annotated[str, typer.Option(help="Spark master.")] = "local[*]",
    memory: Annotated[str, typer.Option(help="Heap size of the JVM.")] = "2g",
    *,
    drain_engine: Annotated[
        Engine, typer.Option(help="What drains streams: auto takes Spark for tables that only Spark can drain.")
    ] = Engine.AUTO,
    allow_code: Annotated[
        bool,
        typer.Option("--allow-code", help="Run the Python of pipelines, too: it can do all that this process can."),
    ] = False,
    server: Annotated[str | None, typer.Option(envvar="FIRN_SERVER", help="Address of the server.")] = None,
    token: Annotated[
        str | None, typer.Option(envvar="FIRN_TOKEN", help="Access token of a service with the role `optimizer`.")
    ] = None,
) -> None:
    """Run jobs until Ctrl-C or SIGTERM."""
    if ctx.invoked_subcommand is None:
        flags: tuple[str, ...] = ("--drain-engine", str(drain_engine)) if streams else ()
        flags += ("--sql", str(sql)) if sql else ()
        flags += ("--allow-code",) if allow_code else ()
        run_optimizer(server, token, flags, group=group, slots=slots, streams=streams, master=master, memory=memory)


@command(app, "list")
def list_optimizers(ctx: CliContext) -> None:
    """List optimizers with their current jobs."""
    show, optimizers = ctx.show, ctx.client.optimizers()
    rows = [
        (
            optimizer["id"],
            optimizer["group"],
            optimizer["version"],
            f"{len(optimizer['jobs'])} of {optimizer['slots']}",
            str(optimizer["streams"]),
            str(optimizer["queries"]),
            _format_memory(optimizer["memory"]),
            moment(optimizer["last_seen_at"]),
            _describe_state(optimizer),
        )
        for optimizer in optimizers
    ]
    columns = ("optimizer", "group", "version", "jobs", "streams", "queries", "memory", "last seen", "state")
    none = "no optimizers: start one with `firn optimizer`"
    show.emit(optimizers, lambda: show.table(columns, rows, none=none))


@command(app, "drain")
def drain(ctx: CliContext, optimizer: OptimizerArg, reason: Why = None) -> None:
    """Drain an optimizer: it finishes its jobs and takes no new ones."""
    _show_optimizer(ctx, ctx.client.drain_optimizer(optimizer, reason=reason))


@command(app, "undrain")
def undrain(ctx: CliContext, optimizer: OptimizerArg) -> None:
    """Let a drained optimizer take jobs again."""
    _show_optimizer(ctx, ctx.client.undrain_optimizer(optimizer))


@command(app, "stop")
def stop(ctx: CliContext, optimizer: OptimizerArg, reason: Why = None) -> None:
    """Drain an optimizer, and stop it after its last job."""
    _show_optimizer(ctx, ctx.client.drain_optimizer(optimizer, reason=reason, stop=True))


@command(app, "package", local=True)
def package(
    ctx: CliContext,
    output: Annotated[Path, typer.Option("--output", "-o", help="The archive to write, a .zip.")] = Path("firn.zip"),
    upload_to: Annotated[
        str, typer.Option(help="Directory of the cluster that the printed commands name.")
    ] = UPLOAD_TO,
    *,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
) -> None:
    """Write Firn, its Python packages and the Iceberg runtime for the nodes of a cluster.

    The nodes need Java and the same version of Python, and no package index.
    """
    require_server("firn optimizer package", extra="spark")
    require_pyspark("firn optimizer package")
    _show_package(ctx, write_package(output, overwrite=force), upload_to.rstrip("/"))


def _show_package(ctx: CliContext, package: NodePackage, directory: str) -> None:
    files = [str(path) for path in (package.archive, *package.jars)]
    upload = [
        shlex.join(["hdfs", "dfs", "-mkdir", "-p", directory]),
        shlex.join(["hdfs", "dfs", "-put", "-f", *files, directory]),
    ]
    settings = {
        "master": "yarn",
        "deploy_mode": "cluster",
        "archive": f"{directory}/{package.archive.name}",
        "jars": ",".join(f"{directory}/{jar.name}" for jar in package.jars),
    }
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    launch = f"firn group launch GROUP {shlex.join(['--kind', 'spark-submit', *words])}"
    facts = {
        "archive": f"{package.archive}, {size(package.archive_bytes)}, {size(package.unpacked_bytes)} unpacked",
        "jars": ", ".join(f"{jar}, {size(jar.stat().st_size)}" for jar in package.jars),
        "packages": str(len(package.distributions)),
        "needs": f"Python {package.python} on {package.platform}",
    }
    document = {
        "archive": str(package.archive),
        "archive_bytes": package.archive_bytes,
        "unpacked_bytes": package.unpacked_bytes,
        "jars": files[1:],
        "packages": dict(package.distributions),
        "python": package.python,
        "platform": package.platform,
        "upload": upload,
        "launch": settings,
    }

    def people() -> None:
        ctx.show.facts(facts)
        ctx.show.line("\nUpload them, and set the launch of a group:")
        for line in (*upload, launch):
            ctx.show.line(f"  {line}")

    ctx.show.emit(document, people)


def _show_optimizer(ctx: CliContext, optimizer: Json) -> None:
    count = len(optimizer["jobs"])
    jobs = f"{count} job{'' if count == 1 else 's'}"
    ctx.show.emit(
        optimizer, lambda: ctx.show.line(f"{optimizer['id']} is {_describe_state(optimizer)}; it runs {jobs}")
    )


def _describe_state(optimizer: Json) -> str:
    if optimizer["silent"]:
        return "silent"
    state = "stopping" if optimizer["stopping"] else "draining" if optimizer["draining"] else "working"
    return f"{state}: {optimizer['reason']}" if optimizer["reason"] else state


def _format_memory(memory: Json) -> str | None:
    resident = memory.get("rss") or memory.get("heap_used")
    return None if resident is None else f"{resident / _GIB:.1f} GiB"
