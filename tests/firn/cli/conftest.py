"""One real server, without Spark, and the command line against it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import firn
from tests.command_fixtures import free_port, run, server

__all__ = ["free_port", "run", "server"]


@pytest.fixture
def client(server: str) -> Iterator[firn.Client]:
    with firn.connect(server) as connected:
        yield connected
