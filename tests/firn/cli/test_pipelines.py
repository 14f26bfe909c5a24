"""`firn pipeline …` without a server, and with the columns of one."""

from __future__ import annotations

from pathlib import Path

import pytest

import firn
from tests.command_line import Command

PRUNED = "raw.trip.driver, dim.driver.driver, raw.trip.day"
WINDOW = "window function without PARTITION BY (transformations/city_rank.sql, line 3)"
WRONG = "create materialized view city_daily as select citi\nfrom dim.driver"
SCHEMA = """\
raw.trip: {driver: bigint, day: date, status: string, fare: double}
dim.driver: {driver: bigint, city: int}
"""


@pytest.fixture
def folder(run: Command, tmp_path: Path) -> Path:
    folder = tmp_path / "orders"
    output = run("pipeline", "init", str(folder))
    assert output.out == f"{folder} has a pipeline of 3 tables. See: firn pipeline plan {folder}\n"
    return folder


def test_the_example_is_valid_and_planned(run: Command, folder: Path) -> None:
    assert run("pipeline", "validate", str(folder)).out == f"{folder} is valid: 3 tables\n"
    assert run("pipeline", "plan", str(folder), "driver_daily").out.splitlines() == [
        "mart.driver_daily  incremental, scope driver, day (its key)  strict",
        "  raw.trip    driver, day are read from its changed rows",
        "  dim.driver  driver is in its changed rows, day is not: they are joined with raw.trip at both states",
        "  if raw.trip or dim.driver alone has changed, its changes are added to counts and sums",
        f"  of few affected values, a run reads only the rows with these values in {PRUNED}",
    ]
    assert run("pipeline", "plan", str(folder), "mart.city_rank").out.splitlines() == [
        "mart.city_rank  full",
        f"  {WINDOW}. Partition it, or say refresh: full.",
    ]
    planned = run("pipeline", "plan", str(folder), "--json", "--sql").json
    assert [(table["table"], table["strategy"], table["scope"]) for table in planned] == [
        ("mart.city_daily", "incremental", ["city", "day"]),
        ("mart.driver_daily", "incremental", ["driver", "day"]),
        ("mart.city_rank", "full", []),
    ]
    assert list(planned[0]["sql"]) == ["firn_affected", "rows"]
    assert list(planned[2]["sql"]) == ["full"]


def test_a_mistake_ends_with_2_and_its_place(run: Command, folder: Path) -> None:
    (folder / "transformations" / "city_daily.sql").write_text(WRONG)
    refused = run("pipeline", "validate", str(folder))
    assert refused.code == 2
    place = "transformations/city_daily.sql, line 1, column 47: no input has the column `citi`; did you mean city?"
    assert refused.out.splitlines()[0] == place
    assert run("pipeline", "plan", str(folder)).code == 2
    problem = run("pipeline", "validate", str(folder), "--json").json["problems"][0]
    assert problem["hint"] == "did you mean city?"
    (folder / "firn-pipeline.yml").write_text("tabels: {}")
    refused = run("pipeline", "plan", str(folder))
    assert (refused.code, refused.out) == (2, "")
    assert "line 1: the file has no field 'tabels'" in refused.err


def test_a_table_that_is_not_there_is_named(run: Command, folder: Path) -> None:
    refused = run("pipeline", "plan", str(folder), "rider_daily")
    assert refused.code == 1
    assert "defines no table rider_daily" in refused.err


def test_columns_come_from_a_file(run: Command, folder: Path, tmp_path: Path) -> None:
    (folder / "firn-pipeline.yml").unlink()
    unknown = run("pipeline", "plan", str(folder), "city_daily")
    assert unknown.code == 1
    assert unknown.out == "mart.city_daily  not planned: the columns of raw.trip, dim.driver are not known\n"
    schema = tmp_path / "schema.yml"
    schema.write_text(SCHEMA)
    planned = run("pipeline", "plan", str(folder), "driver_daily", "--schema", str(schema))
    assert planned.code == 0
    assert "warning: sum() of DOUBLE depends on the order of addition" in planned.out


def test_columns_come_from_the_server(run: Command, folder: Path, client: firn.Client) -> None:
    (folder / "firn-pipeline.yml").unlink()
    trip = {"driver": "long", "day": "date", "status": "string", "fare": "decimal(10,2)"}
    for name, columns in {"raw.trip": trip, "dim.driver": {"driver": "long", "city": "int"}}.items():
        client.tables.create(name, [{"name": column, "type": type_} for column, type_ in columns.items()])
    try:
        assert run("pipeline", "validate", str(folder)).out == f"{folder} is valid: 3 tables\n"
    finally:
        for name in ("raw.trip", "dim.driver"):
            client.tables[name].drop()


def test_a_new_pipeline_has_the_name_of_its_folder_if_it_may(run: Command, tmp_path: Path) -> None:
    for folder, name in [("fares", "fares"), ("two words", "orders"), ("on", "orders"), ("2026", "orders")]:
        run("pipeline", "init", str(tmp_path / folder))
        assert run("pipeline", "validate", str(tmp_path / folder), "--json").json["name"] == name
