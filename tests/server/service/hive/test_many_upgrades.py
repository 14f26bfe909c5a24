"""Many upgrades at once: side by side, each with an end of its own; paused, resumed and canceled together or alone."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, cast

import pytest

from catalog.errors import Conflict, Invalid, NotFound
from catalog.files.data_file import FileStats
from catalog.iceberg.json import Json
from catalog.jobs.operation import BatchId, Operation
from catalog.keyed.spec import KeySpec
from catalog.ports.files import TableFiles
from firn.protocol.operations import OperationStatus
from server.service.hive.operations import Started, Wanted
from server.service.hive.upgrade import Upgrades
from tests.factories import LAKE
from tests.fingerprints import fingerprint
from tests.server.faults import Killed
from tests.server.service.hive.beside_hive import BesideHive, HiveFiles
from tests.server.service.hive.text_tables import a_text_table
from tests.server.service.hive.upgrades import check_upgraded

ID = KeySpec(primary_key=("id",))
PATIENCE_SECONDS = 20


def started(beside: BesideHive, *tables: str, **how: object) -> Started:
    beside.upgrades.index.refresh(beside.services.namespaces.catalog(LAKE))
    return beside.operations.start_many(LAKE, replace(Wanted(tables=tables), **how))  # type: ignore[arg-type]


def of_batch(beside: BesideHive, batch: BatchId) -> dict[str, Operation]:
    with beside.database.reading() as uow:
        return {operation.target: operation for operation in uow.operations.list(batch=batch, limit=100).items}


class Gate:
    """Footers of one table are read only once the gate is open."""

    def __init__(self, beside: BesideHive, slow: HiveFiles) -> None:
        self.real, self.slow = beside.upgrades.files, str(slow.path)
        self.reached, self.opened = threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> object:
        return getattr(self.real, name)

    def footers(self, schema: Json, locations: Iterable[str], *args: Any, **named: Any) -> Iterator[FileStats]:
        locations = [*locations]
        if any(self.slow in location for location in locations):
            self.reached.set()
            assert self.opened.wait(PATIENCE_SECONDS)
        return self.real.footers(schema, locations, *args, **named)

    def before(self, upgrades: Upgrades) -> Upgrades:
        return replace(upgrades, files=cast("TableFiles", self))


def until(beside: BesideHive, operation: Operation, status: OperationStatus) -> None:
    pause = threading.Event()
    for _ in range(PATIENCE_SECONDS * 20):
        if beside.operation(operation).status is status:
            return
        pause.wait(0.05)
    pytest.fail(f"it is {beside.operation(operation)}")


def test_a_pattern_upgrades_what_it_matches_and_says_what_cannot_be(beside: BesideHive) -> None:
    plain, keyed, upgraded = beside.hive_table(), beside.hive_table(), beside.hive_table()
    a_text_table(beside, "raw")
    beside.start(upgraded)
    beside.upgrades.activate()
    before = fingerprint(beside.directory / "hive")

    batch = started(beside, "DB.*", keys={keyed.name: ID})
    assert batch.skipped == {upgraded.name: f"it is {upgraded.name} already"}
    status = beside.upgrades.activate()

    assert (status.finished, status.failed) == (2, 1)
    operations = of_batch(beside, batch.batch)
    assert {name: operation.outcome for name, operation in operations.items()} == {
        plain.name: "upgraded",
        keyed.name: "upgraded",
        "db.raw": "blocked",
    }
    assert [check["code"] for check in operations["db.raw"].result["checks"] if check["status"] == "blocked"] == [
        "format"
    ]
    assert operations["db.raw"].hint
    assert operations[plain.name].result["files"] == 2
    assert operations[plain.name].result["bytes"] == sum(path.stat().st_size for path in plain.path.rglob("*.parquet"))
    tally = beside.operations.tally(LAKE, batch.batch)
    assert (tally.outcomes, tally.allowed_actions) == ({"upgraded": 2, "blocked": 1}, [])
    with beside.database.reading() as uow:
        relation = uow.relations.find(LAKE, beside.table_name(keyed))
        assert relation is not None
        assert uow.keyed.get(relation.id).spec == ID
    for table in (plain, keyed):
        check_upgraded(beside, table)
    assert fingerprint(beside.directory / "hive") == before


def test_a_dry_run_reports_and_changes_nothing(beside: BesideHive) -> None:
    table = beside.hive_table()
    a_text_table(beside, "raw")
    batch = started(beside, "db.*", dry_run=True)
    beside.upgrades.activate()
    operations = of_batch(beside, batch.batch)
    assert {name: operation.outcome for name, operation in operations.items()} == {
        table.name: "eligible",
        "db.raw": "blocked",
    }
    report = operations[table.name].result
    assert (report["files"], report["partitions"], report["primary_key_candidates"]) == (2, 2, ["id", "v", "p"])
    assert beside.written() == set()
    assert beside.metadata(table) is None
    assert started(beside, table.name).skipped == {}, "a check is in nobody's way"


def test_the_request_looks_at_nothing(beside: BesideHive) -> None:
    table = beside.hive_table()
    beside.upgrades.index.refresh(beside.services.namespaces.catalog(LAKE))
    beside.metastore.answers = False
    batch = beside.operations.start_many(LAKE, Wanted(tables=("db.*", "db.unknown")))
    assert [operation.outcome for operation in of_batch(beside, batch.batch).values()] == ["waiting", "waiting"]
    beside.metastore.answers = True
    beside.upgrades.activate()
    operations = of_batch(beside, batch.batch)
    assert (operations[table.name].outcome, operations["db.unknown"].outcome) == ("upgraded", "failed")
    assert "unknown" in (operations["db.unknown"].error or "")


def test_what_makes_no_sense_is_refused_as_a_whole(beside: BesideHive) -> None:
    table = beside.hive_table()
    with pytest.raises(NotFound, match="no Hive table matches"):
        started(beside, table.name, "other.*")
    with pytest.raises(Invalid, match=r"a key is given for db\.other"):
        started(beside, table.name, keys={"db.other": ID})
    with beside.database.reading() as uow:
        assert uow.operations.unfinished() == []


def test_one_that_is_huge_holds_up_no_other_and_what_is_started_meanwhile_begins(beside: BesideHive) -> None:
    huge, small = beside.hive_table(), beside.hive_table()
    first, second = beside.start(huge), beside.start(small)
    gate = Gate(beside, huge)
    upgrades = replace(gate.before(beside.upgrades), at_once=2)
    working = threading.Thread(target=upgrades.activate)
    working.start()
    try:
        assert gate.reached.wait(PATIENCE_SECONDS)
        until(beside, second, OperationStatus.SUCCEEDED)
        third = beside.start(beside.hive_table())
        until(beside, third, OperationStatus.SUCCEEDED)
        assert beside.operation(first).phase == "reading footers"
    finally:
        gate.opened.set()
        working.join()
    assert beside.operation(first).outcome == "upgraded"


def test_what_is_to_be_canceled_waits_for_no_slot(beside: BesideHive) -> None:
    huge, dying = beside.hive_table(), beside.hive_table()
    begun = beside.start(dying)
    beside.fuse.left = 4
    with pytest.raises(Killed):
        beside.upgrades.activate()
    beside = beside.restarted()
    beside.operations.pause(begun.id)
    first = beside.start(huge)
    gate = Gate(beside, huge)
    working = threading.Thread(target=replace(gate.before(beside.upgrades), at_once=1).activate)
    working.start()
    try:
        assert gate.reached.wait(PATIENCE_SECONDS)
        beside.operations.cancel(begun.id)
        until(beside, begun, OperationStatus.CANCELED)
        assert beside.operation(first).status is OperationStatus.RUNNING
    finally:
        gate.opened.set()
        working.join()


def test_one_that_was_asked_for_alone_goes_before_batches(beside: BesideHive) -> None:
    tables = [beside.hive_table() for _ in range(3)]
    batch = started(beside, "db.*")
    alone = beside.start(beside.hive_table())
    with beside.database.reading() as uow:
        kinds = {alone.kind}
        order = [operation.target for operation in uow.operations.next(kinds, but_for=(), limit=9)]
        assert order == [alone.target, *sorted(table.name for table in tables)]
        assert uow.operations.next(kinds, but_for=[alone.id], limit=1)[0].batch == batch.batch


@pytest.mark.parametrize("key", [(), ("id",)], ids=["plain", "keyed"])
def test_an_upgrade_is_paused_at_any_step_and_resumed_after_a_restart(beside: BesideHive, key: tuple[str]) -> None:
    paused = 0
    for step in range(1, 40):
        table = beside.hive_table()
        before = fingerprint(table.path)
        operation = beside.start(table, *key)
        other = beside.restarted()
        beside.fuse.meanwhile(step, partial(_paused_if_it_runs, other, operation))
        beside.upgrades.activate()
        if beside.operation(operation).status is OperationStatus.SUCCEEDED:
            break
        paused += 1
        assert beside.operation(operation).outcome == "paused"
        assert beside.metadata(table) is None
        assert [path for path in beside.written() if table.short in str(path)] == []
        beside = beside.restarted()
        assert beside.upgrades.activate().finished == 0
        beside.operations.resume(operation.id)
        beside.upgrades.activate()
        assert beside.operation(operation).outcome == "upgraded"
        check_upgraded(beside, table)
        assert fingerprint(table.path) == before
    assert paused >= 8  # after each transaction, around each file


def _paused_if_it_runs(beside: BesideHive, operation: Operation) -> None:
    try:
        beside.operations.pause(operation.id)
    except Conflict:
        assert beside.operation(operation).status is OperationStatus.SUCCEEDED


def test_a_paused_upgrade_is_canceled_and_leaves_nothing(beside: BesideHive) -> None:
    for moment in range(1, 12):
        table = beside.hive_table()
        operation = beside.start(table, "id")
        beside.fuse.left = moment
        with pytest.raises(Killed):
            beside.upgrades.activate()
        beside = beside.restarted()
        beside.operations.pause(operation.id)
        beside.operations.cancel(operation.id)
        beside.upgrades.activate()
        assert beside.operation(operation).status is OperationStatus.CANCELED
        assert beside.metadata(table) is None
        assert [path for path in beside.written() if table.short in str(path)] == []


def test_one_that_has_not_begun_is_canceled_at_once(beside: BesideHive) -> None:
    operation = beside.start(beside.hive_table())
    ended = beside.operations.cancel(operation.id)
    assert (ended.status, ended.allowed_actions) == (OperationStatus.CANCELED, [])
    with pytest.raises(Conflict, match="has canceled already"):
        beside.operations.cancel(operation.id)
    with pytest.raises(Conflict, match="cannot be paused: it is canceled"):
        beside.operations.pause(operation.id)
    with pytest.raises(Conflict, match="cannot be resumed: it is canceled"):
        beside.operations.resume(operation.id)
    assert beside.upgrades.activate().finished == 0


def test_a_batch_is_paused_resumed_and_canceled_as_a_whole(beside: BesideHive) -> None:
    tables = [beside.hive_table() for _ in range(3)]
    batch = started(beside, *(table.name for table in tables)).batch
    beside.fuse.meanwhile(6, lambda: beside.restarted().operations.pause_all(LAKE, batch))
    replace(beside.upgrades, at_once=1).activate()
    assert beside.operations.tally(LAKE, batch).outcomes == {"paused": 3}
    assert beside.operations.tally(LAKE, batch).allowed_actions == ["resume", "cancel"]
    with pytest.raises(Conflict, match="another upgrade of"):
        beside.start(tables[0])

    assert beside.operations.resume_all(LAKE, batch).outcomes == {"running": 1, "waiting": 2}
    assert beside.operations.cancel_all(LAKE, batch).outcomes == {"running": 1, "canceled": 2}
    beside.upgrades.activate()
    assert beside.operations.tally(LAKE, batch).outcomes == {"canceled": 3}
    assert beside.written() == set()
    with pytest.raises(NotFound):
        beside.operations.pause_all(LAKE, BatchId(beside.start(tables[0]).id))


def test_a_server_that_stops_leaves_upgrades_to_the_next(beside: BesideHive) -> None:
    table, waiting = beside.hive_table(), beside.hive_table()
    first, second = beside.start(table), beside.start(waiting)
    beside.fuse.meanwhile(3, beside.upgrades.halted.set)
    replace(beside.upgrades, at_once=1).activate()
    assert [beside.operation(operation_id).outcome for operation_id in (first, second)] == ["running", "waiting"]
    assert beside.metadata(table) is None
    beside = beside.restarted()
    beside.upgrades.activate()
    assert [beside.operation(operation_id).outcome for operation_id in (first, second)] == ["upgraded", "upgraded"]
    check_upgraded(beside, table)


def test_a_server_that_leads_no_more_begins_nothing(beside: BesideHive) -> None:
    operation = beside.start(beside.hive_table())
    beside.upgrades.activate(lambda: False)
    assert beside.operation(operation).outcome == "waiting"
