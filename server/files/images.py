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
    IMAGE_HIDES,
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


@dataclass(frozen=True, slots=True)
class _Gone:
    """What the image leaves out of base: the vectors of some data files, whole data files with the deletes that apply
    to them alone, and delete files.
    """

    vectors_of: frozenset[str]
    data_files: frozenset[str]
    delete_files: frozenset[str]

    def may_be_in(self, line: ManifestFile) -> bool:
        """Whether a manifest may list something of it."""
        return bool(self.vectors_of or self.data_files) if line["content"] else bool(self.data_files)

    def has(self, entry: Entry) -> bool:
        """Whether it is an entry of base's manifests."""
        file = entry["data_file"]
        if file["content"] == Content.DATA:
            return file["file_path"] in self.data_files
        data_file = file.get("referenced_data_file")
        is_vector = file["file_format"].upper() == "PUFFIN"
        is_replaced = is_vector and data_file in self.vectors_of
        return is_replaced or data_file in self.data_files or (not is_vector and file["file_path"] in self.delete_files)


class _ImageWriter:
    def __init__(self, storage: Storage, parts: ImageParts) -> None:
        self._storage = storage
        self._parts = parts
        self._key = parts.key
        self._metadata = {**parts.base, "format-version": parts.key.format_version}
        self._manifests = Manifests(storage, self._metadata)
        self._base_snapshot = current_snapshot(parts.base)
        self._sequence = parts.sequence_number
        self._left_out: list[Entry] = []
        """Entries of base's manifests that the image does not have."""
        self._has_vectors = parts.key.format_version >= FIRST_WITH_VECTORS

    def write_snapshot(self) -> Json:
        """Write everything but the metadata; returns the snapshot."""
        inherited = self._manifests.of_snapshot(self._base_snapshot) if self._base_snapshot else []
        layer = self._parts.layer
        files = LayerFiles(self._storage, self._metadata, self._parts.change, layer)
        packs, hidden = self._entries(files.list_packs()), self._entries(files.list_hidden(inherited))
        gone = _Gone(
            frozenset(layer.replaced_vectors), frozenset(layer.removed_files), frozenset(layer.removed_deletes)
        )
        inherited = self._without(inherited, gone)
        lines = [*self._write(packs, Content.DATA), *self._write(hidden, Content.POSITION_DELETES), *inherited]
        first_row_id = self._parts.base.get("next-row-id", 0)
        row_ids = assign_row_ids(lines, first_row_id) if self._has_vectors else 0
        if not self._has_vectors:
            for line in lines:
                line.pop("first_row_id", None)
        location = f"{self._parts.directory}/{self._parts.name}-list.avro"
        header = {"snapshot-id": str(self._key.snapshot_id), "sequence-number": str(self._sequence)}
        # iceberg-go refuses manifests that are newer than their list. Other readers ignore the version of the list.
        header["format-version"] = str(max(self._key.format_version, self._parts.base_version))
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

    def _without(self, lines: Sequence[ManifestFile], gone: _Gone) -> list[ManifestFile]:
        """Base's manifests; those that list something that the image leaves out are written anew without it."""
        kept: list[ManifestFile] = []
        for number, line in enumerate(lines):
            if not gone.may_be_in(line):
                kept.append(line)
                continue
            entries = list(self._manifests.entries(line))
            staying = [entry for entry in entries if not gone.has(entry)]
            self._left_out += [entry for entry in entries if gone.has(entry)]
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
        content = Content.POSITION_DELETES if line["content"] else Content.DATA
        manifest = self._manifests.write(location, entries, spec, content, self._key.snapshot_id)
        again = {**manifest, "sequence_number": line["sequence_number"]}
        if line.get("first_row_id") is not None:
            again["first_row_id"] = line["first_row_id"]  # its entries have explicit row ids
        return again

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
        gone = [entry["data_file"] for entry in self._left_out if entry["data_file"]["content"] == Content.DATA]
        more = {
            "total-records": packs.rows - sum(file["record_count"] for file in gone),
            "total-data-files": packs.count - len(gone),
            "total-files-size": packs.size + hidden.size - sum(file["file_size_in_bytes"] for file in gone),
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
                **({} if self._key.hides is None else {IMAGE_HIDES: self._key.hides}),
            },
        }
