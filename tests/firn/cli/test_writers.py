"""`firn writer …` and the example of docs/streams.md, against a real server."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import BadRequestError

import firn
from firn.errors import NotFound, Refused
from tests.command_line import Command
from tests.docs.blocks import ADDRESS, DOCS, blocks

ROWS = pa.table({"room": ["attic"], "celsius": [30.0]})


@pytest.fixture
def lake(server: str) -> Catalog:
    return load_catalog("lake", type="rest", uri=f"{server}/iceberg", warehouse="lake")


@pytest.fixture
def table(client: firn.Client, lake: Catalog) -> Iterator[firn.client.TableHandle]:
    lake.create_namespace_if_not_exists("shop")
    client.tables.create("shop.readings", [{"name": "room", "type": "string"}, {"name": "celsius", "type": "double"}])
    yield client.tables["shop.readings"]
    client.tables["shop.readings"].drop()


def example(server: str) -> str:
    page = (DOCS / "streams.md").read_text("utf-8")
    return next(block.text for block in blocks(page) if "shop.readings" in block.text).replace(ADDRESS, server)


def test_the_example_of_the_page_brings_each_record_once(
    server: str, table: firn.client.TableHandle, lake: Catalog
) -> None:
    program = example(server)
    exec(program, {})
    exec(program.replace('"kitchen,21.7"]', '"kitchen,21.7", "attic,30.0"]'), {})
    exec(program.replace('"kitchen,21.7"]', '"kitchen,21.7", "attic,30.0"]'), {})
    rows = lake.load_table("shop.readings").scan().to_arrow().sort_by("celsius").to_pylist()
    assert [row["celsius"] for row in rows] == [12.0, 21.5, 21.7, 30.0]
    writer = table.writers.get("sensors")
    assert (writer.epoch, writer.position) == (3, "4")


def test_an_engine_is_told_that_its_copy_is_fenced_and_that_the_position_moved(
    table: firn.client.TableHandle, lake: Catalog
) -> None:
    old = table.writers.register("w")
    new = table.writers.register("w")
    with pytest.raises(BadRequestError, match="epoch 1 of writer 'w' is fenced"):
        lake.load_table("shop.readings").append(ROWS, snapshot_properties=old.summary_to("1"))
    lake.load_table("shop.readings").append(ROWS, snapshot_properties=new.summary_to("1"))
    with pytest.raises(BadRequestError, match="begins at position 'none', but the table is at '1'"):
        lake.load_table("shop.readings").append(ROWS, snapshot_properties=new.summary_to("2"))


def test_writers_are_listed_and_fenced(run: Command, table: firn.client.TableHandle, lake: Catalog) -> None:
    assert "no writers" in run("writer", "list", "shop.readings").out
    writer = table.writers.register("a/b")
    lake.load_table("shop.readings").append(ROWS, snapshot_properties=writer.summary_to("orders:0:1"))
    assert "orders:0:1" in run("writer", "list", "shop.readings").out
    assert run("writer", "fence", "shop.readings", "a/b").out == "writer a/b of shop.readings is fenced for good\n"
    (listed,) = run("writer", "list", "shop.readings", "--json").json
    assert (listed["name"], listed["epoch"], listed["position"]) == ("a/b", 1, "orders:0:1")
    assert listed["fenced_at"] is not None
    assert "fenced 20" in run("writer", "list", "shop.readings").out
    with pytest.raises(Refused, match="fenced for good"):
        table.writers.register("a/b")
    with pytest.raises(NotFound):
        table.writers.fence("c")
