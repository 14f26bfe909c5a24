"""Appends data files to a table in one commit, in format v2 and v3. PyIceberg writes no v3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

from pyiceberg.avro.codecs import AvroCompressionCodec
from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.manifest import (
    DEFAULT_READ_VERSION,
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriter,
    ManifestWriterV2,
)
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetSnapshotRefUpdate,
)
from pyiceberg.typedef import TableVersion

from firn.scan.lineage import read_manifests

_MAIN = "main"
_V3: TableVersion = 3
_CODEC: AvroCompressionCodec = "deflate"


class _ManifestWriterV3(ManifestWriterV2):
    """Files of v3 without row ids of their own: these follow from the manifest's."""

    @property
    def version(self) -> TableVersion:
        return _V3

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        return AvroOutputFile[ManifestEntry](
            output_file=self._output_file,
            file_schema=self._with_partition(_V3),
            record_schema=self._with_partition(DEFAULT_READ_VERSION),
            schema_name="manifest_entry",
            metadata=self._meta,
        )


@dataclass(frozen=True)
class Append:
    """One try of an append: a new snapshot upon the table as it was loaded, with files that are written already."""

    table: Table
    files: Sequence[DataFile]
    spec_id: int
    """The partitioning of the files: somebody may have changed the table's since they were written."""
    summary: Mapping[str, str]
    """Entries of the snapshot's summary, beside the counts."""

    def commit(self) -> None:
        """Write manifests, and send the commit once. Raises PyIceberg's errors; after one, nobody knows the outcome."""
        snapshot = self._build_snapshot()
        parent = self.table.current_snapshot()
        updates = (
            AddSnapshotUpdate(snapshot=snapshot),
            SetSnapshotRefUpdate.model_validate(
                {"ref-name": _MAIN, "type": SnapshotRefType.BRANCH, "snapshot-id": snapshot.snapshot_id}
            ),
        )
        requirements = (
            AssertTableUUID(uuid=self.table.metadata.table_uuid),
            AssertRefSnapshotId(ref=_MAIN, snapshot_id=None if parent is None else parent.snapshot_id),
        )
        self.table.catalog.commit_table(self.table, requirements, updates)

    def _build_snapshot(self) -> Snapshot:
        table, parent, name = self.table, self.table.current_snapshot(), uuid4()
        snapshot_id, number = table.metadata.new_snapshot_id(), self._next_number
        manifests = [self._write_manifest(f"{name}-m0.avro", snapshot_id, number)] if self.files else []
        manifests += [] if parent is None else read_manifests(table.io, parent.manifest_list)
        row_ids = _assign_row_ids(manifests, self._first_row_id) if self._has_row_ids else None
        location = table.location_provider().new_metadata_location(f"snap-{snapshot_id}-0-{name}.avro")
        self._write_list(location, manifests, snapshot_id, number)
        return Snapshot(
            snapshot_id=snapshot_id,
            parent_snapshot_id=None if parent is None else parent.snapshot_id,
            manifest_list=location,
            sequence_number=number,
            summary=self._summarize(parent),
            schema_id=table.metadata.current_schema_id,
            first_row_id=self._first_row_id if self._has_row_ids else None,
            added_rows=row_ids,
        )

    @property
    def _has_row_ids(self) -> bool:
        return self.table.format_version >= _V3

    @property
    def _next_number(self) -> int:
        return int(getattr(self.table.metadata, "last_sequence_number", 0)) + 1

    @property
    def _first_row_id(self) -> int:
        return int(getattr(self.table.metadata, "next_row_id", None) or 0)

    def _write_manifest(self, name: str, snapshot_id: int, number: int) -> ManifestFile:
        table = self.table
        output = table.io.new_output(table.location_provider().new_metadata_location(name))
        kind: type[ManifestWriter] = _ManifestWriterV3 if self._has_row_ids else ManifestWriterV2
        with kind(table.specs()[self.spec_id], table.schema(), output, snapshot_id, _CODEC) as writer:
            for file in self.files:
                entry = ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED, snapshot_id=snapshot_id, sequence_number=None, data_file=file
                )
                writer.add(entry)
        written = writer.to_manifest_file()
        fields = {f.name: written[place] for place, f in enumerate(MANIFEST_LIST_FILE_SCHEMAS[2].fields)}
        fields |= {"sequence_number": number, "min_sequence_number": number}
        return ManifestFile.from_args(_table_format_version=_V3, **fields, first_row_id=None)

    def _write_list(self, location: str, manifests: Sequence[ManifestFile], snapshot_id: int, number: int) -> None:
        version, parent = self.table.format_version, self.table.current_snapshot()
        header = {
            "snapshot-id": str(snapshot_id),
            "parent-snapshot-id": "null" if parent is None else str(parent.snapshot_id),
            "sequence-number": str(number),
            "format-version": str(version),
            "avro.codec": _CODEC,
        }
        if self._has_row_ids:
            header["first-row-id"] = str(self._first_row_id)
        with AvroOutputFile[ManifestFile](
            output_file=self.table.io.new_output(location),
            record_schema=MANIFEST_LIST_FILE_SCHEMAS[_V3],
            file_schema=MANIFEST_LIST_FILE_SCHEMAS[version],
            schema_name="manifest_file",
            metadata=header,
        ) as writer:
            writer.write_block(list(manifests))

    def _summarize(self, parent: Snapshot | None) -> Summary:
        before = {} if parent is None or parent.summary is None else parent.summary.additional_properties
        added = {
            "data-files": len(self.files),
            "records": sum(file.record_count for file in self.files),
            "files-size": sum(file.file_size_in_bytes for file in self.files),
        }
        counts = {f"added-{name}": count for name, count in added.items() if count}
        totals = {f"total-{name}": int(before.get(f"total-{name}") or 0) + count for name, count in added.items()}
        deletes = ("total-delete-files", "total-position-deletes", "total-equality-deletes")
        totals |= {name: int(before.get(name) or 0) for name in deletes}
        partitions = len({tuple(file.partition[at] for at in range(len(file.partition))) for file in self.files})
        texts = {
            name: str(count) for name, count in {**counts, "changed-partition-count": partitions, **totals}.items()
        }
        return Summary(operation=Operation.APPEND, **{**texts, **self.summary})


def _assign_row_ids(manifests: Sequence[ManifestFile], first: int) -> int:
    """Give row ids to manifests of data that have none; returns their number."""
    at = len(MANIFEST_LIST_FILE_SCHEMAS[_V3].fields) - 1
    following = first
    for manifest in manifests:
        if manifest.content is ManifestContent.DATA and manifest[at] is None:
            manifest[at] = following
            following += (manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0)
    return following - first
