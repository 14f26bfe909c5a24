"""Backfills on real tables, while optimizers die and inputs change (docs/protocols.md, rules 8.9 to 8.12).

Somebody damages rows of the table: no change of an input repairs them, so a backfill has to.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from itertools import cycle
from typing import Any

import pytest

from firn.protocol.backfills import BackfillOut
from tests.integration.pipelines.attempts import MOMENTS, Fate, asleep, bury, finish, work_until
from tests.integration.pipelines.derived import Derived
from tests.spark_fixtures import RunningServer

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
JANUARY = "day BETWEEN DATE '2026-01-01' AND DATE '2026-01-04'"


@dataclass
class Damaged:
    """A table `t` that is built, and whose rows somebody has damaged then; `right` is one that nobody damages."""

    derived: Derived

    @classmethod
    def build(cls, server: RunningServer, *, key: tuple[str, ...] = ("driver", "day")) -> Damaged:
        damaged = cls(Derived(server, ("t", "right"), key=key))
        damaged.run("t")
        damaged.run("right")
        return damaged

    def run(self, name: str = "t", *, full: bool = False) -> dict[str, Any]:
        run_id = self.derived.ask(name, full=full)
        finish(self.derived.server.url, lambda: self.derived.have_ended(run_id))
        run = self.derived.get_run(run_id)
        assert run.error is None, run.error
        return run.result

    def damage(self) -> None:
        """Wrong sums in all rows, two rows that the query does not give, and one row less."""
        sql, store = self.derived.server.spark.sql, f"lake.{self.derived.table('t')}.change"
        sql(
            f"INSERT INTO {store} (driver, day, city, trips, fares, _op) "
            f"SELECT driver, day, city, trips, 999, 'U' FROM lake.{self.derived.table('t')}"
        )
        sql(
            f"INSERT INTO {store} (driver, day, city, trips, fares, _op) VALUES (77, DATE'2026-01-03', 1, 1, 1, 'U'), "
            "(78, DATE'2026-03-01', 1, 1, 1, 'U'), (0, DATE'2026-01-01', 0, 0, 0, 'D')"
        )

    def request(self, where: str = JANUARY, chunks: int | None = None, beside: int | None = None) -> str:
        return self.derived.pipeline.backfill(self.derived.table("t"), where, chunks=chunks, beside=beside).id

    def write_by_hand(self, rows: list[tuple[Any, ...]]) -> None:
        """Somebody gives the table these rows, whatever its checkpoint says, except those of driver 2."""
        sql, store = self.derived.server.spark.sql, f"lake.{self.derived.table('t')}.change"
        sql(
            f"INSERT INTO {store} (driver, day, city, trips, fares, _op) SELECT driver, day, city, trips, fares, 'D' "
            f"FROM lake.{self.derived.table('t')} WHERE driver <> 2"
        )
        values = ", ".join(f"({a}, DATE'{b}', {c}, {d}, {e}, 'U')" for a, b, c, d, e in rows if a != 2)
        sql(f"INSERT INTO {store} (driver, day, city, trips, fares, _op) VALUES {values}")

    def is_finished(self, backfill_id: str) -> bool:
        return self.get(backfill_id).status == "finished"

    def get(self, backfill_id: str) -> BackfillOut:
        return self.derived.pipeline.get_backfill(self.derived.table("t"), backfill_id)

    def pins(self, name: str) -> Any:
        shown = self.derived.pipeline.show().tables
        (table,) = (table for table in shown if table.name == self.derived.table(name))
        assert table.checkpoint is not None
        return table.checkpoint["pins"]


def test_a_backfill_goes_on_beside_live_changes_and_over_deaths(server: RunningServer) -> None:
    """Each run dies at another step, and the inputs change between the runs."""
    table = Damaged.build(server)
    derived = table.derived
    table.damage()
    backfill_id = table.request(chunks=4)
    for number, moment in enumerate(cycle(MOMENTS)):
        if table.get(backfill_id).status != "active":
            break
        assert number < 8, "the backfill does not end"
        if number % 2:
            derived.add_trips(100 + 10 * number, 4)
        run_id, fate = derived.ask("t"), Fate(moment)
        work_until(server.url, fate)
        bury(server.url, fate)
        finish(server.url, lambda run_id=run_id: derived.have_ended(run_id))  # type: ignore[misc]
        assert derived.get_run(run_id).error is None
    backfill = table.get(backfill_id)
    assert (backfill.status, backfill.done, backfill.total) == ("finished", 4, 4)
    outside = [row for row in derived.rows("t") if row[0] == 78]
    assert len(outside) == 1  # no chunk selects it
    assert sorted([*derived.full_rows(), *outside]) == sorted(derived.rows("t"))
    table.run("t")
    table.run("right")
    assert table.pins("t") == table.pins("right")
    positions = derived.positions("t")
    assert len(positions) == len(set(positions))


@pytest.mark.parametrize("first", ["the live run", "the chunks"])
def test_chunks_beside_a_live_run_bring_no_old_row_back(server: RunningServer, first: str) -> None:
    """The rows of the new inputs are in the table already when the live run compares them, so it need not write them.

    A chunk that was taken before has other rows of these keys, and rows that the query no longer gives.
    """
    table = Damaged.build(server)
    derived = table.derived
    table.damage()
    derived.change_inputs()
    table.write_by_hand(derived.full_rows())
    backfill_id = table.request(chunks=2, beside=1)
    if first == "the live run":
        with asleep(server.url, "taken"):
            result = table.run()
            assert (result["written"] > 0, result["unchanged"], result["deleted"]) == (True, 0, 0)
    else:
        run_id = derived.ask("t")
        with asleep(server.url, "computed"):
            finish(server.url, lambda: table.is_finished(backfill_id))
        finish(server.url, lambda: derived.have_ended(run_id))
        assert derived.get_run(run_id).error is None
    finish(server.url, lambda: table.is_finished(backfill_id))
    outside = [row for row in derived.rows("t") if row[0] == 78]
    assert sorted([*derived.full_rows(), *outside]) == sorted(derived.rows("t"))
    assert [chunk.state for chunk in table.get(backfill_id).chunks] == ["done", "done"]


def test_chunks_beside_live_runs_go_on_over_deaths(server: RunningServer) -> None:
    table = Damaged.build(server)
    table.damage()
    pins, positions = table.pins("t"), table.derived.positions("t")
    backfill_id = table.request(chunks=3, beside=2)
    for moment in ("taken", "chunk computed", "chunk committed"):
        fate = Fate(moment)
        work_until(server.url, fate)
        bury(server.url, fate)
    finish(server.url, lambda: table.is_finished(backfill_id))
    outside = [row for row in table.derived.rows("t") if row[0] == 78]
    assert sorted([*table.derived.full_rows(), *outside]) == sorted(table.derived.rows("t"))
    assert (table.pins("t"), table.derived.positions("t")) == (pins, positions)


def test_a_chunk_changes_no_row_of_another_chunk(server: RunningServer) -> None:
    table = Damaged.build(server)
    table.damage()
    backfill_id = table.request(chunks=4)
    result = table.run()
    assert (result["mode"], result["chunks"], result["keys"]) == ("incremental", 1, 0)
    repaired = [row for row in table.derived.rows("t") if row in table.derived.full_rows()]
    assert {str(row[1]) for row in repaired} == {"2026-01-01"}
    assert [row for row in table.derived.rows("t") if row not in table.derived.full_rows()] != []
    assert [chunk.state for chunk in table.get(backfill_id).chunks] == ["done", "pending", "pending", "pending"]


def test_a_paused_backfill_waits_and_a_full_run_ends_it(server: RunningServer) -> None:
    table = Damaged.build(server)
    table.damage()
    backfill_id, name = table.request(chunks=2), table.derived.table("t")
    table.derived.pipeline.pause(name, backfill_id)
    assert table.run()["mode"] == "nothing"
    table.derived.pipeline.resume(name, backfill_id)
    run_id = table.derived.ask("t")
    with asleep(server.url, "computed") as fate:  # another run computes the chunk again
        bury(server.url, fate)
        finish(server.url, lambda: table.derived.have_ended(run_id))
        assert table.get(backfill_id).done == 1
    assert table.get(backfill_id).done == 1
    assert table.run(full=True)["mode"] == "full"
    assert (table.get(backfill_id).status, table.get(backfill_id).done) == ("finished", 2)
    assert table.derived.rows("t") == table.derived.full_rows()


def test_a_replay_repairs_what_has_changed_since_a_checkpoint_and_nothing_else(server: RunningServer) -> None:
    table = Damaged.build(server)
    derived, name = table.derived, table.derived.table("t")
    checkpoint = next(iter(derived.pipeline.runs(name))).result["checkpoint"]
    derived.add_trips(102, 1)  # of driver 0, on the first day
    table.run()
    table.damage()
    derived.add_trips(103, 1)  # a live change of driver 1, on the second day
    replay = derived.pipeline.replay(name, checkpoint=checkpoint)
    result = table.run()
    assert (result["mode"], result["keys"]) == ("incremental", 2)
    assert table.get(replay.id).status == "finished"
    right = {row[:2]: row for row in derived.full_rows()}
    repaired = {row[:2] for row in derived.rows("t") if right.get(row[:2]) == row}
    assert repaired == {(0, date(2026, 1, 1)), (1, date(2026, 1, 2))}
    derived.pipeline.replay(name)
    assert table.run()["keys"] == 2  # no input has changed
    assert table.run()["mode"] == "nothing"


def test_bounded_runs_catch_up_commit_by_commit(server: RunningServer) -> None:
    """Each takes one commit, and the next one is due at once. This server starts none by itself, so the test does."""
    derived = Derived(server, ("t",), max_commits=1)
    run_once(derived)
    derived.add_trips(101, 3)
    derived.move_drivers(7)
    derived.delete_trips(1)
    for left, name in ((2, derived.trip), (1, derived.driver), (0, derived.trip)):
        result = run_once(derived)
        assert (result["mode"], result["commits_left"]) == ("incremental", left)
        assert [changes["table"] for changes in result["inputs"]] == [name]
        assert (derived.pipeline.show().tables[0].next_run is not None) is (left > 0)
    assert derived.rows("t") == derived.full_rows()


def run_once(derived: Derived) -> dict[str, Any]:
    """A run of the table `t`; returns its result."""
    run_id = derived.ask("t")
    finish(derived.server.url, lambda: derived.have_ended(run_id))
    return derived.get_run(run_id).result


def test_a_table_without_a_key_has_backfills(server: RunningServer) -> None:
    table = Damaged.build(server, key=())
    sql, name = server.spark.sql, table.derived.table("t")
    sql(f"UPDATE lake.{name} SET fares = 999 WHERE driver = 1")
    sql(f"INSERT INTO lake.{name} VALUES (1, DATE'2026-01-01', 5, 5, 5), (2, DATE'2026-01-02', 0, 1, 1)")
    backfill_id = table.request("driver IN (0, 1, 2)", chunks=1)
    table.derived.add_trips(201, 3)
    assert table.run()["chunks"] == 1
    assert table.get(backfill_id).status == "finished"
    assert table.derived.rows("t") == table.derived.full_rows()


def test_a_hash_selects_the_same_rows_of_the_query_and_of_a_table_with_wider_types(server: RunningServer) -> None:
    """A hash of an INT differs from one of the same BIGINT: a chunk would delete rows of another one."""
    table = Damaged.build(server, key=())
    sql, name = server.spark.sql, table.derived.table("t")
    sql(f"ALTER TABLE lake.{name} ALTER COLUMN driver TYPE BIGINT")
    rows = table.derived.rows("t")
    backfill_id = table.request("driver >= 0", chunks=3)
    while table.get(backfill_id).status == "active":
        result = table.run()
        assert (result["written"], result["deleted"]) == (0, 0)
        assert table.derived.rows("t") == rows
    assert table.get(backfill_id).done == 3
