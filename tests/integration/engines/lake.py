"""A namespace of a Firn server as Spark sees it; what the server says is asked of the server."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from tests.integration.engines.spark import LATEST, Row, Spark
from tests.spark_fixtures import ServerProcess

IS_SOAK = "SOAK_SECONDS" in os.environ
LATEST_ON_POSTGRES = pytest.param((LATEST, "postgres"), marks=pytest.mark.postgres, id=f"{LATEST}-postgres")
LATEST_SPARK_ALONE = [] if IS_SOAK else [pytest.mark.parametrize("lake", [LATEST_ON_POSTGRES], indirect=True)]
"""Marks of statements whose requests both Sparks send alike: both have the same version of Iceberg.

A soak runs them in both.
"""


@dataclass(frozen=True)
class Lake:
    """Stands for `catalog.namespace` in statements."""

    spark: Spark
    server: ServerProcess
    catalog: str
    namespace: str

    def __str__(self) -> str:
        return f"{self.catalog}.{self.namespace}"

    def sql(self, *statements: str) -> None:
        """Run statements in their order; Refused when one fails."""
        for statement in statements:
            self.spark.rows(statement)

    def rows(self, statement: str) -> list[Row]:
        """The rows of a query, in the query's order."""
        return self.spark.rows(statement)

    def values(self, statement: str) -> list[Any]:
        """The first column of a query, in the query's order."""
        return [row[0] for row in self.rows(statement)]

    def call(self, procedure: str, *arguments: str, table: str = "t") -> list[dict[str, Any]]:
        """Call one of Iceberg's procedures on a table here; its answer, by the names of its columns."""
        arguments_sql = ", ".join([f"table => '{self.namespace}.{table}'", *arguments])
        statement = f"CALL {self.catalog}.system.{procedure}({arguments_sql})"
        answer: list[dict[str, Any]] = self.spark.run(
            f"answer = [row.asDict() for row in spark.sql({statement!r}).collect()]"
        )
        return answer

    def snapshots(self, table: str = "t") -> list[int]:
        """The ids of its snapshots, oldest first."""
        return self.values(f"SELECT snapshot_id FROM {self}.{table}.snapshots ORDER BY committed_at, parent_id")

    def loaded(self, table: str = "t") -> dict[str, Any]:
        """What the catalog answers who loads the table."""
        return self._get(f"tables/{quote(table)}")

    def metadata(self, table: str = "t") -> dict[str, Any]:
        metadata: dict[str, Any] = self.loaded(table)["metadata"]
        return metadata

    def view(self, name: str) -> dict[str, Any]:
        metadata: dict[str, Any] = self._get(f"views/{quote(name)}")["metadata"]
        return metadata

    def directory(self, table: str = "t") -> Path:
        """Where the table's files are."""
        return Path(urlsplit(self.metadata(table)["location"]).path)

    def _get(self, path: str) -> dict[str, Any]:
        answer = self.server.http.get(f"/iceberg/v1/lake/namespaces/{quote(self.namespace)}/{path}")
        assert answer.is_success, answer.text
        body: dict[str, Any] = answer.json()
        return body
