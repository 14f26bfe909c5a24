"""Duplicate keys are counted before an upgrade: exactly, in bounded memory, and without a trace of the count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog.errors import Invalid
from catalog.iceberg.json import Json
from catalog.jobs.operation import Operation
from catalog.keyed.spec import KeyScope, KeySpec
from catalog.ports.queries import QueryCanceled
from firn.protocol.operations import OperationStatus
from server.service.hive import key_count
from server.service.hive.key_count import BYTES_PER_ROW
from server.service.hive.operations import Wanted
from tests.factories import LAKE
from tests.server.faults import Killed
from tests.server.service.hive.beside_hive import LONG_AGO_NS, BesideHive, HiveFiles, aged

ID = KeySpec(primary_key=("id",))


def start_count(beside: BesideHive, table: HiveFiles, spec: KeySpec = ID) -> Operation:
    started = beside.operations.start_many(LAKE, Wanted(tables=[table.name], key=spec, dry_run=True, unique=True))
    with beside.database.reading() as uow:
        return uow.operations.list(batch=started.batch, limit=1).items[0]


def count(beside: BesideHive, table: HiveFiles, spec: KeySpec = ID) -> Operation:
    operation = start_count(beside, table, spec)
    beside.upgrades.activate()
    return beside.operation(operation)


def uniqueness(operation: Operation) -> Json:
    assert operation.status is OperationStatus.SUCCEEDED, operation.error
    return dict(operation.result["uniqueness"])


def statuses(operation: Operation) -> dict[str, str]:
    return {check["code"]: check["status"] for check in operation.result["checks"]}


def left_behind(beside: BesideHive) -> list[Path]:
    return [path for path in beside.warehouse.rglob("*") if path.is_file()]


def limit_memory(beside: BesideHive, rows: int) -> None:
    counter = beside.upgrades.counter
    limits = counter.limits.model_copy(update={"memory_bytes": 2 * rows * BYTES_PER_ROW})
    object.__setattr__(beside.upgrades, "counter", replace(counter, limits=limits))


def test_unique_keys_are_said_to_be_unique(beside: BesideHive) -> None:
    table = beside.hive_table()
    operation = count(beside, table)
    counted = uniqueness(operation)
    assert (counted["rows"], counted["surplus_rows"], counted["null_rows"], counted["sample"]) == (3, 0, 0, [])
    assert (operation.outcome, statuses(operation)["key"]) == ("eligible", "ok")
    assert beside.metadata(table) is None
    assert left_behind(beside) == []


def test_duplicates_and_nulls_are_counted_with_examples(beside: BesideHive) -> None:
    table = beside.hive_table()
    table.add("y", 1, 2, 2, None)
    operation = count(beside, table)
    counted = uniqueness(operation)
    assert (counted["rows"], counted["keys"], counted["surplus_rows"], counted["null_rows"]) == (7, 2, 3, 1)
    assert counted["sample"] == [{"rows": 3, "key": {"id": "2"}}, {"rows": 2, "key": {"id": "1"}}]
    assert operation.outcome == "blocked"
    assert {statuses(operation)[code] for code in ("key_duplicates", "key_null")} == {"blocked"}
    with beside.database.reading() as uow:
        index_row = uow.hive.find(LAKE, "db", table.short)
    assert index_row is None or index_row.all_blockers == (), "another key may be unique"


def test_a_key_of_a_partition_may_come_in_each_of_them(beside: BesideHive) -> None:
    table = beside.hive_table()
    table.add("y", 1)
    scoped = KeySpec(primary_key=("id", "p"), scope=KeyScope.PARTITION)
    assert uniqueness(count(beside, table, scoped))["surplus_rows"] == 0
    assert uniqueness(count(beside, table))["surplus_rows"] == 1


def test_passes_bound_the_memory_and_count_the_same(beside: BesideHive, monkeypatch: pytest.MonkeyPatch) -> None:
    table = beside.hive_table()
    path = table.add("y", 5)
    ids = [number // 2 for number in range(4_000)]
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64()), "v": [str(number) for number in ids]}), path)
    aged(path, LONG_AGO_NS)
    limits = beside.upgrades.counter.limits
    monkeypatch.setattr(key_count, "BYTES_PER_ROW", limits.memory_bytes // 2 // 1_000)
    counted = uniqueness(count(beside, table))
    assert (counted["keys"], counted["surplus_rows"], len(counted["sample"])) == (2_000, 2_003, 20)
    monkeypatch.setattr(key_count, "BYTES_PER_ROW", limits.memory_bytes // 2)
    operation = count(beside, table)
    assert uniqueness(operation)["counted"] is False
    assert (operation.outcome, statuses(operation)["key_uncounted"]) == ("eligible", "warn")


def test_a_server_that_reads_no_rows_claims_nothing(beside: BesideHive) -> None:
    table = beside.hive_table()
    object.__setattr__(beside.upgrades, "counter", replace(beside.upgrades.counter, enabled=False))
    operation = count(beside, table)
    assert "switched off" in uniqueness(operation)["reason"]
    assert statuses(operation)["key_uncounted"] == "warn"
    assert "key" not in statuses(operation)


def test_files_that_change_meanwhile_are_not_covered(beside: BesideHive, monkeypatch: pytest.MonkeyPatch) -> None:
    table, counter = beside.hive_table(), beside.upgrades.counter

    class Meanwhile:
        def count(self, *arguments: object) -> key_count.KeyCount:
            counted = counter.count(*arguments)  # type: ignore[arg-type]
            table.add("y", 3)
            return counted

    object.__setattr__(beside.upgrades, "counter", Meanwhile())
    operation = count(beside, table)
    assert uniqueness(operation)["changed_meanwhile"] == 1
    assert statuses(operation)["key_changed"] == "warn"


@pytest.mark.parametrize(("ask", "status"), [("cancel", OperationStatus.CANCELED), ("pause", OperationStatus.PAUSED)])
def test_a_count_is_canceled_and_paused(
    beside: BesideHive, monkeypatch: pytest.MonkeyPatch, ask: str, status: OperationStatus
) -> None:
    table = beside.hive_table()
    operation = start_count(beside, table)
    change: Callable[..., Operation] = getattr(beside.operations, ask)

    class Slow:
        def run(self, _task: object, _check: object, _take: object, is_canceled: Callable[[], bool]) -> None:
            assert not is_canceled()
            change(operation.id)
            monkeypatch.setattr(key_count, "_STEP_SECONDS", 0.0)
            assert is_canceled()
            raise QueryCanceled

        def stop(self) -> None:
            pass

    counter = replace(beside.upgrades.counter, start_engine=Slow)  # type: ignore[arg-type]
    object.__setattr__(beside.upgrades, "counter", counter)
    beside.upgrades.activate()
    assert beside.operation(operation).status is status
    assert left_behind(beside) == []


def test_a_server_that_dies_leaves_nothing_behind(beside: BesideHive) -> None:
    table = beside.hive_table()
    operation = start_count(beside, table)

    class Dying:
        def count(self, *_arguments: object) -> key_count.KeyCount:
            raise Killed

    object.__setattr__(beside.upgrades, "counter", Dying())
    object.__setattr__(beside.upgrades, "_remove", None)
    with pytest.raises(Killed):
        beside.upgrades.activate()
    again = beside.restarted()
    again.upgrades.activate()
    assert uniqueness(again.operation(operation))["rows"] == 3
    assert left_behind(again) == []


def test_a_count_needs_a_key_and_a_dry_run(beside: BesideHive) -> None:
    table = beside.hive_table()
    with pytest.raises(Invalid, match="before an upgrade"):
        beside.operations.start_many(LAKE, Wanted(tables=[table.name], key=ID, unique=True))
    with pytest.raises(Invalid, match="needs a key"):
        beside.operations.start_many(LAKE, Wanted(tables=[table.name], dry_run=True, unique=True))
