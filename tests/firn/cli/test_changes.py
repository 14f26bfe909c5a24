"""`firn changes`, `firn consumer …` and the example of docs/changes.md, against a real server."""

from __future__ import annotations

from collections.abc import Iterator

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
