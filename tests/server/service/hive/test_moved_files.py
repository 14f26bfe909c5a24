"""Files that Hive's side moves within a keyed table bring no rows that would win over changes made here."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from catalog.hive.baseline import PartitionBaseline
from server.files.listing import Listings
from server.service.hive.results import SyncOutcome
from tests.server.service.hive.beside_hive import LONG_AGO_NS, BesideHive, HiveFiles, aged
from tests.server.service.hive.published_tables import leased, merged
from tests.server.service.hive.synced_tables import relation_of, taken_over


def hive_table(beside: BesideHive, *key: str) -> HiveFiles:
    """Partitions x and y, each with a `000000_0`."""
    table = beside.hive_table()
    for part in ("x", "y"):
        (path,) = (table.path / f"p={part}").iterdir()
        path.rename(path.with_name("000000_0"))
    beside.start(table, *key)
    beside.upgrades.activate()
    return table


def place(table: HiveFiles, part: str, name: str = "000000_0") -> Path:
    return table.path / f"p={part}" / name


def units(task: dict[str, Any]) -> list[tuple[str, list[tuple[str, bool]], int]]:
    return sorted(
        (
            unit["values"][0],
            [(file["location"].rpartition("/")[2], file["added"]) for file in unit["files"]],
            unit["knew"],
        )
        for unit in task["units"]
    )


def baselines(beside: BesideHive, table: HiveFiles) -> dict[str, PartitionBaseline]:
    with beside.database.reading() as uow:
        baselines = uow.baselines.of(relation_of(beside, table).id)
        return {name: PartitionBaseline.from_json(baseline) for name, baseline in baselines.items()}


def test_load_data_of_a_partition_s_own_file_into_another_renames_it_and_adds_no_rows(beside: BesideHive) -> None:
    """`000000_0` of x becomes `000000_0_copy_1` of y: its rows took the place of what was changed here."""
    table = hive_table(beside, "id")
    place(table, "x").rename(place(table, "y", "000000_0_copy_1"))
    task = taken_over(beside, table)
    assert task["mode"] == "rebuild"
    assert units(task) == [("x", [], 0), ("y", [("000000_0", False), ("000000_0_copy_1", False)], 0)]
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED


@pytest.mark.parametrize("key", [(), ("id",)])
def test_what_a_file_is_known_again_by_is_kept_from_the_upgrade_and_each_sync_on(
    beside: BesideHive, key: tuple[str, ...]
) -> None:
    table = hive_table(beside, *key)
    table.add("x", 4)
    if key:
        taken_over(beside, table)
    else:
        beside.sync(table)
    table.add("z", 5)
    if key:
        taken_over(beside, table)
    else:
        beside.sync(table)
    kept = {
        f"{name}/{file.path}": file.digest
        for name, baseline in baselines(beside, table).items()
        for file in baseline.files
    }
    assert len(kept) == 4
    assert None not in kept.values()
    assert len({*kept.values()}) == 4


def test_a_file_that_is_copied_to_another_disk_with_its_time_is_known_there(beside: BesideHive) -> None:
    """As `mv` between file systems and `distcp -p` do: another inode, and the source goes later."""
    table = hive_table(beside, "id")
    shutil.copy2(place(table, "x"), place(table, "y", "renamed"))
    task = taken_over(beside, table)
    assert (task["mode"], units(task)) == ("rebuild", [("y", [("000000_0", False), ("renamed", True)], 0)])
    place(table, "x").unlink()
    assert taken_over(beside, table)["mode"] == "rebuild"
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED


def test_a_file_that_holds_the_same_and_was_written_anew_brings_upserts(beside: BesideHive) -> None:
    table = hive_table(beside, "id")
    place(table, "y", "again").write_bytes(place(table, "x").read_bytes())
    aged(place(table, "y", "again"), LONG_AGO_NS + 10**12)
    place(table, "x").unlink()
    assert taken_over(beside, table)["mode"] == "rebuild", "of x alone: what is only added comes after"
    task = taken_over(beside, table)
    assert (task["mode"], units(task)) == ("upsert", [("y", [("again", True)], 0)])


def test_where_moves_are_copies_a_file_is_known_by_what_it_holds_alone(
    beside: BesideHive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Object stores: no inodes, and the copy has the time at which it was made."""
    whole = Listings._list_local

    def as_an_object_store(self: Listings, location: str, path: str, *, recursive: bool) -> Any:
        listing = whole(self, location, path, recursive=recursive)
        files = tuple(replace(file, identity=None) for file in listing.files)
        return replace(listing, files=files, keeps_times=False, directory_mtime_ns=None)

    monkeypatch.setattr(Listings, "_list_local", as_an_object_store)
    table = hive_table(beside, "id")
    place(table, "x").rename(place(table, "y", "renamed"))
    aged(place(table, "y", "renamed"), LONG_AGO_NS + 10**12)
    assert taken_over(beside, table)["mode"] == "rebuild"
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED


def test_a_file_that_is_moved_while_its_partition_waits_is_no_addition_meanwhile(beside: BesideHive) -> None:
    """x also got a file that is too young to be believed: that it has lost another one is not taken over yet."""
    table = hive_table(beside, "id")
    place(table, "x").rename(place(table, "y", "000000_0_copy_1"))
    young = table.add("x", 4)
    aged(young, time.time_ns() + 3600 * 10**9)
    outcome = beside.sync(table)
    assert outcome.waits
    assert outcome.job is None
    aged(young, LONG_AGO_NS)
    assert taken_over(beside, table)["mode"] == "rebuild"


def test_a_file_that_is_moved_out_of_the_table_and_back_elsewhere_is_no_addition(beside: BesideHive) -> None:
    table = hive_table(beside, "id")
    other = table.add("x", 4)
    taken_over(beside, table)
    aside = table.path.parent / "aside"
    place(table, "x").rename(aside)
    assert taken_over(beside, table)["mode"] == "rebuild"
    other.unlink()
    assert taken_over(beside, table)["mode"] == "rebuild"
    aside.rename(place(table, "y", "back"))
    assert taken_over(beside, table)["mode"] == "rebuild"


def test_a_table_without_keys_follows_a_move(beside: BesideHive) -> None:
    table = hive_table(beside)
    place(table, "x").rename(place(table, "y", "000000_0_copy_1"))
    assert beside.sync(table).changed
    assert {path.rpartition("/")[2] for path in beside.live(table)} == {"000000_0", "000000_0_copy_1"}
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED


def test_what_is_moved_to_where_a_partition_was_before_a_publish_holds_it_back(beside: BesideHive) -> None:
    """Hive shows it nowhere: as upserts its old rows would win over newer ones."""
    table = hive_table(beside, "id")
    merged(beside, table, "x", 1, 7)
    job = leased(beside, table, x=(1, 7))
    beside.published.accept(job.lease, job.location, rows=job.rows)
    beside.services.jobs.report(job.lease, outcome=None, error=None, result={})
    place(table, "y").rename(place(table, "x", "lost"))
    outcome = beside.sync(table)
    assert outcome.conflict
    assert "for example lost, were moved to" in outcome.message
    assert f"move it to {job.location}/p=x, where Hive reads" in outcome.message
    assert baselines(beside, table)["p=x"].files[0].digest is not None, "published files are known again too"


def test_old_rows_that_come_into_another_partition_contain_no_more_than_they_did(beside: BesideHive) -> None:
    """Of a directory that was left: all changes that were published since are newer."""
    table = hive_table(beside, "id")
    merged(beside, table, "x", 1, 7)
    job = leased(beside, table, x=(1, 7))
    beside.published.accept(job.lease, job.location, rows=job.rows)
    beside.services.jobs.report(job.lease, outcome=None, error=None, result={})
    relation_id = relation_of(beside, table).id
    with beside.database.writing() as uow:  # as if changes up to 5 had been merged and published
        for name, stored in uow.baselines.of(relation_id).items():
            baseline = replace(PartitionBaseline.from_json(stored), published_through=5)
            uow.baselines.put(relation_id, {name: baseline.to_json()})
    shutil.copy2(place(table, "x"), place(table, "y", "old rows"))
    task = taken_over(beside, table)
    assert (task["mode"], task["since"], task["published_through"]) == ("rebuild", 0, 5)
    assert units(task) == [("y", [("000000_0", False)], 5), ("y", [("old rows", True)], 0)]
    again = baselines(beside, table)["p=y"]
    assert [(file.path, file.knew) for file in again.files] == [("000000_0", None), ("old rows", 0)]


def test_a_file_that_is_moved_out_of_a_partition_that_is_held_back_waits_with_it(beside: BesideHive) -> None:
    """A rebuild reads base's rows of all partitions, and would fail for the file that is gone, again and again."""
    table = hive_table(beside, "id")
    (table.path / "p=x" / "below").mkdir()
    place(table, "x").rename(place(table, "y", "moved"))
    added = table.add("z", 9)
    outcome = beside.sync(table)
    assert outcome.conflict
    assert "it is not decided whether their files count" in outcome.message
    assert outcome.job is not None
    with beside.database.writing() as uow:
        staged = uow.baselines.staged(outcome.job.id)
    assert staged is not None
    assert (staged.task["mode"], units(staged.task)) == ("upsert", [("z", [(added.name, True)], 0)])
    beside.services.jobs.cancel(outcome.job.id)
    (table.path / "p=x" / "below").rmdir()
    assert taken_over(beside, table)["mode"] == "rebuild"
