"""Waves: tables chosen by a filter, keys from a file, a stop after failures, and what a report keeps."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from catalog.errors import Invalid, NotFound
from catalog.hive.table_index import HiveTableFilter, HiveTableState, MigrationState
from catalog.jobs.operation import BatchId, Operation
from catalog.keyed.spec import KeySpec
from firn.protocol.operations import OperationStatus
from server.api.migration import build_wave
from server.service.hive.operations import Started, Wanted
from server.service.hive.upgrade_attempt import UpgradeAttempt
from tests.factories import LAKE
from tests.server.faults import Killed
from tests.server.service.hive.beside_hive import BesideHive
from tests.server.service.hive.text_tables import a_text_table
from tests.server.service.hive.upgrades import check_upgraded


def start(beside: BesideHive, wanted: Wanted) -> Started:
    beside.upgrades.index.refresh(beside.services.namespaces.catalog(LAKE))
    return beside.operations.start_many(LAKE, wanted)


def outcomes(beside: BesideHive, batch: BatchId) -> dict[str, str]:
    with beside.database.reading() as uow:
        return {operation.target: operation.outcome for operation in uow.operations.list(batch=batch, limit=100).items}


def damage(beside: BesideHive, table: object) -> None:
    for path in table.path.rglob("*.parquet"):  # type: ignore[attr-defined]
        path.write_bytes(b"PAR1 this is no footer PAR1")


def test_a_filter_chooses_on_the_server_and_a_check_fills_the_index(beside: BesideHive) -> None:
    table = beside.hive_table()
    a_text_table(beside, "raw")
    started = start(beside, Wanted(tables=(), only=HiveTableFilter(), dry_run=True, name="check all"))
    beside.upgrades.activate()
    assert outcomes(beside, started.batch) == {table.name: "eligible", "db.raw": "blocked"}
    with beside.database.reading() as uow:
        indexed = uow.hive.find(LAKE, "db", table.short)
        assert indexed is not None
        size = sum(path.stat().st_size for path in table.path.rglob("*.parquet"))
        assert (indexed.facts.files, indexed.facts.bytes, indexed.facts.partitions) == (2, size, 2)
        assert indexed.checked_at is not None
        states = {count.state: count.tables for count in uow.hive.count(LAKE)}
        assert states == {MigrationState.ELIGIBLE: 1, MigrationState.BLOCKED: 1}
        assert [wave.name for wave in uow.waves.list(LAKE, limit=9).items] == ["check all"]
    beside.upgrades.index.refresh(beside.services.namespaces.catalog(LAKE))
    with beside.database.reading() as uow:
        again = uow.hive.find(LAKE, "db", table.short)
        assert again is not None
        assert (again.facts, again.checked_at) == (indexed.facts, indexed.checked_at), "a listing keeps the check"
        only = HiveTableFilter(min_bytes=size, max_bytes=size, state=HiveTableState.HIVE)
        assert [indexed_table.name for indexed_table in uow.hive.list(LAKE, only, limit=9).items] == [table.short]
    eligible = Wanted(tables=(), only=HiveTableFilter(state=HiveTableState.HIVE))
    upgraded = start(beside, eligible)
    beside.upgrades.activate()
    assert outcomes(beside, upgraded.batch) == {table.name: "upgraded"}
    with pytest.raises(NotFound, match="no Hive table matches the filter"):
        start(beside, eligible)
    check_upgraded(beside, table)
    with beside.database.reading() as uow:
        assert {wave.name for wave in uow.waves.list(LAKE, limit=9).items} == {"check all", "state=hive"}


def test_a_wave_stops_at_the_first_failure_and_a_resume_allows_another(beside: BesideHive) -> None:
    tables = [beside.hive_table() for _ in range(4)]
    names = [table.name for table in tables]
    damage(beside, tables[0])
    damage(beside, tables[2])
    one_by_one = beside.upgrades
    object.__setattr__(one_by_one, "at_once", 1)
    started = start(beside, Wanted(tables=names, stop_after=1))
    one_by_one.activate()
    assert outcomes(beside, started.batch) == dict(zip(names, ["failed", "paused", "paused", "paused"], strict=True))
    with beside.database.reading() as uow:
        wave = uow.waves.find(started.batch)
        assert wave is not None
        assert wave.stopped == f"1 table has failed, the last one was {names[0]}"
        assert uow.hive.list(LAKE, HiveTableFilter(failed=True), limit=9).items[0].failure
        others = uow.hive.list(LAKE, HiveTableFilter(failed=False), limit=9).items
        assert [table.full_name for table in others] == sorted(names[1:])
    beside.operations.resume_all(LAKE, started.batch)
    one_by_one.activate()
    assert outcomes(beside, started.batch) == dict(zip(names, ["failed", "upgraded", "failed", "paused"], strict=True))
    beside.operations.resume_all(LAKE, started.batch)
    one_by_one.activate()
    assert outcomes(beside, started.batch)[names[3]] == "upgraded"
    for table in (tables[1], tables[3]):
        check_upgraded(beside, table)


def test_a_server_that_dies_around_a_failure_starts_no_further_upgrade(
    beside: BesideHive, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [beside.hive_table() for _ in range(3)]
    damage(beside, tables[0])
    object.__setattr__(beside.upgrades, "at_once", 1)
    started = start(beside, Wanted(tables=[table.name for table in tables], stop_after=1))
    real = UpgradeAttempt._remove

    def die(self: UpgradeAttempt, roots: list[str]) -> None:
        if _status(beside, self.operation) is OperationStatus.FAILED:
            raise Killed  # after the transaction that ended the operation
        real(self, roots)

    monkeypatch.setattr(UpgradeAttempt, "_remove", die)
    with pytest.raises(Killed):
        beside.upgrades.activate()
    monkeypatch.setattr(UpgradeAttempt, "_remove", real)
    beside.upgrades.activate()  # the next server
    assert sorted(outcomes(beside, started.batch).values()) == ["failed", "paused", "paused"]


def _status(beside: BesideHive, operation: Operation) -> OperationStatus:
    return beside.operation(operation).status


def test_keys_come_from_a_file(beside: BesideHive) -> None:
    keyed, plain = beside.hive_table(), beside.hive_table()
    started = start(
        beside, Wanted(tables=[keyed.name], key_file=f"table,primary_key\n{keyed.name},id\n{plain.name},id\n")
    )
    assert started.unused_keys == 1
    beside.upgrades.activate()
    with beside.database.reading() as uow:
        relation = uow.relations.find(LAKE, beside.table_name(keyed))
        assert relation is not None
        assert uow.keyed.get(relation.id).spec == KeySpec(primary_key=("id",))
    with pytest.raises(Invalid, match=r"line 2: the metastore has no table db\.ordrs"):
        start(beside, Wanted(tables=[plain.name], key_file="table,primary_key\ndb.ordrs,id\n"))
    with beside.database.reading() as uow:
        assert uow.operations.unfinished() == [], "nothing was started"


def test_the_sizes_of_upgraded_tables_are_those_that_firn_counts(beside: BesideHive) -> None:
    table = beside.hive_table()
    start(beside, Wanted(tables=[table.name]))
    beside.upgrades.activate()
    beside.services.planner_loop.run_once()
    beside.upgrades.index.refresh(beside.services.namespaces.catalog(LAKE))
    size = sum(path.stat().st_size for path in table.path.rglob("*.parquet"))
    with beside.database.reading() as uow:
        indexed = uow.hive.find(LAKE, "db", table.short)
        counts = {count.state: count for count in uow.hive.count(LAKE)}
    assert indexed is not None
    assert (indexed.facts.files, indexed.facts.bytes, indexed.facts.rows) == (2, size, 3)
    upgraded = counts[MigrationState.UPGRADED]
    assert (upgraded.bytes, upgraded.rows, upgraded.unknown) == (size, 3, 0)


def test_a_wave_that_has_just_begun_takes_the_pace_of_the_wave_before_it(beside: BesideHive) -> None:
    first, second = ([beside.hive_table().name for _ in range(count)] for count in (3, 2))
    started = start(beside, Wanted(tables=first))
    assert _remaining(beside, started.batch) is None, "nothing has ended yet"
    beside.upgrades.activate()
    with beside.database.writing() as uow:
        for minutes, operation in enumerate(uow.operations.list(batch=started.batch, limit=9).items):
            uow.operations.put(replace(operation, ended_at=uow.now() - timedelta(minutes=minutes)))
    waiting = start(beside, Wanted(tables=second))
    last = start(beside, Wanted(tables=[beside.hive_table().name]))
    remaining = [_remaining(beside, batch) for batch in (started.batch, waiting.batch, last.batch)]
    assert remaining == [None, pytest.approx(120, abs=1), pytest.approx(180, abs=1)], "a minute for each table"


def _remaining(beside: BesideHive, batch: BatchId) -> float | None:
    with beside.database.reading() as uow:
        wave = uow.waves.find(batch)
        assert wave is not None
        shown = build_wave(uow, wave)
    assert shown is not None
    return shown.remaining_seconds


def test_the_history_of_an_upgraded_table_begins_with_the_upgrade(beside: BesideHive) -> None:
    table = beside.hive_table()
    start(beside, Wanted(tables=[table.name]))
    beside.upgrades.activate()
    with beside.database.reading() as uow:
        events = uow.events.list(LAKE, None, limit=9).items
    assert {event.engine for event in events} == {"firn upgrade"}
