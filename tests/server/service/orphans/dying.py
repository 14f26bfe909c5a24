"""A server that ends at a chosen step of taking, putting back or deleting orphans."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import cast

from catalog.ports.store import Database
from catalog.removal.orphan_removal import SeenFile
from server.files.locations import local_path
from server.files.quarantine import QuarantineFiles
from server.files.reachable import Reachable
from server.files.storage import Storage
from server.service.orphans.orphan_removal import Orphans
from server.service.orphans.quarantine import Quarantine
from server.service.tables.metadata_files import MetadataFiles
from tests.server.lake import Lake
from tests.server.service.dropping import DyingDatabase, Fuse
from tests.server.wrappers import FilesWrapper


@dataclass
class DyingMoves:
    """Moves that may be cut short: before, after, and between the two names of a file."""

    real: QuarantineFiles
    fuse: Fuse

    def inspect(self, locations: Sequence[str]) -> Sequence[SeenFile | None]:
        return self.real.inspect(locations)

    def is_below(self, location: str, directory: str) -> bool:
        return self.real.is_below(location, directory)

    def clock(self, directory: str) -> datetime | None:
        return self.real.clock(directory)

    def names(self, directory: str) -> Sequence[str]:
        return self.real.names(directory)

    def can_move(self, location: str, directory: str) -> bool:
        return self.real.can_move(location, directory)

    def move(self, location: str, to: str) -> None:
        self.fuse.burn()
        if self.fuse.left == 1:
            here, there = Path(local_path(location) or ""), Path(local_path(to) or "")
            there.parent.mkdir(parents=True, exist_ok=True)
            os.link(here, there)
            self.fuse.burn()
        self.real.move(location, to)
        self.fuse.burn()

    def is_moved(self, location: str, to: str) -> bool:
        return self.real.is_moved(location, to)


@dataclass
class DyingReports(FilesWrapper):
    """Reports, and files that are deleted."""

    fuse: Fuse

    def write_new(self, location: str, data: bytes) -> None:
        self.fuse.burn()
        self.real.write_new(location, data)
        self.fuse.burn()

    def delete(self, location: str) -> None:
        self.fuse.burn()
        self.real.delete(location)
        self.fuse.burn()


def dying_orphans(lake: Lake, fuse: Fuse) -> Orphans:
    """A server that has just started, and will end when the fuse has burnt down."""
    storage = Storage()
    database = cast("Database", DyingDatabase(lake.database.real, fuse))
    files = DyingMoves(QuarantineFiles(storage), fuse)
    quarantine = Quarantine(database, files, DyingReports(storage, fuse))
    readers = lake.services.orphans.readers
    return Orphans(database, MetadataFiles(storage), files, Reachable(storage), quarantine, readers)
