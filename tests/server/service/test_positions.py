"""Positions when main moves, a table is registered, or the database is edited (docs/protocols.md, rule 6.7)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from catalog.commits.writers import Writer
from catalog.errors import Conflict, Invalid, PositionMoved
from catalog.jobs.job import JobKind
from server.service.tables.refs import Target
from tests.factories import LAKE
from tests.server.lake import CHANGE, ORDERS, PLAIN, Lake, altered, appended, merged
from tests.server.service.test_writers import registered, stored


def test_rule_6_7_a_rollback_sets_the_position_back_and_the_writer_brings_the_records_again(lake: Lake) -> None:
    lake.create()
    copy = registered(lake)
    first = copy.commits()
    copy.commits()
    copy.commits()
    lake.services.refs.rollback(LAKE, PLAIN, Target(snapshot=str(first)), expected_head=None)
    assert stored(lake).position == "orders:0:10"
    with pytest.raises(PositionMoved):
        lake.commit(copy.sends())
    again = registered(lake)
    assert again.at == 10
    again.commits()


def test_rule_6_7_an_engines_own_rollback_and_an_undone_one_move_the_position_too(lake: Lake) -> None:
    lake.create()
    copy = registered(lake)
    first, second = copy.commits(), copy.commits()
    main = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch"}
    lake.commit(altered(PLAIN, {**main, "snapshot-id": first}))
    assert stored(lake).position == "orders:0:10"
    lake.commit(altered(PLAIN, {**main, "snapshot-id": second}))
    assert (stored(lake).position, stored(lake).snapshot_id) == ("orders:0:20", second)


def test_rule_6_7_a_commit_that_rolls_back_and_appends_moves_positions_and_batches(lake: Lake) -> None:
    lake.create()
    copy = registered(lake)
    first = copy.commits()
    copy.commits()
    batch = {"firn.writer-id": "loader", "firn.batch-id": "b1"}
    lake.commit(appended(PLAIN, lake.metadata(PLAIN), summary=batch))
    above = appended(PLAIN, lake.metadata(PLAIN), parent=first)
    main = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch"}
    lake.commit(replace(above, updates=[{**main, "snapshot-id": first}, *above.updates]))
    assert stored(lake).position == "orders:0:10"
    assert registered(lake).at == 10
    lake.commit(appended(PLAIN, lake.metadata(PLAIN), summary=batch))  # its rows went, so it is no repetition


def test_rule_6_7_a_table_that_is_replaced_keeps_its_positions(lake: Lake) -> None:
    """Like any statement that deletes rows: `CREATE OR REPLACE TABLE t AS SELECT … FROM t` keeps the records."""
    lake.create()
    copy = registered(lake)
    copy.commits()
    lake.commit(appended(PLAIN, lake.metadata(PLAIN), parent=None))
    assert stored(lake).position == "orders:0:10"


def test_a_commit_with_a_position_is_based_on_the_head(lake: Lake) -> None:
    lake.create()
    copy = registered(lake)
    first = copy.commits()
    copy.commits()
    change = copy.sends()
    snapshot = {**change.updates[0]["snapshot"], "parent-snapshot-id": first}
    older = replace(change, updates=[{**change.updates[0], "snapshot": snapshot}, *change.updates[1:]])
    with pytest.raises(Invalid, match=r"firn\.position is based on the head of main"):
        lake.commit(older)


def test_rule_6_7_a_rollback_whose_position_nobody_tells_is_refused_until_the_writer_is_fenced(lake: Lake) -> None:
    lake.create()
    copy = registered(lake)
    first, second = copy.commits(), copy.commits()
    copy.commits()
    tag = {"action": "set-snapshot-ref", "ref-name": "v1", "type": "tag", "snapshot-id": first}
    lake.commit(altered(PLAIN, tag))
    lake.commit(altered(PLAIN, {"action": "remove-snapshots", "snapshot-ids": [second]}))
    with pytest.raises(Conflict, match="tell the position of writer 'w'"):
        lake.services.refs.rollback(LAKE, PLAIN, Target(snapshot="v1"), expected_head=None)
    lake.services.writers.fence(LAKE, PLAIN, "w")
    lake.services.refs.rollback(LAKE, PLAIN, Target(snapshot="v1"), expected_head=None)
    assert lake.metadata(PLAIN)["current-snapshot-id"] == first


def edit(lake: Lake, writer: Writer) -> None:
    """Change the row of a writer as somebody with access to the database does."""
    with lake.services.database.writing() as uow:
        uow.writers.put(writer)


def problems(lake: Lake) -> list[str]:
    page = lake.services.writers.list_problems(LAKE, limit=50)
    return [f"{problem.table}: {problem.problem}" for problem in page.items]


def test_a_writer_of_a_registered_table_begins_where_its_snapshots_end(lake: Lake) -> None:
    lake.create()
    copy = registered(lake)
    copy.commits()
    newest = copy.commits()
    location = lake.services.tables.load(LAKE, PLAIN).metadata_location
    assert location is not None
    lake.services.drop(LAKE, PLAIN)
    lake.services.tables.register(LAKE, PLAIN, location)
    again = registered(lake)
    assert (again.at, again.epoch) == (20, 2)  # epochs of the first table stay fenced
    assert stored(lake).snapshot_id == newest
    again.commits()
    assert lake.services.writers.register(LAKE, PLAIN, "new").position == "none"


def test_positions_that_somebody_has_edited_are_found(lake: Lake) -> None:
    lake.create()
    lake.create_keyed()
    copies = [registered(lake, table) for table in (PLAIN, ORDERS)]
    snapshots = [copy.commits() for copy in copies]
    lake.services.writers.register(LAKE, PLAIN, "idle")
    lake.commit(appended(PLAIN, lake.metadata(PLAIN)))
    assert problems(lake) == []
    for table, snapshot in zip((ORDERS, PLAIN), reversed(snapshots), strict=True):
        edit(lake, replace(stored(lake, table), position="orders:0:90"))
        name = CHANGE if table == ORDERS else PLAIN
        assert (
            f"{name}: the stored position is 'orders:0:90', but snapshot {snapshot} has brought the table to "
            "'orders:0:10'" in problems(lake)
        )
    assert len(problems(lake)) == 2
    lake.services.writers.fence(LAKE, PLAIN, "w")
    assert len(problems(lake)) == 1


def test_a_position_that_no_commit_has_reached_is_found_and_one_whose_snapshot_has_expired_is_not(lake: Lake) -> None:
    lake.create()
    copy = registered(lake)
    first = copy.commits()
    lake.commit(appended(PLAIN, lake.metadata(PLAIN)))
    lake.commit(altered(PLAIN, {"action": "remove-snapshots", "snapshot-ids": [first]}))
    assert problems(lake) == []
    edit(lake, replace(stored(lake), name="other", position="file 7", snapshot_id=None))
    assert problems(lake) == ["db.plain: the stored position is 'file 7', and no commit has reached it"]


def test_a_log_whose_newest_snapshot_says_otherwise_is_found(lake: Lake) -> None:
    log = {"firn.log.topic": "t", "firn.log.brokers": "kafka:9092", "firn.log.format": "firn-json"}
    lake.create_keyed(ORDERS, **log)
    copy = lake.services.writers.register(LAKE, ORDERS, "log")
    summary = {"firn.writer-id": "log", "firn.writer-epoch": str(copy.epoch)}
    summary |= {"firn.position-from": "none", "firn.position": "t:0:5"}
    lake.commit(appended(CHANGE, lake.metadata(CHANGE), summary=summary))
    lake.commit(merged(lake), lease=lake.lease(JobKind.MERGE))
    lake.commit(appended(CHANGE, lake.metadata(CHANGE)))
    assert problems(lake) == []
    edit(lake, replace(lake.services.writers.get(LAKE, ORDERS, "log"), position="t:0:9"))
    (problem,) = problems(lake)
    assert problem.startswith("db.orders.change: the stored position is 't:0:9', but snapshot")
