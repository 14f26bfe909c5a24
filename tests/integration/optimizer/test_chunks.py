"""A long backlog is merged in several jobs, and whatever they leave for the next, the table says the same."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from optimizer.worker import Worker
from tests.keyed_tables import KeyedTable
from tests.spark_fixtures import RunningServer

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
BOUND = 4
Rows = dict[int, tuple[str, int]]


def keyed(server: RunningServer, worker: Worker, mode: str, **more: str) -> KeyedTable:
    properties = {"firn.primary-key": "id", "firn.merge.max-job-rows": str(BOUND), "firn.merge.mode": mode}
    return KeyedTable(server, worker, "id BIGINT, p STRING, s BIGINT", "p", **properties | more)


def shown(table: KeyedTable) -> dict[str, Any]:
    return table.server.get(f"catalogs/lake/tables/{table.short}")


class Backlog:
    """Random commits on a keyed table, and beside it a dict that says what it holds."""

    def __init__(self, table: KeyedTable, random: Random, *, ordered: bool) -> None:
        self.table, self.random, self.ordered = table, random, ordered
        self.rows: Rows = {}
        self.gone: dict[int, int] = {}

    def append(self) -> None:
        """One commit of one to three changes, a key in it once."""
        keys = self.random.sample(range(6), self.random.randint(1, 3))
        upserts = [(key, self.random.choice("pq"), self.random.randint(1, 9)) for key in keys[1:]]
        deleted = [(keys[0], self.random.choice("pq"), self.random.randint(1, 9))]
        if upserts:
            self.table.upsert(*upserts)
            for key, part, order in upserts:
                if self._takes(key, order):
                    self.rows[key] = (part, order)
        else:
            self.table.delete(*deleted, columns="id BIGINT, p STRING, s BIGINT")
            if self._takes(deleted[0][0], deleted[0][2]):
                self.rows.pop(deleted[0][0], None)
                self.gone[deleted[0][0]] = deleted[0][2]

    def _takes(self, key: int, order: int) -> bool:
        """Whether a change of this order wins against what the key has, a delete included."""
        if not self.ordered:
            return True
        held = self.rows[key][1] if key in self.rows else self.gone.get(key, 0)
        if order < held:
            return False
        self.gone.pop(key, None)
        return True

    def check(self) -> None:
        assert self.table.rows() == sorted(((key, *row) for key, row in self.rows.items()), key=repr)


@pytest.mark.parametrize(
    ("mode", "more"),
    [
        ("rewrite", {}),
        ("vectors", {}),
        ("adopt", {}),
        ("auto", {}),
        ("auto", {"firn.sequence-field": "s", "firn.tombstone.max-age": "0 s"}),
        ("adopt", {"firn.sequence-field": "s", "firn.tombstone.max-age": "0 s"}),
        ("rewrite", {"firn.sequence-field": "s", "firn.tombstone.max-age": "0 s"}),
    ],
    ids=[
        "rewrite",
        "vectors",
        "adopt",
        "adopt, and rewrite small files",
        "adopt, and rewrite small files, with a sequence field and no patience for merged deletes",
        "adopt, with a sequence field and no patience for merged deletes",
        "with a sequence field, and no patience for merged deletes",
    ],
)
def test_chunks_in_a_row_change_nothing_that_the_table_says(
    server: RunningServer, worker: Worker, mode: str, more: dict[str, str]
) -> None:
    table = keyed(server, worker, mode, **more)
    backlog = Backlog(table, Random(7), ordered="firn.sequence-field" in more)
    for _ in range(7):
        backlog.append()
    backlog.check()
    before = shown(table)
    jobs = 0
    while (now := shown(table))["pending_rows"]:
        job = table.run("merge")
        assert (job["status"], job["error"]) == ("succeeded", None)
        jobs += 1
        after = shown(table)
        assert job["result"]["pending_rows"] <= BOUND
        assert after["watermark"] == job["result"]["merged_through"] > now["watermark"]
        assert (
            after["pending_rows"] == job["result"]["left_rows"] == now["pending_rows"] - job["result"]["pending_rows"]
        )
        backlog.check()
        if jobs == 1:
            assert table.run("compact")["status"] == "succeeded"
            backlog.check()
    assert jobs >= before["pending_rows"] / BOUND
    assert table.rows(".base") == table.rows()


def test_a_delete_that_a_chunk_has_merged_still_beats_late_changes_in_the_next(
    server: RunningServer, worker: Worker
) -> None:
    """However old it is: cleaned away between the two, the late change would bring the row back."""
    more = {"firn.sequence-field": "s", "firn.tombstone.max-age": "0 s", "firn.merge.max-job-rows": "1"}
    table = keyed(server, worker, "rewrite", **more)
    table.delete((1, "p", 9), columns="id BIGINT, p STRING, s BIGINT")
    table.upsert((1, "p", 5))
    assert table.rows() == []
    assert table.run("merge")["result"]["left_rows"] == 1
    assert table.rows() == []
    assert table.run("merge")["result"]["left_rows"] == 0
    assert table.rows() == table.rows(".base") == []
