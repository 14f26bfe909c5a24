"""A real server and a Spark session on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.spark_fixtures import RunningServer, running_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tmp_path_factory.mktemp("firn") / "data") as running:
        running.spark.sql("CREATE NAMESPACE lake.raw")
        running.spark.sql("CREATE NAMESPACE lake.mart")
        yield running
