from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from catalog.ports.store import Database
from tests.databases import open_copy
from tests.server.service.imports.importing import Importing, importing


@pytest.fixture
def here(database: Database, tmp_path: Path) -> Importing:
    """On each database."""
    return importing(database, tmp_path)


@pytest.fixture
def mortal(migrated_sqlite: Path, tmp_path: Path) -> Iterator[Importing]:
    """SQLite alone: what is tried is what becomes of a process."""
    with open_copy(migrated_sqlite, tmp_path / "firn.db") as opened:
        yield importing(opened.database, tmp_path)
