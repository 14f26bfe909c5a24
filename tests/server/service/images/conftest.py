from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.lake import BASE, Lake, altered, set_property
from tests.server.service.images.keyed_lake import KeyedLake


@pytest.fixture
def orders(lake: Lake) -> Iterator[KeyedLake]:
    """An empty keyed table, and the real builder of images."""
    lake.create_keyed()
    lake.commit(altered(BASE, set_property("firn.read.max-wait", "60 s")))  # whatever else the machine does
    yield KeyedLake(lake)
    lake.services.images.stop()
    lake.services.image_writes.stop()
