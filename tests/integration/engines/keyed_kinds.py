"""Ten kinds of keyed tables with pending changes, and the rows that every engine must read in them.

Spark creates and alters the tables and deletes from base. A plain dict follows each write, so no engine is compared
with another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tests.integration.engines.keyed_answers import Filter, Row, Sample
from tests.integration.keyed.appends import Store

SCHEMA = "keyed"
_ARROW = {
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
}
_IN_ORDER = {"fanout-enabled": "true", "distribution-mode": "none"}
"""Rows of one partition stay in the order in which they are written."""


@dataclass
class KeyedTable:
    """A keyed table, written as engines write it. `sample` says what it must show after each write."""

    spark: SparkSession
    http: httpx.Client
    name: str
    columns: dict[str, str]
    key: tuple[str, ...]
    partition: str
    rows: dict[tuple[Any, ...], Row] = field(default_factory=dict)

    def create(self, version: int) -> None:
        by = f"PARTITIONED BY ({self.partition})" if self.partition else ""
        listed = ", ".join(f"{name} {kind}" for name, kind in self.columns.items())
        self.spark.sql(
            f"CREATE TABLE {self} ({listed}) USING iceberg {by} TBLPROPERTIES "
            f"('firn.primary-key'='{','.join(self.key)}', 'format-version'='{version}', "
            "'write.delete.mode'='merge-on-read')"
        )

    def __str__(self) -> str:
        return f"lake.{SCHEMA}.{self.name}"

    def insert(self, rows: Iterable[Row]) -> None:
        """Append to base."""
        added = list(rows)
        self._write("base", added)
        self.rows |= {self._key(row): row for row in added}

    def delete(self, where: str, is_deleted: Callable[[Row], bool]) -> None:
        """Delete rows of base, by vectors or by position-delete files."""
        self.spark.sql(f"DELETE FROM {self}.base WHERE {where}")
        self.rows = {key: row for key, row in self.rows.items() if not is_deleted(row)}

    def change(self, *changes: tuple[str, Row]) -> None:
        """One commit to the change store: operations and rows, in this order."""
        self._write("change", [{**row, "_op": op} for op, row in changes])
        for op, row in changes:
            self.rows.pop(self._key(row), None)
            if op != "D":
                self.rows[self._key(row)] = row

    def alter(self, change: str) -> None:
        """Under the table's own name."""
        self.spark.sql(f"ALTER TABLE {self} {change}")

    def drop_column(self, name: str) -> None:
        self.alter(f"DROP COLUMN {name}")
        del self.columns[name]
        for row in self.rows.values():
            row.pop(name, None)

    def add_column(self, name: str, kind: str) -> None:
        self.alter(f"ADD COLUMN {name} {kind}")
        self.columns[name] = kind

    def rename_column(self, old: str, new: str) -> None:
        self.alter(f"RENAME COLUMN {old} TO {new}")
        self.columns = {new if name == old else name: kind for name, kind in self.columns.items()}
        for row in self.rows.values():
            row[new] = row.pop(old)

    def widen_column(self, name: str, kind: str) -> None:
        self.alter(f"ALTER COLUMN {name} TYPE {kind}")
        self.columns[name] = kind

    def add_partition(self, field: str) -> None:
        self.alter(f"ADD PARTITION FIELD {field}")
        self.partition = f"{self.partition}, {field}"

    def register(self, rows: Iterable[Row], partition: str) -> None:
        """Add files as Hive writes them: without field ids, and without the column of the partition."""
        by_value: dict[str, list[Row]] = {}
        for row in rows:
            by_value.setdefault(row[partition], []).append(row)
            self.rows[self._key(row)] = row
        files = self._location() / "hive"
        for value, part in by_value.items():
            (files / f"{partition}={value}").mkdir(parents=True)
            schema = pa.schema([(name, _ARROW[kind]) for name, kind in self.columns.items() if name != partition])
            table = pa.Table.from_pylist([{name: row[name] for name in schema.names} for row in part], schema)
            pq.write_table(table, files / f"{partition}={value}" / "000000_0")
        self.spark.sql(
            f"CALL lake.system.add_files(table => '{SCHEMA}.{self.name}.base', source_table => '`parquet`.`{files}`')"
        )

    def sample(self, **filters: Filter) -> Sample:
        return Sample((SCHEMA, self.name), list(self.columns), filters, list(self.rows.values()))

    def _location(self) -> Path:
        """ClickHouse finds no files outside of a table's directory."""
        described = {row[0]: row[1] for row in self.spark.sql(f"DESCRIBE TABLE EXTENDED {self}").collect()}
        return Path(described["Location"].removeprefix("file:"))

    def _key(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.key)

    def _write(self, store: str, rows: list[Row]) -> None:
        """By plain REST, which is quicker; by Spark where a partition is not a column."""
        if "(" not in self.partition:
            answer = Store(self.http, (SCHEMA, self.name, store)).append(rows)
            assert answer.is_success, answer.text
            return
        columns = self.columns | ({"_op": "STRING"} if store == "change" else {})
        schema = pa.schema([(name, _ARROW[kind]) for name, kind in columns.items()])
        # From Arrow: with lists of rows Spark starts Python workers.
        frame = self.spark.createDataFrame(pa.Table.from_pylist(rows, schema))
        frame.coalesce(1).writeTo(f"{self}.{store}").options(**_IN_ORDER).append()


def order(number: int, note: str = "b", shift: int = 0) -> Row:
    """A row of `v2`, `v3`, `v3plain` and `v2hid`; `shift` moves it to another partition."""
    return {
        "id": number,
        "qty": number % 97,
        "amount": number * 0.25,
        "note": f"{note}{number}",
        "ts": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=number),
        "part": f"p{(number + shift) % 5}",
    }


_ORDERS = {"id": "BIGINT", "qty": "INT", "amount": "DOUBLE", "note": "STRING", "ts": "TIMESTAMP", "part": "STRING"}


def _orders(table: KeyedTable) -> Sample:
    """Deletes in base, then updates, moves, deletes, keys that come back, and keys that change often in one commit."""
    table.insert(order(i) for i in range(150))
    table.insert(order(i) for i in range(150, 220) if i != 203)
    table.delete("id % 50 = 7", lambda row: row["id"] % 50 == 7)
    table.change(*(("U", order(i, "u")) for i in range(20, 40)))
    table.change(*(("U", order(i, "moved", 2)) for i in range(30, 50)), *(("D", order(i)) for i in range(60, 70)))
    table.change(*(("I", order(i, "new")) for i in range(215, 230)), *(("I", order(i, "back", 1)) for i in (62, 63, 7)))
    often = [(i, turn, "D" if turn == 1 and i % 2 else "U") for turn in range(3) for i in range(80, 90)]
    table.change(*((op, order(i, f"turn{turn}-")) for i, turn, op in often if turn < 2 or i % 3))
    return table.sample(
        key=Filter("id >= 25 AND id < 65", lambda row: 25 <= row["id"] < 65),
        partition=Filter("part = 'p1'", lambda row: row["part"] == "p1"),
        value=Filter("qty > 60", lambda row: row["qty"] > 60),
    )


def _composite(table: KeyedTable) -> Sample:
    def row(number: int, note: str, site: int | None = None) -> Row:
        at = number if site is None else site
        return {"site": f"s{at % 10}", "item": f"item-{number:08}", "qty": number, "note": note, "part": f"p{at % 3}"}

    table.insert(row(i, "b") for i in range(120))
    table.change(*(("D" if i % 7 == 0 else "U", row(i, "c")) for i in range(40)))
    table.change(*(("I", row(i, "other site", i + 1)) for i in range(30, 60)))
    return table.sample(
        key=Filter(
            "site = 's3' AND item > 'item-00000030'", lambda r: r["site"] == "s3" and r["item"] > "item-00000030"
        ),
        partition=Filter("part = 'p2'", lambda r: r["part"] == "p2"),
        value=Filter("note = 'c'", lambda r: r["note"] == "c"),
    )


def _evolved(table: KeyedTable) -> Sample:
    """A key that was widened; columns that were dropped, added and renamed; a name that came back."""

    def part(number: int) -> str:
        return f"p{number % 3}"

    def first(number: int) -> Row:
        return {"id": number, "qty": number, "former": f"o{number}", "note": f"b{number}", "part": part(number)}

    table.insert(first(i) for i in range(100))
    table.delete("id % 20 = 3", lambda row: row["id"] % 20 == 3)
    table.change(*(("D" if i % 5 == 0 else "U", {**first(i), "qty": -i}) for i in range(20, 50)))
    table.widen_column("id", "BIGINT")
    table.drop_column("former")
    table.add_column("added", "STRING")
    table.rename_column("note", "remark")
    later = [
        {"id": i, "qty": -(i % 1000), "remark": f"e{i}", "part": part(i + 1), "added": f"a{i}"}
        for i in (*range(40, 70), 2**40)
    ]
    table.change(*(("D" if row["id"] % 5 == 1 else "U", row) for row in later))
    table.add_column("former", "STRING")
    table.insert(
        {"id": i, "qty": i, "remark": "nb", "part": part(i), "added": "x", "former": "z"} for i in range(200, 210)
    )
    return table.sample(
        key=Filter("id > 45", lambda row: row["id"] > 45),
        partition=Filter("part = 'p1'", lambda row: row["part"] == "p1"),
        value=Filter("remark = 'e42'", lambda row: row["remark"] == "e42"),
    )


def _other_spec(table: KeyedTable) -> Sample:
    def row(number: int, sign: int = 1, shift: int = 0) -> Row:
        return {"id": number, "qty": sign * number, "part": f"p{(number + shift) % 3}"}

    table.insert(row(i) for i in range(60))
    table.change(*(("U", row(i, -1)) for i in range(10, 20)))
    table.add_partition("bucket(2, id)")
    table.insert(row(i) for i in range(60, 90))
    table.change(*(("U" if i % 4 else "D", row(i, -1, 1)) for i in range(40, 80)))
    return table.sample(
        key=Filter("id < 50", lambda row: row["id"] < 50),
        partition=Filter("part = 'p0'", lambda row: row["part"] == "p0"),
        value=Filter("qty < 0", lambda row: row["qty"] < 0),
    )


def _of_hive(table: KeyedTable) -> Sample:
    def row(number: int, note: str, part: str | None = None) -> Row:
        return {"id": number, "qty": number, "note": note, "part": part or f"p{number // 40}"}

    table.register((row(i, "hive") for i in range(120)), "part")
    table.insert([row(1000, "written here", "p0")])
    table.change(*(("U" if i % 5 else "D", row(i, "c")) for i in range(20, 100, 2)))
    if "part" in table.key:  # the same number in another partition is another key
        table.change(*(("I", row(i, "x", "p1")) for i in range(10)))
    return table.sample(
        key=Filter("id >= 30 AND id < 70", lambda row: 30 <= row["id"] < 70),
        partition=Filter("part = 'p1'", lambda row: row["part"] == "p1"),
        value=Filter("note = 'c'", lambda row: row["note"] == "c"),
    )


@dataclass(frozen=True)
class Kind:
    """How a table is made. `about` is for the docs."""

    about: str
    columns: Mapping[str, str]
    key: tuple[str, ...]
    partition: str
    version: int
    fill: Callable[[KeyedTable], Sample]


_EVOLVED = {"id": "INT", "qty": "INT", "former": "STRING", "note": "STRING", "part": "STRING"}
_COMPOSITE = {"site": "STRING", "item": "STRING", "qty": "INT", "note": "STRING", "part": "STRING"}
_HIVE = {"id": "BIGINT", "qty": "INT", "note": "STRING", "part": "STRING"}
_FEW = {"id": "BIGINT", "qty": "INT", "part": "STRING"}
_BY_ID = ("id",)
KINDS = {
    "v3": Kind("base in v3, with deletion vectors", _ORDERS, _BY_ID, "part", 3, _orders),
    "v2": Kind("base in v2, with position-delete files", _ORDERS, _BY_ID, "part", 2, _orders),
    "v3plain": Kind("without partitions", _ORDERS, _BY_ID, "", 3, _orders),
    "v2hid": Kind("partitioned by bucket and day", _ORDERS, _BY_ID, "bucket(4, id), days(ts)", 2, _orders),
    "comp": Kind("a key of two strings", _COMPOSITE, ("site", "item"), "part", 2, _composite),
    "evo2": Kind("changed columns, in v2", _EVOLVED, _BY_ID, "part", 2, _evolved),
    "evo3": Kind("changed columns, in v3", _EVOLVED, _BY_ID, "part", 3, _evolved),
    "spec": Kind(
        "changed partitioning", {"id": "BIGINT", "qty": "INT", "part": "STRING"}, _BY_ID, "part", 2, _other_spec
    ),
    "hive1": Kind("files of Hive", _HIVE, _BY_ID, "part", 2, _of_hive),
    "hive2": Kind("files of Hive, whose partition is part of the key", _HIVE, ("id", "part"), "part", 2, _of_hive),
}


def build_samples(spark: SparkSession, http: httpx.Client) -> list[Sample]:
    """Write all tables into the catalog `lake`."""
    spark.sql(f"CREATE NAMESPACE lake.{SCHEMA}")
    samples = []
    for name, kind in KINDS.items():
        table = KeyedTable(spark, http, name, dict(kind.columns), kind.key, kind.partition)
        table.create(kind.version)
        samples.append(kind.fill(table))
    return samples
