"""Streams and their logs, in both databases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from catalog.errors import NotFound
from catalog.jobs.job import LeaseToken, OptimizerId
from catalog.jobs.stream import Stream, StreamId, fail_stream, lease_stream
from catalog.names import RelationId, TableName
from catalog.ports.store import Database
from catalog.ports.streams import StreamFilter, WaitingStreams
from catalog.tables.relation import RelationKind
from firn.protocol.streams import StreamKind, StreamStatus
from server.store import streams as stored
from tests.factories import LAKE, LATER, NOW, a_relation

SECOND = timedelta(seconds=1)


def a_stream(number: int, **changes: Any) -> Stream:
    values: dict[str, Any] = {
        "id": StreamId(UUID(int=number)),
        "catalog": LAKE,
        "relation_id": RelationId(UUID(int=number + 100)),
        "kind": StreamKind.DRAIN,
        "status": StreamStatus.WAITING,
        "group": "default",
        **dict.fromkeys(("created_at", "changed_at", "retry_at", "current_at"), NOW),
    }
    return Stream(**values | changes)


def add(database: Database, streams: Sequence[Stream]) -> None:
    """Add streams, each with its table `db.t<number>`."""
    with database.writing() as uow:
        for stream in streams:
            name = TableName(("db",), f"t{stream.id.int}")
            uow.relations.add(a_relation(id=stream.relation_id, name=name, kind=RelationKind.KEYED))
            assert uow.streams.add(stream)


def test_streams_come_back_as_they_were_stored(database: Database) -> None:
    leased = lease_stream(
        a_stream(1), owner=OptimizerId("o"), token=LeaseToken("t"), now=NOW, until=NOW + timedelta(seconds=60)
    )
    measured = replace(leased, leased_table="db.t1", lag_rows=2**40, rows_per_second=0.5, measured_at=NOW)
    add(database, [measured])
    with database.writing() as uow:
        assert uow.streams.lock(measured.id) == measured
        assert uow.streams.find(measured.relation_id, StreamKind.DRAIN) == measured
        assert not uow.streams.add(replace(a_stream(2), relation_id=measured.relation_id))
        assert [stream.id for stream in uow.streams.owned_by(OptimizerId("o"))] == [measured.id]
        minute = timedelta(seconds=60)
        assert uow.streams.list_reap_candidates(NOW, minute) == []
        assert uow.streams.list_reap_candidates(NOW + minute, minute) == [measured]
        assert uow.streams.list_reap_candidates(NOW - minute, minute) == [measured]  # the clock was set back
        failed = fail_stream(measured, "away", "wait", LATER)
        uow.streams.put(failed)
        assert uow.streams.list_reap_candidates(LATER, minute) == [failed]
        assert uow.streams.list_reap_candidates(failed.retry_at, minute) == []
    with database.reading() as uow:
        named = uow.streams.get(measured.id)
        assert (named.stream, named.table) == (failed, TableName(("db",), "t1"))
        with pytest.raises(NotFound):
            uow.streams.get(StreamId(uuid4()))


def test_streams_that_could_run_are_counted_by_group_and_running_ones_by_optimizer(database: Database) -> None:
    add(database, [a_stream(1, retry_at=NOW - SECOND), a_stream(2), a_stream(3, retry_at=NOW + SECOND)])
    add(database, [a_stream(4, group="nightly"), a_stream(5, status=StreamStatus.PAUSED)])
    held: dict[str, Any] = {"owner": OptimizerId("o"), "token": LeaseToken("t"), "until": NOW + SECOND, "now": NOW}
    with database.writing() as uow:
        assert uow.streams.waiting(NOW) == [
            WaitingStreams("default", 2, NOW - SECOND),
            WaitingStreams("nightly", 1, NOW),
        ]
        for number in (1, 4):
            uow.streams.put(lease_stream(a_stream(number), **held))
        assert uow.streams.count_by_owner() == {"o": 2}
        assert uow.streams.waiting(NOW) == [WaitingStreams("default", 1, NOW)]


def test_lists_are_ordered_by_table_page_by_page_and_filtered(database: Database) -> None:
    add(database, [a_stream(n, status=StreamStatus.PAUSED if n == 2 else StreamStatus.WAITING) for n in (3, 1, 2)])
    with database.reading() as uow:
        first = uow.streams.list(StreamFilter(), limit=2)
        rest = uow.streams.list(StreamFilter(), limit=2, cursor=first.next_cursor)
        assert [str(named.table) for named in (*first.items, *rest.items)] == ["db.t1", "db.t2", "db.t3"]
        assert rest.next_cursor is None
        for which, expected in (
            (StreamFilter(statuses=[StreamStatus.PAUSED]), [2]),
            (StreamFilter(table=TableName(("db",), "t3")), [3]),
            (StreamFilter(search="B.T1"), [1]),
            (StreamFilter(group="nightly"), []),
        ):
            assert [named.stream.id.int for named in uow.streams.list(which, limit=5).items] == expected


def test_the_stream_that_has_waited_longest_comes_first_and_those_of_dropped_tables_never(database: Database) -> None:
    add(database, [a_stream(n, retry_at=NOW + n * SECOND) for n in (2, 1, 3)])
    with database.writing() as uow:
        assert uow.streams.next_waiting("default", NOW) is None
        assert uow.streams.next_waiting("nightly", LATER) is None
        due = uow.streams.next_waiting("default", NOW + 2 * SECOND)
        assert due is not None
        assert due.id.int == 1
        uow.dropped.take(due.relation_id)
        following = uow.streams.next_waiting("default", NOW + 2 * SECOND)
        assert following is not None
        assert following.id.int == 2
        uow.streams.put(replace(following, measured_at=NOW + 5 * SECOND))
        unattended = uow.streams.unattended(NOW + 3 * SECOND, limit=5)
        assert [named.stream.id.int for named in unattended] == [3]


def test_a_log_keeps_the_newest_lines_and_goes_with_its_table(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "KEPT_LINES", 3)
    stream = a_stream(1)
    add(database, [stream, a_stream(2)])
    with database.writing() as uow:
        uow.streams.add_log(StreamId(UUID(int=2)), ["of another"], NOW)
        for number in range(5):
            uow.streams.add_log(stream.id, [f"line {number}"], NOW)
        assert [line for _, line in uow.streams.log(stream.id)] == ["line 2", "line 3", "line 4"]
        uow.dropped.delete_state(stream.relation_id)
        assert uow.streams.find(stream.relation_id, StreamKind.DRAIN) is None
        assert uow.streams.log(stream.id) == []
        assert len(uow.streams.log(StreamId(UUID(int=2)))) == 1
