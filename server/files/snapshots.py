"""Snapshots that register and remove existing files.

Nothing but manifests is written: new ones for what is added, rewritten ones where something is removed; all others are
carried over from the parent.
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
from server.files.manifests import Content, ManifestFile, Manifests, Status, give_row_ids, new_entry, unfold_maps
from server.files.partitions import Spec
from server.files.snapshot_summary import Changes, summary
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
    """Write the manifests of a child of main's head with these files added and those (by location) removed.

    `added` is taken a manifest at a time, so that not all need be in memory; what it raises ends the snapshot.  Its
    order is best that of the partitions: neighbours in a manifest are to be neighbours in the table.
    A location may be among both: the file was replaced under its name.  Raises RequirementFailed when a file to remove
    is not there any more.  When this raises, or the commit is refused, the files in `written` belong to nobody.
    """
    writer = _SnapshotWriter(storage, metadata, snapshot_id)
    try:
        manifests = writer.manifests(added, frozenset(removed))
        manifest_list = writer.write_list(manifests)
    except BaseException:
        writer.clean_up()
        raise
    parent = writer.parent
    snapshot: dict[str, Any] = {
        "snapshot-id": snapshot_id,
        "sequence-number": metadata["last-sequence-number"] + 1,
        "timestamp-ms": max(now_ms, metadata["last-updated-ms"]),
        "manifest-list": manifest_list,
        "schema-id": metadata["current-schema-id"],
        "summary": {**summary(writer.changes, parent), **(summary_extra or {})},
    }
    if parent is not None:
        snapshot["parent-snapshot-id"] = parent["snapshot-id"]
    if metadata["format-version"] >= _FIRST_WITH_ROW_IDS:
        snapshot |= {"first-row-id": metadata["next-row-id"], "added-rows": writer.row_ids}
    return AddSnapshot(snapshot=snapshot, written=tuple(writer.written))


class _SnapshotWriter:
    def __init__(self, storage: Storage, metadata: Json, snapshot_id: int) -> None:
        self.parent = current_snapshot(metadata)
        self.changes = Changes()
        self.written: list[str] = []
        self.row_ids = 0
        self._storage = storage
        self._metadata = metadata
        self._manifests = Manifests(storage, metadata)
        self._snapshot_id = snapshot_id
        self._commit = uuid4()
        properties = metadata.get("properties", {})
        self._place = properties.get("write.metadata.path", f"{metadata['location']}/metadata").rstrip("/")

    def manifests(self, added: Iterable[DataFileEntry], removed: frozenset[str]) -> list[ManifestFile]:
        """All manifests of the new snapshot, new ones first."""
        parents = self._manifests.of_snapshot(self.parent) if self.parent else []
        # The others only told the parent what it had removed.
        inherited = [one for one in parents if one["added_files_count"] + one["existing_files_count"]]
        if removed:
            inherited = self._without(inherited, removed)
        return self._adding(added) + inherited

    def write_list(self, manifests: Sequence[ManifestFile]) -> str:
        """Write the manifest list; new manifests get the snapshot's sequence number, in v3 all get row ids."""
        sequence_number = self._metadata["last-sequence-number"] + 1
        for manifest in manifests:
            if manifest["sequence_number"] is None:
                manifest["sequence_number"] = sequence_number
                if manifest["min_sequence_number"] is None:
                    manifest["min_sequence_number"] = sequence_number
        if self._manifests.version >= _FIRST_WITH_ROW_IDS:
            self.row_ids = give_row_ids(manifests, self._metadata["next-row-id"])
        location = f"{self._place}/snap-{self._snapshot_id}-1-{self._commit}.avro"
        header = {"snapshot-id": str(self._snapshot_id), "sequence-number": str(sequence_number)}
        if self.parent is not None:
            header["parent-snapshot-id"] = str(self.parent["snapshot-id"])
        if self._manifests.version >= _FIRST_WITH_ROW_IDS:
            header["first-row-id"] = str(self._metadata["next-row-id"])
        self._manifests.write_list(location, manifests, header)
        self.written.append(location)
        return location

    def clean_up(self) -> None:
        """Nothing will ever refer to what was written."""
        for location in self.written:
            self._storage.delete(location)

    def _adding(self, added: Iterable[DataFileEntry]) -> list[ManifestFile]:
        spec = self._manifests.spec(self._metadata["default-spec-id"])
        left, made = iter(added), list[ManifestFile]()
        while some := list(islice(left, ENTRIES_PER_MANIFEST)):
            some.sort(key=lambda entry: order_partition(entry.partition))
            entries = [new_entry(entry, spec, self._snapshot_id) for entry in some]
            for entry in entries:
                self.changes.add(entry["data_file"])
            made.append(self._write(entries, spec, Content.DATA))
        return made

    def _without(self, manifests: Sequence[ManifestFile], removed: frozenset[str]) -> list[ManifestFile]:
        kept: list[ManifestFile] = []
        missing = set(removed)
        for manifest in manifests:
            gone = _deletes(removed) if manifest["content"] else _data(removed)
            entries = list(self._manifests.entries(manifest, whole=False))
            found = [gone(entry) for entry in entries]
            missing -= {one["data_file"]["file_path"] for one, is_gone in zip(entries, found, strict=True) if is_gone}
            kept.append(self._write_again(manifest, entries, found) if any(found) else manifest)
        if missing:
            raise RequirementFailed(f"{len(missing)} files to remove are not in the table, for example {min(missing)}")
        return kept

    def _write_again(self, manifest: ManifestFile, entries: Sequence[Entry], gone: Sequence[bool]) -> ManifestFile:
        """The same manifest with some of its entries marked as removed: several vectors may share a file's name."""
        spec = self._manifests.spec(manifest["partition_spec_id"])
        for entry, is_gone in zip(entries, gone, strict=True):
            file = entry["data_file"]
            unfold_maps(file)
            file["partition"] = spec.record(spec.values(file["partition"], entry["names"]))
            entry["status"] = Status.EXISTING
            if is_gone:
                entry |= {"status": Status.DELETED, "snapshot_id": self._snapshot_id}
                self.changes.remove(file)
        made = self._write(entries, spec, Content.POSITION_DELETES if manifest["content"] else Content.DATA)
        if manifest.get("first_row_id") is not None:
            made["first_row_id"] = manifest["first_row_id"]  # its entries name their row ids themselves
        return made

    def _write(self, entries: Sequence[Entry], spec: Spec, content: Content) -> ManifestFile:
        location = f"{self._place}/{self._commit}-m{len(self.written)}.avro"
        made = self._manifests.write(location, entries, spec, content, self._snapshot_id)
        self.written.append(location)
        return made


def _data(removed: frozenset[str]) -> Callable[[Entry], bool]:
    return lambda entry: entry["data_file"]["file_path"] in removed


def _deletes(removed: frozenset[str]) -> Callable[[Entry], bool]:
    """Deletion vectors and position deletes of a removed file go with it: its name may be taken again."""
    return lambda entry: (
        entry["data_file"].get("referenced_data_file") in removed or entry["data_file"]["file_path"] in removed
    )
