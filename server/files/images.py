"""Writes the manifests and the metadata of an image, whose data files the builder has written.

Base's data manifests are listed as they are. A delete manifest of base is written anew only if the image replaces one
of its vectors. The metadata comes last (docs/protocols.md, rule 5.3).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from catalog.errors import Unavailable
from catalog.files.data_file import DataFileEntry
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema, current_snapshot
from catalog.keyed.image import (
    FIRST_WITH_VECTORS,
    IMAGE_BASE,
    IMAGE_CHANGE,
    build_image_metadata,
    chain_snapshots,
    find_same_spec,
)
from catalog.locations.location_rule import FileRule
from catalog.ports.images import ImageParts
from firn.protocol.tasks.image import HiddenPositions, Pack
from server.files.footers import Footers
from server.files.manifest_records import Entry
from server.files.manifests import Content, ManifestFile, Manifests, Status, assign_row_ids, build_entry
from server.files.partitions import Spec
from server.files.quarantine import QuarantineFiles
from server.files.storage import Storage

_PATH = 2147483546


class ImageFiles:
    """Implements `catalog.ports.images.ImageFiles`."""

    def __init__(self, storage: Storage, directories: QuarantineFiles) -> None:
        self._storage = storage
        self._directories = directories

    def write(self, parts: ImageParts, rule: FileRule) -> tuple[str, Json]:
        """See the port."""
        return write_image(self._storage.confined(rule), parts)

    def remove(self, directory: str, names: Collection[str]) -> int:
        """See the port."""
        prefixes = tuple(f"{name}-" for name in names)
        files = [
            location
            for location in self._directories.names(directory)
            if location.rpartition("/")[2].startswith(prefixes)
        ]
        for location in files:
            self._storage.delete(location)
        return len(files)


def write_image(storage: Storage, parts: ImageParts) -> tuple[str, Json]:
    """Write manifests, manifest list and metadata; see `catalog.ports.images.ImageFiles.write`."""
    snapshots = []
    if parts.layer.packs or current_snapshot(parts.base) is not None:
        snapshots = chain_snapshots(parts.earlier, _ImageWriter(storage, parts).write_snapshot())
    metadata = build_image_metadata(parts.base, parts.change, parts.key, snapshots, parts.table_location)
    location = parts.key.metadata_location(parts.table_location)
    storage.write_new(location, orjson.dumps(metadata))
    return location, metadata


@dataclass(slots=True)
class _Entries:
    """New manifest entries by partition spec."""

    by_spec: dict[int, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    count: int = 0
    rows: int = 0
    size: int = 0

    def add(self, spec: Spec, entry: Entry) -> None:
        file = entry["data_file"]
        self.by_spec[spec.spec_id].append(entry)
        self.count += 1
        self.rows += file["record_count"]
        self.size += file.get("content_size_in_bytes") or file["file_size_in_bytes"]


class _ImageWriter:
    def __init__(self, storage: Storage, parts: ImageParts) -> None:
        self._storage = storage
        self._parts = parts
        self._key = parts.key
        self._metadata = {**parts.base, "format-version": parts.key.format_version}
        self._manifests = Manifests(storage, self._metadata)
        self._change = Manifests(storage, parts.change)
        self._base_snapshot = current_snapshot(parts.base)
        self._sequence = parts.sequence_number
        self._has_vectors = parts.key.format_version >= FIRST_WITH_VECTORS

    def write_snapshot(self) -> Json:
        """Write everything but the metadata; returns the snapshot."""
        inherited = self._manifests.of_snapshot(self._base_snapshot) if self._base_snapshot else []
        packs, hidden = self._pack_entries(), self._hidden_entries(inherited)
        inherited = self._without_vectors(inherited, frozenset(self._parts.layer.replaced_vectors))
        lines = [*self._write(packs, Content.DATA), *self._write(hidden, Content.POSITION_DELETES), *inherited]
        first_row_id = self._parts.base.get("next-row-id", 0)
        row_ids = assign_row_ids(lines, first_row_id) if self._has_vectors else 0
        if not self._has_vectors:
            for line in lines:
                line.pop("first_row_id", None)
        location = f"{self._parts.directory}/{self._parts.name}-list.avro"
        header = {"snapshot-id": str(self._key.snapshot_id), "sequence-number": str(self._sequence)}
        if self._has_vectors:
            header["first-row-id"] = str(first_row_id)
        self._manifests.write_list(location, lines, header)
        snapshot = self._describe(location, packs, hidden)
        return snapshot | ({"first-row-id": first_row_id, "added-rows": row_ids} if self._has_vectors else {})

    def _pack_entries(self) -> _Entries:
        entries = _Entries()
        packs = self._parts.layer.packs
        partitions = self._find_partitions(self._change, current_snapshot(self._parts.change), {p.like for p in packs})
        footers = Footers(self._storage, current_schema(self._parts.base))
        for pack, stats in zip(packs, footers.read_all([pack.location for pack in packs]), strict=True):
            spec, values = self._partition_of(partitions, pack)
            added = build_entry(DataFileEntry(stats=stats, partition=values), spec, self._key.snapshot_id)
            entries.add(spec, self._entry(added["data_file"]))
        return entries

    def _partition_of(self, partitions: Mapping[str, tuple[Spec, Any]], pack: Pack) -> tuple[Spec, Any]:
        spec, values = _get(partitions, pack.like)
        same = find_same_spec(self._parts.base, {"spec-id": spec.spec_id, "fields": spec.json_fields})
        return self._manifests.spec(same), values

    def _hidden_entries(self, inherited: Sequence[ManifestFile]) -> _Entries:
        entries = _Entries()
        wanted = {hidden.data_files[0] for hidden in self._parts.layer.hidden}
        partitions = self._partitions_in(self._manifests, inherited, wanted)
        for hidden in self._parts.layer.hidden:
            spec, values = _get(partitions, hidden.data_files[0])
            entries.add(spec, self._entry(_describe_hidden(hidden, spec.record(values))))
        return entries

    def _find_partitions(
        self, manifests: Manifests, snapshot: Json | None, wanted: set[str]
    ) -> dict[str, tuple[Spec, Any]]:
        lines = manifests.of_snapshot(snapshot) if snapshot and wanted else []
        return self._partitions_in(manifests, lines, wanted)

    @staticmethod
    def _partitions_in(
        manifests: Manifests, lines: Iterable[ManifestFile], wanted: set[str]
    ) -> dict[str, tuple[Spec, Any]]:
        """Spec and partition of these data files; the search ends when all are found."""
        by_path: dict[str, tuple[Spec, Any]] = {}
        for line in lines:
            if line["content"] or len(by_path) == len(wanted):
                continue
            spec = manifests.spec(line["partition_spec_id"])
            for entry in manifests.entries(line, with_maps=False):
                path = entry["data_file"]["file_path"]
                if path in wanted:
                    by_path[path] = spec, spec.values(entry["data_file"]["partition"], entry["names"])
        return by_path

    def _without_vectors(self, lines: Sequence[ManifestFile], replaced: frozenset[str]) -> list[ManifestFile]:
        """Base's manifests; those that list a replaced vector are written anew without it."""
        kept: list[ManifestFile] = []
        for number, line in enumerate(lines):
            if not line["content"] or not replaced:
                kept.append(line)
                continue
            entries = list(self._manifests.entries(line))
            staying = [entry for entry in entries if not _is_vector_of(entry, replaced)]
            if len(staying) == len(entries):
                kept.append(line)
            elif staying:
                kept.append(self._write_again(line, staying, number))
        return kept

    def _write_again(self, line: ManifestFile, entries: Sequence[Entry], number: int) -> ManifestFile:
        spec = self._manifests.spec(line["partition_spec_id"])
        for entry in entries:
            file = entry["data_file"]
            file["partition"] = spec.record(spec.values(file["partition"], entry["names"]))
            entry["status"] = Status.EXISTING
        location = f"{self._parts.directory}/{self._parts.name}-k{number}.avro"
        made = self._manifests.write(location, entries, spec, Content.POSITION_DELETES, self._key.snapshot_id)
        return {**made, "sequence_number": line["sequence_number"]}

    def _write(self, entries: _Entries, content: Content) -> list[ManifestFile]:
        lines = []
        for spec_id, of_spec in entries.by_spec.items():
            location = f"{self._parts.directory}/{self._parts.name}-m{int(content)}-{spec_id}.avro"
            line = self._manifests.write(
                location, of_spec, self._manifests.spec(spec_id), content, self._key.snapshot_id
            )
            lines.append({**line, "sequence_number": self._sequence})
        return lines

    def _entry(self, file: dict[str, Any]) -> Entry:
        """Entries that state their sequence number are EXISTING ones: ADDED ones inherit it."""
        return {
            "status": Status.EXISTING,
            "snapshot_id": self._key.snapshot_id,
            "sequence_number": self._sequence,
            "file_sequence_number": self._sequence,
            "data_file": file,
        }

    def _describe(self, manifest_list: str, packs: _Entries, hidden: _Entries) -> dict[str, Any]:
        base = (self._base_snapshot or {}).get("summary") or {}
        more = {
            "total-records": packs.rows,
            "total-data-files": packs.count,
            "total-files-size": packs.size + hidden.size,
            "total-delete-files": hidden.count,
            "total-position-deletes": hidden.rows,
            "total-equality-deletes": 0,
        }
        summary = {name: str(int(base.get(name, 0)) + count) for name, count in more.items()}
        snapshots = [snapshot for snapshot in (self._base_snapshot, current_snapshot(self._parts.change)) if snapshot]
        return {
            "snapshot-id": self._key.snapshot_id,
            "sequence-number": self._sequence,
            "timestamp-ms": max(snapshot["timestamp-ms"] for snapshot in snapshots),
            "manifest-list": manifest_list,
            "schema-id": self._key.schema_id,
            "summary": {
                "operation": "overwrite",
                **summary,
                IMAGE_BASE: str(self._key.base_snapshot_id),
                IMAGE_CHANGE: str(self._key.change_snapshot_id),
            },
        }


def _describe_hidden(hidden: HiddenPositions, partition: dict[str, Any]) -> dict[str, Any]:
    file: dict[str, Any] = {
        "content": Content.POSITION_DELETES,
        "file_path": hidden.location,
        "file_format": "PARQUET" if hidden.offset is None else "PUFFIN",
        "partition": partition,
        "record_count": hidden.rows,
        "file_size_in_bytes": hidden.size,
        "referenced_data_file": hidden.data_files[0] if len(hidden.data_files) == 1 else None,
    }
    if hidden.offset is not None:
        return file | {"content_offset": hidden.offset, "content_size_in_bytes": hidden.length}
    paths = sorted(hidden.data_files)
    return file | {"lower_bounds": {_PATH: paths[0].encode()}, "upper_bounds": {_PATH: paths[-1].encode()}}


def _is_vector_of(entry: Entry, data_files: frozenset[str]) -> bool:
    file = entry["data_file"]
    return file["file_format"].upper() == "PUFFIN" and file.get("referenced_data_file") in data_files


def _get(partitions: Mapping[str, tuple[Spec, Any]], path: str) -> tuple[Spec, Any]:
    if path not in partitions:
        raise Unavailable(f"{path} is not in the snapshot that the image is built from", hint="Build the image again.")
    return partitions[path]
