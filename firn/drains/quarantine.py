"""The bad records of a light drain: they go to the quarantine before the changes of their batch.

See docs/protocols.md, rules 6.11 and 6.12. `firn.spark.bad_records` does the same in Spark. The quarantine names a
record by topic id, partition and offset. A batch leaves out exactly the records that it has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.io.pyarrow import schema_to_pyarrow

from firn.drains.append import Append
from firn.drains.changes import OFFSET, PARTITION, BadRecord, Changes
from firn.drains.files import write_files
from firn.drains.quarantine_writer import (
    FEWEST_RECORDS,
    QUARANTINE,
    SHOWN,
    QuarantineWriter,
    build_bad_record_stop,
    build_share_stop,
    describe_reason,
)
from firn.drains.store import StoreLoader
from firn.logs import LogBatch
from firn.protocol.answers.logs import LogOut

Places = set[tuple[int, int]]


@dataclass(kw_only=True)
class LightQuarantine:
    """The quarantine of one drain, at which the drain registers before its first batch."""

    stores: StoreLoader
    writer: QuarantineWriter
    _has_looked: bool = field(default=False, init=False)
    _is_likely: bool = field(default=False, init=False)
    """Whether the next batch probably has records that the quarantine has already."""

    def split(self, changes: Changes, log: LogOut, batch: LogBatch) -> pa.Table:
        """Bring the bad records of a batch to the quarantine, and return the rows of all records that it does not have.

        Raises DrainStopped if the table quarantines nothing, or if too many records are bad.
        """
        if not self._has_looked:
            self._is_likely = self.writer.register(create=False) is not None
            self._has_looked = True
        if not self._is_likely and not changes.bad:
            return changes.rows
        held = self._read_held(log, batch)
        new = [record for record in changes.bad if record.place not in held]
        if new:
            self._check_may_go_on(changes, new, log, batch)
            self.writer.commit(batch, lambda position: self.append(new, log, position))
            held = self._read_held(log, batch)
        self._is_likely = bool(new) or any(offset >= batch.end.get(number, 0) for number, offset in held)
        return _leave_out(changes.rows, held)

    def _check_may_go_on(self, changes: Changes, new: Sequence[BadRecord], log: LogOut, batch: LogBatch) -> None:
        table = self.writer.table
        if log.bad_rows != QUARANTINE:
            raise build_bad_record_stop(table, _describe_first(new))
        count = len(changes.bad)
        total = len(changes.rows) + count
        if min(batch.most_records, total) < FEWEST_RECORDS or count <= log.max_bad_share * total:
            return
        reasons = _count_reasons(changes.bad)
        raise build_share_stop(table, count=count, total=total, share=log.max_bad_share, reasons=reasons)

    def append(self, bad: Sequence[BadRecord], log: LogOut, position: str) -> None:
        """Append records to the quarantine, with the step of its position in the summary."""
        table = self.stores.load(QUARANTINE)
        target = schema_to_pyarrow(table.schema(), include_field_ids=False)
        rows = pa.Table.from_pylist(_build_rows(bad, log), target)
        Append(table, write_files(table, rows), table.spec().spec_id, self.writer.build_summary(position)).commit()

    def _read_held(self, log: LogOut, batch: LogBatch) -> Places:
        """The partitions and offsets of all records from the batch's start on that the quarantine has."""
        if self.writer.writer is None:
            return set()
        first = min(batch.start.values(), default=0)
        where = And(
            EqualTo(term=Reference("topic_id"), value=literal(log.topic_id)),
            GreaterThanOrEqual(term=Reference("offset"), value=literal(first)),
        )
        scan = self.stores.load(QUARANTINE).scan(row_filter=where, selected_fields=("partition", "offset"))
        rows = scan.to_arrow()
        return set(zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True))


def _leave_out(rows: pa.Table, held: Places) -> pa.Table:
    if not held:
        return rows
    places = zip(rows[PARTITION].to_pylist(), rows[OFFSET].to_pylist(), strict=True)
    kept = np.fromiter((place not in held for place in places), bool, len(rows))
    return rows if kept.all() else rows.filter(pa.array(kept))


def _build_rows(bad: Sequence[BadRecord], log: LogOut) -> list[dict[str, Any]]:
    """The rows of the quarantine's table, one for each record, in the order of the log."""
    now = datetime.now(UTC)
    return [
        {
            "topic": log.topic,
            "topic_id": log.topic_id,
            "partition": record.place[0],
            "offset": record.place[1],
            "timestamp": _read_time(record.message),
            "key": record.message.key(),
            "value": record.message.value(),
            "headers": [{"key": key, "value": value} for key, value in record.message.headers() or ()],
            "reason": record.reason,
            "column": record.column,
            "at": now,
        }
        for record in sorted(bad, key=lambda record: record.place)
    ]


def _read_time(message: Any) -> datetime | None:
    """The time of a record; None if it has none, or one that no timestamp reaches."""
    kind, milliseconds = message.timestamp()
    if kind == 0:
        return None
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _describe_first(bad: Sequence[BadRecord]) -> str:
    first = sorted(bad, key=lambda record: record.place)[:SHOWN]
    return "; ".join(
        f"partition {record.place[0]}, offset {record.place[1]}: {describe_reason(record.reason, record.column)}"
        for record in first
    )


def _count_reasons(bad: Sequence[BadRecord]) -> str:
    counts = Counter((record.reason, record.column) for record in bad).most_common(SHOWN)
    return "; ".join(f"{count:,} × {describe_reason(*reason)}" for reason, count in counts)
