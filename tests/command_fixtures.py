"""One server of a process in a process of its own, and the command line against it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.command_line import Command, a_free_port, serving


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("cli") / "data") as (url, _):
        yield url


@pytest.fixture(scope="session")
def run(server: str) -> Command:
    return Command(server)


@pytest.fixture
def free_port() -> int:
    return a_free_port()
