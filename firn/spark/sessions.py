"""Spark sessions that find Firn's catalogs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeAlias

import httpx
from pyspark.sql import DataFrame, SparkSession

from firn.client import Client, connect
from firn.errors import Invalid
from firn.names import split_name
from firn.protocol.names import join_name
from firn.spark.jars import spark_conf
from firn.transport import is_loopback

EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
DEFAULTS = {
    "spark.sql.extensions": EXTENSIONS,
    "spark.sql.shuffle.partitions": "8",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
}
"""Defaults of a session on one machine. Later settings on the builder override them."""
LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
"""For a Spark in one process: its ports are only for this machine."""
TIMEOUT_SECONDS = 30.0
ICEBERG_API = "/iceberg"
SHORTEST_NAME = 2
"""The smallest number of parts of a table's name without its catalog: a namespace and the name."""


class Connection(Protocol):
    """How to reach a server; `firn.connect` returns one."""

    @property
    def url(self) -> str: ...
    @property
    def token(self) -> str | None: ...


Server: TypeAlias = str | Connection
"""A connection, or just the server's address."""


def configure(
    builder: SparkSession.Builder, client: Server, *, catalogs: Iterable[str] | None = None, kafka: bool = False
) -> SparkSession.Builder:
    """Add the server's catalogs under their own names, and the jars that they need, to the builder.

    With `kafka`, the session can read and write Kafka's topics; the first use fetches 8 MB of jars. Without
    `catalogs`, the function asks the server for them, and raises httpx.HTTPError if it does not answer.
    """
    names = _catalog_names(client) if catalogs is None else catalogs
    settings: dict[str, bool | float | int | str | None] = {**DEFAULTS, **spark_conf(kafka=kafka)}
    for name in names:
        settings |= catalog_conf(client, name)
    return builder.config(map=settings)


def session(
    client: Server,
    app: str = "firn",
    *,
    master: str | None = None,
    catalogs: Iterable[str] | None = None,
    kafka: bool = False,
) -> SparkSession:
    """A session on the server's catalogs: the running session with them added, or a new one.

    A running session keeps its jars: `kafka` has no effect on it.
    """
    builder = configure(SparkSession.builder.appName(app), client, catalogs=catalogs, kafka=kafka)
    if master is not None:
        builder = builder.master(master).config(map=build_loopback_conf(master))
    return builder.getOrCreate()


def sql(statement: str, spark: SparkSession | None = None) -> DataFrame:
    """Run one statement on the given or the running session; raise RuntimeError without one."""
    active = spark or SparkSession.getActiveSession()
    if active is None:
        raise RuntimeError("no Spark session is running: start one with firn.spark.session(client)")
    return active.sql(statement)


def find_session(spark: SparkSession | None) -> SparkSession:
    """The given or the running session; raise RuntimeError without one."""
    active = spark or SparkSession.getActiveSession()
    if active is None:
        raise RuntimeError("no Spark session is running: start one with firn.spark.session(client, kafka=True)")
    return active


def client_of(spark: SparkSession, table: str) -> tuple[Client, str]:
    """A client of the server of a session's table, and the table's name there.

    Raises Invalid if the session has no Firn catalog of that name.
    """
    catalog, *parts = split_name(table)
    prefix = f"spark.sql.catalog.{catalog}"
    uri, warehouse = spark.conf.get(f"{prefix}.uri", None), spark.conf.get(f"{prefix}.warehouse", None)
    if uri is None or warehouse is None or not uri.endswith(ICEBERG_API) or len(parts) < SHORTEST_NAME:
        raise Invalid(
            f"{table} is not in a Firn catalog of this session",
            hint="name it with its catalog, as in lake.db.orders, in a session of firn.spark.session(client)",
        )
    client = connect(uri.removesuffix(ICEBERG_API), token=spark.conf.get(f"{prefix}.token", None), catalog=warehouse)
    return client, join_name([warehouse, *parts])


def build_loopback_conf(master: str) -> dict[str, bool | float | int | str | None]:
    """Settings that bind a local Spark to loopback; none for a cluster, which must reach its driver."""
    return {**LOOPBACK} if master.startswith("local") else {}


def catalog_conf(
    client: Server, catalog: str, *, name: str | None = None, headers: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Spark settings for one of the server's catalogs, as `name` or under its own name."""
    url, token = _address(client)
    prefix = f"spark.sql.catalog.{name or catalog}"
    settings = {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": "rest",
        f"{prefix}.uri": f"{url}{ICEBERG_API}",
        f"{prefix}.warehouse": catalog,
        # With Spark's own cache, a session that created a keyed table would keep seeing its empty base store under the
        # table's name, and other writers' commits late. The client has ETags, so unchanged metadata is not sent again.
        f"{prefix}.cache-enabled": "false",
        # The server decides which files of a dropped table to delete. Spark would delete all of them itself.
        f"{prefix}.rest-catalog-purge": "true",
    }
    if token:
        settings[f"{prefix}.token"] = token
    return settings | {f"{prefix}.header.{header}": value for header, value in (headers or {}).items()}


def _address(client: Server) -> tuple[str, str | None]:
    url, token = (client, None) if isinstance(client, str) else (str(client.url), client.token)
    return url.rstrip("/"), token


def _catalog_names(client: Server) -> list[str]:
    url, token = _address(client)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    answer = httpx.get(
        f"{url}/api/v1/catalogs", headers=headers, timeout=TIMEOUT_SECONDS, trust_env=not is_loopback(url)
    )
    answer.raise_for_status()
    return [catalog["name"] for catalog in answer.json()]
