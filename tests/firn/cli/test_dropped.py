"""`firn table drop`, `undrop`, `purge`, `protect`, and `firn namespace`: what they do, print and end with."""

from __future__ import annotations

from itertools import count

import pytest

import firn
from tests.command_line import Command

NUMBERS = count()


@pytest.fixture
def table(client: firn.Client) -> str:
    name = f"dropping.t{next(NUMBERS)}"
    client.tables.create(name, [{"name": "id", "type": "long"}])
    return name


def entry(run: Command, name: str) -> dict[str, str]:
    relation: dict[str, str] = next(
        relation for relation in run("table", "list", "--dropped", "--json").json if relation["name"] == name
    )
    return relation


def test_a_dropped_table_is_listed_and_brought_back(run: Command, table: str) -> None:
    output = run("table", "drop", table)
    assert output.code == 0, output.err
    assert "`firn table undrop` restores it until" in output.out
    assert run("table", "show", table).code == 1
    assert (entry(run, table)["kind"], entry(run, table)["files"]) == ("table", "present")
    assert table in run("table", "list", "dropping", "--dropped", "--search", table.split(".")[1].upper()).out
    would = run("table", "undrop", f"lake.{table}", "--dry-run")
    assert f"would restore table {table}" in would.out
    assert run("table", "undrop", table).out.startswith(f"restored table {table}\nfiles checked: all 1")
    assert run("table", "show", table).code == 0


def test_of_several_of_one_name_the_newest_comes_back_and_any_by_its_id(run: Command, table: str) -> None:
    first = run("table", "drop", table, "--json").json["id"]
    assert run("table", "create", table, "--columns", "id long").code == 0
    second = run("table", "drop", table, "--json").json["id"]
    assert run("table", "undrop", table, "--json").json["restored"][0]["id"] == second
    refused = run("table", "undrop", table, "--id", first)
    assert (refused.code, "--to" in refused.err) == (1, True)
    assert run("table", "undrop", table, "--id", first, "--to", f"{table}_old").code == 0
    assert run("table", "show", f"{table}_old", "--json").json["id"] == first


def test_what_was_never_dropped_cannot_come_back(run: Command) -> None:
    output = run("table", "undrop", "dropping.none")
    assert output.code == 1
    assert "firn table list --dropped" in output.err


def test_a_purge_ends_it(run: Command, table: str) -> None:
    output = run("table", "drop", table, "--purge")
    assert "the server deletes its files then" in output.out
    assert run("table", "purge", table, "--dry-run").out == f"lake.{table} would be purged\n"
    assert run("table", "purge", table, "--yes").code == 0
    assert run("table", "undrop", table).code == 1


def test_a_table_taken_off_the_list_keeps_its_files(run: Command, table: str) -> None:
    run("table", "drop", table)
    assert "its files stay" in run("table", "purge", table, "--keep-files", "--yes").out


def test_a_protected_table_is_dropped_from_nowhere(run: Command, table: str) -> None:
    assert "is protected" in run("table", "protect", table).out
    output = run("table", "drop", table)
    assert output.code == 1
    assert f"firn table unprotect {table}" in output.err
    refused = run("namespace", "drop", "dropping", "--recursive")
    assert (refused.code, table in refused.err) == (1, True)
    assert run("table", "unprotect", table).code == 0
    assert run("table", "drop", table).code == 0


def test_a_namespace_goes_with_everything_in_it_and_comes_back(run: Command) -> None:
    assert run("namespace", "create", "whole.part", "--property", "owner=ana").code == 0
    assert run("table", "create", "whole.part.t", "--columns", "id long").code == 0
    assert run("namespace", "drop", "whole").code == 1
    assert "would drop table whole.part.t" in run("namespace", "drop", "whole", "--recursive", "--dry-run").out
    output = run("namespace", "drop", "whole", "--recursive")
    assert "`firn namespace undrop whole` restores all of it" in output.out
    assert run("namespace", "undrop", "whole").out.startswith("restored table whole.part.t")
    assert run("namespace", "list", "whole", "--json").json[0]["properties"] == {"owner": "ana"}


def test_a_protected_namespace_says_so(run: Command) -> None:
    run("namespace", "create", "precious")
    run("namespace", "protect", "precious")
    output = run("namespace", "drop", "precious")
    assert (output.code, "firn namespace unprotect precious" in output.err) == (1, True)
    assert "yes" in run("namespace", "list").out
    run("namespace", "unprotect", "precious")
    assert run("namespace", "drop", "precious").code == 0


def test_a_purge_of_nothing_in_particular_is_wrong_usage(run: Command) -> None:
    output = run("namespace", "drop", "dropping", "--purge")
    assert (output.code, "--recursive" in output.err) == (2, True)


def test_the_retention_is_a_property_of_the_catalog(run: Command, tmp_path_factory: pytest.TempPathFactory) -> None:
    warehouse = tmp_path_factory.mktemp("brief").as_uri()
    catalog = run("catalog", "create", "brief", "--warehouse", warehouse, "--property", "firn.drop.retention=1 d")
    assert catalog.code == 0, catalog.err
    assert "1 d" in run("catalog", "show", "brief").out
    assert run("catalog", "set", "brief", "firn.drop.retention=0").code == 0
    assert run("catalog", "set", "brief", "firn.drop.retention=soon").code == 2
    assert run("table", "create", "brief.db.t", "--columns", "id long").code == 0
    assert "its files stay" in run("table", "drop", "brief.db.t").out
    assert run("table", "undrop", "brief.db.t").code == 1


def test_a_catalog_with_dropped_tables_is_dropped_on_request_only(
    run: Command, tmp_path_factory: pytest.TempPathFactory
) -> None:
    run("catalog", "create", "leaving", "--warehouse", tmp_path_factory.mktemp("leaving").as_uri())
    run("table", "create", "leaving.db.t", "--columns", "id long")
    run("table", "drop", "leaving.db.t")
    run("namespace", "drop", "db", "--catalog", "leaving")
    output = run("catalog", "drop", "leaving")
    assert (output.code, "--forget-dropped" in output.err) == (1, True)
    assert run("catalog", "drop", "leaving", "--forget-dropped").code == 0
