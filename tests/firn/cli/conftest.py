"""One real server, without Spark, and the command line against it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import firn
from tests.command_line import Command, a_free_port, serving


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("cli") / "data") as (url, _):
        yield url


@pytest.fixture(scope="session")
def run(server: str) -> Command:
    return Command(server)


@pytest.fixture
def client(server: str) -> Iterator[firn.Client]:
    with firn.connect(server) as connected:
        yield connected


@pytest.fixture
def free_port() -> int:
    return a_free_port()
