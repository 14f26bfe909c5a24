from __future__ import annotations

from pathlib import Path

import pytest

from server.store.session import Sessions, open_engine
from server.store.unit_of_work import SqlDatabase
from tests.server.service.hive.beside_hive import BesideHive, beside_hive
from tests.server.service.hive.mixed_formats import mixed
from tests.server.service.hive.served_site import site

__all__ = ["beside", "mixed", "site"]


@pytest.fixture
def beside(migrated_sqlite: Path, tmp_path: Path) -> BesideHive:
    """SQLite alone: what is tried here is what becomes of a process, on real files."""
    path = tmp_path / "firn.db"
    path.write_bytes(migrated_sqlite.read_bytes())
    return beside_hive(SqlDatabase(Sessions(open_engine(f"sqlite:///{path}"))), tmp_path)
