"""Scans of real keyed tables, written and merged by real Spark, give what the view gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import firn
from firn.errors import Invalid, NotFound
from firn.scan import Scan
from firn.scan.lineage import ROW_ID, SEQUENCE, list_lineage_files
from firn.scan.served import Served
from optimizer.images.changes import KeyColumns, Selection, read_changes
from tests.keyed_tables import KeyedTable, a_worker
from tests.spark_fixtures import RunningServer, running_server

pytestmark = pytest.mark.spark
COLUMNS = "id BIGINT, part STRING, at INT, v STRING"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tmp_path_factory.mktemp("scan") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[firn.Client]:
    with firn.connect(server.url) as connected:
        yield connected


def rows_of(scan: Scan) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in scan.to_arrow().to_pylist()), key=repr)


def keyed(server: RunningServer, **properties: str) -> KeyedTable:
    return KeyedTable(server, a_worker(server.url), COLUMNS, "part", **{"firn.primary-key": "id", **properties})


FILTERS: dict[str, Callable[[Any, Any, Any, Any], bool]] = {
    "v = 'a'": lambda _id, _part, _at, v: v == "a",
    "part = 'p' and at >= 5": lambda _id, part, at, _v: part == "p" and at >= 5,
    "id > 2 and v != 'c'": lambda id_, _part, _at, v: id_ > 2 and v is not None and v != "c",
    "v is null or not part in ('p')": lambda _id, part, _at, v: v is None or part not in ("p", None),
}


def check(client: firn.Client, table: KeyedTable) -> list[tuple[Any, ...]]:
    """The view's rows: whole, filtered by what may and what may not go before the merge, and projected."""
    whole = table.rows()
    assert rows_of(client.scan(table.name)) == whole
    for where, keeps in FILTERS.items():
        expected = sorted(((row[3], row[0]) for row in whole if keeps(*row)), key=repr)
        assert rows_of(client.scan(table.name, filter=where, columns=["v", "id"])) == expected, where
    return whole


@pytest.mark.parametrize("mode", ["rewrite", "vectors", "adopt"])
def test_a_scan_is_the_view_before_during_and_after_merges(
    server: RunningServer, client: firn.Client, mode: str
) -> None:
    table = keyed(server)
    assert check(client, table) == []
    table.upsert((1, "p", 5, "a"), (2, "q", 5, "b"), (3, None, 5, "c"), (4, "p", 1, None))
    assert len(check(client, table)) == 4
    assert table.run("merge", mode=mode)["status"] == "succeeded"
    check(client, table)
    table.upsert((1, "q", 6, "moved"), (3, None, 6, "a"), (5, "r", 1, "a"))
    table.delete((2,), (77,), columns="id BIGINT")
    table.upsert((5, "p", 2, "b"))
    check(client, table)
    table.upsert((1, "p", 7, "again"))
    assert (1, "p", 7, "again") in check(client, table)
    assert table.run("merge", mode=mode)["status"] == "succeeded"
    check(client, table)
    assert client.tables[table.name].show().pending_rows == 0


def test_late_changes_lose_in_a_scan_as_in_the_view(server: RunningServer, client: firn.Client) -> None:
    table = keyed(server, **{"firn.sequence-field": "at"})
    table.upsert((1, "p", 5, "a"), (2, "q", 5, "b"), (3, "q", 5, "c"))
    assert table.run("merge")["status"] == "succeeded"
    table.upsert((1, "q", 4, "late"), (2, "p", 5, "tie"))
    table.delete((3, 6), columns="id BIGINT, at INT")
    check(client, table)
    assert table.run("merge")["status"] == "succeeded"
    table.upsert((3, "p", 5, "after the merged delete"), (4, "p", 1, "new"), (2, "p", 9, "a"))
    assert check(client, table) == [(1, "p", 5, "a"), (2, "p", 9, "a"), (4, "p", 1, "new")]
    table.upsert((3, "p", 6, "back"))
    check(client, table)


def test_a_scan_follows_schema_changes(server: RunningServer, client: firn.Client) -> None:
    table = KeyedTable(server, a_worker(server.url), COLUMNS, "", **{"firn.primary-key": "id"})
    table.upsert((1, "p", 5, "a"), (2, "q", 5, "b"))
    table.run("merge")
    table.upsert((2, "q", 6, "c"))
    server.spark.sql(f"ALTER TABLE {table.name}.base RENAME COLUMN v TO w")
    server.spark.sql(f"ALTER TABLE {table.name}.base ALTER COLUMN at TYPE BIGINT")
    server.spark.sql(f"ALTER TABLE {table.name}.base ADD COLUMN n ARRAY<INT>")
    server.spark.sql(f"ALTER TABLE {table.name}.base DROP COLUMN part")
    assert rows_of(client.scan(table.name, filter="w != 'x'")) == table.rows() == [(1, 5, "a", None), (2, 6, "c", None)]


def test_rows_keep_ids_and_sequence_numbers_through_appends_and_compaction(
    server: RunningServer, client: firn.Client
) -> None:
    name = "lake.db.lineage"
    server.spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
    server.spark.sql(f"CREATE TABLE {name} (id BIGINT, _op STRING) USING iceberg TBLPROPERTIES ('format-version'='3')")
    query = f"SELECT id, {ROW_ID}, {SEQUENCE} FROM {name}"
    for start in (0, 10, 20):
        server.spark.sql(f"INSERT INTO {name} SELECT /*+ REPARTITION(2) */ id, 'U' FROM range({start}, {start + 5})")
    before = server.rows(query)
    assert lineage_of(client, "db.lineage") == before
    assert len({row[1] for row in before}) == 15
    # A compacted file holds its rows' ids and numbers itself; a file appended later does not.
    server.spark.sql("CALL lake.system.rewrite_data_files(table => 'db.lineage', options => map('rewrite-all','true'))")
    server.spark.sql(f"INSERT INTO {name} VALUES (99, 'U')")
    after = server.rows(query)
    assert set(before) < set(after)
    assert lineage_of(client, "db.lineage") == after


def lineage_of(client: firn.Client, name: str) -> list[tuple[Any, ...]]:
    table = Served(transport=client.transport, token=None, catalog="lake", table=name).load()
    rows = read_changes(
        table, list_lineage_files(table), KeyColumns(primary_key=("id",)), Selection(watermark=0)
    ).pending
    return sorted(zip(*(rows[column].to_pylist() for column in ("id", ROW_ID, SEQUENCE)), strict=True), key=repr)


def test_a_plain_table_is_scanned_too(server: RunningServer, client: firn.Client) -> None:
    server.spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
    server.spark.sql("CREATE TABLE lake.db.plain USING iceberg AS SELECT id, id % 3 AS part FROM range(10)")
    assert rows_of(client.scan("db.plain", filter="part = 1", columns=["id"])) == [(1,), (4,), (7,)]


def test_what_cannot_be_scanned_is_said(server: RunningServer, client: firn.Client) -> None:
    table = keyed(server)
    with pytest.raises(NotFound, match="no_such"):
        client.scan("lake.db.no_such").to_arrow()
    with pytest.raises(Invalid, match="no column 'nope'") as refused:
        client.scan(table.name, columns=["id", "nope"]).to_arrow()
    assert "id, part, at, v" in (refused.value.hint or "")
