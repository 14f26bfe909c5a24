"""Manifests and manifest lists: read from and written to storage.

Entries are mappings as in the Avro files, except that maps of columns are Python mappings.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any

from catalog.files.data_file import DataFileEntry, LiveFile
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema, unlisted_manifests
from server.files.avro import manifest_list_schema, manifest_schema
from server.files.avro_writer import encode_container
from server.files.manifest_records import Damaged, Entry, check_types, read_manifest, read_manifest_list, report_damage
from server.files.partitions import Spec
from server.files.storage import Storage

ManifestFile = dict[str, Any]

_OF_LINE = {"manifest_path": str, "partition_spec_id": int, "added_snapshot_id": int}
_OF_ENTRY = {"status": int, "data_file": dict}
_OF_FILE = {"file_path": str, "file_format": str, "partition": dict, "record_count": int, "file_size_in_bytes": int}
_MAPS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")


class Status(IntEnum):
    """The status of an entry in a manifest."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


class Content(IntEnum):
    """The content of a file."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


def build_entry(entry: DataFileEntry, spec: Spec, snapshot_id: int) -> Entry:
    """Build the manifest entry of a data file that this snapshot adds; it inherits its sequence number."""
    stats = entry.stats
    return {
        "status": Status.ADDED,
        "snapshot_id": snapshot_id,
        "data_file": {
            "content": Content.DATA,
            "file_path": stats.location,
            "file_format": str(stats.format),
            "partition": spec.record(entry.partition),
            "record_count": stats.record_count,
            "file_size_in_bytes": stats.size,
            "column_sizes": stats.column_sizes,
            "value_counts": stats.value_counts,
            "null_value_counts": stats.null_counts,
            "lower_bounds": stats.lower_bounds,
            "upper_bounds": stats.upper_bounds,
            "split_offsets": stats.split_offsets or None,
        },
    }


class Manifests:
    """Reads and writes the manifests of one table."""

    def __init__(self, storage: Storage, metadata: Json) -> None:
        self._storage = storage
        self._metadata = metadata
        self._specs: dict[int, Spec] = {}
        self.version: int = metadata["format-version"]

    def spec(self, spec_id: int) -> Spec:
        if spec_id not in self._specs:
            try:
                self._specs[spec_id] = Spec.of(self._metadata, spec_id)
            except StopIteration as error:
                raise Damaged(f"a manifest has partition spec {spec_id}, which the table does not have") from error
        return self._specs[spec_id]

    def of_snapshot(self, snapshot: Mapping[str, Any]) -> list[ManifestFile]:
        """List the manifests of a snapshot, with defaults for fields that format v1 lacks."""
        if snapshot.get("manifest-list") is None:
            return [self._unlisted(location, snapshot) for location in unlisted_manifests(snapshot)]
        location = snapshot["manifest-list"]
        manifests = list(read_manifest_list(self._storage, location))
        for manifest in manifests:
            check_types(location, manifest, _OF_LINE)
            manifest.setdefault("content", 0)
            manifest.setdefault("sequence_number", 0)
            manifest.setdefault("min_sequence_number", 0)
            for status in ("added", "existing", "deleted"):
                name = f"{status}_files_count"
                manifest.setdefault(name, manifest.get(f"{status}_data_files_count"))
        return manifests

    def _unlisted(self, location: str, snapshot: Mapping[str, Any]) -> ManifestFile:
        """Describe a manifest of the oldest tables, whose snapshots have no manifest list."""
        with report_damage(location):
            spec_id = int(read_manifest(self._storage, location).metadata.get("partition-spec-id", 0))
        return {
            "manifest_path": location,
            "partition_spec_id": spec_id,
            "content": 0,
            "sequence_number": 0,
            "added_snapshot_id": snapshot["snapshot-id"],
            "added_files_count": None,
            "existing_files_count": None,
        }

    def live_files(self, snapshot: Mapping[str, Any]) -> Iterator[LiveFile]:
        """List all data and delete files of a snapshot."""
        for manifest in self.of_snapshot(snapshot):
            spec = self.spec(manifest["partition_spec_id"])
            for entry in self.entries(manifest, with_maps=False):
                file = entry["data_file"]
                yield LiveFile(
                    location=file["file_path"],
                    content=file["content"],
                    size=file["file_size_in_bytes"],
                    record_count=file["record_count"],
                    partition=spec.values(file["partition"], entry["names"]),
                    spec_id=spec.spec_id,
                    sequence_number=entry["sequence_number"],
                    manifest=manifest["manifest_path"],
                )

    def entries(self, manifest: ManifestFile, *, with_maps: bool = True, with_deleted: bool = False) -> Iterator[Entry]:
        """Read the live entries of a manifest, including the values that they inherit.

        `names` in an entry has the field names of the partition record by field id.  Without `with_maps` the maps of
        columns stay lists of pairs.  `with_deleted` reads the entries of removed files too.
        """
        location = manifest["manifest_path"]
        records = read_manifest(self._storage, location)
        names = _read_partition_names(location, records.schema)
        next_row_id = manifest.get("first_row_id")
        for entry in records:
            check_types(location, entry, _OF_ENTRY)
            if entry["status"] == Status.DELETED and not with_deleted:
                continue
            file = entry["data_file"]
            check_types(location, file, _OF_FILE)
            file.setdefault("content", Content.DATA)
            if entry.get("snapshot_id") is None:
                entry["snapshot_id"] = manifest["added_snapshot_id"]
            for number in ("sequence_number", "file_sequence_number"):
                if entry.get(number) is None:
                    entry[number] = manifest["sequence_number"]
            if next_row_id is not None and file.get("first_row_id") is None and file["content"] == Content.DATA:
                file["first_row_id"] = next_row_id
                next_row_id += file["record_count"]
            if with_maps:
                with report_damage(location):
                    unfold_maps(file)
            entry["names"] = names
            yield entry

    def write(
        self, location: str, entries: Sequence[Entry], spec: Spec, content: Content, snapshot_id: int
    ) -> ManifestFile:
        """Write a manifest and return its line for the manifest list; Unavailable, without a file, if that fails."""
        data = encode_container(manifest_schema(self.version, spec.fields), entries, self._header(spec, content))
        self._storage.write_new(location, data)
        live = [entry.get("sequence_number") for entry in entries if entry["status"] != Status.DELETED]
        numbers = [number for number in live if number is not None]  # entries without one get the newest
        line: ManifestFile = {
            "manifest_path": location,
            "manifest_length": len(data),
            "partition_spec_id": spec.spec_id,
            "content": min(content, 1),
            "sequence_number": None,
            # Readers leave out manifests of deletes that are older than all data: too high a number loses deletes.
            "min_sequence_number": min(numbers, default=None),
            "added_snapshot_id": snapshot_id,
            "partitions": spec.summaries([list(entry["data_file"]["partition"].values()) for entry in entries]),
        }
        for status in Status:
            rows = [entry["data_file"]["record_count"] for entry in entries if entry["status"] == status]
            line[f"{status.name.lower()}_files_count"] = len(rows)
            line[f"{status.name.lower()}_rows_count"] = sum(rows)
        return line

    def write_list(self, location: str, manifests: Sequence[ManifestFile], header: Mapping[str, str]) -> None:
        """Write a manifest list."""
        self._storage.write_new(location, self.encode_list(manifests, header))

    def encode_list(self, manifests: Sequence[ManifestFile], header: Mapping[str, str]) -> bytes:
        """Encode the content of a manifest list; the header may state a newer version than the table's."""
        header = {"format-version": str(self.version), **header}
        return encode_container(manifest_list_schema(self.version), manifests, header)

    def _header(self, spec: Spec, content: Content) -> dict[str, str]:
        schema = current_schema(self._metadata)
        return {
            "schema": json.dumps(schema),
            "schema-id": str(schema["schema-id"]),
            "partition-spec": json.dumps(spec.json_fields),
            "partition-spec-id": str(spec.spec_id),
            "format-version": str(self.version),
            "content": "data" if content is Content.DATA else "deletes",
        }


def assign_row_ids(manifests: Sequence[ManifestFile], first: int) -> int:
    """Assign row ids from `first` on to data manifests without; returns the number of assigned ids."""
    assigned = 0
    for manifest in manifests:
        if manifest["content"] == Content.DATA and manifest.get("first_row_id") is None:
            manifest["first_row_id"] = first + assigned
            assigned += manifest["added_rows_count"] + manifest["existing_rows_count"]
    return assigned


def _read_partition_names(location: str, schema: Mapping[str, Any]) -> dict[int, str]:
    with report_damage(location):
        fields = {field["name"]: field["type"] for field in schema["fields"]}
        partition = {field["name"]: field["type"] for field in fields["data_file"]["fields"]}["partition"]
        return {field["field-id"]: field["name"] for field in partition["fields"]}


def unfold_maps(file: dict[str, Any]) -> None:
    """Convert Avro's lists of pairs to mappings, in place."""
    for name in _MAPS:
        if pairs := file.get(name):
            file[name] = {pair["key"]: pair["value"] for pair in pairs}
