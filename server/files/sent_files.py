"""Files that engines write for a keyed table's own name: lists them, checks their footers, and appends them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from catalog.errors import Invalid
from catalog.files.data_file import AddSnapshot, DataFileEntry
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema, current_snapshot
from catalog.locations.location_rule import FileRule
from catalog.ports.images import SentFile, SentRows
from firn.protocol.tasks.image import Pack
from server.files.footers import Footers
from server.files.layer_files import find_partitions
from server.files.manifest_records import MALFORMED, Damaged
from server.files.manifests import ManifestFile, Manifests, Status
from server.files.snapshots import write_snapshot
from server.files.storage import Storage

FORMAT = "PARQUET"
"""The format that the builder of images reads fastest, and that all engines write."""


class SentFileReader:
    """Implements `catalog.ports.images.SentFiles`."""

    def __init__(self, storage: Storage, *, footer_threads: int) -> None:
        self._storage = storage
        self._footer_threads = footer_threads

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
        self, change: Json, rows: SentRows, *, snapshot_id: int, now_ms: int, summary: Mapping[str, str]
    ) -> AddSnapshot:
        """See the port."""
        return write_snapshot(
            self._storage,
            change,
            [*rows.deletes, *rows.upserts],
            (),
            snapshot_id=snapshot_id,
            now_ms=now_ms,
            summary_extra=summary,
        )

    def describe_deletes(
        self, image: Json, change: Json, files: Sequence[Pack], rule: FileRule
    ) -> Sequence[DataFileEntry]:
        """See the port."""
        storage, snapshot = self._storage.confined(rule), current_snapshot(image)
        manifests = Manifests(storage, image)
        lines = manifests.of_snapshot(snapshot) if snapshot and files else []
        by_path = find_partitions(manifests, lines, {file.like for file in files})
        if any(by_path[file.like][0].spec_id != image["default-spec-id"] for file in files if file.like in by_path):
            raise Invalid(
                "some of the rows lie in files of an earlier partition spec",
                hint="delete them with firn.spark.delete, or rewrite the table's files first",
            )
        described = Footers(storage, current_schema(change)).read_all([file.location for file in files])
        return [
            DataFileEntry(stats=stats, partition=by_path[file.like][1], comes_first=True)
            for stats, file in zip(described, files, strict=True)
        ]

    def describe_changes(
        self, change: Json, files: Sequence[SentFile], rule: FileRule, *, comes_first: bool = False
    ) -> Sequence[DataFileEntry]:
        """See the port."""
        footers = Footers(self._storage.confined(rule), current_schema(change), threads=self._footer_threads)
        described = footers.read_all([file.location for file in files])
        return [
            DataFileEntry(stats=stats, partition=file.partition, comes_first=comes_first)
            for stats, file in zip(described, files, strict=True)
        ]

    def discard(self, locations: Iterable[str]) -> None:
        """See the port."""
        for location in locations:
            self._storage.delete(location)

    def list_files(self, base: Json, snapshot: Json, rule: FileRule) -> Sequence[SentFile]:
        """See the port."""
        manifests = Manifests(self._storage.confined(rule), base)
        try:
            lines = [line for line in manifests.of_snapshot(snapshot) if _is_of(line, snapshot)]
            return [file for line in lines for file in _list_changed(manifests, line, snapshot)]
        except (Damaged, *MALFORMED) as error:
            raise Invalid(f"the manifests of snapshot {snapshot['snapshot-id']} cannot be read: {error}") from error


def _is_of(line: ManifestFile, snapshot: Json) -> bool:
    """Whether a manifest was written for this snapshot. All others are the image's."""
    return bool(line["added_snapshot_id"] == snapshot["snapshot-id"])


def _list_changed(manifests: Manifests, line: ManifestFile, snapshot: Json) -> list[SentFile]:
    """The added and removed files of a manifest. Engines that merge manifests list the image's files there, too."""
    spec = manifests.spec(line["partition_spec_id"])
    return [
        SentFile(
            location=entry["data_file"]["file_path"],
            content=entry["data_file"]["content"],
            format=entry["data_file"]["file_format"],
            spec_id=spec.spec_id,
            partition=spec.values(entry["data_file"]["partition"], entry["names"]),
            is_removed=entry["status"] == Status.DELETED,
            equality_ids=frozenset(entry["data_file"].get("equality_ids") or ()),
        )
        for entry in manifests.entries(line, with_maps=False, with_deleted=True)
        if entry["status"] != Status.EXISTING and entry["snapshot_id"] == snapshot["snapshot-id"]
    ]
