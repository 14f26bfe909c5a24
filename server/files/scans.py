"""Scan planning on manifests: selects manifests and data files, and the deletes that apply to them."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import chain, islice
from typing import Any, TypeVar

from cachetools import LRUCache

from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema
from catalog.iceberg.schema import index
from catalog.locations.location_rule import FileRule
from catalog.ports.scan import FileChange, FileTask
from catalog.scan.deletes import Column, DataFile, DeleteFile, DeleteIndex, DeleteKind
from catalog.scan.expression import FALSE
from catalog.scan.plan import ManifestSize, Slice, Task
from catalog.scan.scan import Scan
from server.files.file_changes import identify_deletes, limit_files, pair_files
from server.files.file_json import encode_file
from server.files.filters import Filter, Statistics
from server.files.manifest_records import Entry
from server.files.manifests import Content, ManifestFile, Manifests, Status
from server.files.storage import Storage
from server.files.values import decode_bound

CACHED_MANIFESTS = 50_000
CACHED_DELETES = 100_000
"""Cached manifest list lines and delete files of all tables; all tasks of one plan use the same ones."""
_ODD = re.compile(r"[%?#\\\x00-\x1f\x7f]|/\.*$")
MOST_COMPARED = 200_000
"""Files of the first snapshot that a comparison holds in memory."""
CHECKED_TOGETHER = 500
"""Number of files whose locations are checked with one call."""
T = TypeVar("T")
_PATH_ID = 2147483546
"""The column of position deletes that names the data file."""
_STATISTICS = ("value_counts", "null_value_counts", "nan_value_counts")


class ManifestScans:
    """Implements `catalog.ports.scan.ScanFiles`."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._lists: LRUCache[str, list[ManifestFile]] = LRUCache(
            CACHED_MANIFESTS, getsizeof=lambda lines: len(lines) + 1
        )
        self._deletes: LRUCache[str, DeleteIndex] = LRUCache(CACHED_DELETES, getsizeof=lambda deletes: deletes.size + 1)
        self._lock = threading.Lock()

    def sizes(self, scan: Scan, rule: FileRule) -> list[ManifestSize]:
        reading = self._reading(scan, rule)
        return [
            ManifestSize(at=at, files=_count_live(manifest))
            for at, manifest in enumerate(reading.data_manifests())
            if _count_live(manifest) != 0
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
        files = (file for piece in task for file in reading.files(manifests[piece.manifest], piece, deletes))
        checked: set[str] = set()
        while batch := list(islice(files, CHECKED_TOGETHER)):
            _check_locations(rule, batch, checked)
            yield from batch

    def changes(self, before: Scan, after: Scan, rule: FileRule) -> Iterator[FileChange]:
        first, last = self._reading(before, rule), self._reading(after, rule)
        first_index, last_index = self._index(first), self._index(last)
        shared = first.data_paths() & last.data_paths()  # manifests never change
        held = limit_files(first.files_without(shared, first_index), MOST_COMPARED)
        changes = pair_files(held, last.files_without(shared, last_index))
        if first.delete_paths() != last.delete_paths():
            changes = chain(changes, _compare_shared(first, last, shared, first_index, last_index))
        checked: set[str] = set()
        while batch := list(islice(changes, CHECKED_TOGETHER)):
            tasks = [task for change in batch for task in (change.before, change.after) if task is not None]
            _check_locations(rule, tasks, checked)
            yield from batch

    def _reading(self, scan: Scan, rule: FileRule) -> _Reading:
        # Checked before the cache lookup, because the cache also has files that only other tables may name.
        rule.check(
            snapshot["manifest-list"] for snapshot in scan.snapshots if snapshot.get("manifest-list") is not None
        )
        manifests = Manifests(self._storage.confined(rule), scan.metadata)
        by_snapshot = [
            (
                snapshot["snapshot-id"],
                self._read_cached(self._lists, snapshot.get("manifest-list"), partial(manifests.of_snapshot, snapshot)),
            )
            for snapshot in scan.snapshots
        ]
        return _Reading(scan, manifests, by_snapshot)

    def _index(self, reading: _Reading) -> DeleteIndex:
        """Load the deletes of the scan's snapshot; an incremental scan has none."""
        manifests = reading.delete_manifests()
        if not manifests:
            return DeleteIndex(())
        return self._read_cached(
            self._deletes,
            reading.scan.snapshots[0]["manifest-list"],
            lambda: DeleteIndex(delete for manifest in manifests for delete in reading.deletes(manifest)),
        )

    def _read_cached(self, cache: LRUCache[str, T], location: str | None, read: Callable[[], T]) -> T:
        """Read an immutable file through the cache, by its location; the oldest snapshots have no such file."""
        if location is None:
            return read()
        with self._lock:
            content = cache.get(location)
        if content is None:
            content = read()
            with self._lock, contextlib.suppress(ValueError):  # larger than the cache
                cache[location] = content
        return content


def _compare_shared(
    first: _Reading, last: _Reading, shared: AbstractSet[str], first_index: DeleteIndex, last_index: DeleteIndex
) -> Iterator[FileChange]:
    """Compare the deletes of files whose manifests both snapshots have."""
    for manifest in last.data_manifests():
        if manifest["manifest_path"] in shared:
            all_entries = Slice(0)
            both = zip(
                first.files(manifest, all_entries, first_index),
                last.files(manifest, all_entries, last_index),
                strict=True,
            )
            for before, after in both:
                if identify_deletes(before) != identify_deletes(after):
                    yield FileChange(before=before, after=after)


def _check_locations(rule: FileRule, tasks: Sequence[FileTask], checked: set[str]) -> None:
    """Check the files of tasks: LocationRefused when the table may not name one of them.

    The server opens none of these files.  So it checks each directory once, and single files only if a program might
    interpret their names in another way.
    """
    locations = [str(task.content["file-path"]) for task in tasks]
    locations += {str(delete.content["file-path"]) for task in tasks for delete in task.deletes}
    unchecked = []
    for location in locations:
        directory = location.rpartition("/")[0]
        if directory not in checked:
            checked.add(directory)
            unchecked.append(location)
        elif _ODD.search(location) is not None:
            unchecked.append(location)
    rule.check(unchecked)


class _Reading:
    """One scan's manifests."""

    def __init__(self, scan: Scan, manifests: Manifests, by_snapshot: Sequence[tuple[int, list[ManifestFile]]]) -> None:
        self.scan = scan
        self.manifests = manifests
        self.filter = Filter(scan.filter)
        self._kinds = _collect_kinds(scan.metadata)
        self._by_snapshot = by_snapshot

    def data_manifests(self) -> list[ManifestFile]:
        """List the data manifests, always in the same order; for an incremental scan only those that appends added."""
        return [
            manifest
            for snapshot_id, manifests in self._by_snapshot
            for manifest in manifests
            if manifest["content"] == 0 and (not self.scan.incremental or manifest["added_snapshot_id"] == snapshot_id)
        ]

    def delete_manifests(self) -> list[ManifestFile]:
        if self.scan.incremental:
            return []
        return [
            manifest
            for _, manifests in self._by_snapshot
            for manifest in manifests
            if manifest["content"] and _count_live(manifest)
        ]

    def data_paths(self) -> AbstractSet[str]:
        """The locations of the data manifests."""
        return {str(manifest["manifest_path"]) for manifest in self.data_manifests()}

    def delete_paths(self) -> AbstractSet[str]:
        """The locations of the delete manifests."""
        return {str(manifest["manifest_path"]) for manifest in self.delete_manifests()}

    def files_without(self, paths: AbstractSet[str], deletes: DeleteIndex) -> Iterator[FileTask]:
        """Read the files of all data manifests except those."""
        for manifest in self.data_manifests():
            if manifest["manifest_path"] not in paths:
                yield from self.files(manifest, Slice(0), deletes)

    def files(self, manifest: ManifestFile, piece: Slice, deletes: DeleteIndex) -> Iterator[FileTask]:
        """Read the matching files of a slice of a manifest."""
        spec = self.manifests.spec(manifest["partition_spec_id"])
        with_statistics = bool(self.filter.columns or self.scan.stats or deletes.equality_ids)
        entries = self.manifests.entries(manifest, with_maps=with_statistics)
        for entry in islice(entries, piece.start, piece.stop):
            if self.scan.incremental and not self._appended(entry):
                continue
            file = entry["data_file"]
            partition = spec.values(file["partition"], entry["names"])
            residual = self.filter.residual(spec, partition)
            if residual == FALSE or (with_statistics and not self.filter.may_match_file(self._statistics(file))):
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
                content=encode_file(file, spec, partition, self._requested_statistics()),
                rows=file["record_count"],
                deletes=applying,
                residual=residual,
            )

    def deletes(self, manifest: ManifestFile) -> Iterator[DeleteFile]:
        """Read the delete files of a manifest."""
        spec = self.manifests.spec(manifest["partition_spec_id"])
        for entry in self.manifests.entries(manifest):
            file = entry["data_file"]
            partition = spec.values(file["partition"], entry["names"])
            kind, named = _classify_delete(file), _find_data_file(file)
            equality_ids = file.get("equality_ids") or () if kind is DeleteKind.EQUALITY else ()
            content = encode_file(file, spec, partition, {})
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

    def _requested_statistics(self) -> Mapping[int, str]:
        return {field_id: self._kinds[field_id] for field_id in sorted(self.scan.stats) if field_id in self._kinds}

    def _statistics(self, file: Mapping[str, Any]) -> Statistics:
        """Build the statistics for the evaluators, without bounds that the current type cannot hold."""
        counts = [file.get(name) or {} for name in _STATISTICS]
        lower, upper = (self._valid_bounds(file.get(name) or {}) for name in ("lower_bounds", "upper_bounds"))
        return Statistics(
            record_count=file["record_count"],
            value_counts=counts[0],
            null_value_counts=counts[1],
            nan_value_counts=counts[2],
            lower_bounds=lower,
            upper_bounds=upper,
        )

    def _valid_bounds(self, bounds: Mapping[int, bytes]) -> dict[int, bytes]:
        return {
            field_id: bounds[field_id]
            for field_id, kind in self.filter.columns.items()
            if field_id in bounds and decode_bound(kind, bounds[field_id]) is not None
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
            lower=None if lower is None else decode_bound(kind, lower),
            upper=None if upper is None else decode_bound(kind, upper),
        )


def _collect_kinds(metadata: Json) -> dict[int, str]:
    """Collect the types of all current and former primitive columns, by id; current types win."""
    kinds: dict[int, str] = {}
    for schema in [*metadata["schemas"], current_schema(metadata)]:
        kinds |= {field.id: field.type for field in index(schema).by_id.values() if isinstance(field.type, str)}
    return kinds


def _count_live(manifest: ManifestFile) -> int | None:
    added, existing = manifest.get("added_files_count"), manifest.get("existing_files_count")
    return None if added is None or existing is None else added + existing


def _classify_delete(file: Mapping[str, Any]) -> DeleteKind:
    if file["content"] == Content.EQUALITY_DELETES:
        return DeleteKind.EQUALITY
    return DeleteKind.VECTOR if file["file_format"].upper() == "PUFFIN" else DeleteKind.POSITIONS


def _find_data_file(file: Mapping[str, Any]) -> str | None:
    """Find the single data file of position deletes: the referenced one, or the one that equals both path bounds."""
    if file["content"] == Content.EQUALITY_DELETES:
        return None
    named: str | None = file.get("referenced_data_file")
    if named is not None:
        return named
    lower, upper = ((file.get(name) or {}).get(_PATH_ID) for name in ("lower_bounds", "upper_bounds"))
    return lower.decode() if lower is not None and lower == upper else None
