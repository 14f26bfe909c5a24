"""The server's optimizers: started when wanted, watched, ended, remembered by the next server; on both databases."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta

import pytest

from catalog.errors import Invalid, NotFound
from catalog.jobs.job import JobKind
from catalog.jobs.optimizer_group import DEFAULT_GROUP, Group, GroupName
from catalog.launch.fleet import LaunchStatus
from catalog.launch.record import Process
from catalog.launch.settings import DeployMode, Launch, LaunchKind, Scaling, check_launch
from catalog.ports.launch import Seen
from server.service.optimizers import fleet
from tests.factories import LAKE
from tests.server.lake import CHANGE, ORDERS
from tests.server.service.fleet_stage import GROUND, ONE, Stage, a_stage
from tests.waiting import LONG


def test_nothing_is_started_that_nobody_has_asked_for(stage: Stage) -> None:
    stage.fleet.activate()
    assert (stage.launcher.commands, stage.fleet.show(DEFAULT_GROUP).decision.wanted) == ([], 0)


def test_a_minimum_is_started_once_and_counted_when_it_registers(stage: Stage) -> None:
    stage.fleet.set(DEFAULT_GROUP, ONE)
    for _ in range(3):
        stage.fleet.activate()
    assert (len(stage.launcher.commands), stage.table_statuses) == (1, [LaunchStatus.STARTING])
    stage.registers(stage.launches[0])
    stage.fleet.activate()
    assert (len(stage.launcher.commands), stage.table_statuses) == (1, [LaunchStatus.WORKING])


def test_the_default_group_has_local_ones_by_a_setting_alone_while_jobs_wait(stage: Stage) -> None:
    fleet = replace(stage.fleet, environment=replace(GROUND, local=1))
    fleet.activate()
    assert stage.launcher.commands == []
    stage.lake.create_keyed()
    stage.lake.append(CHANGE)
    stage.lake.services.planner.run_now(LAKE, ORDERS, JobKind.MERGE, {})
    fleet.activate()
    assert "optimizer" in stage.launcher.commands[0].arguments


def test_one_that_dies_is_replaced_and_its_last_words_are_kept(stage: Stage) -> None:
    stage.fleet.set(DEFAULT_GROUP, ONE)
    stage.fleet.activate()
    stage.registers(stage.launches[0])
    stage.fleet.activate()
    stage.launcher.ends(stage.launches[0].id, -9, "java.lang.OutOfMemoryError")
    stage.fleet.activate()
    assert stage.table_statuses == [LaunchStatus.FAILED]
    shown = stage.fleet.show(DEFAULT_GROUP)
    assert (shown.launches[0].reason or "").endswith("status -9: java.lang.OutOfMemoryError")
    assert "OutOfMemoryError" in (shown.decision.held_back or "")
    assert shown.decision.wanted == 1


def test_starts_that_fail_are_given_up_until_the_settings_change(stage: Stage) -> None:
    stage.launcher.refuses = "submit cannot be started: No such file or directory"
    stage.fleet.set(DEFAULT_GROUP, replace(ONE, scaling=replace(ONE.scaling, max_attempts=1)))
    for _ in range(3):
        stage.fleet.activate()
    assert stage.table_statuses == [LaunchStatus.FAILED]
    assert "1 starts in a row have failed" in (stage.fleet.show(DEFAULT_GROUP).decision.held_back or "")
    stage.launcher.refuses = None
    stage.fleet.set(DEFAULT_GROUP, ONE)
    stage.fleet.activate()
    assert stage.table_statuses == [LaunchStatus.FAILED, LaunchStatus.STARTING]


def test_fewer_are_wanted_and_one_is_asked_to_end_and_ends(stage: Stage) -> None:
    stage.fleet.set(DEFAULT_GROUP, ONE)
    stage.fleet.activate()
    stage.registers(stage.launches[0])
    stage.fleet.activate()
    stage.fleet.scale(DEFAULT_GROUP, 0, 0)
    stage.fleet.activate()
    assert stage.table_statuses == [LaunchStatus.DRAINING]
    assert (stage.shown().optimizer.stopping, stage.launcher.killed) == (True, [])
    stage.launcher.ends(stage.launches[0].id, 0)
    stage.fleet.activate()
    assert stage.table_statuses == [LaunchStatus.ENDED]
    assert "more than the group's maximum" in (stage.launches[0].reason or "")


def test_one_that_people_stop_has_not_failed(stage: Stage) -> None:
    stage.fleet.set(DEFAULT_GROUP, ONE)
    stage.fleet.activate()
    stage.lake.services.optimizers.drain(stage.registers(stage.launches[0]), "night", stop=True)
    stage.fleet.activate()
    stage.launcher.ends(stage.launches[0].id, 0)
    stage.fleet.activate()
    assert stage.table_statuses == [LaunchStatus.ENDED, LaunchStatus.STARTING]


def test_memory_over_the_limit_is_replaced_and_far_over_it_killed(stage: Stage) -> None:
    stage.fleet.set(DEFAULT_GROUP, replace(ONE, memory_limit=90))
    stage.fleet.activate()
    first = stage.launches[0]
    stage.registers(first)
    stage.fleet.activate()
    assert stage.table_statuses == [LaunchStatus.DRAINING, LaunchStatus.STARTING]
    assert stage.shown().optimizer.stopping
    stage.launcher.alive[first.id] = Seen(exit_status=None, resident=200, last_words="")
    stage.fleet.activate()
    assert (stage.table_statuses[0], stage.launcher.killed) == (LaunchStatus.FAILED, [first.id])


def test_the_next_server_counts_what_still_works_and_starts_no_second_one(stage: Stage) -> None:
    stage.fleet.set(DEFAULT_GROUP, ONE)
    stage.fleet.activate()
    stage.registers(stage.launches[0])
    following = stage.next_server()
    following.fleet.activate()
    assert (following.table_statuses, following.launcher.commands) == ([LaunchStatus.WORKING], [])
    following.fleet.scale(DEFAULT_GROUP, 0, 0)
    following.fleet.activate()
    assert stage.shown().optimizer.stopping


def test_what_an_earlier_server_left_and_nobody_hears_is_given_up_and_killed(stage: Stage) -> None:
    stage.fleet.set(DEFAULT_GROUP, ONE)
    stage.fleet.activate()
    following = stage.next_server()
    following.hears_nothing(300)
    assert following.launcher.strays == []
    following.hears_nothing(5)
    assert following.launcher.strays == [Process(host="h", pid=1, started=1)]
    assert following.table_statuses[0] is LaunchStatus.FAILED


def test_what_an_earlier_server_left_and_has_gone_is_over(stage: Stage) -> None:
    stage.fleet.set(DEFAULT_GROUP, ONE)
    stage.fleet.activate()
    optimizer_id = stage.registers(stage.launches[0])
    stage.fleet.activate()
    stage.lake.services.optimizers.unregister(optimizer_id)
    following = stage.next_server()
    following.hears_nothing(100)
    assert following.table_statuses == [LaunchStatus.WORKING]
    following.hears_nothing(10)
    assert following.table_statuses == [LaunchStatus.ENDED, LaunchStatus.STARTING]


def test_for_a_group_that_was_dropped_none_is_started(stage: Stage) -> None:
    nightly, groups = GroupName("nightly"), stage.lake.services.groups
    groups.create(Group(name=nightly))
    stage.fleet.set(nightly, ONE)
    stage.fleet.activate()
    groups.drop(nightly)
    stage.fleet.activate()
    assert (len(stage.launcher.commands), stage.launcher.alive) == (1, {})
    groups.create(Group(name=nightly))
    assert stage.fleet.show(nightly).settings.launch == Launch()


def test_where_access_control_is_on_nothing_is_started_without_a_token(stage: Stage) -> None:
    stage.fleet.set(DEFAULT_GROUP, ONE)
    replace(stage.fleet, environment=replace(GROUND, needs_token=True)).activate()
    assert stage.launcher.commands == []
    assert "optimizers.token" in (stage.launches[0].reason or "")
    with_token = replace(GROUND, needs_token=True, token="t")
    stage.fleet.set(DEFAULT_GROUP, ONE)
    replace(stage.fleet, environment=with_token).activate()
    assert stage.launcher.commands[0].environment == {"FIRN_TOKEN": "t"}


def test_on_a_cluster_nothing_is_started_that_cannot_reach_the_server(stage: Stage) -> None:
    on_yarn = replace(ONE, kind=LaunchKind.SPARK_SUBMIT, master="yarn", deploy_mode=DeployMode.CLUSTER)
    alone = a_stage(stage.lake, replace(GROUND, is_local_address=True))
    alone.fleet.set(DEFAULT_GROUP, on_yarn)
    alone.fleet.activate()
    assert alone.launcher.commands == []
    assert "set optimizers.server to an address that the nodes" in str(alone.launches[-1].reason)


def test_settings_that_cannot_work_and_groups_that_are_not_there_are_refused(stage: Stage) -> None:
    with pytest.raises(Invalid):
        stage.fleet.scale(DEFAULT_GROUP, 2, 1)
    with pytest.raises(NotFound):
        stage.fleet.set(GroupName("nowhere"), ONE)
    with pytest.raises(NotFound):
        stage.fleet.show(GroupName("nowhere"))


def test_settings_are_read_back_as_they_were_set(stage: Stage) -> None:
    launch = Launch(
        kind=LaunchKind.SPARK_SUBMIT,
        scaling=Scaling(minimum=1, maximum=5, idle_seconds=7),
        master="yarn",
        conf={"spark.a": "b"},
        environment={"A": "b"},
        py_files=("a", "b"),
        memory_limit=5,
    )
    assert stage.fleet.set(DEFAULT_GROUP, launch).settings.launch == launch


def test_a_stop_that_people_take_back_is_taken_back_of_the_launch(working: Stage) -> None:
    optimizers, mine = working.lake.services.optimizers, working.shown().optimizer.id
    optimizers.drain(mine, "night", stop=True)
    working.fleet.scale(DEFAULT_GROUP, 0, 1)
    working.fleet.activate()
    (stopping,) = working.launches
    assert (stopping.status, stopping.reason, stopping.asked_at is None) == (LaunchStatus.DRAINING, "night", False)
    optimizers.undrain(mine)
    working.fleet.activate()
    assert (working.table_statuses, working.launches[0].asked_at) == ([LaunchStatus.WORKING], None)


def test_what_is_set_while_bounds_change_is_not_undone(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds are read and written in one transaction, in which nobody else sets a launch."""
    stage.fleet.set(DEFAULT_GROUP, ONE)
    beside = threading.Thread(target=lambda: stage.fleet.set(DEFAULT_GROUP, replace(ONE, memory="7g")))

    def slowly(launch: Launch) -> Launch:
        if threading.current_thread() is not beside and not beside.ident:
            beside.start()
            beside.join(0.3)
        return check_launch(launch)

    monkeypatch.setattr(fleet, "check_launch", slowly)
    stage.fleet.scale(DEFAULT_GROUP, 0, 3)
    beside.join(LONG)
    assert stage.fleet.show(DEFAULT_GROUP).settings.launch.memory == "7g"


def test_local_ones_by_a_setting_are_tried_again_by_the_next_server(stage: Stage) -> None:
    environment = replace(GROUND, local=1)
    stage.lake.create_keyed()
    stage.lake.append(CHANGE)
    stage.lake.services.planner.run_now(LAKE, ORDERS, JobKind.MERGE, {})
    old = a_stage(stage.lake, environment)
    old.launcher.refuses = "java cannot be started"
    for _ in range(5):
        old.fleet.activate()
        with stage.lake.services.database.writing() as uow:
            for launch in old.launches:
                uow.launches.put(replace(launch, ended_at=launch.started_at - timedelta(hours=1)))
    assert "5 starts in a row have failed" in (old.fleet.show(DEFAULT_GROUP).decision.held_back or "")
    following = old.next_server()
    following.fleet.activate()
    assert following.table_statuses[-1] is LaunchStatus.STARTING
