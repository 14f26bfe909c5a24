"""A file that a writer makes in place is taken over once it is closed, though no directory's time tells of that."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from server.files.listing import Listings
from tests.factories import LAKE
from tests.server.service.hive.beside_hive import LONG_AGO_NS, BesideHive, HiveFiles, aged
from tests.server.service.hive.synced_tables import make_due

KEYS = pytest.mark.parametrize("key", [(), ("id",)])


def upgraded(beside: BesideHive, *key: str) -> HiveFiles:
    """With directories that have been at rest for long: no sync lists them without a reason."""
    table = beside.hive_table()
    _rested(table)
    beside.start(table, *key)
    beside.upgrades.activate()
    return table


def _rested(table: HiveFiles) -> None:
    for part in table.path.iterdir():
        aged(part, LONG_AGO_NS + next(table.beside.numbers))


def opened(table: HiveFiles, name: str = "in place.parquet", *, age: int = 0) -> Path:
    """A writer has made a file, and written nothing yet that others see."""
    path = table.path / "p=x" / name
    path.write_bytes(b"")
    aged(path, time.time_ns() - age * 10**9)
    _rested(table)
    return path


def closed(table: HiveFiles, path: Path) -> None:
    """It has written all of it: the directory's time is as it was."""
    whole = table.add_at(table.path.parent.as_uri(), 4, 5)
    with path.open("r+b") as file:
        file.write(whole.read_bytes())
    aged(path, LONG_AGO_NS)


def plainly(beside: BesideHive, table: HiveFiles) -> str:
    """A sync that lists what some signal speaks for."""
    return beside.syncs.planner.sync_hive_table(LAKE, table.name).message


@KEYS
def test_a_file_that_was_empty_when_it_was_listed_is_taken_over_when_it_is_closed(
    beside: BesideHive, key: tuple[str, ...]
) -> None:
    """Its rows were missing until `--everything`."""
    table = upgraded(beside, *key)
    path = opened(table)
    assert plainly(beside, table) == "nothing changed"
    assert plainly(beside, table) == "nothing changed"
    closed(table, path)
    assert plainly(beside, table) == "partitions new files: 1"


def test_the_schedule_finds_it_by_itself(beside: BesideHive) -> None:
    table = upgraded(beside)
    path = opened(table)
    make_due(beside, table)
    assert beside.syncs.activate().changed == 0
    closed(table, path)
    make_due(beside, table)
    assert beside.syncs.activate().changed == 1
    assert beside.live(table) == table.files()


def test_so_it_is_where_the_upgrade_has_met_it(beside: BesideHive) -> None:
    table = beside.hive_table()
    path = opened(table)
    beside.start(table)
    beside.upgrades.activate()
    assert plainly(beside, table) == "nothing changed"
    closed(table, path)
    assert plainly(beside, table) == "partitions new files: 1"


@pytest.mark.parametrize("name", ["f.parquet._COPYING_", "_temporary", ".hive-staging_hive_1", "_tmp.000000_0"])
def test_unfinished_work_that_no_directory_s_time_tells_of_is_looked_at_again(
    beside: BesideHive, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Listings, "modified_ns", lambda *_: LONG_AGO_NS)
    table = upgraded(beside)
    path = opened(table, name)
    beside.sync(table)
    path.unlink()
    table.add("x", 4)
    assert plainly(beside, table) == "partitions new files: 1"


def test_a_file_that_grows_within_a_minute_of_its_listing_is_seen(beside: BesideHive) -> None:
    """A writer that flushes now and then: each time what is there may look like a whole file."""
    table = upgraded(beside)
    path = table.add("x", 4)
    aged(path, time.time_ns() - 10 * 10**9)
    _rested(table)
    assert plainly(beside, table) == "partitions new files: 1"
    grown = table.add_at(table.path.parent.as_uri(), 4, 5, 6)
    with path.open("r+b") as file:
        file.write(grown.read_bytes())
    aged(path, LONG_AGO_NS)
    assert plainly(beside, table) == "partitions rewritten or moved: 1"
    assert plainly(beside, table) == "nothing changed"


def listings_of(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which directories are listed from now on."""
    listed: list[str] = []
    whole = Listings.list

    def counted(self: Listings, location: str, *, recursive: bool = False) -> object:
        listed.append(location)
        return whole(self, location, recursive=recursive)

    monkeypatch.setattr(Listings, "list", counted)
    return listed


@pytest.mark.parametrize("age_days", [2, -2])
def test_a_file_that_stays_empty_is_not_looked_at_for_ever(
    beside: BesideHive, age_days: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As some writers leave for no rows; one by a clock that is far ahead, too. A sweep looks at all of them."""
    table = upgraded(beside)
    opened(table, age=age_days * 86_400)
    assert plainly(beside, table) == "nothing changed"
    listed = listings_of(monkeypatch)
    assert plainly(beside, table) == "nothing changed"
    assert listed == []


def test_a_file_that_is_young_costs_one_more_listing_of_its_partition_alone(
    beside: BesideHive, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = upgraded(beside)
    path = table.add("x", 4)
    aged(path, time.time_ns() - 10 * 10**9)
    _rested(table)
    plainly(beside, table)
    aged(path, LONG_AGO_NS)
    plainly(beside, table)
    listed = listings_of(monkeypatch)
    plainly(beside, table)
    assert listed == []
