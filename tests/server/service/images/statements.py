"""Commits of statements that merge on read, and of streams that upsert, as engines send them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import StaticTable
from pyroaring import BitMap64

from catalog.files.data_file import AddSnapshot, DataFileEntry, FileStats
from catalog.history.commit import TableCommit
from catalog.iceberg.reading import current_snapshot
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
    directory: str | None = None,
    partition: dict[str, Any] | None = None,
) -> CommitRequest:
    """A statement that deletes the rows of these keys, and at these places, and inserts others.

    Its delete files go to `directory`, instead of that for new files.
    """
    sent = _Statement(orders, partition)
    sent.directory = directory or sent.directory
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


def plan_overwrite(
    orders: KeyedLake, *, holding: Sequence[int], rows: Sequence[tuple[int, str | None]], places: Sequence[Place] = ()
) -> CommitRequest:
    """A commit with two snapshots: one removes the files that hold these keys, the next appends rows."""
    first, second = _Statement(orders), _Statement(orders)
    first.remove({path for path, _ in find_places(orders, set(holding))}, Content.DATA)
    second.insert(rows)
    if places:
        second.delete(places)
    removal, append = first.finish("delete"), second.finish("append", parent=first.id)
    updates = [*removal.changes[0].updates, *append.changes[0].updates]
    return replace(removal, changes=[replace(removal.changes[0], updates=updates)])


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


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """What a job of Flink that upserts has written between two checkpoints, or Kafka Connect between two commits."""

    rows: Sequence[tuple[int | None, str | None]] = ()
    deleted: Sequence[int | None] = ()
    """The keys of its equality deletes; Flink writes one for each row, too."""
    hidden: Sequence[int] = ()
    """Positions of its own rows that it has deleted again."""
    job: str = "job-1"
    number: int = 1
    equality_ids: Sequence[int] = (1,)
    others: Sequence[Place] = ()
    offsets: str = ""
    """The offsets of the control topic, in a commit of Kafka Connect; its `job` is the connector."""
    files: Sequence[FileStats] = ()
    """Further files of rows, which other commits may have, too."""

    def describe(self) -> dict[str, str]:
        """The entries of the summary."""
        if self.offsets:
            return {f"kafka.connect.offsets.control.{self.job}": self.offsets, "kafka.connect.commit-id": "1-2-3"}
        number = str(self.number)
        return {
            "flink.job-id": self.job,
            "flink.operator-id": "sink",
            "flink.max-committed-checkpoint-id": number,
        }


def plan_checkpoint(orders: KeyedLake, checkpoint: Checkpoint, *, partition: Any = None) -> CommitRequest:
    """The commit of a checkpoint."""
    sent = _Statement(orders, partition or {})
    path = sent.insert(checkpoint.rows)
    for stats in checkpoint.files:
        sent.add(stats)
    if checkpoint.hidden or checkpoint.others:
        sent.delete([*((path, at) for at in checkpoint.hidden), *checkpoint.others])
    if checkpoint.deleted:
        sent.delete_keys(checkpoint.deleted, checkpoint.equality_ids)
    return sent.finish("append" if checkpoint.offsets else "overwrite", checkpoint)


def send_again(orders: KeyedLake, sent: CommitRequest) -> CommitRequest:
    """The files of a commit in another snapshot, as a job sends them that has restarted from a checkpoint."""
    (change,) = sent.changes
    first, move = change.updates
    old, new = first["snapshot"], next(snapshot_ids)
    manifests = Manifests(Storage(), orders.served())
    lines = manifests.of_snapshot(old)
    for number, line in enumerate(lines):
        if line["added_snapshot_id"] == old["snapshot-id"]:
            entries = [entry | {"snapshot_id": new, "sequence_number": None} for entry in manifests.entries(line)]
            for entry in entries:
                entry["data_file"]["partition"] = {}
            location = f"{orders.served()['properties']['write.metadata.path']}/{new}-{number}.avro"
            spec = manifests.spec(line["partition_spec_id"])
            manifest = manifests.write(location, entries, spec, Content(line["content"]), new)
            lines[number] = manifest | {name: line[name] for name in ("sequence_number", "min_sequence_number")}
    manifest_list = f"{old['manifest-list']}-again"
    manifests.write_list(manifest_list, lines, {"snapshot-id": str(new), "sequence-number": "1"})
    snapshot = old | {"snapshot-id": new, "manifest-list": manifest_list}
    updates = [first | {"snapshot": snapshot}, move | {"snapshot-id": new}]
    return replace(sent, changes=[replace(change, requirements=[], updates=updates)])


class _Statement:
    def __init__(self, orders: KeyedLake, partition: dict[str, Any] | None = None) -> None:
        self.served, self.id, self.partition = orders.served(), next(snapshot_ids), partition or {}
        self.directory = self.served["properties"]["write.data.path"]
        self.manifests = Manifests(Storage(), self.served)
        head = current_snapshot(self.served)
        self.inherited = [] if head is None else self.manifests.of_snapshot(head)
        self.spec, self.numbers = self.manifests.spec(self.served["default-spec-id"]), count()
        self.number = self.served["last-sequence-number"] + 1
        self.lines: list[dict[str, Any]] = []

    def insert(self, rows: Sequence[tuple[int | None, str | None]]) -> str:
        """Write the rows; returns the location of their file, if there are any."""
        if not rows:
            return ""
        stats = write_rows(self.served, [{"id": key, "note": note} for key, note in rows])
        self.add(stats)
        return str(stats.location)

    def add(self, stats: FileStats) -> None:
        """Add a file of rows."""
        entry = DataFileEntry(stats=stats, partition=tuple(self.partition.values()))
        self._write([build_entry(entry, self.spec, self.id)], Content.DATA)

    def delete(self, places: Sequence[Place]) -> None:
        rows = pa.table({"file_path": [file for file, _ in places], "pos": [at for _, at in places]})
        self._add_deletes(rows, {"content": Content.POSITION_DELETES})

    def delete_keys(self, keys: Sequence[int | None], equality_ids: Sequence[int]) -> None:
        field = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})
        rows = pa.table([pa.array(keys, pa.int64())], schema=pa.schema([field]))
        self._add_deletes(rows, {"content": Content.EQUALITY_DELETES, "equality_ids": list(equality_ids)})

    def _add_deletes(self, rows: pa.Table, described: dict[str, Any]) -> None:
        path = Path(self.directory.removeprefix("file://")) / f"{uuid4()}-deletes.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, path, store_schema=False)
        file = {
            **described,
            "file_path": path.as_uri(),
            "file_format": "PARQUET",
            "partition": self.partition,
            "record_count": len(rows),
            "file_size_in_bytes": path.stat().st_size,
        }
        self._write([{"status": Status.ADDED, "snapshot_id": self.id, "data_file": file}], Content.POSITION_DELETES)

    def remove(self, paths: set[str], content: Content) -> None:
        entries = [entry for line in self.inherited for entry in self.manifests.entries(line)]
        gone = [entry for entry in entries if entry["data_file"]["file_path"] in paths]
        self._write([entry | {"status": Status.DELETED, "snapshot_id": self.id} for entry in gone], content)

    def finish(
        self, operation: str, checkpoint: Checkpoint | None = None, *, parent: int | None = None
    ) -> CommitRequest:
        manifest_list = f"{self.served['properties']['write.metadata.path']}/snap-{self.id}.avro"
        header = {"snapshot-id": str(self.id), "sequence-number": str(self.number)}
        self.manifests.write_list(manifest_list, [*self.lines, *self.inherited], header)
        snapshot: dict[str, Any] = {
            "snapshot-id": self.id,
            "sequence-number": self.number,
            "timestamp-ms": self.served["last-updated-ms"] + 1,
            "manifest-list": manifest_list,
            "summary": {"operation": operation},
        }
        if parent is not None or self.served["current-snapshot-id"] is not None:
            snapshot["parent-snapshot-id"] = parent or self.served["current-snapshot-id"]
        if checkpoint is not None:
            snapshot["summary"] |= checkpoint.describe()
        snapshot_update = AddSnapshot(snapshot=snapshot, written=())
        change = TableCommit(
            name=ORDERS, requirements=snapshot_update.requirements(), updates=snapshot_update.updates()
        )
        return CommitRequest(catalog=LAKE, changes=[change])

    def _write(self, entries: list[dict[str, Any]], content: Content) -> None:
        location = f"{self.served['properties']['write.metadata.path']}/{self.id}-m{next(self.numbers)}.avro"
        line = self.manifests.write(location, entries, self.spec, content, self.id)
        self.lines.append(line | {"sequence_number": self.number, "min_sequence_number": self.number})
