"""A real server with Spark, and the client as users install it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.schedulers.lake import ScheduledPipeline
from tests.integration.schedulers.scheduler import build_client
from tests.spark_fixtures import RunningServer, running_server


@pytest.fixture(scope="session")
def client_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_client(tmp_path_factory.mktemp("client"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tmp_path_factory.mktemp("firn") / "data") as running:
        yield running


@pytest.fixture
def pipeline(server: RunningServer, tmp_path: Path) -> ScheduledPipeline:
    return ScheduledPipeline(server, tmp_path)
