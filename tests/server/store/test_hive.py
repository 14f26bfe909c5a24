"""Hive's tables, and what is remembered of those that are linked, in the database."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

from catalog.hive.events import HiveEvent, HiveEventKind, shorten_events
from catalog.hive.link import Drift, DriftKind, HiveLink
from catalog.hive.table_index import DatabaseCounts, HiveTableFilter, HiveTableState, IndexedBlocker, IndexedTable
from catalog.names import RelationId, TableName
from catalog.ports.store import Database, UnitOfWork
from firn.protocol.operations import OperationKind, OperationStatus
from server.store.hive import EVENTS_KEPT
from tests.factories import LAKE, a_relation, an_operation
from tests.hive_tables import a_hive_table

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


def an_indexed_table(database: str, name: str, *, blocked: bool = False) -> IndexedTable:
    return IndexedTable(
        catalog=LAKE,
        database=database,
        name=name,
        format="parquet",
        location=f"file:/{database}/{name}",
        columns=2,
        partition_columns=(),
        ddl_time=1,
        blockers=(IndexedBlocker(code="view", message="it is a view", advice="leave it"),) if blocked else (),
        seen_at=NOW,
    )


def linked(uow: UnitOfWork, hive_name: str, *, drift: str | None = None) -> RelationId:
    relation = a_relation(name=TableName.parse(hive_name), hive_name=hive_name)
    uow.relations.add(relation)
    differs = None if drift is None else Drift(kind=DriftKind.TABLE, message=drift)
    uow.baselines.put_link(relation.id, HiveLink.of_table(a_hive_table(), NOW).with_drift(differs, NOW))
    return relation.id


def add_tables_of_every_state(database: Database) -> tuple[RelationId, RelationId]:
    """Tables of `a` named by their states, and one of `b`; the ids of `a.same` and `a.differs`."""
    with database.writing() as uow:
        uow.hive.replace(
            LAKE,
            "a",
            [
                an_indexed_table("a", "blocked", blocked=True),
                an_indexed_table("a", "same"),
                an_indexed_table("a", "differs", blocked=True),
                an_indexed_table("a", "paused"),
                an_indexed_table("a", "checked"),
                an_indexed_table("a", "leaving"),
            ],
        )
        uow.hive.replace(LAKE, "b", [an_indexed_table("b", "only")])
        same, differs = linked(uow, "a.same"), linked(uow, "a.differs", drift="it is a view now")
        uow.operations.add(an_operation(target="a.paused", status=OperationStatus.PAUSED))
        linked(uow, "a.leaving")
        uow.operations.add(an_operation(target="a.leaving", kind=OperationKind.DOWNGRADE))
        uow.operations.add(an_operation(target="a.checked", kind=OperationKind.CHECK))
    return same, differs


def test_tables_are_counted_and_listed_by_where_they_stand(database: Database) -> None:
    same, differs = add_tables_of_every_state(database)
    with database.reading() as uow:
        assert uow.hive.databases(LAKE) == [
            DatabaseCounts(name="a", tables=6, upgraded=3, blocked=1, out_of_sync=1),
            DatabaseCounts(name="b", tables=1, upgraded=0, blocked=0, out_of_sync=0),
        ]
        names = {
            state: [
                linked.name for linked in uow.hive.list(LAKE, HiveTableFilter(database="a", state=state), limit=9).items
            ]
            for state in HiveTableState
        }
        assert names == {
            HiveTableState.HIVE: ["checked"],
            HiveTableState.BLOCKED: ["blocked"],
            HiveTableState.UPGRADING: ["paused"],
            HiveTableState.UPGRADED: ["differs", "same"],
            HiveTableState.DOWNGRADING: ["leaving"],
        }
        assert [linked.name for linked in uow.hive.list(LAKE, HiveTableFilter(out_of_sync=True), limit=9).items] == [
            "differs"
        ]
        others = uow.hive.list(LAKE, HiveTableFilter(out_of_sync=False, state=HiveTableState.UPGRADED), limit=9).items
        assert [linked.name for linked in others] == ["same"]
        assert uow.relations.of_hives(LAKE, ["a.same", "a.paused"]).keys() == {"a.same"}
        summaries = uow.baselines.summaries([same, differs])
        assert (summaries[same].drift, summaries[same].drift_since, summaries[same].synced_at) == (None, None, NOW)
        assert (summaries[differs].drift, summaries[differs].drift_since) == ("it is a view now", NOW.isoformat())


def an_event(partition: str, **changes: object) -> HiveEvent:
    known = HiveEvent(kind=HiveEventKind.ADDED, partition=partition, files=1)
    return replace(known, **changes)  # type: ignore[arg-type]


def test_the_newest_events_of_a_table_are_kept(database: Database) -> None:
    table, other = RelationId(uuid4()), RelationId(uuid4())
    with database.writing() as uow:
        uow.baselines.remember(other, [an_event("p=1")], NOW)
        uow.baselines.remember(table, [an_event(f"p={number}") for number in range(EVENTS_KEPT)], NOW)
        published = an_event("p=0", kind=HiveEventKind.PUBLISHED, rows=5, snapshot_id=2**62)
        uow.baselines.remember(table, [published, an_event("p=new")], NOW)
    with database.reading() as uow:
        newest = uow.baselines.events(table, limit=2)
        assert [(event.kind, event.partition) for event in newest.items] == [("added", "p=new"), ("published", "p=0")]
        published_event = newest.items[1]
        assert (published_event.rows, published_event.snapshot_id, published_event.at) == (5, 2**62, NOW)
        following = uow.baselines.events(table, limit=1, cursor=newest.next_cursor)
        assert following.items[0].partition == f"p={EVENTS_KEPT - 1}"
        assert uow.baselines.events(table, partition="p=1", limit=9).items == [], "the oldest have gone"
        assert [event.kind for event in uow.baselines.events(table, partition="p=0", limit=9).items] == ["published"]
        assert len(uow.baselines.events(other, limit=9).items) == 1
    with database.writing() as uow:
        uow.baselines.delete(table)
        assert uow.baselines.events(table, limit=9).items == []


def test_a_sync_of_thousands_of_partitions_is_told_in_short() -> None:
    many = [an_event(f"p={number}", rows=2) for number in range(7)]
    events = shorten_events([*many, an_event("p=x", kind=HiveEventKind.DROPPED)], most=5)
    assert events[:5] == many[:5]
    assert (events[5].partition, events[5].partitions, events[5].files, events[5].rows) == (None, 2, 2, 4)
    assert events[6].partition == "p=x"
