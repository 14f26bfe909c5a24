"""A real server, and an optimizer in this process on the Spark that all tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from optimizer.worker import Worker
from tests.keyed_tables import a_worker
from tests.spark_fixtures import RunningServer, running_server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tmp_path_factory.mktemp("firn") / "data") as running:
        yield running


@pytest.fixture(scope="session")
def worker(server: RunningServer) -> Worker:
    return a_worker(server.url)
