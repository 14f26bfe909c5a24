"""`firn policy …`"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from firn.cli.columns import parse_pairs
from firn.cli.context import CliContext, command
from firn.errors import Invalid
from firn.names import split_name

app = typer.Typer(help="Show and set policies: how the server maintains tables.", no_args_is_help=True)


@command(app, "show")
def show_policy(
    ctx: CliContext,
    table: Annotated[str | None, typer.Argument(metavar="[TABLE]", help="Show the policy of this table.")] = None,
    namespace: Annotated[str | None, typer.Option(help="Show the policy of this namespace.")] = None,
) -> None:
    """Show the effective settings of a table, a namespace or the catalog, and their sources."""
    if table is not None and namespace is not None:
        raise Invalid("a table and --namespace exclude each other", hint="give one of them, or neither for the catalog")
    _refuse_namespace(table)
    if table is not None:
        settings = ctx.client.tables[table].get("/policy")
    else:
        settings = ctx.client.catalogs.policy(ctx.catalog, namespace)["effective"]
    rows = [(setting["key"], setting["value"], _describe_source(setting), setting["does"]) for setting in settings]
    columns = ("setting", "value", "from", "does")
    ctx.show.emit(settings, lambda: ctx.show.table(columns, rows, none="no settings"))


def _refuse_namespace(table: str | None) -> None:
    """A single name is no table; here it probably is that of a namespace."""
    if table is not None and len(split_name(table)) == 1:
        raise Invalid(
            f"{table!r} names no table", hint=f"write NAMESPACE.TABLE, or `--namespace {table}` for all of its tables"
        )


def _describe_source(setting: Mapping[str, Any]) -> str:
    """The source of a value, and the sources that it overrides."""
    ignored = [f"{override['source']} is ignored: {override['reason']}" for override in setting.get("ignored", ())]
    return "; ".join([setting["source"], *ignored])


@command(app, "set")
def set_policy(
    ctx: CliContext,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[TABLE] KEY=VALUE…", help="The table, if any, and its settings; an empty value removes a setting."
        ),
    ],
    namespace: Annotated[str | None, typer.Option(help="Set the policy of all tables of this namespace.")] = None,
) -> None:
    """Set the policy of a table, a namespace or, without either, the catalog."""
    table, settings = (None, words) if "=" in words[0] else (words[0], words[1:])
    if not settings:
        raise Invalid(f"{table} is a table without settings", hint="add at least one KEY=VALUE")
    if table is not None and namespace is not None:
        raise Invalid("a table and --namespace exclude each other", hint="give one of them, or neither for the catalog")
    _refuse_namespace(table)
    pairs = parse_pairs(settings)
    removed = [key for key, value in pairs.items() if not value]
    kept = {key: value for key, value in pairs.items() if value}
    if table is not None:
        policy = ctx.client.tables[table].change_policy(kept, removed)
        changed = {setting["key"]: setting["value"] for setting in policy if setting["source"] == "table"}
    else:
        changed = ctx.client.catalogs.change_policy(ctx.catalog, kept, removed, namespace)["settings"]
    rows = sorted(changed.items())
    ctx.show.emit(changed, lambda: ctx.show.table(("setting", "value"), rows, none="no settings"))
