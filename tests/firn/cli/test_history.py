"""`firn table history|compare|refs|tag|branch|drop-ref|fast-forward|rollback`, with rows that PyIceberg has written."""

from __future__ import annotations

from itertools import count

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog

import firn
from firn.durations import duration_ms
from firn.errors import Invalid
from tests.command_line import Command

NUMBERS = count()
DAY_MS = 86_400_000


@pytest.fixture
def table(client: firn.Client, server: str) -> str:
    """A plain table with two appends of two rows."""
    name = f"past.t{next(NUMBERS)}"
    client.tables.create(name, [{"name": "id", "type": "long"}])
    written = RestCatalog("lake", uri=f"{server}/iceberg", warehouse="lake").load_table(name)
    for start in (0, 2):
        written.append(pa.table({"id": [start, start + 1]}))
    return name


def rows(server: str, name: str, ref: str | None = None) -> list[int]:
    """What PyIceberg reads, from main or by a branch or tag."""
    table = RestCatalog("lake", uri=f"{server}/iceberg", warehouse="lake").load_table(name)
    snapshot = table.current_snapshot() if ref is None else table.snapshot_by_name(ref)
    assert snapshot is not None
    listed: list[int] = sorted(table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()["id"].to_pylist())
    return listed


def test_the_history_says_what_changed_and_by_whom(run: Command, table: str) -> None:
    run("table", "properties", table, "--set", "owner=ann")
    newest, *_, created = run("table", "history", table, "--json").json
    assert newest["headline"] == "set property owner to ann"
    assert newest["engine"].startswith("firn ")
    assert created["headline"] == "created with id long"
    shown = run("table", "history", table)
    assert "set property owner to ann" in shown.out
    assert "append: +2 rows, +1 file" in shown.out
    assert "PyIceberg" in shown.out
    assert len(run("table", "history", table, "--kind", "properties", "--json").json) == 2
    full = run("table", "history", table, "--full")
    assert "· new files go to file:" in full.out


def test_a_rollback_says_first_what_it_does_and_pyiceberg_sees_it(run: Command, table: str, server: str) -> None:
    first = run("table", "snapshots", table, "--json").json[-1]["snapshot_id"]
    dry = run("table", "rollback", table, "--to-snapshot", first, "--dry-run")
    assert "would take from main 1 commit with 2 rows added and 0 removed" in dry.out
    assert rows(server, table) == [0, 1, 2, 3]
    run("table", "tag", table, "before-rollback", "--retain", "7d")
    done = run("table", "rollback", table, "--to-snapshot", first)
    assert "did take from main 1 commit" in done.out
    assert "does not expire while before-rollback holds it" in done.out
    assert rows(server, table) == [0, 1]
    assert rows(server, table, "before-rollback") == [0, 1, 2, 3]
    assert "main is at snapshot" in run("table", "rollback", table, "--to-snapshot", first).out
    assert run("table", "rollback", table, "--to-snapshot", "before-rollback").code == 0
    assert rows(server, table) == [0, 1, 2, 3]


def test_a_rollback_by_time_and_one_to_nowhere(run: Command, table: str) -> None:
    times = {
        snapshot["snapshot_id"]: snapshot["committed_at"]
        for snapshot in run("table", "snapshots", table, "--json").json
    }
    first = min(times, key=lambda snapshot_id: times[snapshot_id])
    rollback = run("table", "rollback", table, "--to-time", times[first], "--dry-run", "--json").json
    assert rollback["target"] == first
    assert run("table", "rollback", table).code == 2
    assert run("table", "rollback", table, "--to-time", "yesterday").code == 2
    early = run("table", "rollback", table, "--to-time", "2001-01-01T00:00")
    assert (early.code, "the table has no recorded snapshot at" in early.err) == (1, True)


def test_branches_and_tags_are_made_listed_moved_and_dropped(run: Command, table: str) -> None:
    first = run("table", "snapshots", table, "--json").json[-1]["snapshot_id"]
    assert (
        run("table", "branch", table, "audit", "--snapshot", first, "--keep", "2", "--retain-snapshots", "2d").code == 0
    )
    run("table", "tag", table, "v1", "--snapshot", first)
    listed = {ref["name"]: ref for ref in run("table", "refs", table, "--json").json}
    assert (listed["audit"]["max_snapshot_age_ms"], listed["audit"]["min_snapshots_to_keep"]) == (2 * DAY_MS, 2)
    assert listed["audit"]["can_forward"]
    assert "snapshots 2 d, at least 2" in run("table", "refs", table).out
    again = run("table", "tag", table, "v1")
    assert (again.code, "tag v1 exists at snapshot" in again.err) == (1, True)
    assert run("table", "tag", table, "v1", "--replace").code == 0
    assert run("table", "fast-forward", table, "audit", "--to", "main").code == 0
    compared = run("table", "compare", table, first, "audit")
    assert "1 commit only in audit" in compared.out
    assert run("table", "drop-ref", table, "v1").code == 0
    assert run("table", "drop-ref", table, "v1").code == 1


def test_a_keyed_table_says_why_it_is_not_rolled_back(run: Command, client: firn.Client) -> None:
    name = f"past.k{next(NUMBERS)}"
    client.tables.create(name, [{"name": "id", "type": "long"}], primary_key=["id"])
    refused = run("table", "rollback", name, "--to-snapshot", "1")
    assert refused.code == 1
    assert "only move together" in refused.err
    assert "firn.spark.upsert" in refused.err


@pytest.mark.parametrize(("text", "milliseconds"), [("7d", 7 * DAY_MS), ("36 h", 129_600_000), ("90min", 5_400_000)])
def test_durations_are_written_with_a_unit(text: str, milliseconds: int) -> None:
    assert duration_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["7", "0d", "7 fortnights", "-1d"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="is not a duration"):
        duration_ms(text)
