from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from firn.embedded.metastore import EmbeddedMetastore
from server.metastore import HiveMetastore, MetastoreSettings
from server.metastore.fake import FakeMetastore
from server.metastore.locks import LockSettings
from tests.server.metastore.hive_side import HiveSide
from tests.server.metastore.world import World

IMPATIENT = 0.2
"""How long, in seconds, what others have locked is waited for."""


@pytest.fixture(scope="session")
def metastore_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMetastore]:
    """A real Hive Metastore with locks for the whole run; tests keep apart by databases of their own."""
    with EmbeddedMetastore(tmp_path_factory.mktemp("metastore"), port=0, locks=True) as metastore:
        yield metastore


@pytest.fixture
def hive_metastore(metastore_process: EmbeddedMetastore) -> Iterator[HiveMetastore]:
    client = HiveMetastore(
        MetastoreSettings(uris=(metastore_process.uri,), connections=4, locks=LockSettings(wait_seconds=0.2))
    )
    yield client
    client.close()


@pytest.fixture
def fake_world(tmp_path: Path) -> World:
    fake = FakeMetastore()
    fake.add_database("d1")
    return World(fake, fake, "d1", tmp_path)


@pytest.fixture
def hive_world(request: pytest.FixtureRequest, hive_metastore: HiveMetastore, tmp_path: Path) -> Iterator[World]:
    process = request.getfixturevalue("metastore_process")
    hive = HiveSide(process.uri, process.warehouse)
    db = f"d{uuid4().hex[:12]}"
    hive.add_database(db)
    yield World(hive_metastore, hive, db, tmp_path)
    hive.close()


@pytest.fixture(params=["fake", pytest.param("hive", marks=pytest.mark.hive)])
def world(request: pytest.FixtureRequest) -> World:
    found: World = request.getfixturevalue(f"{request.param}_world")
    return found
