"""Which changes a commit has, by docs/protocols.md, rule 6.8."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from firn.drains.changes import OFFSET, PARTITION
from firn.drains.layout import ChangeLayout
from firn.scan.lineage import ROW_ID
from firn.scan.newest import select_newest, select_oldest_inserts

_OFFSET_BITS = 48


def keep_one(rows: pa.Table, layout: ChangeLayout) -> pa.Table:
    """The newest change of each key, on an insert-only table the oldest. Offsets order the changes of a key."""
    if not len(rows):
        return rows
    places = pc.shift_left(rows[PARTITION].cast(pa.int64()), _OFFSET_BITS)
    ordered = rows.append_column(ROW_ID, pc.add(places, rows[OFFSET]))
    if layout.is_insert_only:
        return select_oldest_inserts(ordered, layout.key).drop_columns(ROW_ID)
    return select_newest(ordered, layout.key, layout.sequence_field).drop_columns(ROW_ID)
