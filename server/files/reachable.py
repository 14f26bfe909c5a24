"""The files that table metadata references, read level by level, and their deletion in parallel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from catalog.locations.location_rule import FileRule
from server.files.manifest_records import check_types, list_manifests, read_manifest
from server.files.manifests import Status
from server.files.storage import Storage

_THREADS = 16
"""An object store answers each request after about 20 ms, also many in parallel."""
_WORTH_THREADS = 8


class Reachable:
    """Implements `catalog.ports.dropped.ReachableFiles` and `catalog.ports.orphans.NamedFiles`."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def confined(self, rule: FileRule) -> Reachable:
        return Reachable(self._storage.confined(rule))

    def manifests(self, manifest_list: str) -> list[str]:
        return list_manifests(self._storage, manifest_list)

    def files(self, manifest: str) -> list[str]:
        return [path for path, status in self._entries(manifest) if status != Status.DELETED]

    def named(self, manifest: str) -> list[str]:
        """See catalog.ports.orphans.NamedFiles."""
        return [path for path, _ in self._entries(manifest)]

    def _entries(self, manifest: str) -> Iterator[tuple[str, int]]:
        for entry in read_manifest(self._storage, manifest):
            check_types(manifest, entry, {"status": int, "data_file": dict})
            check_types(manifest, entry["data_file"], {"file_path": str})
            yield entry["data_file"]["file_path"], entry["status"]

    def missing(self, locations: Sequence[str]) -> list[str]:
        if len(locations) < _WORTH_THREADS:
            return [location for location in locations if not self._storage.exists(location)]
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="look") as pool:
            exists = list(pool.map(self._storage.exists, locations))
        return [location for location, is_there in zip(locations, exists, strict=True) if not is_there]

    def delete(self, locations: Sequence[str]) -> None:
        if len(locations) < _WORTH_THREADS:
            for location in locations:
                self._storage.delete(location)
            return
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="purge") as pool:
            list(pool.map(self._storage.delete, locations))

    def delete_empty_directories(self, location: str) -> None:
        self._storage.delete_empty_directories(location)
