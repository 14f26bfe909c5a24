"""Appends with real files and manifests, made from the table as a client has read it, however long ago."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import StaticTable

from catalog.files.data_file import DataFileEntry, FileStats
from catalog.history.commit import TableCommit
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_snapshot
from catalog.names import TableName
from server.files.manifests import Manifests
from server.files.snapshots import write_snapshot
from server.files.storage import Storage
from tests.factories import LAKE
from tests.server.lake import PLAIN, Lake

_FIELDS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "1"}),
        pa.field("note", pa.string(), metadata={"PARQUET:field_id": "2"}),
    ]
)
_ids = count(5_000_000)


@dataclass(frozen=True)
class Sent:
    """A commit as its client sends it, and the data file that it brings."""

    change: TableCommit
    file: str

    @property
    def snapshot(self) -> Json:
        snapshot: Json = self.change.updates[0]["snapshot"]
        return snapshot


def an_append(
    lake: Lake,
    ids: Sequence[int],
    *,
    metadata: Json | None = None,
    name: TableName = PLAIN,
    removed: Collection[str] = (),
    summary: Mapping[str, str] | None = None,
) -> Sent:
    """Rows with these ids, written over the table as `metadata` says it is; with `removed` it is no append."""
    seen = lake.metadata(name) if metadata is None else metadata
    entry = DataFileEntry(stats=_written(seen, ids))
    snapshot_update = write_snapshot(
        Storage(),
        seen,
        [entry],
        removed,
        snapshot_id=next(_ids),
        now_ms=seen["last-updated-ms"],
        summary_extra=summary,
    )
    same: Json = {"type": "assert-table-uuid", "uuid": seen["table-uuid"]}
    change = TableCommit(
        name=name, requirements=[same, *snapshot_update.requirements()], updates=snapshot_update.updates()
    )
    return Sent(change, entry.stats.location)


def _written(metadata: Json, ids: Sequence[int]) -> FileStats:
    location = f"{metadata['location']}/data/{uuid4()}.parquet"
    path = Path(location.removeprefix("file://"))
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": list(ids), "note": [f"n{row_id}" for row_id in ids]}, schema=_FIELDS), path)
    return FileStats(location=location, size=path.stat().st_size, record_count=len(ids))


def ids_in(lake: Lake, name: TableName = PLAIN) -> list[int]:
    """What PyIceberg reads from the table as it is now."""
    location = lake.services.tables.load(LAKE, name).metadata_location
    assert location is not None
    return sorted(StaticTable.from_metadata(location).scan().to_arrow()["id"].to_pylist())


def entries_in(lake: Lake, name: TableName = PLAIN) -> list[dict[str, Any]]:
    """The live data files of the table as Firn's own reader sees them, with all that they inherit."""
    metadata = lake.metadata(name)
    head = current_snapshot(metadata)
    manifests = Manifests(Storage(), metadata)
    lines = [] if head is None else manifests.of_snapshot(head)
    return [entry for line in lines for entry in manifests.entries(line)]


def avro_files(lake: Lake) -> set[str]:
    """Manifest lists that lie in the warehouse."""
    return {path.name for path in lake.warehouse.rglob("snap-*.avro")}
