"""Very many tables in a database, and commits on them: what a commit's own transaction writes, without its files."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import datetime
from uuid import uuid4

from sqlalchemy import insert

from catalog.history.commit import CommitEvent
from catalog.names import CatalogName, RelationId, TableName
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Catalog, Pointer, Relation, RelationKind, TableStats
from catalog.tables.table_status import TableStatus
from server.store.relations import to_values
from server.store.rows import RelationRow, TableStatsRow
from server.store.session import Sessions, open_engine
from server.store.unit_of_work import SqlDatabase, SqlUnitOfWork

CATALOG = CatalogName("fleet")
NAMESPACES = 100
_BATCH = 1_000
_HOT_SHARE, _HOT_COMMITS = 0.01, 0.5
"""One table of a hundred gets half of all commits."""
_FILES = 5
_FILE_BYTES = 4 * 2**20


@contextmanager
def opened(url: str) -> Iterator[SqlDatabase]:
    """The database behind a URL; its connections are closed at the end."""
    engine = open_engine(url)
    try:
        yield SqlDatabase(Sessions(engine))
    finally:
        engine.dispose()


def fill(database: SqlDatabase, tables: int, due: int) -> list[RelationId]:
    """So many tables as if each had been written to for a while; the first of them are to be looked at."""
    with database.writing() as uow:
        now = uow.now()
        uow.catalogs.add(Catalog(name=CATALOG, warehouse="file:/x", metastore_uri=None, properties={}, created_at=now))
        for number in range(NAMESPACES):
            uow.namespaces.add(CATALOG, (f"n{number:03}",), {})
    ids: list[RelationId] = []
    for begin in range(0, tables, _BATCH):
        rows = [_table(number, now) for number in range(begin, min(begin + _BATCH, tables))]
        ids += [relation.id for relation, _ in rows]
        with database.writing() as uow:
            assert isinstance(uow, SqlUnitOfWork)  # rows of very many tables are written at once
            relations = [to_values(relation) | {"folded": relation.name.name} for relation, _ in rows]
            uow.session.execute(insert(RelationRow), relations)
            plan_after = {stats.relation_id: now for _, stats in rows[: max(due - begin, 0)]}
            counters = [
                asdict(stats) | {"plan_after": plan_after.get(stats.relation_id), "plan_requests": 1}
                for _, stats in rows
            ]
            uow.session.execute(insert(TableStatsRow), counters)
            uow.table_statuses.put([_table_status(stats, now) for _, stats in rows])
    return ids


def _table(number: int, now: datetime) -> tuple[Relation, TableStats]:
    name = TableName((f"n{number % NAMESPACES:03}",), f"t{number:06}")
    location = f"file:/x/{name.namespace[0]}/{name.name}"
    relation = Relation(
        id=RelationId(uuid4()),
        catalog=CATALOG,
        name=name,
        kind=RelationKind.TABLE,
        owner_id=None,
        location=location,
        metadata_location=f"{location}/metadata/0.json",
        version=0,
        created_at=now,
        updated_at=now,
    )
    rng = random.Random(number)
    files = rng.randint(1, 400)
    return relation, TableStats(
        relation_id=relation.id,
        snapshot_id=number + 1,
        snapshots=rng.randint(1, 9),
        records=files * 10_000,
        data_files=files,
        bytes=files * rng.randint(1, 128) * 2**20,
        last_commit_at=now,
    )


def _table_status(stats: TableStats, now: datetime) -> TableStatus:
    return TableStatus(
        relation_id=stats.relation_id,
        catalog=CATALOG,
        looked_at=now,
        reason="nothing pending",
        health=100 - stats.snapshots,
        rows=stats.records,
        bytes=stats.bytes,
        data_files=stats.data_files,
        last_commit_at=stats.last_commit_at,
    )


def commit(uow: UnitOfWork, relation_id: RelationId, number: int, *, counted: bool) -> bool:
    """An append of some small files; False when somebody else was faster.

    `counted` with the statistics and the word to the planner, without them only what a catalog without upkeep writes.
    """
    now = uow.now()
    relation = uow.relations.get(relation_id)
    to = Pointer(f"{relation.location}/metadata/{relation.version + 1}.json", relation.location)
    if not uow.relations.move_pointer(relation, to, now):
        return False
    uow.events.add(
        CommitEvent(
            relation_id=relation.id,
            catalog=relation.catalog,
            table=relation.name,
            committed_at=now,
            operation="append",
            snapshot_id=number,
            added_files=_FILES,
        )
    )
    if counted:
        stats = uow.stats.get(relation.id)
        grown = replace(
            stats,
            snapshot_id=number,
            data_files=stats.data_files + _FILES,
            bytes=stats.bytes + _FILES * _FILE_BYTES,
            last_commit_at=now,
        )
        uow.stats.put(grown, plan_after=now)
    return True


def commits(url: str, ids: Sequence[RelationId], seconds: float, seed: int, *, counted: bool) -> list[float]:
    """One client that commits for so long; the seconds that each commit took."""
    with opened(url) as database:
        return commits_on(database, ids, seconds, seed, counted=counted)


def commits_on(
    database: Database, ids: Sequence[RelationId], seconds: float, seed: int, *, counted: bool
) -> list[float]:
    """The same on a database that is open."""
    rng, took = random.Random(seed), []
    hot = ids[: max(int(len(ids) * _HOT_SHARE), 1)]
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        relation_id = rng.choice(hot if rng.random() < _HOT_COMMITS else ids)
        with database.writing() as uow:
            done = commit(uow, relation_id, rng.getrandbits(62), counted=counted)
        if done:
            took.append(time.perf_counter() - began)
    return took
