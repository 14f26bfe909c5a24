from __future__ import annotations

from pathlib import Path

import pytest

from tests.databases import OpenDatabase
from tests.server.asgi import Client
from tests.server.guarded import Guarded, guarded


@pytest.fixture
def server(opened_sqlite: OpenDatabase, tmp_path: Path) -> Guarded:
    return guarded(opened_sqlite.database, tmp_path)


@pytest.fixture
def http(server: Guarded) -> Client:
    return Client(server.app)
