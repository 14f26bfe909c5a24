from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from firn.embedded.metastore import EmbeddedMetastore, MetastoreSession
from server.metastore import HiveMetastore, MetastoreSettings
from server.metastore.locks import LockSettings
from tests.integration.metastore.later import LaterMetastore, home
from tests.integration.metastore.world import World
from tests.server.metastore.addresses import connect, nobody, silent
from tests.server.metastore.fake import FakeMetastore
from tests.server.metastore.hive_side import HiveSide

__all__ = ["connect", "nobody", "silent"]

IMPATIENT = 0.2
"""How long, in seconds, what others have locked is waited for."""


@pytest.fixture(scope="package")
def metastore_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMetastore]:
    """A real Hive Metastore with locks for the whole run; tests keep apart by databases of their own."""
    with EmbeddedMetastore(tmp_path_factory.mktemp("metastore"), port=0, locks=True) as metastore:
        yield metastore


def _later(version: str, directory: Path) -> EmbeddedMetastore:
    if not home(version).is_dir():
        pytest.fail(f"the metastore of Hive {version} is not installed: make engines")
    return LaterMetastore(version, directory)


@pytest.fixture(scope="package")
def hive3_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMetastore]:
    with _later("3.1", tmp_path_factory.mktemp("hive3")) as metastore:
        with MetastoreSession(metastore.port) as client:  # makes the log's table, which its listener takes for granted
            client.get_current_notificationEventId()
        yield metastore


@pytest.fixture(scope="package")
def hive4_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMetastore]:
    with _later("4.0", tmp_path_factory.mktemp("hive4")) as metastore:
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


@contextmanager
def _real_world(process: EmbeddedMetastore, place: Path) -> Iterator[World]:
    hive = HiveSide(process.uri, process.warehouse)
    settings = MetastoreSettings(uris=(process.uri,), connections=4, locks=LockSettings(wait_seconds=IMPATIENT))
    metastore = HiveMetastore(settings)
    db = f"d{uuid4().hex[:12]}"
    hive.add_database(db)
    yield World(metastore, hive, db, place)
    metastore.close()
    hive.close()


@pytest.fixture
def hive_world(metastore_process: EmbeddedMetastore, tmp_path: Path) -> Iterator[World]:
    with _real_world(metastore_process, tmp_path) as world:
        yield world


@pytest.fixture
def hive3_world(hive3_process: EmbeddedMetastore, tmp_path: Path) -> Iterator[World]:
    with _real_world(hive3_process, tmp_path) as world:
        yield world


@pytest.fixture
def hive4_world(hive4_process: EmbeddedMetastore, tmp_path: Path) -> Iterator[World]:
    with _real_world(hive4_process, tmp_path) as world:
        yield world


@pytest.fixture(params=["fake", *(pytest.param(name, marks=pytest.mark.hive) for name in ("hive", "hive3", "hive4"))])
def world(request: pytest.FixtureRequest) -> World:
    world: World = request.getfixturevalue(f"{request.param}_world")
    return world


@pytest.fixture(params=["fake", pytest.param("hive", marks=pytest.mark.hive)])
def locking_world(request: pytest.FixtureRequest) -> World:
    """One whose metastore has locks: those of Hive 3 and 4 get their tables from a tool that their jars lack."""
    world: World = request.getfixturevalue(f"{request.param}_world")
    return world
