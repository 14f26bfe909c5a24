"""The management API over real services, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from catalog.ports.store import Database
from server.app import create_app
from server.background.registry import build_background
from server.container import build_services
from server.settings import AccessSettings, Settings
from tests.server.api.client import Api
from tests.server.default_settings import settings_in
from tests.server.guarded import bearer
from tests.server.lake import a_lake
from tests.server.listening import listening


@pytest.fixture
def administered(database: Database, tmp_path: Path) -> Iterator[Api]:
    """The same with access control, asked by the first administrator."""
    lake = a_lake(database, tmp_path)
    configured = Settings(data_dir=tmp_path / "data", access=AccessSettings(enabled=True))
    services = build_services(configured, lake.database.real)
    admin = services.access.principals.create_first_admin()
    assert admin is not None
    app = create_app(configured, services, build_background(configured, services))
    with (
        listening(app) as url,
        httpx.Client(base_url=url, headers=bearer(admin), trust_env=False, timeout=60) as client,
    ):
        yield Api(client, lake)


@pytest.fixture
def api(database: Database, tmp_path: Path) -> Iterator[Api]:
    lake = a_lake(database, tmp_path)
    configured = settings_in(tmp_path / "data")
    app = create_app(configured, lake.services, build_background(configured, lake.services))
    with listening(app) as url, httpx.Client(base_url=url, trust_env=False, timeout=30) as client:
        yield Api(client, lake)
