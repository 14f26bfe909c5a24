"""The commands of `firn`: their names, their headings in the help, and the modules that define them.

A module is imported when one of its commands runs. `firn --help` shows the sentences below, and imports none of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

__all__ = ["COMMANDS", "Entry", "LazyCommands", "Panel"]


class Panel(StrEnum):
    """A heading of `firn --help`."""

    START = "Run Firn"
    TABLES = "Tables"
    STREAMS = "Streams and changes"
    PIPELINES = "Pipelines"
    WORK = "Background work"
    ACCESS = "Access"


@dataclass(frozen=True)
class Entry:
    """A command below `firn`, or a group of commands.

    The modules of a group are imported in their order: `app` is a variable of the first, and the others add commands to
    it. The module of a single command has a function `add_to`.
    """

    panel: Panel
    help: str
    modules: str
    app: str | None = None

    def load(self, name: str) -> Any:
        """Import the modules and return the command, which Typer calls."""
        first, *_ = [import_module(f"firn.cli.{module}") for module in self.modules.split()]
        if self.app is not None:
            group = get_group(getattr(first, self.app))
            group.name = name
            return group
        parent = typer.Typer()
        first.add_to(parent)
        return get_group(parent).commands[name]


COMMANDS = {
    "up": Entry(Panel.START, "Run server, Hive Metastore and an optimizer on this machine, until Ctrl-C.", "processes"),
    "serve": Entry(
        Panel.START,
        "Run the server alone. It prints its address when it is ready, and stops on SIGTERM.",
        "processes",
    ),
    "metastore": Entry(Panel.START, "Run a real Hive Metastore on Derby, until Ctrl-C.", "processes"),
    "kafka": Entry(
        Panel.START,
        "Run a real Kafka broker on this machine, until Ctrl-C. The first run fetches its jars, 44 MB.",
        "processes",
    ),
    "optimizer": Entry(Panel.START, "Run an optimizer, or manage the running ones.", "optimizers", "app"),
    "admin": Entry(Panel.START, "Check the server.", "processes", "admin"),
    "search": Entry(
        Panel.TABLES,
        "Find tables, columns, comments, labels, owners, jobs, pipelines, saved queries, groups and settings.",
        "search",
    ),
    "trends": Entry(
        Panel.TABLES,
        "Show rows, bytes, files, health, jobs and more of a table, namespace or catalog over time.",
        "trends",
    ),
    "sql": Entry(
        Panel.TABLES,
        "Run SQL on the server's catalogs. Names without a catalog belong to --catalog.",
        "sql",
    ),
    "mcp": Entry(
        Panel.TABLES,
        "Give an assistant tools to search, explain and query tables, over standard input and output.",
        "mcp",
    ),
    "table": Entry(Panel.TABLES, "Manage plain and keyed tables.", "tables history metrics imports", "app"),
    "namespace": Entry(Panel.TABLES, "Manage namespaces, which hold tables and other namespaces.", "namespaces", "app"),
    "catalog": Entry(
        Panel.TABLES,
        "Manage catalogs: warehouses with a name, each optionally linked to a Hive Metastore.",
        "catalogs imports",
        "app",
    ),
    "hive": Entry(
        Panel.TABLES,
        "Manage the tables of the catalog's Hive Metastore.",
        "upgrade convert migration hive_views",
        "app",
    ),
    "policy": Entry(Panel.TABLES, "Show and set policies: how the server maintains tables.", "policies", "app"),
    "changes": Entry(
        Panel.STREAMS,
        "Show what changed in a keyed table: + inserted, ~ updated, - deleted rows, with the row before an update.",
        "changes",
    ),
    "consumer": Entry(Panel.STREAMS, "List, reset and drop the consumers of a table's changes.", "consumers", "app"),
    "writer": Entry(Panel.STREAMS, "List and fence the writers of a table that record positions.", "writers", "app"),
    "log": Entry(Panel.STREAMS, "Show, check and repair the logs of keyed tables.", "logs", "app"),
    "drain": Entry(
        Panel.STREAMS,
        "Bring the records of a table's topic into the table, up to the last stable offset, once each.",
        "logs",
    ),
    "stream": Entry(
        Panel.STREAMS,
        "Show, pause and restart the streams that bring topics into tables.",
        "streams",
        "app",
    ),
    "quarantine": Entry(Panel.STREAMS, "List, show, retry and drop the bad records of logs.", "quarantine", "app"),
    "cdc": Entry(Panel.STREAMS, "Bring the tables of a database into the lake, by change data capture.", "cdc", "app"),
    "connection": Entry(
        Panel.STREAMS,
        "Manage connections to Kafka. They need an administrator.",
        "connections",
        "app",
    ),
    "pipeline": Entry(
        Panel.PIPELINES,
        "Define tables by SQL, and see which of them can be kept incrementally.",
        "pipeline_backfills pipeline_graph",
        "app",
    ),
    "status": Entry(
        Panel.WORK,
        "Show all background work: groups, queue, finished and overdue jobs, and the least healthy tables.",
        "status",
    ),
    "job": Entry(Panel.WORK, "Start, list and cancel background jobs.", "jobs", "app"),
    "operation": Entry(
        Panel.WORK,
        "List, pause and cancel operations: upgrades and imports, which the server runs itself.",
        "operations",
        "app",
    ),
    "notification": Entry(
        Panel.WORK, "Report problems by webhook, Slack or mail. They need an administrator.", "notifications", "app"
    ),
    "group": Entry(Panel.WORK, "Manage groups of optimizers.", "groups", "app"),
    "whoami": Entry(Panel.ACCESS, "Show the owner of the token and its privileges.", "roles"),
    "token": Entry(Panel.ACCESS, "Create, list and revoke access tokens.", "tokens", "app"),
    "user": Entry(Panel.ACCESS, "Manage users: people with roles.", "principals", "users"),
    "service": Entry(Panel.ACCESS, "Manage services: engines and programs with roles.", "principals", "services"),
    "role": Entry(Panel.ACCESS, "Manage roles, which give privileges to users and services.", "roles", "app"),
    "audit": Entry(
        Panel.ACCESS,
        "List the audit log, newest first: requests, and whether they were allowed.",
        "audit_log",
    ),
}
"""In the order of the help."""


class LazyCommands(TyperGroup):
    """The group `firn`. Its help and its completion know only names and sentences; a command is imported to run."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {
            name: TyperCommand(name, help=entry.help, rich_help_panel=entry.panel) for name, entry in COMMANDS.items()
        }

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the command that the first argument names, and import it."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else COMMANDS[name].load(name), rest
