"""`firn hive views`"""

from __future__ import annotations

from collections import Counter
from fnmatch import fnmatchcase
from typing import Annotated

import typer

from firn.cli import hive
from firn.cli.context import CliContext, command
from firn.errors import FirnError
from firn.transport import Json

app = hive.app  # `views` is a command of `firn hive`

_CREATABLE = ("ready", "changed")
_COLUMNS = ("view", "state", "why, or what it reads")


@command(app, "views")
def views_hive(
    ctx: CliContext,
    patterns: Annotated[
        list[str] | None, typer.Argument(metavar="[VIEW…]", help="DATABASE.VIEW, or a pattern such as 'sales.*'")
    ] = None,
    *,
    create: Annotated[
        bool, typer.Option("--create", help="Create the views that can be, or replace changed ones.")
    ] = False,
    ddl: Annotated[
        bool, typer.Option("--ddl", help="Print the query of each view, in Spark SQL where it has one.")
    ] = False,
) -> None:
    """List the views of the metastore, and create those as Iceberg views whose query is the same in Spark."""
    views = _list(ctx, patterns)
    failures = dict[str, str]()
    while create and (
        ready := [view for view in views if view["state"] in _CREATABLE and view["name"] not in failures]
    ):
        for view in ready:
            _create(ctx, view["name"], failures)
        views = _list(ctx, patterns)  # views that read the new ones can be created now
    ctx.show.emit(views, lambda: _show(ctx, views, failures, ddl=ddl))
    if failures or (create and any(view["state"] != "created" for view in views)):
        raise typer.Exit(1)


def _list(ctx: CliContext, patterns: list[str] | None) -> list[Json]:
    views = ctx.client.hive.views(ctx.client.catalog)
    wanted = [pattern.lower() for pattern in patterns or ()]
    return [view for view in views if not wanted or any(fnmatchcase(view["name"], pattern) for pattern in wanted)]


def _create(ctx: CliContext, name: str, failures: dict[str, str]) -> None:
    try:
        ctx.client.hive.create_view(f"{ctx.client.catalog}.{name}")
        ctx.show.note(f"created {name}")
    except FirnError as error:
        failures[name] = error.message


def _show(ctx: CliContext, views: list[Json], failures: dict[str, str], *, ddl: bool) -> None:
    rows = [
        (view["name"], view["state"], failures.get(view["name"]) or view["reason"] or ", ".join(view["tables"]))
        for view in views
    ]
    ctx.show.table(_COLUMNS, rows, none="the metastore has no such views")
    for view in views if ddl else ():
        ctx.show.line(f"\n-- {view['name']}{'' if view['sql'] else ' (as Hive has it)'}\n{view['sql'] or view['text']}")
    states = Counter(view["state"] for view in views)
    ctx.show.note(", ".join(f"{number:,} {state}" for state, number in sorted(states.items())))
