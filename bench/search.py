"""The search over very many tables: `python -m bench.search`.

100,000 tables with 20 columns each, on SQLite and on PostgreSQL. Measured: how fast documents are written and how long
one transaction of the task takes, for which SQLite's commits wait; the size of the index; and the time of searches, for
somebody who may see everything and for somebody who may read one namespace of a hundred. The CPU time is that of this
process, which SQLite runs in, and does not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from sqlalchemy import insert, text

from bench.fleet_lake import CATALOG, NAMESPACES, opened
from bench.report import RESULTS, Report
from catalog.access.privileges import Grant, Privilege, Rights, Securable
from catalog.names import RelationId, TableName
from catalog.search.document import ColumnText, DocumentKind, SearchDocument, Texts
from catalog.tables.relation import Catalog, Relation, RelationKind
from server.service.access.visibility import Visibility
from server.service.search.indexing import BATCH
from server.service.search.search import Search, SearchRequest
from server.store.relations import to_values
from server.store.rows import RelationRow
from server.store.schema import upgrade_schema
from server.store.session import open_engine
from server.store.unit_of_work import SqlDatabase, SqlUnitOfWork
from tests.postgres_fixtures import postgres_server

_SUBJECTS = ("orders", "customers", "payments", "events", "sessions", "invoices", "shipments", "products")
_WORDS = [
    f"{begin}{middle}{end}" for begin in ("or", "am", "pa", "st", "lo") for middle in "aeiou" for end in "bcdfgklmnprst"
]
_COLUMNS = 20
_RELATIONS = 1_000
_SEARCHES: dict[str, Callable[[int], str]] = {
    "exact name": lambda number: f"orders_{number * 8:06}",
    "rare word": lambda number: f"rare{number}",
    "one letter": lambda number: "oipc"[number % 4],
    "common prefix": lambda number: ("ord", "cust", "pay", "ev")[number % 4],
    "word of all tables": lambda number: ("amount", "id")[number % 2],
    "two words": lambda number: ("orders amount", "customers id", "amount customer")[number % 3],
    "name and rare word": lambda number: f"orders rare{number * 8}",
    "no hit": lambda number: f"zyxw{number}",
}


@contextmanager
def databases(only: str | None) -> Iterator[Iterator[tuple[str, str]]]:
    """The names and URLs of empty databases."""
    with tempfile.TemporaryDirectory() as directory, postgres_server() as server:
        urls = {"sqlite": f"sqlite:///{directory}/firn.db", "postgresql": server.url(server.new_database())}
        yield ((name, url) for name, url in urls.items() if only in (None, name))


def _make_table(number: int) -> tuple[TableName, list[ColumnText]]:
    rng = random.Random(number)
    subject = _SUBJECTS[number % len(_SUBJECTS)]
    columns = [ColumnText("id"), ColumnText("amount", "gross, in cents"), ColumnText(f"rare{number}")]
    for _ in range(_COLUMNS - len(columns)):
        comment = " ".join(rng.sample(_WORDS, 4)) if rng.random() < 1 / 3 else None
        columns.append(ColumnText("_".join(rng.sample(_WORDS, 2)), comment))
    return TableName((f"n{number % NAMESPACES:03}",), f"{subject}_{number:06}"), columns


def _make_entry(number: int, now: datetime) -> tuple[dict[str, Any], SearchDocument]:
    """The row of a table, and its document in the index."""
    name, columns = _make_table(number)
    relation = Relation(
        id=RelationId(uuid4()),
        catalog=CATALOG,
        name=name,
        kind=RelationKind.TABLE,
        owner_id=None,
        location=f"file:/x/{number}",
        metadata_location=f"file:/x/{number}/metadata/0.json",
        version=0,
        created_at=now,
        updated_at=now,
    )
    document = SearchDocument(
        kind=DocumentKind.TABLE,
        catalog=CATALOG,
        key=relation.id.hex,
        namespace=name.namespace,
        name=name.name,
        described=Texts(columns=columns),
        source="1",
    )
    return to_values(relation) | {"folded": name.name}, document


def _fill(database: SqlDatabase, tables: int, report: Report) -> None:
    with database.writing() as uow:
        now = uow.now()
        uow.catalogs.add(Catalog(name=CATALOG, warehouse="file:/x", metastore_uri=None, properties={}, created_at=now))
    seconds: list[float] = []
    cpu = 0.0
    for begin in range(0, tables, _RELATIONS):
        documents = []
        with database.writing() as uow:
            assert isinstance(uow, SqlUnitOfWork)  # rows of very many tables are written at once
            rows = []
            for number in range(begin, min(begin + _RELATIONS, tables)):
                row, document = _make_entry(number, now)
                rows.append(row)
                documents.append(document)
            uow.session.execute(insert(RelationRow), rows)
        cpu -= time.process_time()
        seconds += _write(database, documents)
        cpu += time.process_time()
    report.line(
        "filled",
        tables=tables,
        per_second=round(tables / sum(seconds)),
        cpu_ms=round(cpu / tables * 1_000, 2),
        transaction_ms=summarize(seconds),
    )


def _write(database: SqlDatabase, documents: Sequence[SearchDocument]) -> list[float]:
    seconds = []
    for begin in range(0, len(documents), BATCH):
        start = time.perf_counter()
        with database.writing() as uow:
            uow.search_index.put(documents[begin : begin + BATCH])
        seconds.append(time.perf_counter() - start)
    return seconds


def _measure(database: SqlDatabase, repeats: int, report: Report) -> None:
    rights = Rights.of([Grant(Securable(CATALOG, ("n008",)), Privilege.READ)])
    search = Search(database)
    for scope, visible in (("everything", Visibility(None)), ("one namespace", Visibility(rights))):
        for kind, make in _SEARCHES.items():
            seconds, hits, cpu = [], 0, time.process_time()
            for number in range(repeats):
                request = SearchRequest(text=make(number + 1), visible=visible, owner=None)
                start = time.perf_counter()
                hits += len(search.run(request))
                seconds.append(time.perf_counter() - start)
            cpu_ms = round((time.process_time() - cpu) / repeats * 1_000, 1)
            report.line(
                "search", who=scope, kind=kind, hits=round(hits / repeats, 1), ms=summarize(seconds), cpu_ms=cpu_ms
            )


def summarize(seconds: Sequence[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    p99 = ordered[min(len(ordered) - 1, round(len(ordered) * 0.99))]
    values = {"median": statistics.median(ordered), "p99": p99, "most": ordered[-1]}
    return {name: round(value * 1_000, 1) for name, value in values.items()}


def _measure_size(url: str) -> int:
    """The bytes of the documents with their indexes."""
    engine = open_engine(url)
    try:
        with engine.connect() as connection:
            if engine.dialect.name == "postgresql":
                return int(connection.scalar(text("SELECT pg_total_relation_size('search_document')")) or 0)
            query = "SELECT sum(pgsize) FROM dbstat WHERE name LIKE '%search_%'"
            return int(connection.scalar(text(query)) or 0)
    finally:
        engine.dispose()


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--only", choices=("sqlite", "postgresql"))
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    report = Report("search", tables=options.tables, columns=_COLUMNS, repeats=options.repeats)
    with databases(options.only) as urls:
        for name, url in urls:
            engine = open_engine(url)
            upgrade_schema(engine)
            engine.dispose()
            report.line("database", name=name)
            with opened(url) as database:
                _fill(database, options.tables, report)
                _measure(database, options.repeats, report)
            try:
                report.line("size", mib=round(_measure_size(url) / 2**20))
            except Exception as error:  # noqa: BLE001 (SQLite without dbstat)
                report.line("size", unknown=str(error).partition("\n")[0])
    report.save(options.results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
