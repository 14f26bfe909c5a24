"""`firn mcp`: tools for assistants, by the Model Context Protocol."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Annotated

import typer

from firn.cli.context import CliContext, command
from firn.errors import FirnError


def add_to(app: typer.Typer) -> None:
    """Add `firn mcp`."""
    command(app, "mcp")(mcp)


def mcp(
    ctx: CliContext,
    *,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Offer no tool that starts jobs, not even with the user's agreement.")
    ] = False,
) -> None:
    """Give an assistant tools to search, explain and query tables, over standard input and output.

    A program with an assistant starts this command; see docs/mcp.md. The assistant has the rights of the token. It
    starts a job only after its user has agreed to that job.
    """
    if find_spec("mcp") is None:
        raise FirnError("tools for assistants need the Python package mcp", hint="pip install 'firn[mcp]'")
    server = import_module("firn.mcp.server")  # an extra
    server.build_server(ctx.client, read_only=read_only).run("stdio")
