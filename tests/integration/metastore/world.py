"""A metastore, fake or real, with a second program at work on it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from catalog.ports.metastore import Metastore
from tests.server.metastore.fake import FakeMetastore
from tests.server.metastore.hive_side import HiveSide


@dataclass
class World:
    """A metastore as we see it, the same one as Hive sees it, and a database of the test's own."""

    metastore: Metastore
    hive: HiveSide | FakeMetastore
    db: str
    place: Path

    def at(self, name: str) -> str:
        return f"file:{self.place}/{name}"
