"""The pipeline's catalog, as a session and as a client of the server see it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import SparkSession

from firn.client import Client, TableHandle
from firn.protocol.names import format_sql_name, join_name, split_name
from firn.spark.sessions import client_of


@dataclass(frozen=True)
class Lake:
    """A catalog: its name in the session, and its name at the server."""

    spark: SparkSession
    name: str
    client: Client
    catalog: str

    def parts(self, table: str) -> tuple[str, ...]:
        """The parts of the name of NAMESPACE.TABLE in the session."""
        return (self.name, *split_name(table))

    def table(self, table: str) -> TableHandle:
        """The table as the client knows it."""
        return self.client.tables[self.path(table)]

    def path(self, table: str) -> str:
        """The table's name at the server."""
        return join_name([self.catalog, *split_name(table)])


@contextmanager
def open_lake(spark: SparkSession, name: str) -> Iterator[Lake]:
    """The catalog that the session knows by this name, with a client that is closed at the end."""
    client, path = client_of(spark, format_sql_name([name, "namespace", "table"]))
    with client:
        yield Lake(spark, name, client, split_name(path)[0])
