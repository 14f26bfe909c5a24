"""Tables as assets of Airflow, by an address that any characters of names fit into: `firn://lake/mart/daily`."""

from __future__ import annotations

from urllib.parse import SplitResult, quote, unquote

from airflow.sdk import Asset

from firn.client import DEFAULT_CATALOG
from firn.integrations.tables import split_table
from firn.protocol.names import join_name

SCHEME = "firn"


def table_asset(table: str, *, catalog: str = DEFAULT_CATALOG) -> Asset:
    """The asset of a table, NAMESPACE.TABLE. Invalid for a name that is none."""
    parts = split_table(table, catalog)
    uri = f"{SCHEME}://{'/'.join(quote(part, safe='') for part in parts)}"
    return Asset(name=join_name(parts), uri=uri, group=SCHEME)


def read_asset(uri: str) -> tuple[str, str] | None:
    """Catalog and NAMESPACE.TABLE of the asset of a table; None for another asset."""
    scheme, _, rest = uri.partition("://")
    parts = [unquote(part) for part in rest.split("/")]
    if scheme != SCHEME or len(parts) < 3 or not all(parts):
        return None
    return parts[0], join_name(parts[1:])


def check_uri(uri: SplitResult) -> SplitResult:
    """The address of an asset as it is. ValueError if it names no table; Airflow calls this for every asset of ours."""
    if read_asset(uri.geturl()) is None or uri.query:
        raise ValueError("the address of a table is firn://CATALOG/NAMESPACE/TABLE")
    return uri
