from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from server.launch import layer_builder, query_engine
from tests.databases import open_copy
from tests.forked_programs import start_builder
from tests.server.clocks import clock
from tests.server.guarded import Guarded, guarded
from tests.server.lake import PLAIN, Lake, a_lake

__all__ = ["clock"]


@pytest.fixture(scope="session", autouse=True)
def builders_are_forked() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (layer_builder, query_engine):
            patch.setattr(module, "start_builder", start_builder)
        yield


@pytest.fixture(scope="module")
def plain_lake(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake with one plain table, which the tests of a file share."""
    directory = tmp_path_factory.mktemp("lake")
    with open_copy(migrated_sqlite, directory / "firn.db") as opened:
        lake = a_lake(opened.database, directory)
        lake.create(PLAIN)
        yield lake


@pytest.fixture(scope="module")
def guarded_server(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A server with access control, which the tests of a file share."""
    directory = tmp_path_factory.mktemp("guarded")
    with open_copy(migrated_sqlite, directory / "firn.db") as opened:
        yield guarded(opened.database, directory)
