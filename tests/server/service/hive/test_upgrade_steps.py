"""An upgrade dies at each of its steps; the next process finishes it alone, and Hive's files are as they were."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from catalog.errors import CommitUnknown, Conflict
from catalog.keyed.spec import KeySpec
from firn.protocol.operations import OperationStatus
from server.service.hive import upgrade
from server.service.hive.results import SyncOutcome
from server.service.hive.upgrade_attempt import LISTING, Paused, UpgradeAttempt
from tests.factories import LAKE
from tests.fingerprints import fingerprint
from tests.server.faults import FaultyDatabase, Killed
from tests.server.service.hive.beside_hive import BesideHive
from tests.server.service.hive.upgrades import check_upgraded


@pytest.mark.parametrize("key", [(), ("id",)], ids=["plain", "keyed"])
def test_a_killed_upgrade_is_finished_by_the_next_process(beside: BesideHive, key: tuple[str, ...]) -> None:
    died = 0
    while True:
        table = beside.hive_table()
        before = fingerprint(table.path)
        operation = beside.start(table, *key)
        beside.fuse.left = died + 1
        try:
            beside.upgrades.activate()
        except Killed:
            died += 1
            beside = beside.restarted()
            is_there = beside.metadata(table) is not None
            assert is_there == (beside.operation(operation).status is OperationStatus.SUCCEEDED)
            beside.upgrades.activate()
        else:
            break
        assert beside.operation(operation).status is OperationStatus.SUCCEEDED
        check_upgraded(beside, table)
        assert beside.sync(table).outcome is SyncOutcome.UNCHANGED
        assert fingerprint(table.path) == before
    assert died >= 15  # before and after: journal, progress, manifests, manifest list, metadata, namespace, the table


def test_a_canceled_upgrade_leaves_nothing(beside: BesideHive) -> None:
    for step in range(1, 6):
        table = beside.hive_table()
        operation = beside.start(table, "id")
        beside.fuse.meanwhile(step, partial(beside.restarted().operations.cancel, operation.id))
        beside.upgrades.activate()
        assert beside.operation(operation).status is OperationStatus.CANCELED
        assert beside.metadata(table) is None
        assert [path for path in beside.written() if table.short in str(path)] == []


def test_a_failed_upgrade_leaves_nothing_and_says_why(beside: BesideHive) -> None:
    table = beside.hive_table()
    operation = beside.start(table, "id")
    damaged = table.add("y", 9)
    damaged.write_bytes(b"PAR1 but not for long")
    beside.upgrades.activate()
    ended = beside.operation(operation)
    assert ended.status is OperationStatus.FAILED
    assert str(damaged.name) in (ended.error or "")
    assert beside.metadata(table) is None
    assert beside.written() == set()


def test_a_metastore_that_goes_away_fails_the_upgrade_in_words(beside: BesideHive) -> None:
    table = beside.hive_table()
    operation = beside.start(table)
    beside.metastore.answers = False
    beside.upgrades.activate()
    ended = beside.operation(operation)
    assert (ended.status, ended.error) == (OperationStatus.FAILED, "the metastore does not answer")


def test_a_table_is_not_upgraded_by_two_at_once(beside: BesideHive) -> None:
    table = beside.hive_table()
    operation = beside.start(table)
    with pytest.raises(Conflict, match="another upgrade"):
        beside.start(table)
    beside.upgrades.activate()
    assert beside.operation(operation).status is OperationStatus.SUCCEEDED


def test_a_server_that_has_lost_its_lead_does_not_spoil_the_upgrade_of_the_next(beside: BesideHive) -> None:
    """It wakes up when another has finished, with its own directory cleared away."""
    for moment in range(1, 8):
        table = beside.hive_table()
        operation = beside.start(table, "id")
        other = beside.restarted()
        beside.fuse.meanwhile(moment, other.upgrades.activate)
        beside.upgrades.activate()
        assert beside.operation(operation).status is OperationStatus.SUCCEEDED
        check_upgraded(other, table)


def test_an_upgrade_whose_end_nobody_saw_is_looked_at_again(beside: BesideHive) -> None:
    table = beside.hive_table()
    operation = beside.start(table)
    faulty = FaultyDatabase(beside.database)
    tables = replace(beside.upgrades.tables, database=faulty)
    upgrades = replace(beside.upgrades, tables=tables)
    faulty.end_unknown_after_commit()
    with pytest.raises(ExceptionGroup, match=table.name) as raised:
        upgrades.activate()
    assert raised.group_contains(CommitUnknown)
    beside.restarted().upgrades.activate()
    assert beside.operation(operation).status is OperationStatus.SUCCEEDED
    check_upgraded(beside, table)


def test_nulls_that_are_found_once_manifests_are_written_leave_nothing(beside: BesideHive) -> None:
    table = beside.hive_table()
    null: int = None  # type: ignore[assignment]
    table.add("y", 4, null)
    operation = beside.start(table, "id")
    beside.upgrades.activate()
    ended = beside.operation(operation)
    assert ended.status is OperationStatus.FAILED
    assert "null" in (ended.error or "")
    assert beside.metadata(table) is None
    assert beside.written() == set()


@pytest.mark.parametrize("name", ["firn.partial", "firn.insert-only"])
def test_properties_that_hive_s_writers_do_not_keep_are_refused(beside: BesideHive, name: str) -> None:
    table = beside.hive_table()
    operation = beside.operations.start(LAKE, table.name, KeySpec(primary_key=("id",)), {name: "true"})
    beside.upgrades.activate()
    ended = beside.operation(operation)
    assert ended.status is OperationStatus.FAILED
    assert f"linked to Hive cannot have {name}" in (ended.error or "")
    assert beside.metadata(table) is None


def test_a_table_without_files_has_no_snapshot(beside: BesideHive) -> None:
    table = beside.hive_table()
    table.drop("x")
    table.drop("y")
    beside.start(table)
    beside.upgrades.activate()
    metadata = beside.metadata(table)
    assert metadata is not None
    assert metadata["snapshots"] == []
    assert [path.suffix for path in beside.written()] == [".json"]


def test_how_far_a_listing_is_counts_directories_and_a_pause_meanwhile_is_heard(
    beside: BesideHive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upgrade, "REPORT_EVERY_SECONDS", 0)
    operation = beside.start(beside.hive_table(), "id")
    attempt = UpgradeAttempt(beside.database, beside.upgrades.files, operation, root="nowhere")
    attempt.begin()
    listed = upgrade.report_listing(attempt, iter(range(3)), 3)
    next(listed)
    next(listed)
    listing = beside.operation(operation)
    assert (listing.phase, listing.unit, listing.done, listing.total) == (LISTING, "directories", 1, 3)
    beside.operations.pause(operation.id)
    with pytest.raises(Paused):
        next(listed)
