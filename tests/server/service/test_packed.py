"""Small files are counted until a rewrite has looked at them, whatever becomes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from catalog.job import JobKind, Lease
from catalog.names import RelationId
from tests.factories import LAKE, NOW
from tests.server.lake import PLAIN, Lake


@pytest.fixture
def table(lake: Lake) -> RelationId:
    lake.create(PLAIN)
    with lake.services.database.reading() as uow:
        relation = uow.relations.find(LAKE, PLAIN)
    assert relation is not None
    return relation.id


def small_files(lake: Lake, table: RelationId, count: int | None = None) -> int:
    """How many are counted; `count` sets it, as commits do."""
    with lake.services.database.writing() as uow:
        stats = uow.stats.get(table)
        if count is not None:
            stats = replace(stats, small_files=count)
            uow.stats.put(stats, look_at=NOW)
    return stats.small_files


def begun(lake: Lake, **params: Any) -> Lease:
    lake.services.planner.run_now(LAKE, PLAIN, JobKind.REWRITE, params)
    taken = lake.services.jobs.take(lake.optimizer(), [JobKind.REWRITE])
    assert taken is not None
    return taken.lease


def ended(lake: Lake, lease: Lease, rewritten: object, left: object, **more: Any) -> None:
    told = {"groups_failed": 0, "rewritten_files": rewritten, "left_files": left} | more
    lake.services.jobs.report(lease, None, error=None, result=told)


def test_what_cannot_be_packed_is_forgotten_and_what_is_left_or_has_come_is_not(lake: Lake, table: RelationId) -> None:
    small_files(lake, table, 1000)
    lease = begun(lake)
    small_files(lake, table, 1000 - 300 + 7)  # its steps have packed 300, and others have added 7
    ended(lake, lease, rewritten=300, left=600)
    assert small_files(lake, table) == 607


def test_of_a_rewrite_that_finds_nothing_to_pack_nothing_is_counted_any_more(lake: Lake, table: RelationId) -> None:
    small_files(lake, table, 40)
    ended(lake, begun(lake), rewritten=0, left=0)
    assert small_files(lake, table) == 0


def test_of_one_that_dies_all_that_it_has_not_packed_is_counted(lake: Lake, table: RelationId) -> None:
    small_files(lake, table, 1000)
    lease = begun(lake)
    small_files(lake, table, 700)
    lake.services.jobs.report(lease, None, error="killed", result={})
    assert small_files(lake, table) == 700


@pytest.mark.parametrize("told", [{"left": "many"}, {"left": -1}, {"rewritten": True}, {"groups_failed": 2}])
def test_one_that_does_not_say_what_it_left_makes_nothing_forgotten(
    lake: Lake, table: RelationId, told: dict[str, Any]
) -> None:
    small_files(lake, table, 40)
    ended(lake, begun(lake), **{"rewritten": 0, "left": 0, **told})
    assert small_files(lake, table) == 40


def test_one_of_a_part_of_the_table_knows_nothing_of_the_rest(lake: Lake, table: RelationId) -> None:
    small_files(lake, table, 40)
    ended(lake, begun(lake, filter="id > 5"), rewritten=0, left=0)
    assert small_files(lake, table) == 40
