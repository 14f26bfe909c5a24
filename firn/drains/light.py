"""The light engine of drains: confluent-kafka reads, PyArrow writes, and neither Spark nor Java is needed.

It has the rules of `firn.spark.log_drain`. What it cannot do, it leaves to that one: it raises NeedsSpark before it
writes anything.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pyarrow as pa
from pyiceberg.manifest import DataFile

from firn.client import TableHandle
from firn.drains.append import Append
from firn.drains.changes import PLACE_FIELDS, BadRecord, Changes
from firn.drains.decoders import JSON_FORMATS
from firn.drains.drain import LOG_WRITER, Drain, refuse_running
from firn.drains.files import write_files
from firn.drains.json_changes import JsonDecoder
from firn.drains.layout import ChangeLayout, require_light
from firn.drains.memory import releasing_memory
from firn.drains.new_columns import NewColumns
from firn.drains.order import keep_one
from firn.drains.quarantine import LightQuarantine
from firn.drains.quarantine_writer import QuarantineWriter
from firn.drains.records import MOST_BYTES, BatchReader, explain_gap
from firn.drains.row_changes import KnownSchemas, RowsDecoder
from firn.drains.store import StoreLoader
from firn.errors import FirnError
from firn.logs import PASSWORD_VARIABLE, LogBatch
from firn.protocol.answers.logs import LogOut
from firn.protocol.answers.writers import WriterOut
from firn.protocol.cdc.rows import ADD, LACKS_COLUMN

CHANGE = "change"


def open_light_drain(handle: TableHandle, *, password: str | None = None) -> LightDrain:
    """A drain of a table for this process, which fences earlier ones.

    Raises NeedsSpark, without having fenced any, if the light engine cannot drain the table; and Refused while an
    optimizer drains it.
    """
    stores = StoreLoader(handle)
    log = handle.log.show()
    require_light(ChangeLayout.of(stores.load(CHANGE)), log)
    refuse_running(handle)
    writer = handle.writers.register(LOG_WRITER)  # before the position is read (docs/protocols.md, rule 6.2)
    secret = password if password is not None else os.environ.get(PASSWORD_VARIABLE)
    return LightDrain(stores=stores, handle=handle, writer=writer, password=secret, table=str(handle.name))


@dataclass(kw_only=True)
class LightDrain(Drain):
    """One copy of the log's writer, without Spark."""

    stores: StoreLoader
    handle: TableHandle
    writer: WriterOut
    table: str
    password: str | None = field(default=None, repr=False)
    pause: Callable[[float], None] = time.sleep
    check: Callable[[], None] = lambda: None
    stream_lease: str | None = field(default=None, repr=False)
    """The lease of the table's stream, if an optimizer runs the drain."""
    most_bytes: int = MOST_BYTES
    bad_records: LightQuarantine = field(init=False)
    schemas: KnownSchemas = field(init=False)
    new_columns: NewColumns = field(init=False)

    def __post_init__(self) -> None:
        self.schemas = KnownSchemas(self.handle.log)
        self.new_columns = NewColumns(self.handle, self.stream_lease)
        writer = QuarantineWriter(
            handle=self.handle,
            table=self.table,
            epoch=self.writer.epoch,
            stream_lease=self.stream_lease,
            check=self.check,
            pause=self.pause,
        )
        self.bad_records = LightQuarantine(stores=self.stores, writer=writer)

    @releasing_memory()
    def commit(self, log: LogOut, batch: LogBatch) -> LogBatch:
        """Append the changes of a batch, or of as much of it as memory allows; after an error, ask for the position.

        NeedsSpark, before anything is written, if a record may be one that only Spark reads.
        """
        layout = ChangeLayout.of(self.stores.load(CHANGE))  # somebody may have added a column
        require_light(layout, log)
        batch, changes = self.read(layout, log, batch)
        if self.add_columns(layout, log, changes.bad):
            layout = ChangeLayout.of(self.stores.load(CHANGE))
            require_light(layout, log)
            batch, changes = self.read(layout, log, batch)
        rows = self.bad_records.split(changes, log, batch)
        kept = keep_one(rows, layout) if log.one_change_per_key else rows
        self.check()
        summary, files = self.build_summary(log, batch), list[DataFile]()
        for tries in count(1):
            try:
                files = files or self.write(layout, kept)
                self.append(files, layout, summary)
            except Exception as error:  # many types of errors; the table's position matters
                self.check()
                if self.has_committed(batch):
                    return batch
                if self.is_hopeless(log, tries):
                    raise self.build_failure(batch, str(error)) from error
                self.pause(0.5 * 2**tries)
            else:
                break
        return batch

    def read(self, layout: ChangeLayout, log: LogOut, batch: LogBatch) -> tuple[LogBatch, Changes]:
        """The changes of a batch, and the part of the batch that has been read."""
        decoder = self._build_decoder(layout, log)
        reader = BatchReader(log, batch, self.password, self.check, most_bytes=self.most_bytes)
        tables, bad = [pa.schema([*layout.target, *PLACE_FIELDS]).empty_table()], list[BadRecord]()
        try:
            for part in reader.read_parts():
                decoded = decoder.decode(part)
                tables.append(decoded.rows)
                bad += decoded.bad
        except FirnError as error:
            if explain_gap(error):
                self.look()  # the server knows what is missing, and what to do
            raise
        return reader.reached, Changes(pa.concat_tables(tables), bad)

    def add_columns(self, layout: ChangeLayout, log: LogOut, bad: Sequence[BadRecord]) -> bool:
        """Add the columns that some records are bad without, if the table wants them; whether it has got one."""
        lacking = [record.message for record in bad if record.reason == LACKS_COLUMN]
        if log.schema_changes != ADD or not lacking:
            return False
        return self.new_columns.add(RowsDecoder(layout, log, self.schemas).find_columns(lacking))

    def write(self, layout: ChangeLayout, rows: pa.Table) -> list[DataFile]:
        """Write the data files of a commit, which nothing names yet."""
        return write_files(layout.table, rows.drop_columns([field.name for field in PLACE_FIELDS]))

    def append(self, files: Sequence[DataFile], layout: ChangeLayout, summary: Mapping[str, str]) -> None:
        """Commit files upon the store as it is now, with the step of the position in the summary."""
        Append(self.stores.load(CHANGE), files, layout.table.spec().spec_id, summary).commit()

    def _build_decoder(self, layout: ChangeLayout, log: LogOut) -> Any:
        if log.format in JSON_FORMATS:
            return JsonDecoder(layout, log)
        return RowsDecoder(layout, log, self.schemas)
