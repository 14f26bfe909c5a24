"""Trends of tables, namespaces and catalogs: `client.trends("db.orders", since="30 d")`."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING
from urllib.parse import quote

from firn.errors import NotFound
from firn.names import split_name
from firn.protocol.names import join_name
from firn.protocol.trends import Measure, TrendOut
from firn.transport import Json

if TYPE_CHECKING:
    from firn.client import Client


def load_trends(client: Client, name: str | None, measures: Collection[Measure | str], since: str) -> TrendOut:
    """The trends of a catalog, table or namespace, whichever has this name; without one, of the client's catalog."""
    params: dict[str, Json] = {"since": since}
    if measures:
        params["measure"] = [str(measure) for measure in measures]
    parts = (client.catalog,) if name is None else split_name(name)
    if len(parts) == 1:
        return _load_scope(client, parts, params)
    table = client.name(join_name(parts))
    try:
        path = f"/catalogs/{quote(table.catalog, safe='')}/tables/{quote(table.table, safe='')}/trends"
        return TrendOut.read(client.transport.get(path, params))
    except NotFound:
        return _load_scope(client, parts, params)


def _load_scope(client: Client, parts: tuple[str, ...], params: dict[str, Json]) -> TrendOut:
    catalog, namespace = (parts[0], parts[1:]) if client.is_catalog(parts[0]) else (client.catalog, parts)
    more = {"namespace": join_name(namespace)} if namespace else {}
    return TrendOut.read(client.transport.get(f"/catalogs/{quote(catalog, safe='')}/trends", {**params, **more}))
