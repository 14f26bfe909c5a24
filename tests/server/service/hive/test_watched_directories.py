"""Directories that a publish has left are watched: a writer that did not know of it loses no row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from catalog.hive.baseline import ChangeSignals, PartitionBaseline
from catalog.ports.metastore import PartitionLocation
from firn.protocol.locations import normalize_location
from server.service.hive.link_state import advance
from server.service.hive.results import SyncOutcome, SyncResult
from tests.hive_tables import a_hive_partition, a_storage
from tests.server.faults import Killed
from tests.server.service.hive.beside_hive import BesideHive, checkpoint_of, uri
from tests.server.service.hive.published_tables import (
    leased,
    merged,
    overwritten,
)
from tests.server.service.hive.synced_tables import relation_of, upgraded


def test_a_directory_that_was_left_is_watched_for_a_while(beside: BesideHive) -> None:
    table = upgraded(beside, "id")
    merged(beside, table, "x", 1, 7)
    merged(beside, table, "y", 3)
    job = leased(beside, table, x=(1, 7), y=(3,))
    beside.published.accept(job.lease, job.location, rows=job.rows)
    beside.services.jobs.report(job.lease, outcome=None, error=None, result={})
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED
    table.add("x", 9)
    outcome = beside.sync(table)
    assert outcome.message == "partitions written to where they were before: 1"
    assert outcome.job is not None
    beside.services.jobs.cancel(outcome.job.id)
    with beside.database.writing() as uow:  # a day later
        relation = relation_of(beside, table)
        for name, stored in uow.baselines.of(relation.id).items():
            baseline = PartitionBaseline.from_json(stored)
            old = tuple(replace(watch, since_ns=watch.since_ns - 86_401 * 10**9) for watch in baseline.watched)
            uow.baselines.put(relation.id, {name: replace(baseline, watched=old).to_json()})
    assert beside.sync(table).message == outcome.message  # what came in time is not forgotten
    with beside.database.reading() as uow:
        baselines = {
            name: PartitionBaseline.from_json(stored) for name, stored in uow.baselines.of(relation.id).items()
        }
    assert [len(baselines[name].watched) for name in ("p=x", "p=y")] == [
        1,
        1,
    ]  # nothing is noted before the job's commit


def test_hive_is_pointed_back_to_what_a_writer_has_overwritten_unknowingly(beside: BesideHive) -> None:
    table = upgraded(beside, "id")
    where = beside.where(table, "x")
    merged(beside, table, "x", 1, 7)
    job = leased(beside, table, x=(1, 7))
    beside.published.accept(job.lease, job.location, rows=job.rows)
    beside.services.jobs.report(job.lease, outcome=None, error=None, result={})
    overwritten(table)
    for moment in (1, 2):  # before the move and after it
        beside.fuse.left = moment
        with pytest.raises(Killed):
            beside.sync(table)
        beside = beside.restarted()
    outcome = beside.sync(table)
    assert beside.where(table, "x") == where
    assert outcome.message == "partitions rewritten or moved: 1"
    assert outcome.job is not None
    with beside.database.reading() as uow:
        staged = uow.baselines.staged(outcome.job.id)
    assert staged is not None
    assert staged.task["since"] == 0
    [watched] = checkpoint_of(staged).baselines["p=x"].watched
    assert watched.location == f"{job.location}/p=x"


def test_a_metastore_that_spells_places_its_own_way_is_pointed_back_once(
    beside: BesideHive, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = upgraded(beside, "id")
    merged(beside, table, "x", 1, 7)
    job = leased(beside, table, x=(1, 7))
    beside.published.accept(job.lease, job.location, rows=job.rows)
    beside.services.jobs.report(job.lease, outcome=None, error=None, result={})
    table.add("x", 9)
    outcome = beside.sync(table)
    taken_over(beside, outcome)
    overwritten(table)
    move = beside.metastore.move

    def spelled(
        database: str, name: str, place: PartitionLocation, location: str, *args: Any, **named: Any
    ) -> ChangeSignals:
        return move(database, name, place, f"file://{normalize_location(location)}/", *args, **named)

    monkeypatch.setattr(beside.metastore, "move", spelled)
    outcome = beside.sync(table)
    assert outcome.message == "partitions rewritten or moved: 1"
    assert outcome.job is not None
    with beside.database.reading() as uow:
        staged = uow.baselines.staged(outcome.job.id)
    assert staged is not None
    assert [source.rpartition("/")[0] for source in staged.task["dead"]] == [str(table.path / "p=x")]
    taken_over(beside, outcome)
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED


def taken_over(beside: BesideHive, outcome: SyncResult) -> None:
    """As if the sync's job had committed."""
    assert outcome.job is not None
    with beside.database.writing() as uow:
        staged = uow.baselines.staged(outcome.job.id)
        assert staged is not None
        advance(uow, outcome.job.relation_id, checkpoint_of(staged))
    beside.services.jobs.cancel(outcome.job.id)


def test_a_partition_that_hive_makes_again_where_it_was_before_is_not_watched_there(beside: BesideHive) -> None:
    table = upgraded(beside, "id")
    merged(beside, table, "x", 1, 7)
    job = leased(beside, table, x=(1, 7))
    beside.published.accept(job.lease, job.location, rows=job.rows)
    beside.services.jobs.report(job.lease, outcome=None, error=None, result={})
    beside.metastore.drop_partition("db", table.short, "p=x")
    taken_over(beside, beside.sync(table))
    storage = a_storage(uri(table.path / "p=x"), "id bigint; v string")
    beside.metastore.add_partition("db", table.short, a_hive_partition("x", storage=storage))
    taken_over(beside, beside.sync(table))
    overwritten(table)
    outcome = beside.sync(table)
    assert outcome.message == "partitions rewritten or moved: 1"
    taken_over(beside, outcome)
    assert beside.sync(table).outcome is SyncOutcome.UNCHANGED
