from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.databases import open_copy
from tests.server.service.hive.beside_hive import BesideHive, beside_hive
from tests.server.service.hive.mixed_formats import mixed
from tests.server.service.hive.served_site import site

__all__ = ["beside", "mixed", "site"]


@pytest.fixture
def beside(migrated_sqlite: Path, tmp_path: Path) -> Iterator[BesideHive]:
    """SQLite alone: what is tried here is what becomes of a process, on real files."""
    with open_copy(migrated_sqlite, tmp_path / "firn.db") as opened:
        yield beside_hive(opened.database, tmp_path)
