"""Files that engines write for a keyed table's own name: lists them, checks their footers, and appends them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from catalog.errors import Invalid
from catalog.files.data_file import AddSnapshot, DataFileEntry
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema
from catalog.locations.location_rule import FileRule
from catalog.ports.images import SentFile
from server.files.footers import Footers
from server.files.manifest_records import MALFORMED, Damaged
from server.files.manifests import ManifestFile, Manifests, Status
from server.files.snapshots import write_snapshot
from server.files.storage import Storage

FORMAT = "PARQUET"
"""What the builder of images reads fastest, and all engines write."""


class SentFileReader:
    """Implements `catalog.ports.images.SentFiles`."""

    def __init__(self, storage: Storage, *, footer_threads: int) -> None:
        self._storage = storage
        self._footer_threads = footer_threads

    def list(self, base: Json, snapshot: Json, rule: FileRule) -> Sequence[SentFile]:
        """See the port."""
        manifests = Manifests(self._storage.confined(rule), base)
        try:
            lines = [line for line in manifests.of_snapshot(snapshot) if _is_of(line, snapshot)]
            return [file for line in lines for file in _list_added(manifests, line, snapshot)]
        except (Damaged, *MALFORMED) as error:
            raise Invalid(f"the manifests of snapshot {snapshot['snapshot-id']} cannot be read: {error}") from error

    def describe(self, base: Json, files: Sequence[SentFile], rule: FileRule) -> Sequence[DataFileEntry]:
        """See the port."""
        for file in files:
            if file.format.upper() != FORMAT:
                raise Invalid(f"{file.location} is {file.format}", hint="set write.format.default=parquet")
        schema, storage = current_schema(base), self._storage.confined(rule)
        footers = Footers(
            storage, schema, threads=self._footer_threads, nulls_of=schema.get("identifier-field-ids") or ()
        )
        described = footers.read_all([file.location for file in files])
        return [DataFileEntry(stats=s, partition=f.partition) for s, f in zip(described, files, strict=True)]

    def append(
        self, change: Json, files: Sequence[DataFileEntry], *, snapshot_id: int, now_ms: int, summary: Mapping[str, str]
    ) -> AddSnapshot:
        """See the port."""
        return write_snapshot(
            self._storage, change, files, (), snapshot_id=snapshot_id, now_ms=now_ms, summary_extra=summary
        )

    def discard(self, snapshot: AddSnapshot) -> None:
        """See the port."""
        for location in snapshot.written:
            self._storage.delete(location)


def _is_of(line: ManifestFile, snapshot: Json) -> bool:
    """Whether a manifest was written for this snapshot. All others are the image's."""
    is_own: bool = line["added_snapshot_id"] == snapshot["snapshot-id"]
    if is_own and line["deleted_files_count"]:
        raise Invalid("the commit says that it appends, and removes files")
    return is_own


def _list_added(manifests: Manifests, line: ManifestFile, snapshot: Json) -> list[SentFile]:
    """The added files of a manifest. Engines that merge manifests list the image's files there, too."""
    spec = manifests.spec(line["partition_spec_id"])
    added = [entry for entry in manifests.entries(line, with_maps=False) if entry["status"] == Status.ADDED]
    return [
        SentFile(
            location=entry["data_file"]["file_path"],
            content=entry["data_file"]["content"],
            format=entry["data_file"]["file_format"],
            spec_id=spec.spec_id,
            partition=spec.values(entry["data_file"]["partition"], entry["names"]),
        )
        for entry in added
        if entry["snapshot_id"] == snapshot["snapshot-id"]
    ]
