"""`firn catalog …`"""

from __future__ import annotations

from typing import Annotated

import typer

from firn.catalogs import ALLOWED
from firn.cli.columns import pairs
from firn.cli.context import CliContext, command
from firn.protocol.answers.catalogs import CatalogOut

app = typer.Typer(help="Catalogs: named warehouses, each optionally linked to a Hive Metastore.", no_args_is_help=True)


@command(app, "create")
def create_catalog(
    ctx: CliContext,
    name: Annotated[str, typer.Argument(help="What engines will call it.")],
    warehouse: Annotated[str, typer.Option(help="Where its tables go: file:///…, s3://…, hdfs://…")],
    metastore: Annotated[str | None, typer.Option(help="Hive Metastore to link: thrift://HOST:PORT.")] = None,
    property: Annotated[
        list[str] | None, typer.Option(help="KEY=VALUE, such as 'firn.drop.retention=30 d'; may be repeated.")
    ] = None,
) -> None:
    """Create a catalog."""
    client, show = ctx.client, ctx.show
    made = client.catalogs.create(name, warehouse=warehouse, metastore=metastore, properties=pairs(property))
    show.emit(made.json_value(), lambda: show.line(f"created catalog {made.name} over {made.warehouse}"))


@command(app, "list")
def list_catalogs(ctx: CliContext) -> None:
    """List catalogs."""
    show, found = ctx.show, ctx.client.catalogs.list()
    rows = [(one.name, one.warehouse, one.metastore, one.created_at) for one in found]
    show.emit(
        [one.json_value() for one in found],
        lambda: show.table(("catalog", "warehouse", "metastore", "created"), rows, none="no catalogs"),
    )


@command(app, "show")
def show_catalog(ctx: CliContext, name: str) -> None:
    """Show a catalog and what engines are told to find it."""
    show, found = ctx.show, ctx.client.catalogs.get(name)
    show.emit(found.json_value(), lambda: show.facts(_facts(found, ctx.client.url)))


@command(app, "set")
def set_properties(
    ctx: CliContext,
    name: str,
    properties: Annotated[
        list[str],
        typer.Argument(metavar="KEY=VALUE…", help="Such as 'firn.drop.retention=30 d'; an empty value removes."),
    ],
) -> None:
    """Set a catalog's properties."""
    show, given = ctx.show, pairs(properties)
    removed = [key for key, value in given.items() if not value]
    changed = ctx.client.catalogs.set_properties(name, {key: one for key, one in given.items() if one}, removed)
    rows = sorted(changed.properties.items())
    show.emit(changed.properties, lambda: show.table(("property", "value"), rows, none="nothing is set"))


@command(app, "allow")
def allow_location(
    ctx: CliContext,
    name: str,
    location: Annotated[str, typer.Argument(help="Such as s3://bucket/landing: tables and files may lie in it.")],
) -> None:
    """Let tables of a catalog, and files that they name, lie in a location besides its warehouse.

    Whoever may create or write tables of this catalog can then have any file there read: allow no more than is needed.
    """
    show = ctx.show
    changed = ctx.client.catalogs.allow(name, location)
    allowed = [one for one in changed.properties.get(ALLOWED, "").split(",") if one]
    rows = [(changed.warehouse,), *((one,) for one in allowed)]
    show.emit(
        {"warehouse": changed.warehouse, "allowed": allowed},
        lambda: show.table(("tables may lie in",), rows, none=""),
    )


@command(app, "drop")
def drop_catalog(
    ctx: CliContext,
    name: str,
    *,
    forget_dropped: Annotated[
        bool, typer.Option("--forget-dropped", help="Also when dropped tables could still be brought back.")
    ] = False,
) -> None:
    """Forget an empty catalog; its warehouse stays."""
    show = ctx.show
    ctx.client.catalogs.drop(name, forget_dropped=forget_dropped)
    show.emit({"dropped": name}, lambda: show.line(f"dropped catalog {name}; its warehouse is untouched"))


def _facts(catalog: CatalogOut, url: str) -> dict[str, object]:
    return {
        "catalog": catalog.name,
        "warehouse": catalog.warehouse,
        "metastore": catalog.metastore or "none",
        "created": catalog.created_at,
        "dropped tables kept": catalog.properties.get("firn.drop.retention", "7 d"),
        "for engines": f"type=rest, uri={url}/iceberg, warehouse={catalog.name}",
    }
