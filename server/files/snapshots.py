"""Snapshots that register and remove existing files.

Writing such a snapshot writes only manifests: new ones for added files and rewritten ones without removed files.  The
snapshot inherits all other manifests from its parent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any
from uuid import uuid4

from catalog.errors import RequirementFailed
from catalog.files.data_file import AddSnapshot, DataFileEntry, order_partition
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_snapshot
from server.files.manifest_records import Entry
from server.files.manifests import Content, ManifestFile, Manifests, Status, assign_row_ids, build_entry, unfold_maps
from server.files.partitions import Spec
from server.files.snapshot_summary import Changes, build_summary
from server.files.storage import Storage

ENTRIES_PER_MANIFEST = 5_000
_FIRST_WITH_ROW_IDS = 3


def write_snapshot(
    storage: Storage,
    metadata: Json,
    added: Iterable[DataFileEntry],
    removed: Collection[str],
    *,
    snapshot_id: int,
    now_ms: int,
    summary_extra: Mapping[str, str] | None = None,
) -> AddSnapshot:
    """Write the manifests of a child of main's head that adds files and removes others by location.

    The function reads `added` lazily, one manifest at a time; its errors propagate.  It should be in the order of the
    partitions, so that neighbours in a manifest are neighbours in the table.  A location in both arguments is a file
    that was replaced under its name.  Raises RequirementFailed when a file to remove is no longer in the table.  If
    the commit of the result is refused, the caller deletes the files in `written`.
    """
    writer = SnapshotWriter(storage, metadata, snapshot_id)
    try:
        manifests = writer.manifests(added, frozenset(removed))
        return writer.finish(manifests, now_ms=now_ms, summary_extra=summary_extra)
    except BaseException:
        writer.clean_up()
        raise


class SnapshotWriter:
    """Writes the manifests of a child of main's head, and describes the snapshot."""

    def __init__(self, storage: Storage, metadata: Json, snapshot_id: int) -> None:
        self.parent = current_snapshot(metadata)
        self.changes = Changes()
        self.written: list[str] = []
        self.row_ids = 0
        self._storage = storage
        self._metadata = metadata
        self._manifests = Manifests(storage, metadata)
        self.snapshot_id = snapshot_id
        self._commit = uuid4()
        properties = metadata.get("properties", {})
        self._directory = properties.get("write.metadata.path", f"{metadata['location']}/metadata").rstrip("/")

    def manifests(self, added: Iterable[DataFileEntry], removed: frozenset[str]) -> list[ManifestFile]:
        """Write the new manifests and list all manifests of the snapshot, new ones first."""
        inherited = self.inherit()
        if removed:
            inherited = self.remove(inherited, removed)
        return self._adding(added) + inherited

    def inherit(self) -> list[ManifestFile]:
        """The parent's manifests. Those without live files only recorded removals, and are left out."""
        parents = self._manifests.of_snapshot(self.parent) if self.parent else []
        return [line for line in parents if line["added_files_count"] + line["existing_files_count"]]

    def add_manifest(self, entries: Sequence[Entry], spec: Spec, content: Content) -> ManifestFile:
        """Write a manifest of added files."""
        for entry in entries:
            self.changes.add(entry["data_file"])
        return self._write(entries, spec, content)

    def finish(
        self, manifests: Sequence[ManifestFile], *, now_ms: int, summary_extra: Mapping[str, str] | None
    ) -> AddSnapshot:
        """Write the manifest list; the result is ready to commit."""
        metadata, parent = self._metadata, self.parent
        snapshot: dict[str, Any] = {
            "snapshot-id": self.snapshot_id,
            "sequence-number": metadata["last-sequence-number"] + 1,
            "timestamp-ms": max(now_ms, metadata["last-updated-ms"]),
            "manifest-list": self._write_list(manifests),
            "schema-id": metadata["current-schema-id"],
            "summary": {**build_summary(self.changes, parent), **(summary_extra or {})},
        }
        if parent is not None:
            snapshot["parent-snapshot-id"] = parent["snapshot-id"]
        if metadata["format-version"] >= _FIRST_WITH_ROW_IDS:
            snapshot |= {"first-row-id": metadata["next-row-id"], "added-rows": self.row_ids}
        return AddSnapshot(snapshot=snapshot, written=tuple(self.written))

    def _write_list(self, manifests: Sequence[ManifestFile]) -> str:
        """Write the manifest list. New manifests get the snapshot's sequence number; in v3 all get row ids."""
        sequence_number = self._metadata["last-sequence-number"] + 1
        for manifest in manifests:
            if manifest["sequence_number"] is None:
                manifest["sequence_number"] = sequence_number
                if manifest["min_sequence_number"] is None:
                    manifest["min_sequence_number"] = sequence_number
        if self._manifests.version >= _FIRST_WITH_ROW_IDS:
            self.row_ids = assign_row_ids(manifests, self._metadata["next-row-id"])
        location = f"{self._directory}/snap-{self.snapshot_id}-1-{self._commit}.avro"
        header = {"snapshot-id": str(self.snapshot_id), "sequence-number": str(sequence_number)}
        if self.parent is not None:
            header["parent-snapshot-id"] = str(self.parent["snapshot-id"])
        if self._manifests.version >= _FIRST_WITH_ROW_IDS:
            header["first-row-id"] = str(self._metadata["next-row-id"])
        self._manifests.write_list(location, manifests, header)
        self.written.append(location)
        return location

    def clean_up(self) -> None:
        """Delete the written files, which nothing references."""
        for location in self.written:
            self._storage.delete(location)

    def _adding(self, added: Iterable[DataFileEntry]) -> list[ManifestFile]:
        spec = self._manifests.spec(self._metadata["default-spec-id"])
        remaining, manifests = iter(added), list[ManifestFile]()
        while batch := list(islice(remaining, ENTRIES_PER_MANIFEST)):
            batch.sort(key=lambda entry: (not entry.comes_first, order_partition(entry.partition)))
            entries = [build_entry(entry, spec, self.snapshot_id) for entry in batch]
            manifests.append(self.add_manifest(entries, spec, Content.DATA))
        return manifests

    def remove(
        self,
        manifests: Sequence[ManifestFile],
        removed: frozenset[str],
        *,
        replaced_vectors: frozenset[str] = frozenset(),
    ) -> list[ManifestFile]:
        """The manifests without these data and delete files, and without the vectors of removed files and of
        `replaced_vectors`. RequirementFailed for a file that none of them lists.
        """
        kept: list[ManifestFile] = []
        missing = set(removed)
        for manifest in manifests:
            if not removed and not (manifest["content"] and replaced_vectors):
                kept.append(manifest)
                continue
            is_removed = _match_deletes(removed, replaced_vectors) if manifest["content"] else _match_data(removed)
            entries = list(self._manifests.entries(manifest, with_maps=False))
            flags = [is_removed(entry) for entry in entries]
            missing -= {entry["data_file"]["file_path"] for entry, flag in zip(entries, flags, strict=True) if flag}
            kept.append(self._rewrite(manifest, entries, flags) if any(flags) else manifest)
        if missing:
            raise RequirementFailed(
                f"the table no longer has {len(missing)} of the files to remove, for example {min(missing)}"
            )
        return kept

    def _rewrite(self, manifest: ManifestFile, entries: Sequence[Entry], gone: Sequence[bool]) -> ManifestFile:
        """Rewrite a manifest with the flagged entries removed; flags, since several vectors may share a file's name."""
        spec = self._manifests.spec(manifest["partition_spec_id"])
        for entry, is_gone in zip(entries, gone, strict=True):
            file = entry["data_file"]
            unfold_maps(file)
            file["partition"] = spec.record(spec.values(file["partition"], entry["names"]))
            entry["status"] = Status.EXISTING
            if is_gone:
                entry |= {"status": Status.DELETED, "snapshot_id": self.snapshot_id}
                self.changes.remove(file)
        manifest_ = self._write(entries, spec, Content.POSITION_DELETES if manifest["content"] else Content.DATA)
        if manifest.get("first_row_id") is not None:
            manifest_["first_row_id"] = manifest["first_row_id"]  # its entries have explicit row ids
        return manifest_

    def _write(self, entries: Sequence[Entry], spec: Spec, content: Content) -> ManifestFile:
        location = f"{self._directory}/{self._commit}-m{len(self.written)}.avro"
        manifest = self._manifests.write(location, entries, spec, content, self.snapshot_id)
        self.written.append(location)
        return manifest


def _match_data(removed: frozenset[str]) -> Callable[[Entry], bool]:
    return lambda entry: entry["data_file"]["file_path"] in removed


def _match_deletes(removed: frozenset[str], replaced_vectors: frozenset[str]) -> Callable[[Entry], bool]:
    """Match also the deletion vectors and position deletes of a removed file, since its name can be reused."""
    return lambda entry: (
        entry["data_file"].get("referenced_data_file") in removed
        or entry["data_file"]["file_path"] in removed
        or (_is_vector(entry) and entry["data_file"].get("referenced_data_file") in replaced_vectors)
    )


def _is_vector(entry: Entry) -> bool:
    return bool(entry["data_file"]["file_format"].upper() == "PUFFIN")
