"""`firn pipeline put` and what follows it against a real server, without an optimizer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import firn
from tests.command_line import Command

TRIP = {"driver": "long", "day": "date", "status": "string", "fare": "decimal(10,2)"}


@pytest.fixture
def folder(run: Command, client: firn.Client, tmp_path: Path) -> Iterator[Path]:
    """The example's folder, whose inputs exist."""
    folder = tmp_path / "orders"
    run("pipeline", "init", str(folder))
    for name, columns in {"raw.trip": TRIP, "dim.driver": {"driver": "long", "city": "int"}}.items():
        client.tables.create(name, [{"name": column, "type": type_} for column, type_ in columns.items()])
    missing = run("pipeline", "put", str(folder))
    assert "create it first: `firn namespace create mart`" in missing.err
    client.namespaces.create("mart")
    yield folder
    run("pipeline", "drop", "orders")
    for name in ("raw.trip", "dim.driver"):
        client.tables[name].drop()
    client.namespaces.drop("mart")


def read_changes(run: Command, folder: Path, *options: str) -> dict[str, str]:
    answer = run("pipeline", "put", str(folder), "--json", *options)
    assert answer.code == 0, answer
    return {table["table"]: table["change"] for table in answer.json["tables"]}


def test_a_pipeline_is_put_changed_shown_and_dropped(run: Command, folder: Path) -> None:
    new = dict.fromkeys(("mart.city_daily", "mart.driver_daily", "mart.city_rank"), "new")
    assert read_changes(run, folder, "--dry-run") == new
    assert "no pipelines" in run("pipeline", "list").out
    assert read_changes(run, folder) == new
    planned = run("pipeline", "plan", str(folder), "--definition", "--json").json
    assert {table["change"] for table in planned["tables"]} == {"unchanged"}
    path = folder / "transformations" / "city_rank.sql"
    path.write_text(path.read_text().replace("AS place", "AS place  -- the best first"))
    assert set(read_changes(run, folder).values()) == {"unchanged"}
    assert [entry["version"] for entry in run("pipeline", "versions", "orders", "--json").json] == [2, 1]
    assert "-- the best first" in run("pipeline", "versions", "orders", "2").out
    assert "3 new" in run("pipeline", "list").out
    assert "full because of: window function" in run("pipeline", "show", "orders", "city_rank").out
    path.unlink()
    assert read_changes(run, folder)["mart.city_rank"] == "removed"
    assert run("pipeline", "drop", "orders").code == 0
    gone = run("pipeline", "show", "orders")
    assert (gone.code, "orders" in gone.err) == (1, True)


def test_a_run_waits_for_an_optimizer_and_is_cancelled(run: Command, folder: Path) -> None:
    read_changes(run, folder)
    started = run("pipeline", "run", "orders", "driver_daily", "--no-wait", "--json").json
    assert (started["table"], started["status"]) == ("mart.driver_daily", "pending")
    again = run("pipeline", "run", "orders", "driver_daily", "--no-wait")
    assert again.code == 1, again
    assert started["job_id"] in again.err
    assert run("job", "cancel", started["job_id"]).code == 0
    assert [entry["status"] for entry in run("pipeline", "runs", "orders", "--json").json] == ["canceled"]
    for to, message in (("2026-01-01", "would compute all rows"), ("soon", "is no time")):
        assert message in run("pipeline", "run", "orders", "driver_daily", "--to", to).err
    assert "exclude each other" in run("pipeline", "run", "orders", "driver_daily", "--to", "2026-01-01", "--full").err
    assert run("pipeline", "reset", "orders", "driver_daily").code == 0
    for request in (("backfill", "--where", "driver = 1"), ("reset", "--to", "2026-01-01"), ("reset", "--earliest")):
        refused = run("pipeline", request[0], "orders", "driver_daily", *request[1:])
        assert "run the table first" in refused.err, refused
    assert "exclude each other" in run("pipeline", "reset", "orders", "t", "--to", "x", "--earliest").err


def test_wrong_definitions_are_refused(run: Command, folder: Path) -> None:
    other = folder / "spark-pipeline.yml"
    read_changes(run, folder)
    other.write_text(other.read_text().replace("name: orders", "name: others"))
    refused = run("pipeline", "put", str(folder))
    assert refused.code == 1, refused
    assert "mart.city_daily" in refused.err
    path = folder / "transformations" / "city_daily.sql"
    path.write_text(path.read_text().replace("raw.trip", "raw.nothing"))
    refused = run("pipeline", "put", str(folder))
    assert "catalog lake has no table raw.nothing" in refused.err
