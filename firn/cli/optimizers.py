"""`firn optimizer …`"""

from __future__ import annotations

from typing import Annotated

import typer

from firn.cli.context import CliContext, command
from firn.cli.processes import run_optimizer
from firn.cli.show import moment
from firn.transport import Json

app = typer.Typer(help="Run an optimizer, or manage the running ones.")

OptimizerArg = Annotated[
    str, typer.Argument(metavar="OPTIMIZER", help="Id of the optimizer, as `firn optimizer list` shows it.")
]
Why = Annotated[str | None, typer.Option(help="Reason, which other users see.")]
_GIB = 1024**3


@app.callback(invoke_without_command=True)
def start_optimizer(
    ctx: typer.Context,
    group: Annotated[str, typer.Option(help="Group whose jobs it runs.")] = "default",
    slots: Annotated[
        int | None, typer.Option(min=1, help="Number of jobs to run in parallel (default: by the machine's cores).")
    ] = None,
    master: Annotated[str, typer.Option(help="Spark master.")] = "local[*]",
    memory: Annotated[str, typer.Option(help="Heap size of the JVM.")] = "2g",
    server: Annotated[str | None, typer.Option(envvar="FIRN_SERVER", help="Address of the server.")] = None,
    token: Annotated[
        str | None, typer.Option(envvar="FIRN_TOKEN", help="Access token of a service with the role `optimizer`.")
    ] = None,
) -> None:
    """Run jobs until Ctrl-C or SIGTERM."""
    if ctx.invoked_subcommand is None:
        run_optimizer(server, token, group=group, slots=slots, master=master, memory=memory)


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
            _format_memory(optimizer["memory"]),
            moment(optimizer["last_seen_at"]),
            _describe_state(optimizer),
        )
        for optimizer in optimizers
    ]
    columns = ("optimizer", "group", "version", "jobs", "memory", "last seen", "state")
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
