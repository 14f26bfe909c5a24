"""Keyed tables that trust Hive's side to add rows of new keys only: its files go into base as they are."""

from __future__ import annotations

import pytest

from catalog.errors import CommitRefused
from catalog.jobs.job import JobKind
from catalog.keyed.spec import BASE, CHANGE
from catalog.keyed.store_commit import read_watermark
from server.service.hive.results import SyncOutcome
from tests.server.service.hive.beside_hive import BesideHive, HiveFiles, killed_at_every_step
from tests.server.service.hive.downgraded_tables import appended
from tests.server.service.hive.published_tables import set_property
from tests.server.service.hive.synced_tables import upgraded


def trusting(beside: BesideHive) -> HiveFiles:
    table = upgraded(beside, "id")
    set_property(beside, table, "firn.hive.keyed-sync", "append-without-check")
    return table


def test_files_that_hive_has_added_are_in_base_without_a_job(beside: BesideHive) -> None:
    table = trusting(beside)
    appended(beside, table, CHANGE, 1)
    table.add("x", 4)
    table.add("new", 5)
    outcome = beside.sync(table)
    assert (outcome.message, outcome.job) == ("partitions new files: 1, new: 1", None)
    assert beside.live(table) == table.files()
    metadata = beside.metadata(table)
    assert metadata is not None
    assert read_watermark(metadata) == 0  # what was pending is pending
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED


def test_what_is_more_than_an_addition_is_built_anew_as_ever(beside: BesideHive) -> None:
    table = trusting(beside)
    table.add("y", 4)
    for path in (table.path / "p=x").iterdir():
        path.unlink()
    outcome = beside.sync(table)
    assert outcome.job is not None
    assert outcome.job.kind is JobKind.SYNC


def test_a_killed_registration_is_made_good_by_the_next_sync(beside: BesideHive) -> None:
    def added_to(beside: BesideHive) -> HiveFiles:
        table = trusting(beside)
        table.add("x", 4)
        return table

    died = 0
    for restarted, table in killed_at_every_step(beside, added_to, BesideHive.sync):
        died += 1
        assert restarted.live(table) == table.files()
        metadata = restarted.metadata(table)
        assert metadata is not None
        assert metadata["snapshots"][-1]["summary"]["total-records"] == "4"
    assert died >= 6  # before and after: manifests, metadata, the transaction


def test_nobody_else_adds_to_base(beside: BesideHive) -> None:
    table = trusting(beside)
    with pytest.raises(CommitRefused, match="linked to Hive"):
        appended(beside, table, BASE, 4)
