from __future__ import annotations

from collections.abc import Iterator

import pytest

from firn.embedded.metastore import EmbeddedMetastore
from server.metastore import HiveMetastore, MetastoreSettings


@pytest.fixture(scope="session")
def metastore_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMetastore]:
    """A real Hive Metastore for the whole run; tests keep apart by databases of their own."""
    with EmbeddedMetastore(tmp_path_factory.mktemp("metastore"), port=0) as metastore:
        yield metastore


@pytest.fixture
def hive_metastore(metastore_process: EmbeddedMetastore) -> Iterator[HiveMetastore]:
    client = HiveMetastore(MetastoreSettings(uris=(metastore_process.uri,), connections=4))
    yield client
    client.close()
