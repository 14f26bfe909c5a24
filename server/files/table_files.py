"""Data files and manifests behind one door: see catalog.ports.hive.TableFiles."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from catalog.datafile import AddSnapshot, DataFileEntry, FileStats, LiveFile
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_snapshot
from server.files.footers import Footers
from server.files.manifests import Manifests
from server.files.snapshots import write_snapshot
from server.files.storage import Storage


@dataclass(frozen=True)
class StoredTableFiles:
    """Table files in the storage that this server can reach."""

    storage: Storage
    footer_threads: int

    def footers(self, schema: Json, locations: Sequence[str]) -> Iterator[FileStats]:
        """The footers of Parquet files, in the order asked."""
        return Footers(self.storage, schema, threads=self.footer_threads).read_all(locations)

    def write_snapshot(
        self,
        metadata: Json,
        added: Sequence[DataFileEntry],
        removed: Collection[str],
        *,
        snapshot_id: int,
        now_ms: int,
        summary_extra: Mapping[str, str] | None = None,
    ) -> AddSnapshot:
        """Write the manifests of a child of main's head."""
        return write_snapshot(
            self.storage,
            metadata,
            added,
            removed,
            snapshot_id=snapshot_id,
            now_ms=now_ms,
            summary_extra=summary_extra,
        )

    def live_files(self, metadata: Json) -> Iterator[LiveFile]:
        """All data and delete files of main's head."""
        head = current_snapshot(metadata)
        return iter(()) if head is None else Manifests(self.storage, metadata).live_files(head)

    def delete(self, location: str) -> None:
        """Remove one file that nothing refers to."""
        self.storage.delete(location)
