"""Manifests read for scans: which of them matter, which of their files do, and what is deleted from these."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from cachetools import LRUCache

from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema
from catalog.iceberg.schema import index
from catalog.locations.location_rule import FileRule
from catalog.ports.scan import FileTask
from catalog.scan.deletes import Column, DataFile, DeleteFile, DeleteIndex, DeleteKind
from catalog.scan.expression import FALSE
from catalog.scan.plan import ManifestSize, Slice, Task
from catalog.scan.scan import Scan
from server.files.file_json import content_json
from server.files.filters import Filter, Statistics
from server.files.manifest_records import Entry
from server.files.manifests import Content, ManifestFile, Manifests, Status
from server.files.storage import Storage
from server.files.values import decoded

CACHED_MANIFESTS = 50_000
CACHED_DELETES = 100_000
"""Lines of manifest lists and delete files that are kept in memory, of all tables: a plan's tasks all need the same."""
_ODD = re.compile(r"[%?#\\\x00-\x1f\x7f]|/\.*$")
CHECKED_TOGETHER = 500
"""Files whose places are judged at once."""
T = TypeVar("T")
_PATH_ID = 2147483546
"""The column of position deletes that names the data file."""
_STATISTICS = ("value_counts", "null_value_counts", "nan_value_counts")


class ManifestScans:
    """Implements `catalog.ports.scan.ScanFiles`."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._lists: LRUCache[str, list[ManifestFile]] = LRUCache(CACHED_MANIFESTS, getsizeof=lambda one: len(one) + 1)
        self._deletes: LRUCache[str, DeleteIndex] = LRUCache(CACHED_DELETES, getsizeof=lambda one: one.size + 1)
        self._lock = threading.Lock()

    def sizes(self, scan: Scan, rule: FileRule) -> list[ManifestSize]:
        reading = self._reading(scan, rule)
        return [
            ManifestSize(at=at, files=_live(manifest))
            for at, manifest in enumerate(reading.data_manifests())
            if _live(manifest) != 0
            and reading.filter.may_match_manifest(
                reading.manifests.spec(manifest["partition_spec_id"]), manifest.get("partitions")
            )
        ]

    def tasks(self, scan: Scan, task: Task, rule: FileRule) -> Iterator[FileTask]:
        if not task:
            return
        reading = self._reading(scan, rule)
        manifests = reading.data_manifests()
        deletes = self._index(reading)
        found = (one for piece in task for one in reading.files(manifests[piece.manifest], piece, deletes))
        judged: set[str] = set()
        while some := list(islice(found, CHECKED_TOGETHER)):
            _check(rule, some, judged)
            yield from some

    def _reading(self, scan: Scan, rule: FileRule) -> _Reading:
        # Before anything is looked up: what another table's scan has left in memory is its alone.
        rule.check(one["manifest-list"] for one in scan.snapshots if one.get("manifest-list") is not None)
        manifests = Manifests(self._storage.confined(rule), scan.metadata)
        listed = [
            (
                one["snapshot-id"],
                self._kept(self._lists, one.get("manifest-list"), partial(manifests.of_snapshot, one)),
            )
            for one in scan.snapshots
        ]
        return _Reading(scan, manifests, listed)

    def _index(self, reading: _Reading) -> DeleteIndex:
        """The deletes of the scan's snapshot; an append brings none."""
        listed = reading.delete_manifests()
        if not listed:
            return DeleteIndex(())
        return self._kept(
            self._deletes,
            reading.scan.snapshots[0]["manifest-list"],
            lambda: DeleteIndex(one for manifest in listed for one in reading.deletes(manifest)),
        )

    def _kept(self, cache: LRUCache[str, T], location: str | None, read: Callable[[], T]) -> T:
        """What an immutable file says, remembered by its location; the oldest snapshots have no such file."""
        if location is None:
            return read()
        with self._lock:
            found = cache.get(location)
        if found is None:
            found = read()
            with self._lock, contextlib.suppress(ValueError):  # larger than the whole cache
                cache[location] = found
        return found


def _check(rule: FileRule, tasks: Sequence[FileTask], judged: set[str]) -> None:
    """LocationRefused where one of these may not be named. The server opens none of them: directories are judged, once
    each, and files by themselves only where a program may read their names in another way.
    """
    locations = [str(one.content["file-path"]) for one in tasks]
    locations += {str(delete.content["file-path"]) for one in tasks for delete in one.deletes}
    wanted = []
    for location in locations:
        directory = location.rpartition("/")[0]
        if directory not in judged:
            judged.add(directory)
            wanted.append(location)
        elif _ODD.search(location) is not None:
            wanted.append(location)
    rule.check(wanted)


class _Reading:
    """One scan's manifests."""

    def __init__(self, scan: Scan, manifests: Manifests, listed: Sequence[tuple[int, list[ManifestFile]]]) -> None:
        self.scan = scan
        self.manifests = manifests
        self.filter = Filter(scan.filter)
        self._kinds = _kinds(scan.metadata)
        self._listed = listed

    def data_manifests(self) -> list[ManifestFile]:
        """All that list data files; an append's own alone when the scan is incremental. Always in the same order."""
        return [
            manifest
            for snapshot_id, listed in self._listed
            for manifest in listed
            if manifest["content"] == 0 and (not self.scan.incremental or manifest["added_snapshot_id"] == snapshot_id)
        ]

    def delete_manifests(self) -> list[ManifestFile]:
        if self.scan.incremental:
            return []
        return [
            manifest for _, listed in self._listed for manifest in listed if manifest["content"] and _live(manifest)
        ]

    def files(self, manifest: ManifestFile, piece: Slice, deletes: DeleteIndex) -> Iterator[FileTask]:
        """What a slice of a manifest has for the scan."""
        spec = self.manifests.spec(manifest["partition_spec_id"])
        whole = bool(self.filter.columns or self.scan.stats or deletes.equality_ids)
        entries = self.manifests.entries(manifest, whole=whole)
        for entry in islice(entries, piece.start, piece.stop):
            if self.scan.incremental and not self._appended(entry):
                continue
            file = entry["data_file"]
            partition = spec.values(file["partition"], entry["names"])
            residual = self.filter.residual(spec, partition)
            if residual == FALSE or (whole and not self.filter.may_match_file(self._statistics(file))):
                continue
            applying = deletes.of(
                DataFile(
                    location=file["file_path"],
                    spec_id=spec.spec_id,
                    partition=partition,
                    sequence_number=entry["sequence_number"],
                    columns=self._columns(file, deletes.equality_ids),
                )
            )
            yield FileTask(
                content=content_json(file, spec, partition, self._wanted()),
                rows=file["record_count"],
                deletes=applying,
                residual=residual,
            )

    def deletes(self, manifest: ManifestFile) -> Iterator[DeleteFile]:
        """The delete files that a manifest lists."""
        spec = self.manifests.spec(manifest["partition_spec_id"])
        for entry in self.manifests.entries(manifest):
            file = entry["data_file"]
            partition = spec.values(file["partition"], entry["names"])
            kind, named = _kind_of(file), _referenced(file)
            equality_ids = file.get("equality_ids") or () if kind is DeleteKind.EQUALITY else ()
            content = content_json(file, spec, partition, {})
            yield DeleteFile(
                kind=kind,
                spec_id=spec.spec_id,
                partition=partition,
                sequence_number=entry["sequence_number"],
                everywhere=kind is DeleteKind.EQUALITY and spec.is_unpartitioned,
                data_file=named,
                columns=self._columns(file, equality_ids),
                content=content if named is None else {**content, "referenced-data-file": named},
            )

    def _appended(self, entry: Entry) -> bool:
        return entry["status"] == Status.ADDED and entry["snapshot_id"] in self.scan.appended_ids

    def _wanted(self) -> Mapping[int, str]:
        return {field_id: self._kinds[field_id] for field_id in sorted(self.scan.stats) if field_id in self._kinds}

    def _statistics(self, file: Mapping[str, Any]) -> Statistics:
        """As the filter's evaluators can read them: without bounds that are no values of the column's present type."""
        counts = [file.get(name) or {} for name in _STATISTICS]
        lower, upper = (self._sound(file.get(name) or {}) for name in ("lower_bounds", "upper_bounds"))
        return Statistics(
            record_count=file["record_count"],
            value_counts=counts[0],
            null_value_counts=counts[1],
            nan_value_counts=counts[2],
            lower_bounds=lower,
            upper_bounds=upper,
        )

    def _sound(self, bounds: Mapping[int, bytes]) -> dict[int, bytes]:
        return {
            field_id: bounds[field_id]
            for field_id, kind in self.filter.columns.items()
            if field_id in bounds and decoded(kind, bounds[field_id]) is not None
        }

    def _columns(self, file: Mapping[str, Any], field_ids: Any) -> dict[int, Column]:
        return {field_id: self._column(file, field_id) for field_id in field_ids}

    def _column(self, file: Mapping[str, Any], field_id: int) -> Column:
        values, nulls, lower, upper = (
            (file.get(name) or {}).get(field_id)
            for name in ("value_counts", "null_value_counts", "lower_bounds", "upper_bounds")
        )
        kind = self._kinds.get(field_id, "unknown")
        return Column(
            values=values,
            nulls=nulls,
            lower=None if lower is None else decoded(kind, lower),
            upper=None if upper is None else decoded(kind, upper),
        )


def _kinds(metadata: Json) -> dict[int, str]:
    """The types of all primitive columns that the table has or had, by id; the current ones win."""
    found: dict[int, str] = {}
    for schema in [*metadata["schemas"], current_schema(metadata)]:
        found |= {one.id: one.type for one in index(schema).by_id.values() if isinstance(one.type, str)}
    return found


def _live(manifest: ManifestFile) -> int | None:
    added, existing = manifest.get("added_files_count"), manifest.get("existing_files_count")
    return None if added is None or existing is None else added + existing


def _kind_of(file: Mapping[str, Any]) -> DeleteKind:
    if file["content"] == Content.EQUALITY_DELETES:
        return DeleteKind.EQUALITY
    return DeleteKind.VECTOR if file["file_format"].upper() == "PUFFIN" else DeleteKind.POSITIONS


def _referenced(file: Mapping[str, Any]) -> str | None:
    """The one data file that position deletes are for: named, or the only one between the bounds of their paths."""
    if file["content"] == Content.EQUALITY_DELETES:
        return None
    named: str | None = file.get("referenced_data_file")
    if named is not None:
        return named
    lower, upper = ((file.get(name) or {}).get(_PATH_ID) for name in ("lower_bounds", "upper_bounds"))
    return lower.decode() if lower is not None and lower == upper else None
