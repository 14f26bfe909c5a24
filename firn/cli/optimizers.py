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
def be_optimizer(
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
    """Run jobs until told to stop."""
    if ctx.invoked_subcommand is None:
        run_optimizer(server, token, group=group, slots=slots, master=master, memory=memory)


@command(app, "list")
def list_optimizers(ctx: CliContext) -> None:
    """List optimizers with their current jobs."""
    show, found = ctx.show, ctx.client.optimizers()
    rows = [
        (
            one["id"],
            one["group"],
            one["version"],
            f"{len(one['jobs'])} of {one['slots']}",
            _memory(one["memory"]),
            moment(one["last_seen_at"]),
            _table_status(one),
        )
        for one in found
    ]
    columns = ("optimizer", "group", "version", "jobs", "memory", "last seen", "standing")
    none = "no optimizers: start one with `firn optimizer`"
    show.emit(found, lambda: show.table(columns, rows, none=none))


@command(app, "drain")
def drain(ctx: CliContext, optimizer: OptimizerArg, reason: Why = None) -> None:
    """Drain an optimizer: it finishes its jobs and takes no new ones."""
    _tell(ctx, ctx.client.drain_optimizer(optimizer, reason=reason))


@command(app, "undrain")
def undrain(ctx: CliContext, optimizer: OptimizerArg) -> None:
    """Let a drained optimizer take jobs again."""
    _tell(ctx, ctx.client.undrain_optimizer(optimizer))


@command(app, "stop")
def stop(ctx: CliContext, optimizer: OptimizerArg, reason: Why = None) -> None:
    """Drain an optimizer, and stop it after its last job."""
    _tell(ctx, ctx.client.drain_optimizer(optimizer, reason=reason, stop=True))


def _tell(ctx: CliContext, optimizer: Json) -> None:
    held = len(optimizer["jobs"])
    jobs = f"{held} job{'' if held == 1 else 's'}"
    ctx.show.emit(optimizer, lambda: ctx.show.line(f"{optimizer['id']} is {_table_status(optimizer)}, holding {jobs}"))


def _table_status(optimizer: Json) -> str:
    if optimizer["silent"]:
        return "silent"
    asked = "stopping" if optimizer["stopping"] else "draining" if optimizer["draining"] else "working"
    return f"{asked}: {optimizer['reason']}" if optimizer["reason"] else asked


def _memory(memory: Json) -> str | None:
    resident = memory.get("rss") or memory.get("heap_used")
    return None if resident is None else f"{resident / _GIB:.1f} GiB"
