from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from catalog.ports.store import Database
from server.app import create_app
from server.background.registry import build_background
from tests.factories import LAKE
from tests.server.default_settings import settings_in
from tests.server.lake import PLAIN, Lake, a_lake
from tests.server.listening import listening
from tests.server.scans.lake_table import LakeTable, a_row
from tests.server.scans.stored_plans import stored


@pytest.fixture
def lake(database: Database, tmp_path: Path) -> Lake:
    return a_lake(database, tmp_path)


@pytest.fixture
def client(lake: Lake) -> Iterator[httpx.Client]:
    settings = settings_in(lake.warehouse.parent / "data")
    app = create_app(settings, lake.services, build_background(settings, lake.services))
    with listening(app) as url, httpx.Client(base_url=url, trust_env=False, timeout=60) as http:
        yield http


@pytest.fixture
def table(lake: Lake) -> LakeTable:
    """Version 3, partitioned by day, with deletes of each kind."""
    lake_table = LakeTable(lake.warehouse / "t", [[("d", "day")], []], version=3)
    first, two = lake_table.add(0, [a_row(1), a_row(2)])
    lake_table.commit()
    lake_table.delete_by_vector(first)
    lake_table.delete_positions(two, scope="bounds")
    lake_table.delete_equal(lake_table.spec_ids[1], ["id"], [a_row(2)])
    lake_table.commit("delete")
    lake.services.tables.register(LAKE, PLAIN, stored(lake_table))
    return lake_table
