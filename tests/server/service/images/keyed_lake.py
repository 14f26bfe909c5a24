"""A keyed table on a server in this process: rows appended to its stores as engines do, and read back as an image."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable

from catalog.files.data_file import DataFileEntry
from catalog.history.commit import TableCommit
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema
from catalog.keyed.image_build import ImageBuild
from catalog.names import TableName
from server.files.footers import Footers
from server.files.snapshots import write_snapshot
from server.files.storage import Storage
from server.service.commit.commit_path import CommitRequest
from server.service.images.images import Images
from server.service.tables.tables import Loaded
from tests.factories import LAKE
from tests.server.lake import BASE, CHANGE, ORDERS, Lake

snapshot_ids = count(7_000_000)
Row = Mapping[str, Any]


@dataclass
class KeyedLake:
    """`db.orders (id, note)`, with key `id`."""

    lake: Lake

    def images(self, **parts: object) -> Images:
        """The service with other parts of its builder."""
        real = self.lake.services.images
        return Images(real.tables, replace(real.builder, **parts), most_waiting=4)  # type: ignore[arg-type]

    def insert(self, *rows: tuple[int, str | None]) -> None:
        """Append to base."""
        self._append(BASE, [{"id": key, "note": note} for key, note in rows])

    def upsert(self, *rows: tuple[int, str | None]) -> None:
        self._append(CHANGE, [{"id": key, "note": note, "_op": "U"} for key, note in rows])

    def delete(self, *keys: int) -> None:
        self._append(CHANGE, [{"id": key, "note": None, "_op": "D"} for key in keys])

    def plan_append(
        self, *rows: tuple[int | None, str | None], partition: tuple[str, ...] = (), directory: str | None = None
    ) -> CommitRequest:
        """The commit of an engine that appends to the table as it is served now."""
        served = self.served()
        moved = served if directory is None else served | {"location": directory, "properties": {}}
        stats = write_rows(moved, [{"id": key, "note": note} for key, note in rows])
        entry = DataFileEntry(stats=stats, partition=partition)
        snapshot_update = write_snapshot(
            Storage(),
            served,
            [entry],
            (),
            snapshot_id=next(snapshot_ids),
            now_ms=served["last-updated-ms"] + 1,
            summary_extra={"engine-name": "test", "firn.merged-through": "99"},
        )
        uuid = {"type": "assert-table-uuid", "uuid": served["table-uuid"]}
        change = TableCommit(
            name=ORDERS, requirements=[uuid, *snapshot_update.requirements()], updates=snapshot_update.updates()
        )
        return CommitRequest(catalog=LAKE, changes=[change])

    def send(self, request: CommitRequest) -> bool:
        return self.lake.services.image_writes.commit(request)

    def append(self, *rows: tuple[int, str | None]) -> None:
        """Append to the table itself, as an engine does."""
        assert self.send(self.plan_append(*rows))

    def _append(self, name: TableName, rows: Sequence[Row]) -> None:
        metadata = self.lake.metadata(name)
        entry = DataFileEntry(stats=write_rows(metadata, rows))
        snapshot_update = write_snapshot(
            Storage(), metadata, [entry], (), snapshot_id=next(snapshot_ids), now_ms=metadata["last-updated-ms"] + 1
        )
        self.lake.commit(
            TableCommit(name=name, requirements=snapshot_update.requirements(), updates=snapshot_update.updates())
        )

    def load(self) -> Loaded:
        """The table as the server serves it."""
        return self.lake.services.images.load(LAKE, ORDERS)

    def read(self, loaded: Loaded | None = None, **scan: Any) -> dict[int, str | None]:
        """The rows that PyIceberg reads in the served metadata file; each key once."""
        location = (loaded or self.load()).metadata_location
        assert location is not None
        rows = StaticTable.from_metadata(location).scan(**scan).to_arrow().to_pylist()
        merged = {row["id"]: row["note"] for row in rows}
        assert len(merged) == len(rows)
        return merged

    def served(self) -> Json:
        """The metadata in the answer, which may say more than the file."""
        text: Json = json.loads(self.load().text)
        return text

    def builds(self) -> Sequence[ImageBuild]:
        with self.lake.services.database.reading() as uow:
            relation = uow.relations.find(LAKE, ORDERS)
            return () if relation is None else uow.images.of_table(relation.id)

    def files(self) -> set[str]:
        """The names of all files of images."""
        with self.lake.services.database.reading() as uow:
            relation = uow.relations.find(LAKE, ORDERS)
        assert relation is not None
        root = Path(relation.location.removeprefix("file://"))
        return {path.name for folder in ("merged", "metadata") for path in (root / folder).glob("*")}


def write_rows(metadata: Json, rows: Sequence[Row]) -> Any:
    schema = current_schema(metadata)
    arrow = schema_to_pyarrow(Schema.model_validate(schema), include_field_ids=True)
    directory = metadata["properties"].get("write.data.path", f"{metadata['location']}/data")
    path = Path(f"{directory.removeprefix('file://')}/{uuid4()}.parquet")
    path.parent.mkdir(parents=True, exist_ok=True)
    optional = pa.schema([field.with_nullable(True) for field in arrow])  # as careless engines write them
    pq.write_table(pa.Table.from_pylist(list(rows), schema=optional), path, store_schema=False)
    return Footers(Storage(), schema).read(path.as_uri())
