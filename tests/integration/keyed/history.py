"""Random histories of one keyed table: whatever is done to it, its view says what a plain dict says."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest

from optimizer.worker import Worker
from tests.integration.keyed.appends import Json, Store, as_rows
from tests.integration.keyed.fake_optimizer import STEPS, FakeOptimizer
from tests.integration.keyed.model import INT, LONG, TEXT, Change, Key, Model, Row, Rows, Shape
from tests.integration.keyed.table import Table
from tests.spark_fixtures import RunningServer

PARTITIONS = ["p", "q", "it's r", None]
KEYS = range(10)
SPARK_EVERY = 10
VIEW_EVERY = 3
"""Steps between two looks at the view `merged`. A query of Spark costs as much as a step."""


class History:
    """One table and its model. Each step is one operation; `WEIGHTS` says how often which is chosen.

    The same seed takes the same steps on tables of one shape.
    """

    def __init__(self, server: RunningServer, worker: Worker, shape: Shape, seed: int) -> None:
        self.random = random.Random(f"{seed} {shape}")
        self.shape = shape
        self.model = Model(shape, dict(shape.columns))
        self.table = Table.create(server, worker, shape)
        self.done: list[str] = []
        self.written = 0
        self.sent: tuple[Store, Json] | None = None
        self.batch: str | None = None
        self.tags: dict[str, Rows] = {}
        self.has_read_late_changes = False
        self.is_partitioned = shape.partition is not None

    def run(self, steps: int, required: Collection[str]) -> None:
        """Do operations at random; near the end do those that are required and were not done yet."""
        for steps_to_go in range(steps, 0, -1):
            missing = [name for name in WEIGHTS if name in required and name not in self.done]
            name = self.random.choice(missing if steps_to_go <= len(missing) else CHOICES)
            self.done.append(name)
            OPERATIONS[name](self)
            self.check()
        self.end()

    def check(self) -> None:
        self.table.check_stores()
        assert self.table.by_arrow() == self.model.rows
        self.table.by_arrow(".base")  # fails on two rows of one key
        if len(self.done) % VIEW_EVERY == 0:
            assert self.table.by_spark(".merged") == self.model.rows
        if len(self.done) % SPARK_EVERY == 0:
            self.check_by_spark()

    def end(self) -> None:
        self.check_by_spark()
        self.merge("auto")
        self.check_by_spark()
        assert self.table.active_jobs() == []
        self.table.read_every_file()

    def check_by_spark(self) -> None:
        assert self.table.by_spark() == self.table.by_spark(".merged") == self.model.rows
        for tag, rows in self.tags.items():
            assert self.table.by_spark(f".base VERSION AS OF '{tag}'") == rows

    # -- writes ----------------------------------------------------------------------------------------------------

    def append_changes(self) -> None:
        changes = [self.change(key) for key in self.keys()]
        self.send(self.table.change, as_rows(changes))
        self.model.apply(changes)

    def upsert_by_spark(self) -> None:
        changes = [self.upsert(key) for key in self.keys()]
        self.batch = self.uuid()
        rows = [change.row for change in changes]
        assert not self.table.upsert(rows, self.model.columns, batch=self.batch).was_there
        self.model.apply(changes)

    def delete_by_spark(self) -> None:
        changes = [self.delete(key) for key in self.keys()]
        columns = {name: kind for name, kind in self.model.columns.items() if name in changes[0].row}
        self.table.delete([change.row for change in changes], columns)
        self.model.apply(changes)

    def append_late_changes(self) -> None:
        """Changes that lose to base's rows and to a delete, and one that wins by a tie, with nothing newer pending.

        Random changes of a few keys are rarely of this kind when a merge begins.
        """
        late = self.draw_late_changes()
        if not late:
            return
        self.send(self.table.change, as_rows(late))
        self.model.apply(late)
        assert self.table.by_arrow() == self.model.rows
        if not self.has_read_late_changes:
            self.check_by_spark()
            self.has_read_late_changes = True

    def draw_late_changes(self) -> list[Change]:
        field = self.shape.sequence
        if field is None:
            return []
        base = self.table.by_arrow(".base")
        held = sorted(key for key, row in base.items() if self.model.rows.get(key) == row)
        late: list[Change] = []
        for number, key in enumerate(self.random.sample(held, min(3, len(held)))):
            change = self.delete(key) if number == 1 else self.upsert(key)
            change.row[field] = base[key][field] - (0 if number == 2 else self.random.randint(1, 3))
            late.append(change)
        gone = sorted(self.model.deleted.keys() - self.model.rows.keys())
        if gone:
            change = self.upsert(self.random.choice(gone))
            change.row[field] = self.model.deleted[self.model.key(change.row)] - 1
            late.append(change)
        return late

    def move_a_partition(self) -> None:
        """All rows of one partition go to another; where keys cannot move they are written again where they are."""
        source, target = self.random.choice(PARTITIONS), self.random.choice(PARTITIONS)
        rows = self.model.in_partition(source) or list(self.model.rows.values())[:1]
        changes = [self.upsert(self.model.key(row), partition=target) for row in rows]
        self.send(self.table.change, as_rows(changes))
        self.model.apply(changes)

    def empty_a_partition(self) -> None:
        rows = self.model.in_partition(self.random.choice(PARTITIONS)) or list(self.model.rows.values())[:1]
        changes = [self.delete(self.model.key(row), at=self.model.rows[self.model.key(row)]) for row in rows]
        self.send(self.table.change, as_rows(changes))
        self.model.apply(changes)

    def append_to_base(self) -> None:
        """Somebody loads rows whose keys are new, past the change store."""
        rows = [self.upsert(self.new_key()).row for _ in range(self.random.randint(1, 2))]
        self.send(self.table.base, rows)
        self.model.insert(rows)

    def delete_from_base(self) -> None:
        """Past the change store, which is refused while its result would depend on when a merge runs."""
        key = self.random.choice(sorted(self.table.by_arrow(".base")) or [self.new_key()])
        where = " AND ".join(f"{name} = {value!r}" for name, value in zip(self.shape.key, key, strict=True))
        if self.table.show()["pending_rows"]:
            with pytest.raises(Exception, match="merge first"):
                self.table.sql(f"DELETE FROM {self.table.name}.base WHERE {where}")
            return
        self.table.sql(f"DELETE FROM {self.table.name}.base WHERE {where}")
        self.model.rows.pop(key, None)

    def send_again(self) -> None:
        """A request whose answer was lost is answered as before, however late; a batch of a known name is not taken."""
        if self.sent is not None:
            store, commit = self.sent
            assert store.send(commit).status_code == httpx.codes.OK
            summary = commit["updates"][0]["snapshot"]["summary"]
            named = {name: value for name, value in summary.items() if name.startswith("firn.")}
            rows = [{**self.upsert(self.new_key()).row, "_op": "U", "_source": None}]
            if store == self.table.change:
                assert store.append(rows, named).status_code == httpx.codes.BAD_REQUEST
        if self.batch is not None:
            again = [self.upsert(key).row for key in self.keys()]
            assert self.table.upsert(again, self.model.columns, batch=self.batch).was_there

    # -- jobs ------------------------------------------------------------------------------------------------------

    def merge_by_rewriting(self) -> None:
        self.merge("rewrite")

    def merge_by_vectors(self) -> None:
        self.merge("vectors")

    def merge_by_adoption(self) -> None:
        self.merge(self.random.choice(["auto", "adopt"]))  # `auto` writes small files of base again

    def merge(self, mode: str) -> None:
        self.append_late_changes()
        self.table.run("merge", mode=mode)
        assert self.table.show()["pending_rows"] == 0
        assert self.table.by_arrow(".base") == self.model.rows

    def merge_while_others_write(self) -> None:
        """Somebody commits when the merge has read the stores: to change it may, and from base the merge steps back."""
        self.append_changes()
        store = self.random.choice([self.table.change, self.table.base])
        change = self.upsert(self.new_key())
        rows = as_rows([change]) if store == self.table.change else [change.row]
        mode = self.random.choice(["auto", "adopt"])
        job = self.table.attempt("merge", mode=mode, before_commit=lambda: self.send(store, rows))
        assert job["status"] == ("succeeded" if store == self.table.change else "failed"), job
        self.model.insert([change.row])

    def merge_by_an_optimizer_that_falls_silent(self) -> None:
        step = self.random.choice(STEPS)
        self.append_changes()
        job_id = self.table.ask("merge")
        FakeOptimizer(self.table).run(until=step)
        self.table.finish(job_id)

    def merge_a_part(self) -> None:
        """Of a backlog that is longer than one job may merge, over what was merged and packed before."""
        for _ in range(2):
            self.append_changes()
        before = self.table.show()
        self.table.set_property("firn.merge.max-job-rows", str(self.random.randint(1, 6)))
        self.table.run("merge", mode=self.random.choice(["auto", "adopt"]))
        self.table.set_property("firn.merge.max-job-rows", None)
        after = self.table.show()
        assert before["watermark"] < after["watermark"] <= before["change_sequence"]
        assert after["pending_rows"] < before["pending_rows"]

    def rewrite(self) -> None:
        self.table.run("rewrite")

    def compact(self) -> None:
        self.table.run("compact")

    def pack_deletes(self) -> None:
        self.table.run("rewrite-deletes")

    def rewrite_manifests(self) -> None:
        self.table.run("rewrite-manifests")

    def clean(self) -> None:
        self.table.run("clean")

    def expire(self) -> None:
        self.table.run("expire")

    def remove_orphans(self) -> None:
        """A file that nobody refers to goes aside; all others are of the table, though all of them are old."""
        store = self.table.base if self.done.count("remove_orphans") % 2 else self.table.change
        orphan = Path(store.load()["location"].removeprefix("file://"), "data", f"orphan{self.number()}.parquet")
        orphan.parent.mkdir(parents=True, exist_ok=True)
        orphan.write_bytes(b"nobody's")
        long_ago = time.time() - 30 * 86_400
        for file in orphan.parents[1].rglob("*"):
            os.utime(file, (long_ago, long_ago))
        self.table.run("remove-orphans")
        assert not orphan.exists()

    def count_values(self) -> None:
        self.table.run("statistics")

    # -- references and partitions ---------------------------------------------------------------------------------

    def tag_base(self) -> None:
        name = f"t{self.number()}"
        if self.table.base.load().get("current-snapshot-id") in (None, -1):
            return
        self.table.alter(f"CREATE TAG {name}")
        # A tag is read with the schema that its snapshot was written with, whatever base's columns are by now.
        self.tags[name] = self.table.by_spark(f".base VERSION AS OF '{name}'")
        now = self.table.by_arrow(".base")
        assert self.tags[name].keys() == now.keys()
        for key, row in self.tags[name].items():  # no name is ever given to a second column
            assert row.items() & now[key].items() == {(name, row[name]) for name in row.keys() & now[key].keys()}

    def drop_tag(self) -> None:
        if self.tags:
            name = self.random.choice(sorted(self.tags))
            self.table.alter(f"DROP TAG {name}")
            del self.tags[name]

    def partition_otherwise(self) -> None:
        """Files of both specs are live from here on, until a rewrite."""
        column = self.shape.partition or self.shape.key[-1]
        self.table.alter(f"{'DROP' if self.is_partitioned else 'ADD'} PARTITION FIELD {column}")
        self.is_partitioned = not self.is_partitioned

    # -- columns ---------------------------------------------------------------------------------------------------

    def add_column(self) -> None:
        kind = self.random.choice([INT, TEXT])
        name = f"c{self.number()}"
        self.table.alter(f"ADD COLUMN {name} {kind}", self.random.choice(["base", "change"]))
        self.model.add_column(name, kind)

    def widen_column(self) -> None:
        name = self.free_column(INT)
        self.table.alter(f"ALTER COLUMN {name} TYPE {LONG}", self.random.choice(["base", "change"]))
        self.model.columns[name] = LONG

    def rename_column(self) -> None:
        old, new = self.free_column(), f"r{self.number()}"
        self.table.alter(f"RENAME COLUMN {old} TO {new}", self.random.choice(["base", "change"]))
        self.model.rename_column(old, new)

    def drop_column(self) -> None:
        name = self.free_column()
        self.table.alter(f"DROP COLUMN {name}", self.random.choice(["base", "change"]))
        self.model.drop_column(name)

    def free_column(self, kind: str | None = None) -> str:
        """A column that may be altered; made first if there is none."""
        free = [name for name in self.model.columns if name not in self.shape.fixed]
        if kind is not None:
            free = [name for name in free if self.model.columns[name] == kind]
        if free:
            return str(self.random.choice(free))
        name = f"c{self.number()}"
        self.table.alter(f"ADD COLUMN {name} {kind or INT}")
        self.model.add_column(name, kind or INT)
        return name

    # -- rows ------------------------------------------------------------------------------------------------------

    def keys(self) -> list[Key]:
        numbers = self.random.sample(KEYS, self.random.randint(1, 4))
        return [self.numbered(number) for number in numbers]

    def numbered(self, number: int) -> Key:
        """Numbers tell keys apart; a second key column shares its values among them."""
        return tuple(number if name == "id" else "ab"[number % 2] for name in self.shape.key)

    def new_key(self) -> Key:
        return self.numbered(1000 + self.number())

    def change(self, key: Key) -> Change:
        op = self.random.choice("UID")
        return self.delete(key) if op == "D" else Change(op, self.upsert(key).row)

    def upsert(self, key: Key, *, partition: str | None = "any") -> Change:
        row: Row = {name: self.value(kind) for name, kind in self.model.columns.items()}
        row |= zip(self.shape.key, key, strict=True)
        if self.shape.partition is not None:
            row[self.shape.partition] = self.place(key, partition)
        if self.shape.sequence is not None:
            row[self.shape.sequence] = self.moment()
        return Change("U", row)

    def delete(self, key: Key, *, at: Row | None = None) -> Change:
        """`at` is the row that it must hit; any other delete may be late or find nothing."""
        row: Row = dict(zip(self.shape.key, key, strict=True))
        if self.shape.scope == "partition" and self.shape.partition is not None:
            row[self.shape.partition] = self.place(key)
        if self.shape.sequence is not None:
            row[self.shape.sequence] = at[self.shape.sequence] if at is not None else self.moment()
        return Change("D", row)

    def place(self, key: Key, wanted: str | None = "any") -> str | None:
        if self.shape.scope == "partition":
            return PARTITIONS[hash(key[-1]) % len(PARTITIONS)]
        return self.random.choice(PARTITIONS) if wanted == "any" else wanted

    def moment(self) -> int:
        """Mostly a little later than before, often not."""
        return len(self.done) + self.random.randint(-4, 2)

    def value(self, kind: str) -> Any:
        number = self.number()
        if number % 11 == 0:
            return None
        return f"v{number}" if kind == TEXT else number + (2**40 if kind == LONG else 0)

    def uuid(self) -> str:
        return str(UUID(int=self.random.getrandbits(128), version=4))

    def number(self) -> int:
        self.written += 1
        return self.written

    def send(self, store: Store, rows: list[Row]) -> None:
        """Commit, and keep the request."""
        if not rows:
            return
        commit = store.prepared(rows, {"firn.writer-id": "rest", "firn.batch-id": self.uuid()})
        answer = store.send(commit)
        assert answer.is_success, answer.text
        self.sent = (store, commit)


WEIGHTS: Mapping[str, int] = {
    "append_changes": 12,
    "upsert_by_spark": 4,
    "delete_by_spark": 2,
    "move_a_partition": 2,
    "empty_a_partition": 2,
    "append_to_base": 2,
    "delete_from_base": 2,
    "send_again": 2,
    "merge_by_rewriting": 3,
    "merge_by_vectors": 3,
    "merge_by_adoption": 3,
    "merge_while_others_write": 1,
    "merge_by_an_optimizer_that_falls_silent": 1,
    "merge_a_part": 2,
    "rewrite": 2,
    "compact": 2,
    "pack_deletes": 1,
    "rewrite_manifests": 1,
    "clean": 1,
    "expire": 2,
    "remove_orphans": 1,
    "count_values": 1,
    "tag_base": 2,
    "drop_tag": 1,
    "partition_otherwise": 1,
    "add_column": 1,
    "widen_column": 1,
    "rename_column": 1,
    "drop_column": 1,
}
CHOICES = [name for name, weight in WEIGHTS.items() for _ in range(weight)]
OPERATIONS: Mapping[str, Callable[[History], None]] = {name: getattr(History, name) for name in WEIGHTS}
