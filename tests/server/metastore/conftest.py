from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from firn.embedded.metastore import Asking, EmbeddedMetastore
from server.metastore import HiveMetastore, MetastoreSettings
from tests.server.metastore.later import LaterMetastore, home


@pytest.fixture(scope="session")
def metastore_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMetastore]:
    """A real Hive Metastore for the whole run; tests keep apart by databases of their own."""
    with EmbeddedMetastore(tmp_path_factory.mktemp("metastore"), port=0) as metastore:
        yield metastore


def _later(version: str, directory: Path) -> EmbeddedMetastore:
    if not home(version).is_dir():
        pytest.fail(f"the metastore of Hive {version} is not installed: make engines")
    return LaterMetastore(version, directory)


@pytest.fixture(scope="session")
def hive3_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMetastore]:
    with _later("3.1", tmp_path_factory.mktemp("hive3")) as metastore:
        with Asking(metastore.port) as client:  # makes the log's table, which its listener takes for granted
            client.get_current_notificationEventId()
        yield metastore


@pytest.fixture(scope="session")
def hive4_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMetastore]:
    with _later("4.0", tmp_path_factory.mktemp("hive4")) as metastore:
        yield metastore


@pytest.fixture
def hive_metastore(metastore_process: EmbeddedMetastore) -> Iterator[HiveMetastore]:
    client = HiveMetastore(MetastoreSettings(uris=(metastore_process.uri,), connections=4))
    yield client
    client.close()
