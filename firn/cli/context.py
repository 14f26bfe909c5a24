"""The options that all commands share: the server, the access token, the catalog, and JSON output."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, TypeVar

import typer

from firn.cli.show import Show
from firn.client import DEFAULT_CATALOG, Client, connect

F = TypeVar("F", bound=Callable[..., None])
_PANEL = "Shared"

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.", rich_help_panel=_PANEL)]
Server = Annotated[
    str | None,
    typer.Option(
        envvar="FIRN_SERVER",
        metavar="URL",
        help="The server's address (default: http://127.0.0.1:8630).",
        rich_help_panel=_PANEL,
    ),
]
Token = Annotated[
    str | None, typer.Option(envvar="FIRN_TOKEN", metavar="TOKEN", help="Access token.", rich_help_panel=_PANEL)
]
Catalog = Annotated[
    str,
    typer.Option(
        envvar="FIRN_CATALOG", metavar="CATALOG", help="Catalog of names that name none.", rich_help_panel=_PANEL
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        min=0,
        metavar="SECONDS",
        help="Stop waiting then and exit with 3; the work continues (default: wait for the end).",
        rich_help_panel=_PANEL,
    ),
]
_LOCAL: dict[str, tuple[Any, Any]] = {"json": (Json, False)}
_ALL = {**_LOCAL, "server": (Server, None), "token": (Token, None), "catalog": (Catalog, DEFAULT_CATALOG)}
_WAITING = {**_ALL, "timeout": (Timeout, None)}


@dataclass
class CliContext:
    """The options that all commands share."""

    json: bool = False
    server: str | None = None
    token: str | None = field(default=None, repr=False)
    catalog: str = DEFAULT_CATALOG
    timeout: float | None = None

    @cached_property
    def client(self) -> Client:
        """A client of the server of `--server`."""
        return connect(self.server, token=self.token, catalog=self.catalog)

    @cached_property
    def show(self) -> Show:
        """The output of the command."""
        return Show(json=self.json)


def command(app: typer.Typer, name: str, *, local: bool = False, waits: bool = False) -> Callable[[F], F]:
    """Make a function a command. It gets the shared options as its argument `ctx`, before its own options.

    A `local` command needs no server and takes only `--json`. A command that `waits` takes `--timeout` too.
    """
    shared = _LOCAL if local else _WAITING if waits else _ALL

    def add(function: F) -> F:
        app.command(name)(_with_shared(function, shared))
        return function

    return add


def _with_shared(function: Callable[..., None], shared: dict[str, tuple[Any, Any]]) -> Callable[..., None]:
    _, *own = inspect.signature(function, eval_str=True).parameters.values()
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in shared.items()
    ]

    @functools.wraps(function)
    def run(**options: Any) -> None:
        ctx = CliContext(**{name: options.pop(name) for name in shared})
        function(ctx, **options)

    run.__signature__ = inspect.Signature([*own, *more])  # type: ignore[attr-defined]  # typer reads it by inspect
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in [*own, *more]}
    return run
