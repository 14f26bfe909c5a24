"""Outages, late registrations, ends that hang, servers that stop: who is heard again counts again."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from catalog.jobs.job import JobId, JobKind, JobStatus
from catalog.jobs.optimizer_group import DEFAULT_GROUP
from catalog.launch.fleet import LaunchStatus
from catalog.launch.record import Process
from catalog.launch.settings import LaunchKind
from firn.protocol.leases import PROTOCOL
from server.service.optimizers.optimizers import Registration
from tests.factories import LAKE
from tests.server.lake import CHANGE, ORDERS
from tests.server.service.fleet_stage import ONE, Stage


def a_job_of(working: Stage) -> JobId:
    working.lake.create_keyed()
    working.lake.append(CHANGE)
    working.lake.services.planner.run_now(LAKE, ORDERS, JobKind.MERGE, {})
    leased_job = working.lake.services.jobs.take(working.shown().optimizer.id, [JobKind.MERGE])
    assert leased_job is not None
    return leased_job.job.id


def status_of(stage: Stage, job: JobId) -> JobStatus:
    with stage.lake.services.database.reading() as uow:
        return uow.jobs.get(job).status


def test_a_server_that_stops_gives_back_what_its_local_optimizers_held(working: Stage) -> None:
    job = a_job_of(working)
    working.fleet.close()
    assert (working.table_statuses, status_of(working, job)) == ([LaunchStatus.ENDED], JobStatus.PENDING)
    assert working.lake.services.optimizers.list() == []


def test_local_ones_that_died_with_their_server_are_replaced_at_once(working: Stage) -> None:
    job = a_job_of(working)
    following = working.next_server()
    following.launcher.gone = [Process(host="h", pid=1, started=1)]
    following.fleet.activate()
    assert following.table_statuses == [LaunchStatus.ENDED, LaunchStatus.STARTING]
    assert status_of(following, job) is JobStatus.PENDING


def test_what_runs_on_a_cluster_goes_on_when_its_server_stops(stage: Stage) -> None:
    stage.fleet.set(DEFAULT_GROUP, replace(ONE, kind=LaunchKind.SPARK_SUBMIT, master="yarn"))
    stage.fleet.activate()
    stage.registers(stage.launches[0])
    stage.fleet.activate()
    stage.fleet.close()
    following = stage.next_server()
    following.launcher.gone = stage.launcher.gone
    following.hears_nothing(30)
    assert (following.table_statuses, following.launcher.commands) == ([LaunchStatus.WORKING], [])


LONG_AGO = timedelta(minutes=20)


def test_after_an_outage_nothing_is_ended_that_is_heard_again(working: Stage) -> None:
    mine = working.shown().optimizer.id
    working.was_last_seen(mine, LONG_AGO)
    working.hears_nothing(20)
    working.watch.seconds += 3600  # no database, or paused
    working.hears_nothing(40)
    assert working.table_statuses == [LaunchStatus.WORKING]
    working.lake.services.optimizers.record_poll(mine, {})
    working.hears_nothing(60)
    assert (working.table_statuses, working.launcher.killed) == ([LaunchStatus.WORKING], [])
    working.hears_nothing(50)
    assert (working.table_statuses[0], len(working.launcher.killed)) == (LaunchStatus.FAILED, 1)


def test_the_next_server_gives_every_optimizer_time_to_find_it(working: Stage) -> None:
    mine = working.shown().optimizer.id
    working.was_last_seen(mine, LONG_AGO)
    following = working.next_server()
    following.hears_nothing(90)
    following.lake.services.optimizers.record_poll(mine, {})
    following.hears_nothing(90)
    assert (following.table_statuses, following.launcher.commands) == ([LaunchStatus.WORKING], [])


def test_one_that_was_forgotten_during_an_outage_and_comes_back_is_counted_as_before(working: Stage) -> None:
    following = working.next_server()
    working.lake.services.optimizers.unregister(working.shown().optimizer.id)
    following.hears_nothing(30)
    following.registers(following.launches[0])
    following.hears_nothing(30)
    assert (following.table_statuses, following.launcher.commands) == ([LaunchStatus.WORKING], [])


def test_one_whose_registration_came_twice_is_heard_by_the_one_that_asks(working: Stage) -> None:
    lost = working.shown().optimizer.id
    mine = working.registers(working.launches[0])
    working.was_last_seen(lost, LONG_AGO)
    for _ in range(5):
        working.hears_nothing(60)
        working.lake.services.optimizers.record_poll(mine, {})
    assert working.table_statuses == [LaunchStatus.WORKING]


def test_one_that_registers_after_it_was_given_up_is_counted_and_not_replaced(stage: Stage) -> None:
    stage.fleet.set(DEFAULT_GROUP, ONE)
    stage.hears_nothing(310)
    assert (stage.table_statuses, len(stage.launcher.killed)) == ([LaunchStatus.FAILED, LaunchStatus.STARTING], 1)
    stage.registers(stage.launches[0])
    stage.hears_nothing(60)
    assert (stage.table_statuses, len(stage.launcher.commands)) == ([LaunchStatus.WORKING, LaunchStatus.ENDED], 2)


def test_one_that_registers_after_it_was_given_up_and_is_too_many_is_drained(stage: Stage) -> None:
    stage.fleet.set(DEFAULT_GROUP, ONE)
    stage.hears_nothing(310)
    replacement = stage.launches[1]
    stage.registers(replacement)
    stage.fleet.activate()
    stage.registers(stage.launches[0])
    stage.fleet.activate()
    assert sorted(stage.table_statuses) == [LaunchStatus.DRAINING, LaunchStatus.WORKING]


def test_one_that_registers_after_it_was_asked_to_end_is_asked_again(working: Stage) -> None:
    working.fleet.scale(DEFAULT_GROUP, 0, 0)
    working.fleet.activate()
    working.launcher.ends(working.launches[0].id, 0)
    working.lake.services.optimizers.unregister(working.shown().optimizer.id)
    working.fleet.activate()
    assert working.table_statuses == [LaunchStatus.ENDED]
    working.registers(working.launches[0])
    working.fleet.activate()
    assert working.shown().optimizer.stopping
    assert "more than the group's maximum" in (working.shown().optimizer.reason or "")


def test_one_whose_launch_nobody_knows_is_told_to_stop(stage: Stage) -> None:
    coming = Registration(
        group=DEFAULT_GROUP, host="h", pid=1, version="0", protocol=PROTOCOL, launch="of-another-database"
    )
    stage.lake.services.optimizers.register(coming)
    stage.fleet.activate()
    assert stage.shown().optimizer.stopping


def test_one_that_leaves_and_whose_process_hangs_is_killed_and_replaced(working: Stage) -> None:
    working.lake.services.optimizers.unregister(working.shown().optimizer.id)
    working.hears_nothing(110)
    assert len(working.launcher.killed) == 1
    assert working.table_statuses[0] is LaunchStatus.FAILED


def test_one_that_was_asked_to_end_and_hangs_is_killed(working: Stage) -> None:
    working.fleet.scale(DEFAULT_GROUP, 0, 0)
    working.fleet.activate()
    working.lake.services.optimizers.unregister(working.shown().optimizer.id)
    working.fleet.activate()
    assert (working.table_statuses, working.launcher.killed) == ([LaunchStatus.DRAINING], [])
    with working.lake.services.database.writing() as uow:
        (hangs,) = working.launches
        ago = uow.now() - timedelta(minutes=3)
        uow.launches.put(replace(hangs, asked_at=ago, busy_at=ago))
    working.fleet.activate()
    assert (working.table_statuses, len(working.launcher.killed)) == ([LaunchStatus.FAILED], 1)
