"""The server's optimizers: started when wanted, watched, ended, remembered by the next server; on both databases."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from catalog.errors import Invalid, NotFound, Unavailable
from catalog.group import DEFAULT_GROUP, GroupName
from catalog.job import JobKind
from catalog.launch.command import Command
from catalog.launch.fleet import Standing
from catalog.launch.record import Launched, Process
from catalog.launch.settings import Launch, LaunchId, LaunchKind, Scaling, checked
from catalog.optimizer import PROTOCOL
from catalog.ports.launch import Seen
from server.service import fleet
from server.service.fleet import Fleet, Ground
from server.service.hearing import Hearing
from server.service.optimizers import Coming, Shown
from tests.factories import LAKE
from tests.server.lake import CHANGE, ORDERS, Lake

GROUND = Ground(server="http://s", python="py", spark_submit="submit", application="app", directory="/d")
ONE = Launch(kind=LaunchKind.LOCAL, scaling=Scaling(minimum=1, maximum=1))


@dataclass
class FakeLauncher:
    """Processes that do what the test says."""

    alive: dict[LaunchId, Seen] = field(default_factory=dict)
    commands: list[Command] = field(default_factory=list)
    killed: list[LaunchId] = field(default_factory=list)
    strays: list[Process] = field(default_factory=list)
    refuses: str | None = None

    def start(self, launch_id: LaunchId, command: Command) -> Process:
        if self.refuses is not None:
            raise Unavailable(self.refuses)
        self.commands.append(command)
        self.alive[launch_id] = Seen(exit_status=None, resident=100, last_words="")
        return Process(host="h", pid=len(self.commands), started=1)

    def look(self, launch_id: LaunchId) -> Seen | None:
        return self.alive.get(launch_id)

    def kill(self, launch_id: LaunchId) -> None:
        self.killed.append(launch_id)
        del self.alive[launch_id]

    def kill_stray(self, process: Process) -> bool:
        self.strays.append(process)
        return True

    def forget(self, launch_id: LaunchId) -> None:
        self.alive.pop(launch_id, None)

    def stop_all(self) -> None:
        self.alive.clear()

    def ends(self, launch_id: LaunchId, status: int, words: str = "") -> None:
        self.alive[launch_id] = Seen(exit_status=status, resident=None, last_words=words)


@dataclass
class Watch:
    """A clock that nobody sets, but the test."""

    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


@dataclass
class Stage:
    """A server's fleet, and the optimizers that its launches become."""

    lake: Lake
    launcher: FakeLauncher
    fleet: Fleet
    watch: Watch

    @property
    def launches(self) -> list[Launched]:
        """Oldest first."""
        return [*reversed(self.fleet.show(DEFAULT_GROUP).launches)]

    @property
    def standings(self) -> list[Standing]:
        return [one.standing for one in self.launches]

    def registers(self, launched: Launched) -> str:
        coming = Coming(group=DEFAULT_GROUP, host="h", pid=1, version="0", protocol=PROTOCOL, launch=launched.id)
        return self.lake.services.optimizers.register(coming).id

    def shown(self) -> Shown:
        (one,) = self.lake.services.optimizers.list()
        return one

    def next_server(self) -> Stage:
        """After the death of the one that started all."""
        return a_stage(self.lake, self.fleet.ground)

    def hears_nothing(self, seconds: float) -> None:
        """The server looks every five seconds meanwhile."""
        until = self.watch.seconds + seconds
        while self.watch.seconds < until:
            self.watch.seconds += 5
            self.fleet.activate()

    def was_last_seen(self, optimizer_id: str, ago: timedelta) -> None:
        with self.lake.services.database.writing() as uow:
            uow.optimizers.saw(optimizer_id, uow.now() - ago, {})


def a_stage(lake: Lake, ground: Ground = GROUND) -> Stage:
    launcher, watch, services = FakeLauncher(), Watch(), lake.services
    with services.database.reading() as uow:
        began = uow.now()
    fleet = Fleet(services.database, services.optimizers, launcher, ground, Hearing(watch), began)
    return Stage(lake, launcher, fleet, watch)


@pytest.fixture
def stage(lake: Lake) -> Stage:
    return a_stage(lake)


@pytest.fixture
def working(stage: Stage) -> Stage:
    """One launch, whose optimizer is registered."""
    stage.fleet.set(DEFAULT_GROUP, ONE)
    stage.fleet.activate()
    stage.registers(stage.launches[0])
    stage.fleet.activate()
    return stage


def test_nothing_is_started_that_nobody_has_asked_for(stage: Stage) -> None:
    stage.fleet.activate()
    assert (stage.launcher.commands, stage.fleet.show(DEFAULT_GROUP).decision.wanted) == ([], 0)


def test_a_minimum_is_started_once_and_counted_when_it_registers(stage: Stage) -> None:
    stage.fleet.set(DEFAULT_GROUP, ONE)
    for _ in range(3):
        stage.fleet.activate()
    assert (len(stage.launcher.commands), stage.standings) == (1, [Standing.STARTING])
    stage.registers(stage.launches[0])
    stage.fleet.activate()
    assert (len(stage.launcher.commands), stage.standings) == (1, [Standing.WORKING])


def test_the_default_group_has_local_ones_by_a_setting_alone_while_jobs_wait(stage: Stage) -> None:
    fleet = replace(stage.fleet, ground=replace(GROUND, local=1))
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
    assert stage.standings == [Standing.FAILED]
    shown = stage.fleet.show(DEFAULT_GROUP)
    assert (shown.launches[0].why or "").endswith("status -9: java.lang.OutOfMemoryError")
    assert "OutOfMemoryError" in (shown.decision.held_back or "")
    assert shown.decision.wanted == 1


def test_starts_that_fail_are_given_up_until_the_settings_change(stage: Stage) -> None:
    stage.launcher.refuses = "submit cannot be started: No such file or directory"
    stage.fleet.set(DEFAULT_GROUP, replace(ONE, scaling=replace(ONE.scaling, max_attempts=1)))
    for _ in range(3):
        stage.fleet.activate()
    assert stage.standings == [Standing.FAILED]
    assert "1 starts in a row have failed" in (stage.fleet.show(DEFAULT_GROUP).decision.held_back or "")
    stage.launcher.refuses = None
    stage.fleet.set(DEFAULT_GROUP, ONE)
    stage.fleet.activate()
    assert stage.standings == [Standing.FAILED, Standing.STARTING]


def test_fewer_are_wanted_and_one_is_asked_to_end_and_ends(stage: Stage) -> None:
    stage.fleet.set(DEFAULT_GROUP, ONE)
    stage.fleet.activate()
    stage.registers(stage.launches[0])
    stage.fleet.activate()
    stage.fleet.scale(DEFAULT_GROUP, 0, 0)
    stage.fleet.activate()
    assert stage.standings == [Standing.DRAINING]
    assert (stage.shown().optimizer.stopping, stage.launcher.killed) == (True, [])
    stage.launcher.ends(stage.launches[0].id, 0)
    stage.fleet.activate()
    assert stage.standings == [Standing.ENDED]
    assert "more than the group's maximum" in (stage.launches[0].why or "")


def test_one_that_people_stop_has_not_failed(stage: Stage) -> None:
    stage.fleet.set(DEFAULT_GROUP, ONE)
    stage.fleet.activate()
    stage.lake.services.optimizers.drain(stage.registers(stage.launches[0]), "night", stop=True)
    stage.fleet.activate()
    stage.launcher.ends(stage.launches[0].id, 0)
    stage.fleet.activate()
    assert stage.standings == [Standing.ENDED, Standing.STARTING]


def test_memory_over_the_limit_is_replaced_and_far_over_it_killed(stage: Stage) -> None:
    stage.fleet.set(DEFAULT_GROUP, replace(ONE, memory_limit=90))
    stage.fleet.activate()
    first = stage.launches[0]
    stage.registers(first)
    stage.fleet.activate()
    assert stage.standings == [Standing.DRAINING, Standing.STARTING]
    assert stage.shown().optimizer.stopping
    stage.launcher.alive[first.id] = Seen(exit_status=None, resident=200, last_words="")
    stage.fleet.activate()
    assert (stage.standings[0], stage.launcher.killed) == (Standing.FAILED, [first.id])


def test_the_next_server_counts_what_still_works_and_starts_no_second_one(stage: Stage) -> None:
    stage.fleet.set(DEFAULT_GROUP, ONE)
    stage.fleet.activate()
    stage.registers(stage.launches[0])
    following = stage.next_server()
    following.fleet.activate()
    assert (following.standings, following.launcher.commands) == ([Standing.WORKING], [])
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
    assert following.standings[0] is Standing.FAILED


def test_what_an_earlier_server_left_and_has_gone_is_over(stage: Stage) -> None:
    stage.fleet.set(DEFAULT_GROUP, ONE)
    stage.fleet.activate()
    optimizer_id = stage.registers(stage.launches[0])
    stage.fleet.activate()
    stage.lake.services.optimizers.unregister(optimizer_id)
    following = stage.next_server()
    following.hears_nothing(100)
    assert following.standings == [Standing.WORKING]
    following.hears_nothing(10)
    assert following.standings == [Standing.ENDED, Standing.STARTING]


LONG_AGO = timedelta(minutes=20)


def test_after_an_outage_nothing_is_ended_that_is_heard_again(working: Stage) -> None:
    mine = working.shown().optimizer.id
    working.was_last_seen(mine, LONG_AGO)
    working.hears_nothing(20)
    working.watch.seconds += 3600  # no database, or paused
    working.hears_nothing(40)
    assert working.standings == [Standing.WORKING]
    working.lake.services.optimizers.seen(mine, {})
    working.hears_nothing(60)
    assert (working.standings, working.launcher.killed) == ([Standing.WORKING], [])
    working.hears_nothing(50)
    assert (working.standings[0], len(working.launcher.killed)) == (Standing.FAILED, 1)


def test_the_next_server_gives_every_optimizer_time_to_find_it(working: Stage) -> None:
    mine = working.shown().optimizer.id
    working.was_last_seen(mine, LONG_AGO)
    following = working.next_server()
    following.hears_nothing(90)
    following.lake.services.optimizers.seen(mine, {})
    following.hears_nothing(90)
    assert (following.standings, following.launcher.commands) == ([Standing.WORKING], [])


def test_one_that_was_forgotten_during_an_outage_and_comes_back_is_counted_as_before(working: Stage) -> None:
    following = working.next_server()
    working.lake.services.optimizers.unregister(working.shown().optimizer.id)
    following.hears_nothing(30)
    following.registers(following.launches[0])
    following.hears_nothing(30)
    assert (following.standings, following.launcher.commands) == ([Standing.WORKING], [])


def test_one_whose_registration_came_twice_is_heard_by_the_one_that_asks(working: Stage) -> None:
    lost = working.shown().optimizer.id
    mine = working.registers(working.launches[0])
    working.was_last_seen(lost, LONG_AGO)
    for _ in range(5):
        working.hears_nothing(60)
        working.lake.services.optimizers.seen(mine, {})
    assert working.standings == [Standing.WORKING]


def test_one_that_registers_after_it_was_given_up_is_counted_and_not_replaced(stage: Stage) -> None:
    stage.fleet.set(DEFAULT_GROUP, ONE)
    stage.hears_nothing(310)
    assert (stage.standings, len(stage.launcher.killed)) == ([Standing.FAILED, Standing.STARTING], 1)
    stage.registers(stage.launches[0])
    stage.hears_nothing(60)
    assert (stage.standings, len(stage.launcher.commands)) == ([Standing.WORKING, Standing.ENDED], 2)


def test_one_that_registers_after_it_was_given_up_and_is_too_many_is_drained(stage: Stage) -> None:
    stage.fleet.set(DEFAULT_GROUP, ONE)
    stage.hears_nothing(310)
    replacement = stage.launches[1]
    stage.registers(replacement)
    stage.fleet.activate()
    stage.registers(stage.launches[0])
    stage.fleet.activate()
    assert sorted(stage.standings) == [Standing.DRAINING, Standing.WORKING]


def test_one_that_registers_after_it_was_asked_to_end_is_asked_again(working: Stage) -> None:
    working.fleet.scale(DEFAULT_GROUP, 0, 0)
    working.fleet.activate()
    working.launcher.ends(working.launches[0].id, 0)
    working.lake.services.optimizers.unregister(working.shown().optimizer.id)
    working.fleet.activate()
    assert working.standings == [Standing.ENDED]
    working.registers(working.launches[0])
    working.fleet.activate()
    assert working.shown().optimizer.stopping
    assert "more than the group's maximum" in (working.shown().optimizer.why or "")


def test_one_whose_launch_nobody_knows_is_told_to_stop(stage: Stage) -> None:
    coming = Coming(group=DEFAULT_GROUP, host="h", pid=1, version="0", protocol=PROTOCOL, launch="of-another-database")
    stage.lake.services.optimizers.register(coming)
    stage.fleet.activate()
    assert stage.shown().optimizer.stopping


def test_one_that_leaves_and_whose_process_hangs_is_killed_and_replaced(working: Stage) -> None:
    working.lake.services.optimizers.unregister(working.shown().optimizer.id)
    working.hears_nothing(110)
    assert len(working.launcher.killed) == 1
    assert working.standings[0] is Standing.FAILED


def test_one_that_was_asked_to_end_and_hangs_is_killed(working: Stage) -> None:
    working.fleet.scale(DEFAULT_GROUP, 0, 0)
    working.fleet.activate()
    working.lake.services.optimizers.unregister(working.shown().optimizer.id)
    working.fleet.activate()
    assert (working.standings, working.launcher.killed) == ([Standing.DRAINING], [])
    with working.lake.services.database.writing() as uow:
        (hangs,) = working.launches
        ago = uow.now() - timedelta(minutes=3)
        uow.launches.put(replace(hangs, asked_at=ago, busy_at=ago))
    working.fleet.activate()
    assert (working.standings, len(working.launcher.killed)) == ([Standing.FAILED], 1)


def test_a_stop_that_people_take_back_is_taken_back_of_the_launch(working: Stage) -> None:
    optimizers, mine = working.lake.services.optimizers, working.shown().optimizer.id
    optimizers.drain(mine, "night", stop=True)
    working.fleet.scale(DEFAULT_GROUP, 0, 1)
    working.fleet.activate()
    (asked,) = working.launches
    assert (asked.standing, asked.why, asked.asked_at is None) == (Standing.DRAINING, "night", False)
    optimizers.undrain(mine)
    working.fleet.activate()
    assert (working.standings, working.launches[0].asked_at) == ([Standing.WORKING], None)


def test_what_is_set_while_bounds_change_is_not_undone(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds are read and written in one transaction, in which nobody else sets a launch."""
    stage.fleet.set(DEFAULT_GROUP, ONE)
    beside = threading.Thread(target=lambda: stage.fleet.set(DEFAULT_GROUP, replace(ONE, memory="7g")))

    def slowly(launch: Launch) -> Launch:
        if threading.current_thread() is not beside and not beside.ident:
            beside.start()
            beside.join(0.3)
        return checked(launch)

    monkeypatch.setattr(fleet, "checked", slowly)
    stage.fleet.scale(DEFAULT_GROUP, 0, 3)
    beside.join(30)
    assert stage.fleet.show(DEFAULT_GROUP).settings.launch.memory == "7g"


def test_local_ones_by_a_setting_are_tried_again_by_the_next_server(stage: Stage) -> None:
    ground = replace(GROUND, local=1)
    stage.lake.create_keyed()
    stage.lake.append(CHANGE)
    stage.lake.services.planner.run_now(LAKE, ORDERS, JobKind.MERGE, {})
    old = a_stage(stage.lake, ground)
    old.launcher.refuses = "java cannot be started"
    for _ in range(5):
        old.fleet.activate()
        with stage.lake.services.database.writing() as uow:
            for one in old.launches:
                uow.launches.put(replace(one, ended_at=one.started_at - timedelta(hours=1)))
    assert "5 starts in a row have failed" in (old.fleet.show(DEFAULT_GROUP).decision.held_back or "")
    following = old.next_server()
    following.fleet.activate()
    assert following.standings[-1] is Standing.STARTING


def test_where_access_control_is_on_nothing_is_started_without_a_token(stage: Stage) -> None:
    stage.fleet.set(DEFAULT_GROUP, ONE)
    replace(stage.fleet, ground=replace(GROUND, needs_token=True)).activate()
    assert stage.launcher.commands == []
    assert "optimizers.token" in (stage.launches[0].why or "")
    with_token = replace(GROUND, needs_token=True, token="t")
    stage.fleet.set(DEFAULT_GROUP, ONE)
    replace(stage.fleet, ground=with_token).activate()
    assert stage.launcher.commands[0].environment == {"FIRN_TOKEN": "t"}


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
