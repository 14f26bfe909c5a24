"""`firn changes`, `firn consumer …` and the example of docs/changes.md, against a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog

import firn
from tests.command_line import Command
from tests.docs.blocks import ADDRESS, DOCS, blocks


@pytest.fixture
def lake(server: str) -> Catalog:
    return load_catalog("lake", type="rest", uri=f"{server}/iceberg", warehouse="lake")


@pytest.fixture
def table(client: firn.Client, lake: Catalog) -> Iterator[firn.client.TableHandle]:
    lake.create_namespace_if_not_exists("shop")
    columns = [{"name": "item", "type": "bigint"}, {"name": "amount", "type": "bigint"}]
    client.tables.create("shop.stock", columns, primary_key=["item"])
    yield client.tables["shop.stock"]
    client.tables["shop.stock"].drop()


def test_the_example_of_the_page_reads_net_changes(
    server: str, table: firn.client.TableHandle, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (DOCS / "changes.md").read_text("utf-8")
    program = next(block.text for block in blocks(page) if block.language == "python").replace(ADDRESS, server)
    exec(program, {})
    assert sorted(capsys.readouterr().out.splitlines()) == [
        "insert 1 None {'item': 1, 'amount': 4}",
        "insert 2 None {'item': 2, 'amount': 7}",
    ]
    assert table.consumers.get("web shop").lag_versions == 0


def test_changes_are_shown_and_consumers_moved(run: Command, table: firn.client.TableHandle, lake: Catalog) -> None:
    assert "no consumers" in run("consumer", "list", "shop.stock").out
    stock = lake.load_table("shop.stock")
    for amount in (1, 2):
        stock.append(pa.Table.from_pylist([{"item": 1, "amount": amount}], schema=stock.schema().as_arrow()))
    shown = run("changes", "shop.stock", "--since", "1").out
    assert "~" in shown
    assert "item=1, amount=1" in shown
    first, second = run("changes", "shop.stock", "--since", "0", "--each", "--json").json
    assert (first["_change_type"], first["_before"], first["_after"]) == ("insert", None, {"item": 1, "amount": 1})
    assert (second["_change_type"], second["_version"]) == ("update", 2)
    assert run("consumer", "reset", "shop.stock", "c", "--to", "1").out == "consumer c of shop.stock is at version 1\n"
    assert len(run("changes", "shop.stock", "--since", "consumer:c", "--json").json) == 1
    (listed,) = run("consumer", "list", "shop.stock", "--json").json
    assert (listed["version"], listed["lag_versions"], listed["lag_rows"]) == (1, 1, 1)
    assert run("consumer", "drop", "shop.stock", "c").out == "consumer c of shop.stock is dropped\n"
    assert "no changes" in run("changes", "shop.stock", "--since", "2").out
    assert run("changes", "shop.stock", "--since", "7").err.startswith("firn: shop.stock has no version 7")


@pytest.mark.parametrize("flags", [(), ("--json",)], ids=["people", "programs"])
def test_follow_shows_each_change_once_as_versions_come(
    run: Command,
    table: firn.client.TableHandle,
    lake: Catalog,
    monkeypatch: pytest.MonkeyPatch,
    flags: tuple[str, ...],
) -> None:
    stock = lake.load_table("shop.stock")
    coming = [[(1, 1), (1, 2)], [], [(1, 3)]]

    def wait(seconds: float) -> None:
        """Somebody commits between two looks; after the last one the user presses Ctrl-C."""
        assert seconds == 0.5
        if not coming:
            raise KeyboardInterrupt
        for item, amount in coming.pop(0):
            stock.append(pa.Table.from_pylist([{"item": item, "amount": amount}], schema=stock.schema().as_arrow()))

    monkeypatch.setattr("firn.cli.changes.time", SimpleNamespace(sleep=wait))
    shown = run("changes", "shop.stock", "--since", "0", "--follow", "--interval", "0.5", *flags)
    if flags:
        rows = [json.loads(line) for line in shown.out.splitlines()]
        assert [(row["_version"], row["_after"]["amount"]) for row in rows] == [(1, 1), (2, 2), (3, 3)]
        assert [row["_change_type"] for row in rows] == ["insert", "update", "update"]
    else:
        assert shown.out.count("+") == 1
        assert shown.out.count("~") == 2
        assert "no changes" not in shown.out
