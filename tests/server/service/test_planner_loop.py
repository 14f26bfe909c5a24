"""The planner's round, on both databases: who is looked at, when, and that nobody is forgotten."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from catalog.history.commit import Outcome
from catalog.jobs.job import Job, JobKind, JobStatus
from catalog.jobs.optimizer_group import GroupName
from catalog.names import RelationId, TableName
from catalog.ports.store import UnitOfWork
from catalog.tables.relation import TableStats
from catalog.tables.table_status import PlanResult, TableStatus
from server.service.planning import planner_loop
from server.service.planning.planner_loop import SWEPT_AFTER
from server.store.queue import SqlQueue
from server.store.session import is_writing
from tests.factories import LAKE, a_job
from tests.server.lake import BASE, CHANGE, ORDERS, PLAIN, Lake, altered, definition, set_property
from tests.server.older_tables import before_the_location_rule

MERGE_SOON: Mapping[str, Any] = {"firn.merge.max-pending-commits": "1"}


def due(lake: Lake) -> list[RelationId]:
    with lake.services.database.reading() as uow:
        return list(uow.stats.due(uow.now(), limit=100))


def jobs(lake: Lake) -> list[Job]:
    with lake.services.database.reading() as uow:
        return list(uow.jobs.list(limit=100).items)


def stats(lake: Lake) -> list[TableStats]:
    with lake.services.database.reading() as uow:
        tables = [
            relation for name in (PLAIN, BASE, CHANGE) if (relation := uow.relations.find(LAKE, name)) is not None
        ]
        return [uow.stats.get(table.id) for table in tables]


def plan_after(lake: Lake, relation_id: RelationId, at: datetime) -> None:
    with lake.services.database.writing() as uow:
        uow.stats.request_plans([relation_id], at)


def test_a_table_is_looked_at_once_after_its_commit_and_then_left_alone(lake: Lake) -> None:
    lake.create()
    lake.append(PLAIN)
    assert lake.services.planner_loop.run_once().assessed == 1
    assert lake.services.planner_loop.run_once().assessed == 0
    lake.append(PLAIN)
    assert lake.services.planner_loop.run_once().assessed == 1


def test_commits_on_both_stores_make_one_look_at_their_keyed_table(lake: Lake) -> None:
    lake.create_keyed(**MERGE_SOON)
    lake.append(CHANGE)
    round_ = lake.services.planner_loop.run_once()
    assert (round_.assessed, round_.planned) == (1, 1)
    (job,) = jobs(lake)
    assert (job.table, job.kind) == (ORDERS, JobKind.MERGE)
    assert due(lake) == []


def test_time_alone_makes_a_table_due_when_the_decision_said_so(lake: Lake) -> None:
    hourly: Mapping[str, Any] = {"firn.merge.max-pending-age": "1 h"}
    lake.create_keyed(**hourly)
    lake.append(CHANGE)
    lake.services.planner_loop.run_once()
    assert due(lake) == []
    with lake.services.database.reading() as uow:
        within = uow.stats.due(uow.now() + timedelta(minutes=40), limit=9)
        later = uow.stats.due(uow.now() + timedelta(minutes=61), limit=9)
    assert (list(within), list(later)) == ([], [lake.keyed().base_id])


@pytest.mark.parametrize("end", ["reported", "canceled", "reaped"])
def test_the_end_of_a_job_lets_the_planner_look_again(lake: Lake, end: str) -> None:
    lake.create_keyed()
    lake.append(CHANGE)
    lease = lake.lease(JobKind.MERGE, committing=False)
    lake.services.planner_loop.run_once()
    assert due(lake) == []
    service = lake.services.jobs
    if end == "reported":
        service.report(lease, Outcome.REFUSED, error="x", result={})
    elif end == "canceled":
        service.cancel(lease.job_id)
    else:
        lapsed = replace(service, times=replace(service.times, lasts=timedelta(seconds=-1), max_attempts=1))
        lapsed.beat(lease, {}, [])
        lapsed.reap()
    assert due(lake) == [lake.keyed().base_id]


def test_a_policy_lets_the_planner_look_at_all_tables_below_and_no_others(lake: Lake) -> None:
    lake.services.namespaces.create(LAKE, ("other",), {})
    lake.create()
    lake.create_keyed()
    elsewhere = TableName(("other",), "t")
    lake.create(elsewhere)
    lake.services.planner_loop.run_once()
    with lake.services.database.writing() as uow:
        uow.stats.request_plans_below(LAKE, ("db",), uow.now())
    assert lake.services.planner_loop.run_once().assessed == 2
    with lake.services.database.writing() as uow:
        uow.stats.request_plans_below(LAKE, (), uow.now())
    assert lake.services.planner_loop.run_once().assessed == 3


def test_a_changed_property_is_a_commit_and_therefore_looked_at(lake: Lake) -> None:
    lake.create()
    lake.services.planner_loop.run_once()
    lake.commit(altered(PLAIN, set_property("firn.optimize.enabled", "false")))
    assert lake.services.planner_loop.run_once().assessed == 1
    with lake.services.database.reading() as uow:
        (table_status,) = uow.table_statuses.get_many(
            [status.id for status, _ in uow.table_statuses.worst(limit=9)]
        ).values()
    assert "switched off" in table_status.reason


def test_a_commit_that_arrives_during_the_evaluation_is_not_lost(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.create()
    meanwhile(monkeypatch, lambda: lake.append(PLAIN))
    lake.services.planner_loop.run_once()
    assert len(due(lake)) == 1
    assert lake.services.planner_loop.run_once().assessed == 1
    assert due(lake) == []


def test_a_commit_in_the_very_same_instant_is_not_lost(lake: Lake) -> None:
    """A clock that stands still, or is set back to the same instant, must not make two requests look like one."""
    lake.create()
    (table_id,) = due(lake)
    with lake.services.database.writing() as uow:
        now, looks = uow.now(), uow.stats.load_plan_requests([table_id])
        uow.stats.put(uow.stats.get(table_id), plan_after=now)
        uow.stats.record_plans([PlanResult(request=looks[table_id], next_at=None)], now)
    assert due(lake) == [table_id]


def test_killed_between_the_evaluation_and_the_write_a_table_is_still_to_be_looked_at(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.create_keyed(**MERGE_SOON)
    lake.append(CHANGE)

    def killed() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        meanwhile(dying, killed)
        with pytest.raises(KeyboardInterrupt):
            lake.services.planner_loop.run_once()
    assert jobs(lake) == []
    assert lake.elsewhere.services.planner_loop.run_once().planned == 1


def test_killed_before_its_transaction_ends_a_round_has_done_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Job, standing and look are written together: a job without the rest would be harmless, the rest alone not."""
    lake.create_keyed(**MERGE_SOON)
    lake.append(CHANGE)
    before = due(lake)

    def dies(_uow: UnitOfWork, *_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr("server.store.stats.SqlStats.record_plans", dies)
        with pytest.raises(KeyboardInterrupt):
            lake.services.planner_loop.run_once()
    assert (jobs(lake), due(lake)) == ([], before)
    with lake.services.database.reading() as uow:
        assert uow.table_statuses.worst(limit=9) == []


def test_who_commits_all_the_time_neither_puts_its_own_look_off_nor_those_of_others(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner_loop, "BATCH", 1)
    monkeypatch.setattr(planner_loop, "MOST_BATCHES", 1)
    hot, quiet = TableName(("db",), "hot"), TableName(("db",), "quiet")
    lake.create(hot)
    lake.create(quiet)
    first = due(lake)
    lake.append(hot)
    assert due(lake) == first  # its next commit has not put it behind the other
    meanwhile(monkeypatch, lambda: lake.append(hot))
    lake.services.planner_loop.run_once()
    assert due(lake) == list(reversed(first))  # it was looked at: now the other one's turn is first


def test_a_table_whose_files_are_not_its_own_says_that_its_orphans_stay(lake: Lake) -> None:
    """A job would be refused: planned, it would fail every hour."""
    not_its_own: dict[str, Any] = {"gc.enabled": "false"}
    lake.create(**not_its_own)
    elsewhere = TableName(("db",), "elsewhere")
    location = (lake.warehouse.parent / "elsewhere").as_uri()
    with before_the_location_rule():
        lake.services.tables.create(LAKE, replace(definition(elsewhere), location=location))
    for table, reason in (
        (PLAIN, "its property gc.enabled=false says"),
        (elsewhere, "not inside the catalog's warehouse"),
    ):
        lake.append(table)
        decision = lake.services.planner.outlook(LAKE, table).decision
        assert decision.kind is None
        assert reason in decision.reason


def test_what_was_dropped_is_not_looked_at_and_is_again_once_it_is_back(lake: Lake) -> None:
    lake.create()
    entry = lake.services.drop(LAKE, PLAIN)
    assert lake.services.planner_loop.run_once().assessed == 0
    assert due(lake) == []
    lake.services.undrops.undrop(LAKE, entry.id)
    assert lake.services.planner_loop.run_once().assessed == 1


def test_what_was_dropped_takes_no_place_of_the_daily_look_and_counts_as_no_table(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten that were dropped and are still listed had all places, and no other table was ever swept."""
    monkeypatch.setattr(planner_loop, "SWEPT", 1)
    lake.create()
    lake.create_keyed()
    lake.services.planner_loop.run_once()
    dropped = lake.services.drop(LAKE, PLAIN)
    assert tables_by_health(lake) == 1
    monkeypatch.setattr(planner_loop, "SWEPT_AFTER", SWEPT_AFTER * 0)
    assert lake.services.planner_loop.run_once().assessed == 1
    lake.services.undrops.undrop(LAKE, dropped.id)
    lake.services.planner_loop.run_once()
    assert tables_by_health(lake) == 2


def test_what_is_dropped_while_it_is_being_looked_at_stands_nowhere(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.create_keyed(**MERGE_SOON)
    lake.append(CHANGE)
    meanwhile(monkeypatch, lambda: lake.services.drop(LAKE, ORDERS))
    assert lake.services.planner_loop.run_once().planned == 0
    assert (tables_by_health(lake), jobs(lake)) == (0, [])
    lake.services.planner_loop.run_once()
    assert due(lake) == []


def test_who_drops_a_table_while_the_round_writes_comes_after_it(lake: Lake) -> None:
    """What the round holds stays until it has written; what is being dropped it does not wait for."""
    lake.create()
    (table,) = due(lake)
    with ThreadPoolExecutor(1) as pool:
        with lake.services.database.writing() as uow:
            assert uow.relations.lock_existing([table]) == {table}
            dropped = pool.submit(lake.services.drop, LAKE, PLAIN)
            wait([dropped], timeout=0.5)
            uow.table_statuses.put([TableStatus(relation_id=table, catalog=LAKE, looked_at=uow.now())])
        dropped.result()
    assert tables_by_health(lake) == 0


def tables_by_health(lake: Lake) -> int:
    with lake.services.database.reading() as uow:
        return sum(uow.table_statuses.by_health({"any": 0}).values())


def test_a_server_that_starts_looks_at_tables_that_nobody_has_looked_at(lake: Lake) -> None:
    lake.create()
    lake.create_keyed()
    with lake.services.database.writing() as uow:
        uow.stats.record_plans(
            [PlanResult(request=request, next_at=None) for request in uow.stats.load_plan_requests(due(lake)).values()],
            uow.now(),
        )
    assert lake.services.planner_loop.run_once().assessed == 0
    lake.services.planner_loop.plan_unassessed()
    assert lake.services.planner_loop.run_once().assessed == 2
    lake.services.planner_loop.plan_unassessed()
    assert due(lake) == []


def test_a_table_that_nobody_asked_for_is_looked_at_after_a_day(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.create()
    lake.services.planner_loop.run_once()
    monkeypatch.setattr(planner_loop, "SWEPT_AFTER", SWEPT_AFTER * 0)
    assert lake.services.planner_loop.run_once().assessed == 1


def test_a_table_whose_catalog_uses_too_much_stands_back(lake: Lake) -> None:
    lake.create_keyed(**{**MERGE_SOON, "firn.optimize.quota": "0.1"})
    lake.append(CHANGE)
    with lake.services.database.writing() as uow:
        now, table = uow.now(), lake.keyed().relation_id
        half_an_hour_ago = now - timedelta(minutes=30)
        uow.jobs.add(a_job(JobStatus.SUCCEEDED, subject_id=table, leased_at=half_an_hour_ago, ended_at=now))
    lake.services.planner_loop.run_once()
    planned = jobs(lake)[0]
    assert planned.deadline - planned.created_at == timedelta(minutes=20)  # four times the patience of a merge


def test_what_a_group_has_used_is_looked_up_once_in_a_round_and_while_nothing_is_locked(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner_loop, "BATCH", 1)
    lookups: list[bool] = []
    look_up = SqlQueue.pending_seconds

    def counted(queue: SqlQueue, group: GroupName) -> object:
        lookups.append(is_writing(queue.session))
        return look_up(queue, group)

    monkeypatch.setattr(SqlQueue, "pending_seconds", counted)
    for number in range(3):
        name = TableName(("db",), f"t{number}")
        lake.create_keyed(name, **MERGE_SOON)
        lake.append(TableName(name.as_namespace, "change"))
    assert lake.services.planner_loop.run_once().planned == 3
    assert lookups == [False]


def test_a_hundred_due_tables_take_several_batches_of_one_round(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner_loop, "BATCH", 3)
    for number in range(10):
        lake.create(TableName(("db",), f"t{number}"))
    assert lake.services.planner_loop.run_once().assessed == 10
    assert due(lake) == []


def meanwhile(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """Something happens once, after the next round has decided and before it writes."""
    decide = planner_loop._decide
    done: list[bool] = []

    def decided(*args: object) -> object:
        plan = decide(*args)  # type: ignore[arg-type]
        if not done:
            done.append(True)
            happens()
        return plan

    monkeypatch.setattr(planner_loop, "_decide", decided)
