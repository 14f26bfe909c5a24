"""Rebases an append onto a newer snapshot: writes a manifest list of the append's and the new parent's manifests.

The server does not trust the client's summary but reads the client's manifests.  An append with anything but new data
files cannot be rebased.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from catalog.commits.rebase import OvertakenAppend, RebasedManifestList
from catalog.errors import Invalid, NotFound
from catalog.files.manifest_entries import NewDeletes
from catalog.iceberg.json import Json
from catalog.iceberg.reading import sequence_number
from catalog.iceberg.structure import FIRST_VERSION_WITH_ROW_LINEAGE
from firn.protocol.locations import lies_in, normalize_location
from server.files.avro_container import Limits
from server.files.manifest_records import MALFORMED, Damaged, decode_records, list_manifests
from server.files.manifests import Content, ManifestFile, Manifests, Status, assign_row_ids
from server.files.new_deletes import find_new_deletes
from server.files.storage import Storage


class _NotPlainError(Exception):
    """The client's snapshot is not a plain append."""


class ManifestLists:
    """Implements `catalog.ports.manifests.ManifestLists`."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def named(self, manifest_list: str) -> list[str]:
        try:
            return list_manifests(self._storage, manifest_list)
        except NotFound:
            return []
        except Damaged as error:
            raise Invalid(f"{manifest_list} is not a manifest list: {error.message}") from error

    def joined(self, metadata: Json, append: OvertakenAppend) -> RebasedManifestList | None:
        try:
            return _Rebase(self._storage, metadata, append).joined()
        except (_NotPlainError, NotFound, Invalid, Damaged, *MALFORMED):
            return None

    def new_deletes(self, metadata: Json, snapshot: Json) -> NewDeletes:
        try:
            return find_new_deletes(self._storage, metadata, snapshot)
        except NotFound:  # nobody can read such a snapshot
            return NewDeletes()
        except (Damaged, *MALFORMED) as error:
            raise Invalid(f"snapshot {snapshot['snapshot-id']} cannot be read: {error}") from error


class _Rebase:
    def __init__(self, storage: Storage, metadata: Json, append: OvertakenAppend) -> None:
        self._storage = storage
        self._metadata = metadata
        self._append = append
        self._manifests = Manifests(storage, metadata)
        self._root = normalize_location(metadata["location"])
        self._specs = {spec["spec-id"] for spec in metadata.get("partition-specs") or [{"spec-id": 0}]}

    def joined(self) -> RebasedManifestList:
        added = self._added()
        for line in added:
            self._check(line)
        kept = [line for line in self._lines(self._append.head) if _is_live(line)]
        number = self._metadata.get("last-sequence-number", 0) + 1 if self._manifests.version > 1 else 0
        mine = [{**line, "sequence_number": number, "min_sequence_number": number} for line in added]
        lines = [{**line, "first_row_id": None} for line in mine] + kept
        row_ids = 0
        if self._manifests.version >= FIRST_VERSION_WITH_ROW_LINEAGE:
            row_ids = assign_row_ids(lines, self._metadata["next-row-id"])
        data = self._manifests.encode_list(lines, self._header(number))
        return RebasedManifestList(location=self._location(), data=data, kept=len(kept), row_ids=row_ids)

    def _lines(self, snapshot: Json | None) -> list[ManifestFile]:
        if snapshot is None:
            return []
        encrypted, unlisted = snapshot.get("key-id") is not None, snapshot.get("manifest-list") is None
        if encrypted or unlisted:
            raise _NotPlainError
        self._check_location(snapshot["manifest-list"])
        return self._manifests.of_snapshot(snapshot)

    def _added(self) -> list[ManifestFile]:
        """List the client's own manifests. It must have kept all of the parent's, since merged ones hold old files."""
        lines, parents = self._lines(self._append.snapshot), self._lines(self._append.parent)
        own, inherited = {_path(line) for line in lines}, {_path(line) for line in parents}
        if not {_path(line) for line in parents if _is_live(line)} <= own or len(own) < len(lines):
            raise _NotPlainError
        return [line for line in lines if _path(line) not in inherited]

    def _check(self, line: ManifestFile) -> None:
        """Refuse a manifest with anything but new data files, or with numbers that it does not inherit from the list.

        The list's count of rows assigns the row ids, so a count that is too low would assign ids twice.
        """
        self._check_location(line["manifest_path"])
        snapshot_id = self._append.snapshot["snapshot-id"]
        limits = self._storage.limits
        data = self._storage.read(line["manifest_path"], limits.manifest_bytes)
        entries = list(decode_records(line["manifest_path"], data, Limits(bytes=limits.unpacked_manifest_bytes)))
        expected = {
            "content": Content.DATA,
            "added_snapshot_id": snapshot_id,
            "existing_files_count": 0,
            "deleted_files_count": 0,
            "sequence_number": sequence_number(self._append.snapshot),
            "manifest_length": len(data),
            "added_files_count": len(entries),
        }
        rows = [entry["data_file"]["record_count"] for entry in entries]
        if (
            any(line[key] != value for key, value in expected.items())
            or line["partition_spec_id"] not in self._specs
            or not all(_is_new(entry, snapshot_id) for entry in entries)
            or (line["added_rows_count"], line["existing_rows_count"]) != (sum(rows), 0)
            or any(count < 0 for count in rows)
        ):
            raise _NotPlainError

    def _check_location(self, location: str) -> None:
        """Refuse files outside the table, because the server reads them with its own permissions, not the client's."""
        if not lies_in(normalize_location(location), self._root):
            raise _NotPlainError

    def _location(self) -> str:
        """Choose a location beside the metadata, with a name that no client's retry uses."""
        properties = self._metadata.get("properties", {})
        directory = properties.get("write.metadata.path", f"{self._metadata['location']}/metadata").rstrip("/")
        location = f"{directory}/snap-{self._append.snapshot['snapshot-id']}-0-{uuid4()}.avro"
        self._check_location(location)
        return location

    def _header(self, number: int) -> dict[str, str]:
        header = {"snapshot-id": str(self._append.snapshot["snapshot-id"])}
        if self._append.head is not None:
            header["parent-snapshot-id"] = str(self._append.head["snapshot-id"])
        if self._manifests.version > 1:
            header["sequence-number"] = str(number)
        if self._manifests.version >= FIRST_VERSION_WITH_ROW_LINEAGE:
            header["first-row-id"] = str(self._metadata["next-row-id"])
        return header


def _path(line: ManifestFile) -> str:
    path: str = line["manifest_path"]
    return path


def _is_live(line: ManifestFile) -> bool:
    """Whether a manifest has live files; engines drop others. The lists of the oldest tables have no counts."""
    return (line["added_files_count"], line["existing_files_count"]) != (0, 0)


def _is_new(entry: dict[str, Any], snapshot_id: int) -> bool:
    file = entry["data_file"]
    inherited = (entry.get("sequence_number"), entry.get("file_sequence_number"), file.get("first_row_id"))
    return (
        entry["status"] == Status.ADDED
        and entry.get("snapshot_id") in (None, snapshot_id)
        and inherited == (None, None, None)
        and not file.get("content")
    )
