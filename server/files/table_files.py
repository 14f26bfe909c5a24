"""Data files and manifests for the services, without Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from catalog.datafile import AddSnapshot, DataFileEntry, FileStats, LiveFile
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_snapshot
from server.files.footers import Footers
from server.files.manifests import Manifests
from server.files.snapshots import write_snapshot
from server.files.storage import Storage


class TableFiles:
    """Implements `catalog.ports.hive.TableFiles`."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def footers(self, schema: Json, locations: Sequence[str]) -> Iterator[FileStats]:
        return Footers(self._storage, schema).read_all(locations)

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
        return write_snapshot(
            self._storage,
            metadata,
            added,
            removed,
            snapshot_id=snapshot_id,
            now_ms=now_ms,
            summary_extra=summary_extra,
        )

    def live_files(self, metadata: Json) -> Iterator[LiveFile]:
        snapshot = current_snapshot(metadata)
        return iter(()) if snapshot is None else Manifests(self._storage, metadata).live_files(snapshot)

    def delete(self, location: str) -> None:
        self._storage.delete(location)
