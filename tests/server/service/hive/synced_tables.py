"""Upgraded tables, and what a sync did to them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from catalog.jobs.job import cancel_job
from catalog.tables.relation import Relation
from server.service.hive.link_state import advance, update_link
from tests.factories import LAKE
from tests.server.service.hive.beside_hive import BesideHive, HiveFiles, checkpoint_of


def upgraded(beside: BesideHive, *key: str) -> HiveFiles:
    table = beside.hive_table()
    beside.start(table, *key)
    beside.upgrades.activate()
    return table


def appended(table: HiveFiles) -> None:
    table.add("x", 4, 5)


def overwritten(table: HiveFiles) -> None:
    for path in (table.path / "p=x").iterdir():
        path.unlink()
    table.add("x", 6)


def dropped(table: HiveFiles) -> None:
    table.drop("x")


def relation_of(beside: BesideHive, table: HiveFiles) -> Relation:
    with beside.database.reading() as uow:
        relation = uow.relations.find(LAKE, beside.table_name(table))
    assert relation is not None
    return relation


def make_due(beside: BesideHive, table: HiveFiles) -> None:
    """As if it had been synced long ago."""
    relation_id = relation_of(beside, table).id
    with beside.database.writing() as uow:
        update_link(uow, relation_id, lambda link: replace(link, synced_at=link.synced_at.replace(year=2020)))


def taken_over(beside: BesideHive, table: HiveFiles) -> dict[str, Any]:
    """What a sync tells its job, which then succeeds."""
    job = beside.sync(table).job
    assert job is not None
    with beside.database.writing() as uow:
        staged = uow.baselines.staged(job.id)
        assert staged is not None
        advance(uow, job.relation_id, checkpoint_of(staged))
        uow.jobs.put(cancel_job(job, uow.now()))
    task: dict[str, Any] = staged.task
    return task
