"""The lists and counts of very many Hive tables: `python -m bench.hive_lists`.

An index of 100,000 Hive tables in 400 databases, of which a third is upgraded and a tenth blocked, on SQLite and on
PostgreSQL. Measured: the first page of the list with each filter and order, and the counts of the page *Migration*.
The CPU time is that of this process, which SQLite runs in.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from sqlalchemy import insert

from bench.fleet import analyze
from bench.fleet_lake import CATALOG, opened
from bench.report import RESULTS, Report
from bench.search import databases, summarize
from catalog.hive.table_index import (
    HiveTableFilter,
    HiveTableOrder,
    HiveTableState,
    IndexedBlocker,
    IndexedTable,
    TableFacts,
)
from catalog.names import RelationId, TableName
from catalog.tables.relation import Catalog, Relation, RelationKind
from server.store.hive_rows import HiveLinkRow, HiveTableRow
from server.store.hive_tables import to_row_values
from server.store.relations import to_values
from server.store.rows import RelationRow
from server.store.schema import upgrade_schema
from server.store.session import open_engine
from server.store.unit_of_work import SqlDatabase, SqlUnitOfWork

_DATABASES = 400
_BATCH = 5_000
_PAGE = 100
_SUBJECTS = ("orders", "customers", "payments", "events", "sessions", "invoices", "shipments", "products")
_BLOCKER = IndexedBlocker(code="format", message="the format is not supported", advice="convert the table")
_FILTERS: Mapping[str, HiveTableFilter] = {
    "none": HiveTableFilter(),
    "part of a name, many tables": HiveTableFilter(search="orders"),
    "part of a name, one table": HiveTableFilter(search="orders_000800"),
    "part of a name, no table": HiveTableFilter(search="zyxw"),
    **{f"state {state}": HiveTableFilter(state=state) for state in HiveTableState},
    "out of sync": HiveTableFilter(out_of_sync=True),
    "in sync": HiveTableFilter(out_of_sync=False),
    "failed": HiveTableFilter(failed=True),
    "not checked": HiveTableFilter(checked=False),
    "checked": HiveTableFilter(checked=True),
    "format of few tables": HiveTableFilter(format="rcfile"),
    "writer of few tables": HiveTableFilter(writer="rare"),
    "partitioned": HiveTableFilter(partitioned=True),
    "blocker": HiveTableFilter(blocker="format"),
    "at least 900 GB": HiveTableFilter(min_bytes=900 * 10**9),
    "at least 1 TB: none": HiveTableFilter(min_bytes=10**12),
    "written in one month": HiveTableFilter(written_before=datetime(2020, 2, 1, tzinfo=UTC)),
}
_NUMBERED = (HiveTableOrder.BYTES, HiveTableOrder.LAST_WRITE, HiveTableOrder.FORMAT, HiveTableOrder.WRITER)


def _make_table(number: int, now: datetime) -> IndexedTable:
    rng = random.Random(number)
    is_blocked, is_rare = number % 10 == 1, number % 25_000 == 7
    return IndexedTable(
        catalog=CATALOG,
        database=f"db{number * _DATABASES // 100_000:03}",
        name=f"{_SUBJECTS[number % len(_SUBJECTS)]}_{number:06}",
        format="rcfile" if is_rare else ("text" if is_blocked else ("parquet", "orc")[number % 2]),
        location=f"hdfs://lake/warehouse/{number}",
        columns=20,
        partition_columns=("day",) if number % 3 else (),
        ddl_time=number,
        blockers=(_BLOCKER,) if is_blocked else (),
        seen_at=now,
        facts=TableFacts(
            partitions=rng.randint(1, 5_000) if number % 3 else 0,
            files=rng.randint(1, 9_000),
            bytes=None if number % 4 == 3 else rng.randint(1, 950 * 10**9),
            rows=rng.randint(1, 10**9),
            last_write=1_577_836_800 + rng.randint(0, 200_000_000),
            writer="rare" if is_rare else f"job{number % 40}",
        ),
        checked_at=now if number % 2 else None,
        failure="the job failed" if number % 10_000 == 5 else None,
    )


def _make_link(table: IndexedTable, number: int, now: datetime) -> tuple[dict[str, Any], dict[str, Any]]:
    name = TableName((table.database,), table.name)
    relation = Relation(
        id=RelationId(uuid4()),
        catalog=CATALOG,
        name=name,
        kind=RelationKind.TABLE,
        owner_id=None,
        location=table.location,
        metadata_location=f"{table.location}/metadata/0.json",
        version=0,
        created_at=now,
        updated_at=now,
        hive_name=table.full_name,
    )
    state = {"out_of_sync": number % 300 == 0, "published": number % 6 == 0, "synced_at": now}
    link = {"relation_id": relation.id, "link": {}, **state}
    return to_values(relation) | {"folded": name.name}, link


def _fill(database: SqlDatabase, tables: int) -> None:
    with database.writing() as uow:
        now = uow.now()
        uow.catalogs.add(Catalog(name=CATALOG, warehouse="file:/x", metastore_uri="x", properties={}, created_at=now))
    for begin in range(0, tables, _BATCH):
        numbers = range(begin, min(begin + _BATCH, tables))
        indexed = {number: _make_table(number, now) for number in numbers}
        linked = [_make_link(table, number, now) for number, table in indexed.items() if number % 3 == 0]
        with database.writing() as uow:
            assert isinstance(uow, SqlUnitOfWork)  # rows of very many tables are written at once
            uow.session.execute(insert(HiveTableRow), [to_row_values(table) for table in indexed.values()])
            uow.session.execute(insert(RelationRow), [relation for relation, _ in linked])
            uow.session.execute(insert(HiveLinkRow), [link for _, link in linked])


def _list_calls() -> Iterator[tuple[str, Callable[[SqlUnitOfWork], int]]]:
    def listed(only: HiveTableFilter, order: HiveTableOrder) -> Callable[[SqlUnitOfWork], int]:
        return lambda uow: len(uow.hive.list(CATALOG, only, order=order, limit=_PAGE).items)

    def counted(only: HiveTableFilter) -> Callable[[SqlUnitOfWork], int]:
        return lambda uow: sum(count.tables for count in uow.hive.count(CATALOG, only))

    for name, only in _FILTERS.items():
        yield f"list: {name}", listed(only, HiveTableOrder.NAME)
    for order in _NUMBERED:
        yield f"list by {order}", listed(HiveTableFilter(), order)
        yield f"list by {order}: state hive", listed(HiveTableFilter(state=HiveTableState.HIVE), order)
        yield f"list by {order}: part of a name, one table", listed(HiveTableFilter(search="orders_000800"), order)
    yield "count", counted(HiveTableFilter())
    yield "count: part of a name", counted(HiveTableFilter(search="orders"))
    yield "count: state hive", counted(HiveTableFilter(state=HiveTableState.HIVE))
    yield "databases", lambda uow: len(uow.hive.databases(CATALOG))


def _measure(database: SqlDatabase, repeats: int, report: Report) -> None:
    for name, call in _list_calls():
        seconds, rows, cpu = [], 0, time.process_time()
        for _ in range(repeats):
            start = time.perf_counter()
            with database.reading() as uow:
                assert isinstance(uow, SqlUnitOfWork)
                rows = call(uow)
            seconds.append(time.perf_counter() - start)
        cpu_ms = round((time.process_time() - cpu) / repeats * 1_000, 1)
        report.line("list", call=name, rows=rows, ms=summarize(seconds), cpu_ms=cpu_ms)


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--only", choices=("sqlite", "postgresql"))
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    report = Report("hive-lists", tables=options.tables, databases=_DATABASES, repeats=options.repeats)
    with databases(options.only) as urls:
        for name, url in urls:
            engine = open_engine(url)
            upgrade_schema(engine)
            engine.dispose()
            report.line("database", name=name)
            with opened(url) as database:
                _fill(database, options.tables)
                if name == "postgresql":  # PostgreSQL would analyze the tables itself, but later
                    analyze(url)
                _measure(database, options.repeats, report)
    report.save(options.results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
