from __future__ import annotations

from pathlib import Path

import pytest

from catalog.ports.store import Database
from tests.server.lake import Lake, a_lake


@pytest.fixture
def lake(database: Database, tmp_path: Path) -> Lake:
    return a_lake(database, tmp_path)
