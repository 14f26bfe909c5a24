"""Commits of statements that merge on read, as engines send them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import StaticTable
from pyroaring import BitMap64

from catalog.files.data_file import AddSnapshot, DataFileEntry
from catalog.history.commit import TableCommit
from optimizer.images.hidden import read_hidden
from server.files.manifests import Content, Manifests, Status, build_entry
from server.files.storage import Storage
from server.service.commit.commit_path import CommitRequest
from tests.factories import LAKE
from tests.server.lake import ORDERS
from tests.server.service.images.keyed_lake import KeyedLake, snapshot_ids, write_rows

Place = tuple[str, int]
"""A data file and a position in it."""


def find_places(orders: KeyedLake, keys: set[int]) -> list[Place]:
    """The places of the live rows of these keys."""
    location = orders.load().metadata_location
    assert location is not None
    table = StaticTable.from_metadata(location)
    places = []
    for task in table.scan().plan_files():
        gone = read_hidden(table.io, task.delete_files).get(task.file.file_path, BitMap64())
        ids = pq.read_table(task.file.file_path.removeprefix("file://"))["id"].to_pylist()
        places += [(task.file.file_path, at) for at, key in enumerate(ids) if key in keys and at not in gone]
    return sorted(places)


def plan_statement(
    orders: KeyedLake,
    *,
    deleted: Sequence[int] = (),
    upserted: Sequence[tuple[int, str | None]] = (),
    places: Sequence[Place] = (),
) -> CommitRequest:
    """A statement that deletes the rows of these keys, and at these places, and inserts others."""
    sent = _Statement(orders)
    sent.insert(upserted)
    sent.delete([*find_places(orders, set(deleted)), *places])
    return sent.finish("overwrite")


def plan_removal(
    orders: KeyedLake, *, holding: Sequence[int], upserted: Sequence[tuple[int, str | None]] = ()
) -> CommitRequest:
    """A statement that removes the files that hold these keys."""
    sent = _Statement(orders)
    sent.insert(upserted)
    sent.remove({path for path, _ in find_places(orders, set(holding))}, Content.DATA)
    return sent.finish("overwrite" if upserted else "delete")


def plan_rewriting_delete(orders: KeyedLake, deleted: Sequence[int]) -> CommitRequest:
    """A statement that writes the positions of the image's delete files once more, with its own, and removes those."""
    sent = _Statement(orders)
    location = orders.load().metadata_location
    assert location is not None
    table = StaticTable.from_metadata(location)
    deletes = {file for task in table.scan().plan_files() for file in task.delete_files}
    hidden = read_hidden(table.io, deletes)
    sent.delete([*find_places(orders, set(deleted)), *((path, at) for path, bits in hidden.items() for at in bits)])
    sent.remove({file.file_path for file in deletes}, Content.POSITION_DELETES)
    return sent.finish("overwrite")


class _Statement:
    def __init__(self, orders: KeyedLake) -> None:
        self.served, self.id = orders.served(), next(snapshot_ids)
        self.manifests = Manifests(Storage(), self.served)
        self.inherited = self.manifests.of_snapshot(self.served["snapshots"][-1])
        self.spec, self.numbers = self.manifests.spec(self.served["default-spec-id"]), count()
        self.number = self.served["last-sequence-number"] + 1
        self.lines: list[dict[str, Any]] = []

    def insert(self, rows: Sequence[tuple[int, str | None]]) -> None:
        if rows:
            stats = write_rows(self.served, [{"id": key, "note": note} for key, note in rows])
            self._write([build_entry(DataFileEntry(stats=stats), self.spec, self.id)], Content.DATA)

    def delete(self, places: Sequence[Place]) -> None:
        directory = Path(self.served["properties"]["write.data.path"].removeprefix("file://"))
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
        self._write([{"status": Status.ADDED, "snapshot_id": self.id, "data_file": file}], Content.POSITION_DELETES)

    def remove(self, paths: set[str], content: Content) -> None:
        entries = [entry for line in self.inherited for entry in self.manifests.entries(line)]
        gone = [entry for entry in entries if entry["data_file"]["file_path"] in paths]
        self._write([entry | {"status": Status.DELETED, "snapshot_id": self.id} for entry in gone], content)

    def finish(self, operation: str) -> CommitRequest:
        manifest_list = f"{self.served['properties']['write.metadata.path']}/snap-{self.id}.avro"
        header = {"snapshot-id": str(self.id), "sequence-number": str(self.number)}
        self.manifests.write_list(manifest_list, [*self.lines, *self.inherited], header)
        snapshot = {
            "snapshot-id": self.id,
            "parent-snapshot-id": self.served["current-snapshot-id"],
            "sequence-number": self.number,
            "timestamp-ms": self.served["last-updated-ms"] + 1,
            "manifest-list": manifest_list,
            "summary": {"operation": operation},
        }
        made = AddSnapshot(snapshot=snapshot, written=())
        change = TableCommit(name=ORDERS, requirements=made.requirements(), updates=made.updates())
        return CommitRequest(catalog=LAKE, changes=[change])

    def _write(self, entries: list[dict[str, Any]], content: Content) -> None:
        location = f"{self.served['properties']['write.metadata.path']}/{self.id}-m{next(self.numbers)}.avro"
        line = self.manifests.write(location, entries, self.spec, content, self.id)
        self.lines.append(line | {"sequence_number": self.number, "min_sequence_number": self.number})
