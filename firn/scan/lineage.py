"""The live files of a store, with what the row ids and sequence numbers of their rows are derived from.

PyIceberg reads neither. If a file does not hold them, the id follows from the file's first row id and the row's
position, and the sequence number from the manifest entry. Compacted files hold both, so that rows keep them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyiceberg.avro.file import AvroFile
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
)
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField

from firn.errors import ServerFault
from firn.protocol.names import join_name

ROW_ID = "_row_id"
SEQUENCE = "_last_updated_sequence_number"
LINEAGE_FIELDS = (
    NestedField(field_id=2147483540, name=ROW_ID, field_type=LongType(), required=False),
    NestedField(field_id=2147483539, name=SEQUENCE, field_type=LongType(), required=False),
)
"""The columns of files whose rows carry their ids and sequence numbers."""
ALL = -1
"""Below every sequence number: files of tables that were v1 have 0."""
_V3 = 3
_FIRST_ROW_ID_OF_FILE = 142
_FIRST_ROW_ID_OF_MANIFEST = 520


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageFile:
    """A live data file, its first row id and its sequence number."""

    file: DataFile
    first_row_id: int | None
    sequence_number: int


def list_lineage_files(table: Table, *, above: int = ALL, may_have_deletes: bool = False) -> list[LineageFile]:
    """List the live data files with a sequence number `above` this one in the table's current snapshot.

    No file of a manifest is newer than the manifest, so older manifests are not opened: a table may have thousands,
    and opening one takes milliseconds. ServerFault for a change store with delete files.
    """
    snapshot = table.current_snapshot()
    if snapshot is None:
        return []
    return [
        file
        for manifest in read_manifests(table.io, snapshot.manifest_list)
        if _has_data(table, manifest, may_have_deletes=may_have_deletes) and manifest.sequence_number > above
        for file in _files(table.io, manifest)
        if file.sequence_number > above
    ]


def list_added_files(table: Table, snapshot_id: int) -> list[LineageFile]:
    """List the data files that an append has added; KeyError if the table does not have the snapshot any more."""
    snapshot = table.metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise KeyError(snapshot_id)
    return [
        file
        for manifest in read_manifests(table.io, snapshot.manifest_list)
        if manifest.added_snapshot_id == snapshot_id and _has_data(table, manifest, may_have_deletes=False)
        for file in _files(table.io, manifest)
        if file.sequence_number == snapshot.sequence_number  # an engine may merge older manifests into the new one
    ]


def _has_data(table: Table, manifest: ManifestFile, *, may_have_deletes: bool) -> bool:
    if manifest.content is ManifestContent.DATA:
        return True
    if not may_have_deletes and (manifest.has_added_files() or manifest.has_existing_files()):
        raise ServerFault(f"{join_name(table.name())} holds delete files, which no change store may")
    return False


def read_manifests(io: FileIO, manifest_list: str) -> list[ManifestFile]:
    """Read a manifest list as v3. PyIceberg's own reader reads each one as v2, which has no row ids."""
    with AvroFile[ManifestFile](
        io.new_input(manifest_list),
        MANIFEST_LIST_FILE_SCHEMAS[_V3],
        read_types={-1: ManifestFile, 508: PartitionFieldSummary},
        read_enums={517: ManifestContent},
    ) as reader:
        return list(reader)


def _files(io: FileIO, manifest: ManifestFile) -> Iterator[LineageFile]:
    """Read the manifest's live files. Files without a first row id continue the count from the manifest's."""
    next_row_id = manifest[_position(MANIFEST_LIST_FILE_SCHEMAS[_V3].fields, _FIRST_ROW_ID_OF_MANIFEST)]
    own = _position(DATA_FILE_TYPE[_V3].fields, _FIRST_ROW_ID_OF_FILE)
    with AvroFile[ManifestEntry](
        io.new_input(manifest.manifest_path),
        MANIFEST_ENTRY_SCHEMAS[_V3],
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    ) as reader:
        for entry in reader:
            if entry.status == ManifestEntryStatus.DELETED:
                continue
            file = entry.data_file
            file.spec_id = manifest.partition_spec_id
            first = file[own]
            if first is None and next_row_id is not None:
                first, next_row_id = next_row_id, next_row_id + file.record_count
            number = manifest.sequence_number if entry.sequence_number is None else entry.sequence_number
            yield LineageFile(file=file, first_row_id=first, sequence_number=number)


def _position(fields: Sequence[NestedField], field_id: int) -> int:
    return next(position for position, field in enumerate(fields) if field.field_id == field_id)
