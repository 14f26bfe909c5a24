"""What a table's partitions have left behind is shown with its bytes, as long as it lies there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from catalog.errors import NotFound
from catalog.hive.baseline import PartitionBaseline
from server.service.hive.superseded_directories import SupersededDirectories, list_superseded_directories
from tests.factories import LAKE
from tests.server.service.hive.beside_hive import BesideHive, HiveFiles
from tests.server.service.hive.published_tables import leased, merged
from tests.server.service.hive.synced_tables import relation_of, upgraded

A_DAY_NS = 86_401 * 10**9


@pytest.fixture
def table(beside: BesideHive) -> HiveFiles:
    """Upgraded, and its partition x published once."""
    upgraded_table = upgraded(beside, "id")
    merged(beside, upgraded_table, "x", 1, 7)
    publish(beside, upgraded_table)
    return upgraded_table


def publish(beside: BesideHive, table: HiveFiles) -> None:
    job = leased(beside, table, x=(1, 7))
    beside.published.accept(job.lease, job.location, rows=job.rows)
    beside.services.jobs.report(job.lease, outcome=None, error=None, result={})
    beside.sync(table)


def left_behind(beside: BesideHive, table: HiveFiles) -> SupersededDirectories:
    with beside.database.reading() as uow:
        return list_superseded_directories(uow, LAKE, table.name)


def a_day_passes(beside: BesideHive, table: HiveFiles) -> None:
    relation = relation_of(beside, table)
    with beside.database.writing() as uow:
        for name, stored in uow.baselines.of(relation.id).items():
            baseline = PartitionBaseline.from_json(stored)
            old = tuple(replace(watch, since_ns=watch.since_ns - A_DAY_NS) for watch in baseline.watched)
            uow.baselines.put(relation.id, {name: replace(baseline, watched=old).to_json()})
    beside.sync(table)


def size_of(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.iterdir())


def test_what_hive_has_left_is_told_with_its_bytes(beside: BesideHive, table: HiveFiles) -> None:
    left = left_behind(beside, table)
    [directory] = left.largest
    assert (directory.partition, directory.owned_by_hive, directory.files) == (
        "p=x",
        True,
        len(list((table.path / "p=x").iterdir())),
    )
    assert directory.bytes == size_of(table.path / "p=x") == left.bytes
    assert left.grace_until == directory.grace_until > directory.superseded_at


def test_hive_s_own_files_are_told_of_when_nobody_watches_them_any_more(beside: BesideHive, table: HiveFiles) -> None:
    a_day_passes(beside, table)
    left = left_behind(beside, table)
    assert (left.directories, left.bytes, left.grace_until) == (0, 0, None)
    assert (left.kept_directories, left.kept_bytes) == (1, size_of(table.path / "p=x"))


def test_what_was_published_before_is_not_hive_s(beside: BesideHive, table: HiveFiles) -> None:
    merged(beside, table, "x", 1, 7)
    publish(beside, table)
    assert [
        directory.owned_by_hive
        for directory in sorted(left_behind(beside, table).largest, key=lambda directory: directory.superseded_at)
    ] == [
        True,
        False,
    ]
    a_day_passes(beside, table)
    assert left_behind(beside, table).kept_directories == 1  # the published one goes as orphans do


def test_a_table_that_is_only_hive_s_has_left_nothing(beside: BesideHive) -> None:
    with beside.database.reading() as uow, pytest.raises(NotFound):
        list_superseded_directories(uow, LAKE, "db.nothing")
