"""Random histories of a keyed table with a model of its rows: changes, merges, compactions and direct writes."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable

from catalog.files.data_file import DataFileEntry
from catalog.history.commit import Outcome, TableCommit
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema
from catalog.jobs.job import JobKind
from catalog.names import TableName
from firn.scan.lineage import LINEAGE_FIELDS, list_lineage_files
from firn.scan.newest import OP
from firn.scan.reading import ColumnReader
from optimizer.client import ServerApi
from server.files.footers import Footers
from server.files.snapshots import write_snapshot
from server.files.storage import Storage
from tests.factories import LAKE
from tests.server.lake import BASE, CHANGE
from tests.server.service.images.keyed_lake import KeyedLake, snapshot_ids
from tests.server.service.images.test_adoption import merge

KEYS = 9
Rows = dict[int, str | None]
Step = tuple[int, str | None, str | None]
"""A key, and its note before and after a change; None where there is no row."""


@dataclass
class Changing:
    """A table under random commits, its rows at each version, and each change that took effect."""

    orders: KeyedLake
    api: ServerApi
    chance: random.Random
    by_note: bool = False
    """Whether the note is the sequence field."""
    insert_only: bool = False
    rows: Rows = field(default_factory=dict)
    highest: dict[int, str] = field(default_factory=dict)
    deleted: dict[int, str] = field(default_factory=dict)
    """By key, the highest note of its deletes."""
    states: dict[int, Rows] = field(default_factory=lambda: {0: {}})
    steps: dict[int, list[Step]] = field(default_factory=dict)

    @property
    def version(self) -> int:
        return self.orders.lake.keyed().version

    def change(self) -> None:
        """One commit of upserts or deletes; a key may come several times."""
        is_delete = self.chance.random() < 0.3
        changes = []
        for _ in range(self.chance.randint(1, 5)):
            note = f"{self.chance.randrange(100):03}" if self.by_note else uuid4().hex[:6]
            changes.append((self.chance.randrange(KEYS), note))
        op = "D" if is_delete else "U"
        lines = [{"id": key, "note": None if is_delete and not self.by_note else note, OP: op} for key, note in changes]
        self.orders._append(CHANGE, lines)
        steps = [step for key, note in changes if (step := self._apply(key, note, op)) is not None]
        self.record(steps)

    def _apply(self, key: int, note: str, op: str) -> Step | None:
        if self.insert_only and (op == "D" or key in self.rows):
            return None
        if self.by_note:
            if op == "D":
                self.deleted[key] = max(note, self.deleted.get(key, ""))
            if note < self.highest.get(key, ""):
                return None
            self.highest[key] = note
        before = self.rows.pop(key, None)
        if op == "U":
            self.rows[key] = note
        after = self.rows.get(key)
        return None if before is None and after is None else (key, before, after)

    def merge(self) -> None:
        if self.orders.lake.keyed().pending_rows:
            merge(self.orders, self.api)
            self.record([])

    def insert(self) -> None:
        """Append a new key to base, which no change names."""
        key = KEYS + len(self.steps)
        self.orders.insert((key, "000"))
        self.rows[key] = self.highest[key] = "000"
        self.record([(key, None, "000")])

    def drop_file(self) -> None:
        """Delete a file of base without changes, as jobs do that resolve keys or delete old rows."""
        base = StaticTable.from_metadata(self._locate(BASE))
        tasks = sorted(base.scan().plan_files(), key=lambda task: task.file.file_path)
        head = base.current_snapshot()
        if head is None or not tasks or self.orders.lake.keyed().pending_rows:
            return
        path = self.chance.choice(tasks).file.file_path
        why = {"firn.resolved-base": str(head.snapshot_id), "firn.reason": "rows whose keys occur more than once"}
        self._replace(BASE, (), [path], JobKind.KEYS, {"operation": "delete", **why})
        left = self.orders.read()
        gone: list[Step] = [(key, note, None) for key, note in self.rows.items() if key not in left]
        for key, _, _ in gone:
            self.rows.pop(key)
            self.highest[key] = self.deleted.get(key, "")
        self.record(gone)

    def compact(self) -> None:
        """Pack all change files into one, whose rows keep their ids and numbers."""
        metadata, store = self.orders.lake.metadata(CHANGE), StaticTable.from_metadata(self._locate(CHANGE))
        files = list_lineage_files(store)
        if len(files) < 2:
            return
        schema = Schema(*store.schema().fields, *LINEAGE_FIELDS)
        reader = ColumnReader(store, schema)
        lines = []
        for file in files:
            for place, row in enumerate(reader.read(file.file).to_pylist()):
                own = {"_row_id": (file.first_row_id or 0) + place, LINEAGE_FIELDS[1].name: file.sequence_number}
                lines.append({**row, **{name: row[name] if row[name] is not None else own[name] for name in own}})
        location = f"{metadata['location'].removeprefix('file://')}/data/packed-{uuid4()}.parquet"
        pq.write_table(pa.Table.from_pylist(lines, schema=schema_to_pyarrow(schema)), location, store_schema=False)
        stats = Footers(Storage(), current_schema(metadata)).read(f"file://{location}")
        entry = DataFileEntry(stats=stats)
        self._replace(CHANGE, [entry], [f.file.file_path for f in files], JobKind.COMPACT, {"operation": "replace"})
        self.record([])

    def _replace(
        self, name: TableName, added: Any, removed: list[str], kind: JobKind, summary: Mapping[str, str]
    ) -> None:
        lake = self.orders.lake
        lease = lake.lease(kind)
        metadata: Json = lake.metadata(name)
        snapshot_update = write_snapshot(
            Storage(),
            metadata,
            added,
            removed,
            snapshot_id=next(snapshot_ids),
            now_ms=metadata["last-updated-ms"] + 1,
            summary_extra=summary,
        )
        lake.commit(
            TableCommit(name=name, requirements=snapshot_update.requirements(), updates=snapshot_update.updates()),
            lease=lease,
        )
        lake.services.jobs.report(lease, Outcome.COMMITTED, error=None, result={})

    def _locate(self, name: TableName) -> str:
        return self.orders.lake.services.tables.load(LAKE, name).metadata_location or ""

    def record(self, steps: list[Step]) -> None:
        """Note the rows at the newest version; a merge commits several versions without a change."""
        for version in range(max(self.states) + 1, self.version + 1):
            self.states[version] = dict(self.rows)
        self.steps[self.version] = steps

    def run(self, count: int) -> None:
        acts = [self.change] * 6 + [self.merge] * 3 + [self.compact, self.insert, self.drop_file]
        for _ in range(count):
            self.chance.choice(acts)()
