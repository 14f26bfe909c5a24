"""Writes the manifests and the metadata of an image, whose data files the builder has written.

Base's data manifests are listed as they are. A delete manifest of base is written anew only if the image replaces one
of its vectors. The metadata comes last (docs/protocols.md, rule 5.3).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from catalog.files.data_file import AddSnapshot
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_snapshot
from catalog.keyed.image import (
    FIRST_WITH_VECTORS,
    IMAGE_BASE,
    IMAGE_CHANGE,
    build_image_metadata,
    chain_snapshots,
)
from catalog.locations.location_rule import FileRule
from catalog.ports.images import AdoptionParts, ImageParts
from server.files.adoption import write_adoption
from server.files.layer_files import LayerFiles
from server.files.manifest_records import Entry
from server.files.manifests import Content, ManifestFile, Manifests, Status, assign_row_ids
from server.files.partitions import Spec
from server.files.quarantine import QuarantineFiles
from server.files.storage import Storage


class ImageFiles:
    """Implements `catalog.ports.images.ImageFiles`."""

    def __init__(self, storage: Storage, directories: QuarantineFiles) -> None:
        self._storage = storage
        self._directories = directories

    def write(self, parts: ImageParts, rule: FileRule) -> tuple[str, Json]:
        """See the port."""
        return write_image(self._storage.confined(rule), parts)

    def write_adoption(self, parts: AdoptionParts, rule: FileRule) -> AddSnapshot:
        """See the port."""
        return write_adoption(self._storage.confined(rule), parts)

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
        self._base_snapshot = current_snapshot(parts.base)
        self._sequence = parts.sequence_number
        self._has_vectors = parts.key.format_version >= FIRST_WITH_VECTORS

    def write_snapshot(self) -> Json:
        """Write everything but the metadata; returns the snapshot."""
        inherited = self._manifests.of_snapshot(self._base_snapshot) if self._base_snapshot else []
        files = LayerFiles(self._storage, self._metadata, self._parts.change, self._parts.layer)
        packs, hidden = self._entries(files.list_packs()), self._entries(files.list_hidden(inherited))
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

    def _entries(self, files: Iterable[tuple[Spec, Entry]]) -> _Entries:
        entries = _Entries()
        for spec, file in files:
            entries.add(spec, self._entry(file))
        return entries

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
        manifest = self._manifests.write(location, entries, spec, Content.POSITION_DELETES, self._key.snapshot_id)
        return {**manifest, "sequence_number": line["sequence_number"]}

    def _write(self, entries: _Entries, content: Content) -> list[ManifestFile]:
        lines = []
        for spec_id, of_spec in entries.by_spec.items():
            location = f"{self._parts.directory}/{self._parts.name}-m{int(content)}-{spec_id}.avro"
            line = self._manifests.write(
                location, of_spec, self._manifests.spec(spec_id), content, self._key.snapshot_id
            )
            lines.append({**line, "sequence_number": self._sequence, "min_sequence_number": self._sequence})
        return lines

    def _entry(self, file: dict[str, Any]) -> Entry:
        """Packs are ADDED: engines that check for concurrent inserts see them. They inherit the manifest's number.

        Hidden positions state it, as EXISTING entries do.
        """
        if file["content"] == Content.DATA:
            return {"status": Status.ADDED, "snapshot_id": self._key.snapshot_id, "data_file": file}
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


def _is_vector_of(entry: Entry, data_files: frozenset[str]) -> bool:
    file = entry["data_file"]
    return file["file_format"].upper() == "PUFFIN" and file.get("referenced_data_file") in data_files
