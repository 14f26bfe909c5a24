from __future__ import annotations

from pathlib import Path

import pytest

from catalog.ports.store import Database
from server.store.session import Sessions, open_engine
from server.store.unit_of_work import SqlDatabase
from tests.server.service.imports.importing import Importing, importing


@pytest.fixture
def here(database: Database, tmp_path: Path) -> Importing:
    """On each database."""
    return importing(database, tmp_path)


@pytest.fixture
def mortal(migrated_sqlite: Path, tmp_path: Path) -> Importing:
    """SQLite alone: what is tried is what becomes of a process."""
    path = tmp_path / "firn.db"
    path.write_bytes(migrated_sqlite.read_bytes())
    return importing(SqlDatabase(Sessions(open_engine(f"sqlite:///{path}"))), tmp_path)
