"""Scans of a keyed table with the records of its log that no drain has brought yet (docs/streams.md#log-store).

Rows of base whose keys have no pending change are read as they are. For all other keys, one rule merges base, the
pending changes and the records.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from firn.errors import NotFound
from firn.log_tail import read_tail
from firn.logs import (
    PASSWORD_VARIABLE,
    LogBatch,
    TableLog,
    ignore_new_columns,
    plan_tail,
    require_drains,
    require_short,
)
from firn.protocol.answers.logs import LogOut, LogPinOut
from firn.scan import filters
from firn.scan.log_rows import RecordLayout, decode_tail
from firn.scan.newest import subtract_keys
from firn.scan.old_rows import drop_old
from firn.scan.scan import Scan, list_columns, read_rows
from firn.scan.served import Served
from firn.scan.stores import Stores

_TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LogScan(Scan):
    """A scan of a keyed table and its log, up to the log's last stable offset when `to_arrow` begins.

    `to_arrow` also raises Refused if drains have stopped, if more records wait than `firn.log.max-tail-rows`, and for a
    record that Firn reads in Spark only; and Unavailable if Kafka does not answer.
    """

    stores: Served
    log: TableLog
    password: str | None = None
    """Of the user of the log's connection; by default $FIRN_KAFKA_PASSWORD."""

    def _read_once(self) -> pa.Table:
        # The end of the log first: the pair may have later records, and never fewer.
        log = ignore_new_columns(self.log.show())
        require_drains(log, self.stores.table)
        pin, base, change = self._pin()
        tail = plan_tail(log, pin.position)
        require_short(tail, log, self.stores.table)
        stores = Stores(base=base, change=change, plan=pin)
        changes = pa.concat_tables([stores.read_store_changes(pin), self._read_records(log, tail, pin, stores)])
        return self._merge(stores, pin, changes)

    def _pin(self) -> tuple[LogPinOut, Table, Table]:
        """Both stores at one moment; a snapshot may expire before it is loaded, then another moment follows."""
        for _ in range(_TRIES - 1):
            pin = self.log.pin()
            try:
                return pin, self.stores.load(pin.base), self.stores.load(pin.change)
            except NotFound:
                continue
        pin = self.log.pin()
        return pin, self.stores.load(pin.base), self.stores.load(pin.change)

    def _read_records(self, log: LogOut, tail: LogBatch, pin: LogPinOut, stores: Stores) -> pa.Table:
        layout = RecordLayout(
            columns=Schema(*(stores.base.schema().find_field(name) for name in pin.columns)),
            primary_key=pin.primary_key,
            sequence_field=pin.sequence_field,
            delete_columns=pin.delete_columns,
            format=log.format,
            deletes=log.deletes,
            schema_changes=log.schema_changes,
            partitions=len(tail.end),
            insert_only=pin.insert_only,
        )
        password = self.password if self.password is not None else os.environ.get(PASSWORD_VARIABLE)
        return decode_tail(read_tail(log, tail, password), layout, stores.change_target)

    def _merge(self, stores: Stores, pin: LogPinOut, changes: pa.Table) -> pa.Table:
        schema = stores.base.schema()
        columns, where = list_columns(self, schema), filters.parse_filter(self.filter, schema)
        keys = changes.select(stores.keys)
        merged = filters.apply_filter(stores.merge_changes(pin, changes, keys), where, schema)
        age = [] if pin.hides is None else [pin.hides.column]
        needed = [*dict.fromkeys([*columns, *stores.keys, *age])]
        others = subtract_keys(read_rows(stores.base, needed, where), keys, stores.keys)
        if pin.hides is not None:
            others, merged = (drop_old(rows, pin.hides.column, pin.hides.before) for rows in (others, merged))
        types = schema_to_pyarrow(Schema(*(schema.find_field(name) for name in columns)), include_field_ids=False)
        target = pa.schema([pa.field(field.name, field.type) for field in types])
        return pa.concat_tables([part.select(columns).cast(target) for part in (others, merged)])
