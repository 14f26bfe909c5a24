"""A keyed table on a server in this process: rows appended to its stores as engines do, and read back as an image."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyroaring import BitMap64

from catalog.files.data_file import AddSnapshot, DataFileEntry
from catalog.history.commit import TableCommit
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema
from catalog.keyed.image_build import ImageBuild
from catalog.names import TableName
from optimizer.images.hidden import read_hidden
from server.files.footers import Footers
from server.files.manifests import Content, Manifests, build_entry
from server.files.snapshots import write_snapshot
from server.files.storage import Storage
from server.service.commit.commit_path import CommitRequest
from server.service.tables.tables import Loaded
from tests.factories import LAKE
from tests.server.lake import BASE, CHANGE, ORDERS, Lake

_ids = count(7_000_000)
Row = Mapping[str, Any]


@dataclass
class KeyedLake:
    """`db.orders (id, note)`, with key `id`."""

    lake: Lake

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
        stats = _write_rows(moved, [{"id": key, "note": note} for key, note in rows])
        entry = DataFileEntry(stats=stats, partition=partition)
        made = write_snapshot(
            Storage(),
            served,
            [entry],
            (),
            snapshot_id=next(_ids),
            now_ms=served["last-updated-ms"] + 1,
            summary_extra={"engine-name": "test", "firn.merged-through": "99"},
        )
        uuid = {"type": "assert-table-uuid", "uuid": served["table-uuid"]}
        change = TableCommit(name=ORDERS, requirements=[uuid, *made.requirements()], updates=made.updates())
        return CommitRequest(catalog=LAKE, changes=[change])

    def plan_statement(
        self, deleted: Sequence[int] = (), upserted: Sequence[tuple[int, str | None]] = (), *, whole: bool = False
    ) -> CommitRequest:
        """The commit of a statement that merges on read, and deletes these keys; `whole` removes the files that hold
        them.
        """
        served, snapshot_id = self.served(), next(_ids)
        manifests, directory = Manifests(Storage(), served), served["properties"]["write.metadata.path"]
        inherited = manifests.of_snapshot(served["snapshots"][-1])
        spec, numbers = manifests.spec(served["default-spec-id"]), count()

        def write(entries: list[dict[str, Any]], content: Content) -> dict[str, Any]:
            location = f"{directory}/{snapshot_id}-m{next(numbers)}.avro"
            line = manifests.write(location, entries, spec, content, snapshot_id)
            number = served["last-sequence-number"] + 1
            return line | {"sequence_number": number, "min_sequence_number": number}

        lines = []
        if upserted:
            stats = _write_rows(served, [{"id": key, "note": note} for key, note in upserted])
            lines.append(write([build_entry(DataFileEntry(stats=stats), spec, snapshot_id)], Content.DATA))
        places = self._find_places(set(deleted))
        if whole:
            gone = {path for path, _ in places}
            entries = [entry for line in inherited for entry in manifests.entries(line)]
            removed = [entry | {"status": 2, "snapshot_id": snapshot_id} for entry in entries
                       if entry["data_file"]["file_path"] in gone]  # fmt: skip
            lines.append(write(removed, Content.DATA))
        elif places:
            lines.append(write([_write_positions(served, places, snapshot_id)], Content.POSITION_DELETES))
        manifest_list = f"{directory}/snap-{snapshot_id}.avro"
        header = {"snapshot-id": str(snapshot_id), "sequence-number": str(served["last-sequence-number"] + 1)}
        manifests.write_list(manifest_list, [*lines, *inherited], header)
        snapshot = {
            "snapshot-id": snapshot_id,
            "parent-snapshot-id": served["current-snapshot-id"],
            "sequence-number": served["last-sequence-number"] + 1,
            "timestamp-ms": served["last-updated-ms"] + 1,
            "manifest-list": manifest_list,
            "summary": {"operation": "delete" if whole else "overwrite"},
        }
        made = AddSnapshot(snapshot=snapshot, written=())
        change = TableCommit(name=ORDERS, requirements=made.requirements(), updates=made.updates())
        return CommitRequest(catalog=LAKE, changes=[change])

    def _find_places(self, keys: set[int]) -> list[tuple[str, int]]:
        """The files and positions of the live rows of these keys."""
        location = self.load().metadata_location
        assert location is not None
        table = StaticTable.from_metadata(location)
        places = []
        for task in table.scan().plan_files():
            gone = read_hidden(table.io, task.delete_files).get(task.file.file_path, BitMap64())
            ids = pq.read_table(task.file.file_path.removeprefix("file://"))["id"].to_pylist()
            places += [(task.file.file_path, i) for i, key in enumerate(ids) if key in keys and i not in gone]
        return sorted(places)

    def send(self, request: CommitRequest) -> bool:
        return self.lake.services.image_writes.commit(request)

    def append(self, *rows: tuple[int, str | None]) -> None:
        """Append to the table itself, as an engine does."""
        assert self.send(self.plan_append(*rows))

    def _append(self, name: TableName, rows: Sequence[Row]) -> None:
        metadata = self.lake.metadata(name)
        entry = DataFileEntry(stats=_write_rows(metadata, rows))
        made = write_snapshot(
            Storage(), metadata, [entry], (), snapshot_id=next(_ids), now_ms=metadata["last-updated-ms"] + 1
        )
        self.lake.commit(TableCommit(name=name, requirements=made.requirements(), updates=made.updates()))

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


def _write_positions(served: Json, places: Sequence[tuple[str, int]], snapshot_id: int) -> dict[str, Any]:
    """A position-delete file as engines write it, and its entry."""
    directory = Path(served["properties"]["write.data.path"].removeprefix("file://"))
    path = directory / f"{uuid4()}-deletes.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"file_path": [file for file, _ in places], "pos": [at for _, at in places]}), path)
    file = {
        "content": Content.POSITION_DELETES,
        "file_path": path.as_uri(),
        "file_format": "PARQUET",
        "partition": {},
        "record_count": len(places),
        "file_size_in_bytes": path.stat().st_size,
    }
    return {"status": 1, "snapshot_id": snapshot_id, "data_file": file}


def _write_rows(metadata: Json, rows: Sequence[Row]) -> Any:
    schema = current_schema(metadata)
    arrow = schema_to_pyarrow(Schema.model_validate(schema), include_field_ids=True)
    directory = metadata["properties"].get("write.data.path", f"{metadata['location']}/data")
    path = Path(f"{directory.removeprefix('file://')}/{uuid4()}.parquet")
    path.parent.mkdir(parents=True, exist_ok=True)
    optional = pa.schema([field.with_nullable(True) for field in arrow])  # as careless engines write them
    pq.write_table(pa.Table.from_pylist(list(rows), schema=optional), path, store_schema=False)
    return Footers(Storage(), schema).read(path.as_uri())
