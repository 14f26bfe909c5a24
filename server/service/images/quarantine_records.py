"""Records of quarantines for people, read by the child process that reads changes (docs/streams.md#quarantine)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catalog.errors import Invalid, NotFound
from catalog.iceberg.reading import current_snapshot_id
from catalog.names import CatalogName, TableName
from catalog.ports.images import BuildTooLarge
from catalog.tables.relation import Relation
from firn.protocol.answers.quarantine import QuarantineRecord
from firn.protocol.tasks.feed import QuarantineRows, QuarantineTask
from server.service.commit.commit_target import load_metadata
from server.service.images.changed_rows import ChangedRows
from server.service.locations.location_rule import build_file_rule
from server.service.streams.quarantines import Quarantines

MOST_RECORDS = 200


@dataclass(frozen=True, slots=True)
class ListedRecords:
    """What a quarantine has at a snapshot; no snapshot means that no record was bad so far."""

    snapshot_id: int | None
    rows: QuarantineRows


@dataclass(frozen=True)
class QuarantineRecords:
    """Reads quarantines."""

    quarantines: Quarantines
    rows: ChangedRows

    def list(self, catalog: CatalogName, table: TableName, *, most_records: int) -> ListedRecords:
        """The reasons of all records, and the newest records.

        Raises NoSuchTable, Invalid if the files are too large, and Unavailable if too many others wait.
        """
        quarantine = self.quarantines.find(catalog, table)
        metadata = None if quarantine is None else load_metadata(self.quarantines.metadata, quarantine)
        snapshot_id = None if metadata is None else current_snapshot_id(metadata)
        if quarantine is None or snapshot_id is None:
            return ListedRecords(None, QuarantineRows(total=0, reasons=[], records=[]))
        return ListedRecords(snapshot_id, self._read(quarantine, table, most_records))

    def get(self, catalog: CatalogName, table: TableName, *, partition: int, offset: int) -> Sequence[QuarantineRecord]:
        """The records of a place of the topic; NotFound if there is none. Raises as `list` does."""
        quarantine = self.quarantines.find(catalog, table)
        metadata = None if quarantine is None else load_metadata(self.quarantines.metadata, quarantine)
        records: Sequence[QuarantineRecord] = ()
        if quarantine is not None and metadata is not None and current_snapshot_id(metadata) is not None:
            records = self._read(quarantine, table, MOST_RECORDS, partition, offset).records
        if not records:
            raise NotFound(f"the quarantine of {table} has no record at offset {offset} of partition {partition}")
        return records

    def _read(
        self,
        quarantine: Relation,
        table: TableName,
        most_records: int,
        partition: int | None = None,
        offset: int | None = None,
    ) -> QuarantineRows:
        rows = self.rows
        metadata = load_metadata(self.quarantines.metadata, quarantine)
        with rows.database.reading() as uow:
            rule = build_file_rule(uow, rows.database, rows.metadata.files, quarantine, metadata)
        task = QuarantineTask(
            metadata=quarantine.metadata_location or "",
            partition=partition,
            offset=offset,
            most_records=most_records,
            most_bytes=rows.most_bytes,
            file_io=dict(rows.file_io),
        )
        try:
            with rows.turn():
                return rows.reader.read_quarantine(task, rule.check)
        except BuildTooLarge as error:
            raise Invalid(
                f"the quarantine of {table} is too large to be shown: {error.message}",
                hint=f"`firn quarantine list {table}` reads the files itself",
            ) from error
