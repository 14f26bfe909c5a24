"""DuckDB and PyIceberg give the same rows of a table, whichever reads a file; and DuckDB opens no other file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, IntegerType, LongType, NestedField, StringType

from firn.errors import Refused
from firn.protocol.tasks.query import QueryLimits, QueryMessage, QueryTable, QueryTask
from firn.scan.scan import read_rows
from optimizer.queries import execution, tables
from optimizer.queries.execution import run_query
from optimizer.queries.results import number_names
from optimizer.queries.tables import Relation, TableSource

LIMITS = QueryLimits(rows=1_000, result_bytes=2**20, memory_bytes=2**28, threads=1, files=50)


@dataclass
class Warehouse:
    catalog: InMemoryCatalog
    root: Path
    opened: list[str]

    def named(self, table: Table, snapshot_id: int | None = None, columns: list[str] | None = None) -> QueryTable:
        current = table.current_snapshot()
        return QueryTable(
            view="t",
            name="d.t",
            metadata=table.metadata_location,
            snapshot_id=snapshot_id or (None if current is None else current.snapshot_id),
            columns=columns,
        )

    def check(self, view: str, files: Any) -> None:
        assert view == "t"
        self.opened.extend(files)

    def relation(self, table: Table, **named: Any) -> Relation:
        return Relation.of(TableSource.open(self.named(table, **named), {}, self.check, 50))

    def ask(self, statement: str, table: Table, **named: Any) -> list[list[str | None]]:
        messages: list[QueryMessage] = []
        task = QueryTask(statement=statement, tables=[self.named(table, **named)], limits=LIMITS)
        run_query(task, self.check, messages.append)
        assert messages[-1].done is not None
        return [row for message in messages if message.page is not None for row in message.page.rows]


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[Warehouse]:
    catalog = InMemoryCatalog("c", warehouse=tmp_path.as_uri())
    catalog.create_namespace("d")
    yield Warehouse(catalog, tmp_path, [])
    catalog.close()


def same_rows(warehouse: Warehouse, table: Table, monkeypatch: pytest.MonkeyPatch, *, direct: int) -> None:
    """Both ways give what `client.scan` gives; so many files are read by DuckDB itself."""
    relation = warehouse.relation(table)
    assert len(relation.paths) == direct
    expected = sorted(
        read_rows(table, [column.name for column in table.schema().fields], AlwaysTrue()).to_pylist(), key=repr
    )
    for is_direct in (True, False):
        with monkeypatch.context() as patch:
            if not is_direct:
                patch.setattr(tables, "find_direct", lambda _source, _task: None)
            connection = duckdb.connect()
            connection.execute("SET TimeZone = 'UTC'")
            warehouse.relation(table).create(connection)
            rows = connection.execute("FROM t").to_arrow_table().to_pylist()
        normal: Callable[[Any], Any] = lambda row: {k: str(v) if k == "u" else v for k, v in row.items()}  # noqa: E731
        assert sorted(map(normal, rows), key=repr) == sorted(map(normal, expected), key=repr)
    assert set(relation.paths) <= {path.removeprefix("file://") for path in warehouse.opened}


def test_all_types(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table(
        {
            "b": [True, None],
            "i": pa.array([1, None], pa.int32()),
            "l": [2**60, None],
            "f": pa.array([0.5, None], pa.float32()),
            "d": [float("inf"), None],
            "n": pa.array([Decimal("1.20"), None], pa.decimal128(12, 2)),
            "day": [date(1960, 1, 2), None],
            "ts": pa.array([datetime(2026, 1, 2, 3, 4, 5, 6), None], pa.timestamp("us")),  # noqa: DTZ001
            "tz": pa.array([datetime(2026, 1, 2, 3, 4, 5, 6, UTC), None], pa.timestamp("us", tz="UTC")),
            "s": ["x'\"", None],
            "y": [b"\x00\xff", None],
            "list": [[1, None], None],
            "row": [{"a": 1, "B": ["x"]}, None],
            "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
        }
    )
    table = warehouse.catalog.create_table("d.t", rows.schema)
    table.append(rows)
    same_rows(warehouse, table, monkeypatch, direct=1)


def test_changed_columns(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    table = warehouse.catalog.create_table(
        "d.t",
        Schema(
            NestedField(1, "a", IntegerType(), required=False),
            NestedField(2, "gone", StringType(), required=False),
            NestedField(3, "b", StringType(), required=False),
        ),
    )
    table.append(pa.table([pa.array([1], pa.int32()), ["secret"], ["x"]], names=["a", "gone", "b"]))
    first = table.current_snapshot()
    assert first is not None
    with table.update_schema() as change:
        change.rename_column("b", "c")
        change.delete_column("gone")
    same_rows(warehouse, table, monkeypatch, direct=1)
    with table.update_schema() as change:
        change.update_column("a", LongType())
        change.add_column("gone", DoubleType())  # another column of an old name
        change.move_first("c")
    table.append(pa.table({"c": ["y"], "a": [2**40], "gone": [0.5]}))
    same_rows(warehouse, table, monkeypatch, direct=1)
    assert sorted(warehouse.ask("SELECT a, gone FROM t", table), key=repr) == [["1", None], ["1099511627776", "0.5"]]
    assert warehouse.ask("SELECT * FROM t", table, snapshot_id=first.snapshot_id) == [["1", "secret", "x"]]


def test_files_that_duckdb_would_read_otherwise(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "p", StringType(), required=False))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "p"))
    table = warehouse.catalog.create_table("d.t", schema, partition_spec=spec)
    table.append(pa.table({"id": [1, 2], "p": ["a*?[x]", "b c"]}))
    hive = warehouse.root / "p=c" / "file.parquet"
    hive.parent.mkdir()
    pq.write_table(pa.table({"id": [3]}), hive)  # without ids, and without the partition's column
    table.add_files([f"file://{hive}"])
    same_rows(warehouse, table, monkeypatch, direct=2)
    assert warehouse.ask("SELECT count(*), count(p), min(p) FROM t", table, columns=["p"]) == [["3", "2", "a*?[x]"]]


def test_an_empty_table_has_no_rows(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    table = warehouse.catalog.create_table("d.t", pa.schema([("a", pa.int64())]))
    assert warehouse.ask("SELECT count(*) FROM t", table) == [["0"]]
    table.append(pa.table({"a": [1]}))
    table.delete(AlwaysTrue())
    same_rows(warehouse, table, monkeypatch, direct=0)


def test_only_named_columns_are_read(warehouse: Warehouse) -> None:
    table = warehouse.catalog.create_table("d.t", pa.schema([("s", pa.string()), ("Ab", pa.int64())]))
    table.append(pa.table({"s": ["x"], "Ab": [1]}))
    assert [c.name for c in warehouse.relation(table, columns=["ab", "t"]).source.columns] == ["Ab"]
    assert [c.name for c in warehouse.relation(table, columns=[]).source.columns] == ["Ab"], "the cheapest one"
    assert [c.name for c in warehouse.relation(table).source.columns] == ["s", "Ab"]


def test_what_cannot_be_read_exactly_is_refused(warehouse: Warehouse) -> None:
    table = warehouse.catalog.create_table("d.t", pa.schema([("a", pa.int64()), ("A", pa.int64())]))
    with pytest.raises(Refused, match="differ only in upper and lower case: A, a"):
        warehouse.ask("SELECT 1 FROM t", table)
    other = warehouse.catalog.create_table("d.u", pa.schema([("a", pa.int64())]))
    for _ in range(3):
        other.append(pa.table({"a": [1]}))
    source = TableSource.open(warehouse.named(other), {}, warehouse.check, 2)
    with pytest.raises(Refused, match="has 3 files; a query reads 2 at most"):
        source.plan()


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_text('{other}')",
        "SELECT * FROM '{other}'",
        "SELECT * FROM read_parquet('{directory}/**')",
        "SELECT * FROM glob('{directory}/*')",
        "COPY t TO '{directory}/out.csv'",
        "COPY t TO '{own}'",
        "ATTACH '{directory}/x.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET memory_limit = '1TB'",
        "SET allowed_paths = []",
        "RESET lock_configuration",
        "EXPORT DATABASE '{directory}/x'",
        "SELECT * FROM query('SELECT * FROM read_text(''{other}'')')",
        "FROM warehouse",
    ],
)
def test_the_second_line_holds_if_the_check_of_statements_fails(warehouse: Warehouse, statement: str) -> None:
    """DuckDB itself opens the planned files and nothing else, writes nothing, and keeps its configuration."""
    table = warehouse.catalog.create_table("d.t", pa.schema([("a", pa.int64())]))
    table.append(pa.table({"a": [1]}))
    other = warehouse.root / "other.parquet"
    pq.write_table(pa.table({"a": [2]}), other)
    before = sorted(warehouse.root.rglob("*"))
    text = statement.format(other=other, directory=warehouse.root, own=warehouse.relation(table).paths[0])
    with pytest.raises((Refused, FileNotFoundError)) as refused:
        warehouse.ask(text, table)
    assert str(warehouse.root) not in str(refused.value)
    assert sorted(warehouse.root.rglob("*")) == before
    assert warehouse.ask("FROM t", table) == [["1"]]


def test_results_are_bounded(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    table = warehouse.catalog.create_table("d.t", pa.schema([("a", pa.int64())]))
    monkeypatch.setattr(execution, "PAGE_ROWS", 400)
    assert len(warehouse.ask("SELECT * FROM range(2000)", table)) == 1_000
    long = warehouse.ask("SELECT repeat('x', 100000) FROM range(100)", table)
    assert len(long) == 10
    with pytest.raises(Refused, match="a row is larger than 1 MiB"):
        warehouse.ask("SELECT repeat('x', 9000000)", table)
    assert number_names(["a", "a", "a_1"]) == ["a", "a_1", "a_1_1"]
