"""`firn catalog …`"""

from __future__ import annotations

from typing import Annotated

import typer

from firn.cli.told import Told, command
from firn.wire import Catalog

app = typer.Typer(help="Catalogs: named warehouses, each optionally linked to a Hive Metastore.", no_args_is_help=True)


@command(app, "create")
def create_catalog(
    this: Told,
    name: Annotated[str, typer.Argument(help="What engines will call it.")],
    warehouse: Annotated[str, typer.Option(help="Where its tables go: file:///…, s3://…, hdfs://…")],
    metastore: Annotated[str | None, typer.Option(help="Hive Metastore to link: thrift://HOST:PORT.")] = None,
) -> None:
    """Create a catalog."""
    client, show = this.client, this.show
    made = client.catalogs.create(name, warehouse=warehouse, metastore=metastore)
    show.emit(made.json_value(), lambda: show.line(f"created catalog {made.name} over {made.warehouse}"))


@command(app, "list")
def list_catalogs(this: Told) -> None:
    """List catalogs."""
    show, found = this.show, this.client.catalogs.list()
    rows = [(one.name, one.warehouse, one.metastore, one.created_at) for one in found]
    show.emit(
        [one.json_value() for one in found],
        lambda: show.table(("catalog", "warehouse", "metastore", "created"), rows, none="no catalogs"),
    )


@command(app, "show")
def show_catalog(this: Told, name: str) -> None:
    """Show a catalog and what engines are told to find it."""
    show, found = this.show, this.client.catalogs.get(name)
    show.emit(found.json_value(), lambda: show.facts(_facts(found, this.client.url)))


@command(app, "drop")
def drop_catalog(this: Told, name: str) -> None:
    """Forget an empty catalog; its warehouse stays."""
    show = this.show
    this.client.catalogs.drop(name)
    show.emit({"dropped": name}, lambda: show.line(f"dropped catalog {name}; its warehouse is untouched"))


def _facts(catalog: Catalog, url: str) -> dict[str, object]:
    return {
        "catalog": catalog.name,
        "warehouse": catalog.warehouse,
        "metastore": catalog.metastore or "none",
        "created": catalog.created_at,
        "for engines": f"type=rest, uri={url}/iceberg, warehouse={catalog.name}",
    }
