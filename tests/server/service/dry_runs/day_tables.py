"""Tables partitioned by day, with files of given sizes."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import UTC, date, datetime
from itertools import count

from catalog.files.data_file import DataFileEntry, FileStats
from catalog.history.commit import TableCommit
from catalog.iceberg.json import Json
from server.files.snapshots import write_snapshot
from server.files.storage import Storage
from server.service.tables.tables import TableDefinition
from tests.factories import LAKE
from tests.server.lake import PLAIN, Lake

_ids = count(50_000)
MIB = 2**20
NOON = datetime.now(UTC).replace(hour=12)
TODAY = (NOON.date() - date(1970, 1, 1)).days
FIELDS: Json = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "type": "long", "required": True},
        {"id": 2, "name": "day", "type": "date", "required": False},
    ],
}
BY_DAY: Json = {"spec-id": 0, "fields": [{"name": "day", "source-id": 2, "transform": "identity"}]}
WHOLE: Json = {"spec-id": 0, "fields": []}


def make(lake: Lake, spec: Json | None = None, /, **properties: str) -> None:
    lake.services.tables.create(
        LAKE, TableDefinition(name=PLAIN, schema=FIELDS, partition_spec=spec or BY_DAY, properties=properties)
    )


def a_file(day: int | None, *, size: int = MIB, rows: int = 10, bounds: tuple[int, int] | None = None) -> DataFileEntry:
    packed = None if bounds is None else [struct.pack("<i", bound) for bound in bounds]
    stats = FileStats(
        location=f"file:///data/{next(_ids)}.parquet",
        size=size,
        record_count=rows,
        lower_bounds={} if packed is None else {2: packed[0]},
        upper_bounds={} if packed is None else {2: packed[1]},
    )
    return DataFileEntry(stats=stats, partition=() if bounds is not None else (day,))


def write(lake: Lake, added: Sequence[DataFileEntry], removed: Sequence[DataFileEntry] = ()) -> None:
    metadata = lake.metadata(PLAIN)
    gone = [entry.stats.location for entry in removed]
    now_ms = metadata["last-updated-ms"] + 1
    snapshot_update = write_snapshot(Storage(), metadata, added, gone, snapshot_id=next(_ids), now_ms=now_ms)
    lake.commit(TableCommit(name=PLAIN, requirements=snapshot_update.requirements(), updates=snapshot_update.updates()))
