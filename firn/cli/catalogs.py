"""`firn catalog …`"""

from __future__ import annotations

from typing import Annotated

import typer

from firn.catalogs import ALLOWED
from firn.cli.columns import parse_pairs
from firn.cli.context import CliContext, command
from firn.cli.describe import add_catalog_to
from firn.protocol.answers.catalogs import CatalogOut

CatalogArg = Annotated[str, typer.Argument(metavar="CATALOG", help="Name of the catalog.")]

app = typer.Typer(
    help="Manage catalogs: warehouses with a name, each optionally linked to a Hive Metastore.", no_args_is_help=True
)
add_catalog_to(app)


@command(app, "create")
def create_catalog(
    ctx: CliContext,
    name: Annotated[str, typer.Argument(help="Name of the catalog, as engines use it.")],
    warehouse: Annotated[str, typer.Option(help="Location of its tables: file:///…, s3://…, hdfs://…")],
    metastore: Annotated[str | None, typer.Option(help="Hive Metastore to link: thrift://HOST:PORT.")] = None,
    property: Annotated[
        list[str] | None, typer.Option(help="KEY=VALUE, such as 'firn.drop.retention=30 d'; may be repeated.")
    ] = None,
) -> None:
    """Create a catalog."""
    client, show = ctx.client, ctx.show
    created = client.catalogs.create(name, warehouse=warehouse, metastore=metastore, properties=parse_pairs(property))
    show.emit(created.json_value(), lambda: show.line(f"created catalog {created.name} over {created.warehouse}"))


@command(app, "list")
def list_catalogs(ctx: CliContext) -> None:
    """List catalogs."""
    show, catalogs = ctx.show, ctx.client.catalogs.list()
    rows = [(catalog.name, catalog.warehouse, catalog.metastore, catalog.created_at) for catalog in catalogs]
    show.emit(
        [catalog.json_value() for catalog in catalogs],
        lambda: show.table(("catalog", "warehouse", "metastore", "created"), rows, none="no catalogs"),
    )


@command(app, "show")
def show_catalog(ctx: CliContext, name: CatalogArg) -> None:
    """Show a catalog and the settings that engines need."""
    show, catalog = ctx.show, ctx.client.catalogs.get(name)
    show.emit(catalog.json_value(), lambda: show.facts(_facts(catalog, ctx.client.url)))


@command(app, "set")
def set_properties(
    ctx: CliContext,
    name: CatalogArg,
    properties: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY=VALUE…",
            help="KEY=VALUE, such as 'firn.drop.retention=30 d'. An empty value removes the property.",
        ),
    ],
) -> None:
    """Set or remove properties of a catalog."""
    show, pairs = ctx.show, parse_pairs(properties)
    removed = [key for key, value in pairs.items() if not value]
    changed = ctx.client.catalogs.set_properties(name, {key: value for key, value in pairs.items() if value}, removed)
    rows = sorted(changed.properties.items())
    show.emit(changed.properties, lambda: show.table(("property", "value"), rows, none="no properties"))


@command(app, "allow")
def allow_location(
    ctx: CliContext,
    name: CatalogArg,
    location: Annotated[str, typer.Argument(help="The location to allow, such as s3://bucket/landing.")],
) -> None:
    """Allow tables of a catalog, and their files, in a location outside of its warehouse.

    Users who may create or write tables of this catalog can then read every file there: allow no more than needed.
    """
    show = ctx.show
    changed = ctx.client.catalogs.allow(name, location)
    allowed = [location for location in changed.properties.get(ALLOWED, "").split(",") if location]
    rows = [(place,) for place in (changed.warehouse, *allowed)]
    show.emit(
        {"warehouse": changed.warehouse, "allowed": allowed},
        lambda: show.table(("allowed locations",), rows, none=""),
    )


@command(app, "drop")
def drop_catalog(
    ctx: CliContext,
    name: CatalogArg,
    *,
    forget_dropped: Annotated[
        bool, typer.Option("--forget-dropped", help="Drop it even if dropped tables could still be restored.")
    ] = False,
) -> None:
    """Drop an empty catalog. The files of its warehouse stay."""
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
