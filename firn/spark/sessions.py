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
"""What a session on one machine starts with; settings made on the builder later win."""
LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
"""For a Spark that runs in one process: it opens ports, and nobody else has any business there."""
TIMEOUT_SECONDS = 30.0
ICEBERG_API = "/iceberg"
SHORTEST_NAME = 2
"""Parts of a table's name without its catalog: a namespace and the name itself."""


class Connection(Protocol):
    """How to reach a server; `firn.connect` returns one."""

    @property
    def url(self) -> str: ...
    @property
    def token(self) -> str | None: ...


Server: TypeAlias = str | Connection
"""A connection, or just the server's address."""


def configure(
    builder: SparkSession.Builder, client: Server, *, catalogs: Iterable[str] | None = None
) -> SparkSession.Builder:
    """The builder, told of the server's catalogs under their own names, and of the jars they need.

    Without `catalogs` the server is asked for them; httpx.HTTPError when it does not answer.
    """
    names = _catalog_names(client) if catalogs is None else catalogs
    settings: dict[str, bool | float | int | str | None] = {**DEFAULTS, **spark_conf()}
    for name in names:
        settings |= catalog_conf(client, name)
    return builder.config(map=settings)


def session(
    client: Server, app: str = "firn", *, master: str | None = None, catalogs: Iterable[str] | None = None
) -> SparkSession:
    """A session on the server's catalogs; the running one, told of them, when there is one already."""
    builder = configure(SparkSession.builder.appName(app), client, catalogs=catalogs)
    if master is not None:
        builder = builder.master(master).config(map=loopback_if_local(master))
    return builder.getOrCreate()


def sql(statement: str, spark: SparkSession | None = None) -> DataFrame:
    """Run one statement on the given or the running session; RuntimeError when none is running."""
    active = spark or SparkSession.getActiveSession()
    if active is None:
        raise RuntimeError("no Spark session is running: start one with firn.spark.session(client)")
    return active.sql(statement)


def client_of(spark: SparkSession, table: str) -> tuple[Client, str]:
    """The management API of the server that a session has a table from, and the table's name there.

    Invalid when the session has no catalog of Firn's of that name.
    """
    catalog, *parts = split_name(table)
    prefix = f"spark.sql.catalog.{catalog}"
    uri, found = spark.conf.get(f"{prefix}.uri", None), spark.conf.get(f"{prefix}.warehouse", None)
    if uri is None or found is None or not uri.endswith(ICEBERG_API) or len(parts) < SHORTEST_NAME:
        raise Invalid(
            f"{table} is in no catalog of a Firn server that this session knows",
            hint="name it with its catalog, as in lake.db.orders, in a session of firn.spark.session(client)",
        )
    client = connect(uri.removesuffix(ICEBERG_API), token=spark.conf.get(f"{prefix}.token", None), catalog=found)
    return client, join_name([found, *parts])


def loopback_if_local(master: str) -> dict[str, bool | float | int | str | None]:
    """Settings that keep a Spark on one machine to that machine; none for a cluster, which must reach its driver."""
    return {**LOOPBACK} if master.startswith("local") else {}


def catalog_conf(
    client: Server, catalog: str, *, name: str | None = None, headers: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Settings that make one of the server's catalogs known to Spark, as `name` or under its own name."""
    url, token = _address(client)
    prefix = f"spark.sql.catalog.{name or catalog}"
    settings = {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": "rest",
        f"{prefix}.uri": f"{url}{ICEBERG_API}",
        f"{prefix}.warehouse": catalog,
        # With Spark's own cache a session that has created a keyed table would go on seeing its empty base store under
        # the table's name, and other writers' commits late. Unchanged metadata is not sent again: the client has ETags.
        f"{prefix}.cache-enabled": "false",
        # The server decides which files a dropped table may lose; Spark would delete them itself.
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
