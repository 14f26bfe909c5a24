"""Data files and manifests for the services, without Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from catalog.errors import Denied, NotFound
from catalog.files.data_file import AddSnapshot, DataFileEntry, FileFormat, FileStats, LiveFile, Unreadable
from catalog.hive.listing import Listing
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_snapshot
from server.files.digests import TAIL, digest_of
from server.files.footers import Footers
from server.files.listing import Listings
from server.files.manifests import Manifests
from server.files.snapshots import write_snapshot
from server.files.storage import Storage
from server.prefetch import run_in_threads

_CHUNK = 16


class TableFiles:
    """Implements `catalog.ports.hive.TableFiles`."""

    def __init__(self, storage: Storage, directories: Listings, *, footer_threads: int) -> None:
        self._storage = storage
        self._directories = directories
        self._footer_threads = footer_threads

    def listings(self, locations: Sequence[str], *, recursive: bool = False) -> Iterator[Listing]:
        return self._directories.list_all(locations, recursive=recursive)

    def listings_or_why(self, locations: Sequence[str], *, recursive: bool = False) -> Iterator[Listing | Denied]:
        return self._directories.list_all_or_why(locations, recursive=recursive)

    def listing_below(self, location: str) -> Listing:
        return self._directories.list(location, recursive=True)

    def modified_ns(self, location: str) -> int | None:
        return self._directories.modified_ns(location)

    def footers(
        self,
        schema: Json,
        locations: Iterable[str],
        formats: Mapping[str, FileFormat] | None = None,
        *,
        nulls_of: Collection[int] = (),
    ) -> Iterator[FileStats]:
        return self._footers(schema, nulls_of).read_all(locations, formats)

    def examined(
        self,
        schema: Json,
        locations: Iterable[str],
        formats: Mapping[str, FileFormat] | None = None,
        *,
        nulls_of: Collection[int] = (),
    ) -> Iterator[FileStats | Unreadable]:
        return self._footers(schema, nulls_of).examine_all(locations, formats)

    def digests(self, locations: Sequence[str]) -> Iterator[int | None]:
        return run_in_threads(
            lambda batch: [self._digest(location) for location in batch],
            locations,
            threads=self._footer_threads,
            at_once=_CHUNK,
            name="digests",
        )

    def _digest(self, location: str) -> int | None:
        try:
            tail, _ = self._storage.tail(location, TAIL)
        except (NotFound, Denied):
            return None
        return digest_of(tail)

    def _footers(self, schema: Json, nulls_of: Collection[int]) -> Footers:
        return Footers(self._storage, schema, threads=self._footer_threads, nulls_of=nulls_of)

    def write_snapshot(
        self,
        metadata: Json,
        added: Iterable[DataFileEntry],
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

    def delete_directory(self, location: str) -> None:
        self._storage.delete_directory(location)
