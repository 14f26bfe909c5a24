"""Sub-directories of tables and partitions: whether files in them count is what the table's owner says."""

from __future__ import annotations

import os

import pytest

from catalog.errors import Invalid
from catalog.jobs.job import JobKind
from catalog.jobs.operation import BLOCKED
from firn.protocol.operations import OperationStatus
from server.files.listing import Listings
from server.service.hive.operations import Wanted
from server.service.hive.results import SyncOutcome
from tests.factories import LAKE
from tests.hive_tables import a_hive_partition, a_hive_table, a_storage
from tests.server.service.hive.beside_hive import LONG_AGO_NS, BesideHive, HiveFiles, aged, killed_at_every_step, uri
from tests.server.service.hive.downgraded_tables import exists
from tests.server.service.hive.links import drift_of
from tests.server.service.hive.nested_files import RULE, UNION, baseline_of, below, outcome, scheduled, settle, upgraded
from tests.server.service.hive.published_tables import set_property
from tests.server.service.hive.synced_tables import relation_of, taken_over


def flat(table: HiveFiles) -> set[str]:
    """Files that lie in the partitions themselves."""
    return {uri(path) for path in table.path.glob("p=*/*.parquet")}


def test_an_upgrade_waits_until_somebody_says_whether_they_count(beside: BesideHive) -> None:
    table = beside.hive_table()
    below(table, 4)
    report = beside.upgrades.checks.report(LAKE, table.name, ())
    assert not report.eligible
    [blocker] = [check for check in report.checks if check.status == "blocked"]
    assert (blocker.code, "it is not decided" in blocker.message) == ("subdirectories", True)
    assert "--subdirectories read" in blocker.advice
    operation = outcome(beside, table, None)
    assert (operation.status, operation.phase) == (OperationStatus.FAILED, BLOCKED)
    assert (operation.error, operation.hint) == (blocker.message, blocker.advice)
    assert operation.result["checks"][0]["code"] == "subdirectories"
    assert not exists(beside, table)
    assert not beside.written()


@pytest.mark.parametrize("rule", ["read", "ignore"])
def test_a_check_tells_what_becomes_of_them(beside: BesideHive, rule: str) -> None:
    table = beside.hive_table()
    below(table, 4)
    report = beside.upgrades.checks.report(LAKE, table.name, (), {RULE: rule})
    assert report.eligible
    assert report.files == (3 if rule == "read" else 2)
    [subdirectory_check] = [check for check in report.checks if check.code == "subdirectories"]
    assert (subdirectory_check.status, "do not count" in subdirectory_check.message) == ("warn", rule == "ignore")
    wanted = Wanted(tables=[table.name], properties={RULE: rule}, dry_run=True)
    started = beside.operations.start_many(LAKE, wanted)
    beside.upgrades.activate()
    assert beside.operations.tally(LAKE, started.batch).outcomes == {"eligible": 1}


@pytest.mark.parametrize("key", [(), ("id",)])
def test_files_at_every_level_are_registered_where_they_are_read(beside: BesideHive, key: tuple[str, ...]) -> None:
    table = upgraded(beside, "read", *key)
    assert beside.live(table) == table.files()
    assert len(beside.live(table)) == 4
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED


@pytest.mark.parametrize("key", [(), ("id",)])
def test_they_are_passed_over_where_they_are_ignored(beside: BesideHive, key: tuple[str, ...]) -> None:
    table = upgraded(beside, "ignore", *key)
    assert beside.live(table) == flat(table)
    below(table, 6)
    below(table, 7, sub="another")
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED


def test_what_the_catalog_says_holds_for_its_upgrades_and_syncs(beside: BesideHive) -> None:
    beside.services.policies.replace(LAKE, (), {RULE: "read"})
    table = upgraded(beside, None)
    assert beside.live(table) == table.files()
    below(table, 6)
    assert beside.sync(table).changed
    assert beside.live(table) == table.files()


def test_every_movement_below_is_taken_over(beside: BesideHive) -> None:
    table = upgraded(beside, "read")

    def check(message: str) -> None:
        assert beside.sync(table).message == message
        assert beside.live(table) == table.files()

    below(table, 6, sub="new/deeper")
    check("partitions new files: 1")
    below(table, 7, part="p=z")
    storage = a_storage(uri(table.path / "p=z"), "id bigint; v string")
    beside.metastore.add_partition("db", table.short, a_hive_partition("z", storage=storage))
    check("partitions new: 1")
    for path in (table.path / "p=x" / UNION).glob("*.parquet"):
        path.unlink()
    check("partitions rewritten or moved: 1")
    (replaced,) = (table.path / "p=x" / UNION / "deep=1").iterdir()
    table.add_at(uri(replaced.parent), 8, 9, file=replaced.name)
    check("partitions rewritten or moved: 1")
    (table.path / "p=x" / "new").rename(table.path / "p=x" / "renamed")
    check("partitions rewritten or moved: 1")
    (moved,) = (table.path / "p=y").glob("*.parquet")
    (table.path / "p=y" / "down").mkdir()
    moved.rename(table.path / "p=y" / "down" / moved.name)
    check("partitions rewritten or moved: 1")
    beside.metastore.drop_partition("db", table.short, "p=z")
    for path in (table.path / "p=z" / UNION).iterdir():
        path.unlink()
    check("partitions dropped: 1")


def test_a_table_without_partitions_is_read_below_too(beside: BesideHive) -> None:
    """As a stream writes it: a directory for each day, and none of them a partition."""
    table = HiveFiles(beside, "stream")
    (table.path / "2026" / "11").mkdir(parents=True)
    table.add_at(uri(table.path / "2026" / "11"), 1)
    beside.metastore.add_table(a_hive_table(name="stream", storage=a_storage(uri(table.path), "id bigint; v string")))
    assert outcome(beside, table, "read").status is OperationStatus.SUCCEEDED
    (table.path / "2026" / "12").mkdir()
    table.add_at(uri(table.path / "2026" / "12"), 2)
    assert beside.sync(table).message == "partitions new files: 1"
    assert beside.live(table) == table.files()


def test_hidden_names_count_at_no_level(beside: BesideHive) -> None:
    table = upgraded(beside, "read")
    for sub in (".hive-staging_hive_1/-ext-10000", f"{UNION}/_temporary/0", f"{UNION}/.tmp", "_delta"):
        below(table, 9, sub=sub)
    table.add_at(uri(table.path / "p=x" / UNION), 9, file="_metadata")
    table.add_at(uri(table.path / "p=x" / UNION), 9, file=".part.crc")
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED


def test_a_keyed_table_gets_the_rows_of_files_that_come_below_as_upserts(beside: BesideHive) -> None:
    table = upgraded(beside, "read", "id")
    late_file = below(table, 6)
    task = taken_over(beside, table)
    assert task["mode"] == "upsert"
    assert [file["location"] for unit in task["units"] for file in unit["files"]] == [uri(late_file)]
    late_file.unlink()
    task = taken_over(beside, table)
    assert task["mode"] == "rebuild"
    assert len(task["dead"]) == 1, "the change that its rows became is left out from now on"


def test_the_schedule_sees_what_comes_below_by_the_directories_times(
    beside: BesideHive, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = upgraded(beside, "read")
    settle(table)
    beside.sync(table)
    assert baseline_of(beside, table).settled
    listed = list[str]()
    whole = Listings.list

    def counted(listings: Listings, location: str, *, recursive: bool = False) -> object:
        listed.append(location)
        return whole(listings, location, recursive=recursive)

    monkeypatch.setattr(Listings, "list", counted)
    scheduled(beside, table)
    assert listed == []
    below(table, 6, sub=f"{UNION}/deep=1")
    scheduled(beside, table)
    assert listed == [uri(table.path / "p=x")]
    assert beside.live(table) == table.files()


def test_partitions_whose_directories_lie_in_each_other_are_never_counted_twice(beside: BesideHive) -> None:
    table = upgraded(beside, "read")
    before = beside.live(table)
    place = uri(table.path / "p=x" / UNION)
    storage = a_storage(f"file://{place.removeprefix('file:')}/", "id bigint; v string")
    beside.metastore.add_partition("db", table.short, a_hive_partition("inner", storage=storage))
    below(table, 6)
    table.add("y", 7)
    sync_outcome = beside.sync(table)
    assert sync_outcome.conflict
    assert "partitions p=x, p=inner have nested directories" in sync_outcome.message
    assert beside.live(table) == before | {uri(path) for path in (table.path / "p=y").iterdir()}
    report = beside.upgrades.checks.report(LAKE, table.name, (), {RULE: "read"})
    assert "shared_location" in {check.code for check in report.checks if check.status == "blocked"}
    beside.metastore.drop_partition("db", table.short, "p=inner")
    assert beside.sync(table).message == "partitions new files: 1"
    assert beside.live(table) == table.files()


def test_such_partitions_are_each_their_own_files_where_sub_directories_are_ignored(beside: BesideHive) -> None:
    table = upgraded(beside, "ignore")
    storage = a_storage(uri(table.path / "p=x" / UNION), "id bigint; v string")
    beside.metastore.add_partition("db", table.short, a_hive_partition("inner", storage=storage))
    assert beside.sync(table).message == "partitions new: 1"
    assert beside.live(table) == flat(table) | {uri(path) for path in (table.path / "p=x" / UNION).glob("*.parquet")}


def test_firns_own_files_are_never_taken_for_hives(beside: BesideHive) -> None:
    table = HiveFiles(beside, "around")
    beside.warehouse.mkdir(parents=True)
    table.add_at(uri(beside.warehouse.parent), 1)
    around = a_storage(uri(beside.warehouse.parent), "id bigint; v string")
    beside.metastore.add_table(a_hive_table(name="around", storage=around))
    with pytest.raises(Invalid, match="where Firn writes, lies in"):
        beside.operations.start(LAKE, table.name, None, {RULE: "read"})
    assert not beside.upgrades.checks.report(LAKE, table.name, (), {RULE: "read"}).eligible
    beside.operations.start(LAKE, table.name, None, {RULE: "ignore"})
    beside.upgrades.activate()
    before = beside.live(table)
    set_property(beside, table, RULE, "read")
    assert "where Firn writes, lies in" in beside.sync(table).message
    assert beside.live(table) == before


def test_files_that_were_ignored_come_as_rows_that_were_there_all_the_time(beside: BesideHive) -> None:
    table = upgraded(beside, "ignore", "id")
    settle(table)
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED
    set_property(beside, table, RULE, "read")
    scheduled(beside, table)  # no signal has moved but the rule
    with beside.database.reading() as uow:
        job = uow.jobs.active_of(relation_of(beside, table).id)
        assert job is not None
        staged = uow.baselines.staged(job.id)
    assert staged is not None
    assert (job.kind, staged.task["mode"]) == (JobKind.SYNC, "rebuild")
    files = [file for unit in staged.task["units"] for file in unit["files"]]
    assert sorted(file["added"] for file in files) == [False, True, True]


def test_a_plain_table_registers_files_that_were_ignored(beside: BesideHive) -> None:
    table = upgraded(beside, "ignore")
    set_property(beside, table, RULE, "read")
    assert beside.sync(table).message == "partitions rewritten or moved: 1"
    assert beside.live(table) == table.files()
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED


@pytest.mark.parametrize("key", [(), ("id",)])
def test_files_that_were_read_go_only_when_somebody_asks_for_it(beside: BesideHive, key: tuple[str, ...]) -> None:
    table = upgraded(beside, "read", *key)
    before = beside.live(table)
    set_property(beside, table, RULE, "ignore")
    scheduled(beside, table)
    assert "were read so far" in drift_of(beside, table)
    assert beside.live(table) == before
    set_property(beside, table, RULE, "ask")
    held = beside.sync(table)
    assert "it is not decided whether their files count" in held.message
    assert beside.live(table) == before
    set_property(beside, table, RULE, "ignore")
    if key:
        assert taken_over(beside, table)["mode"] == "rebuild"
        return
    assert beside.sync(table).message == "partitions rewritten or moved: 1"
    assert beside.live(table) == flat(table)
    set_property(beside, table, RULE, "read")  # and back again
    beside.sync(table)
    assert beside.live(table) == table.files()


def test_a_partition_that_waited_goes_on_once_it_is_said(beside: BesideHive) -> None:
    for rule in ("read", "ignore"):
        table = beside.hive_table()
        assert outcome(beside, table, None, "id").status is OperationStatus.SUCCEEDED
        below(table, 6)
        assert beside.sync(table).conflict
        set_property(beside, table, RULE, rule)
        sync_outcome = beside.sync(table)
        assert not sync_outcome.conflict
        assert (sync_outcome.job is not None) == (rule == "read")
        if sync_outcome.job is not None:
            with beside.database.reading() as uow:
                staged = uow.baselines.staged(sync_outcome.job.id)
            assert staged is not None
            assert staged.task["mode"] == "upsert", "it came after the upgrade"


def test_a_killed_sync_of_files_below_is_made_good(beside: BesideHive) -> None:
    def written_below(beside: BesideHive) -> HiveFiles:
        table = upgraded(beside, "read")
        below(table, 6)
        (table.path / "p=y" / UNION).mkdir()
        below(table, 7, part="p=y")
        return table

    died = 0
    for restarted, table in killed_at_every_step(beside, written_below, BesideHive.sync):
        died += 1
        assert restarted.live(table) == table.files()
        assert restarted.sync(table).outcome is SyncOutcome.UNCHANGED
    assert died >= 6


def test_a_file_below_that_is_too_young_waits(beside: BesideHive) -> None:
    table = upgraded(beside, "read")
    young = below(table, 6)
    os.utime(young, (2**33, 2**33))
    assert beside.sync(table).waits
    aged(young, LONG_AGO_NS)
    scheduled(beside, table)
    assert beside.live(table) == table.files()
