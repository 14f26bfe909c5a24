"""The server's optimizers: started when wanted, watched, ended, remembered by the next server; on both databases."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from catalog.errors import Invalid, NotFound, Unavailable
from catalog.group import DEFAULT_GROUP, GroupName
from catalog.job import JobKind
from catalog.launch.command import Command
from catalog.launch.fleet import Standing
from catalog.launch.record import Launched, Process
from catalog.launch.settings import Launch, LaunchId, LaunchKind, Scaling
from catalog.optimizer import PROTOCOL
from catalog.ports.launch import Seen
from server.service.fleet import Fleet, Ground
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

    def stop_all(self) -> None:
        self.alive.clear()

    def ends(self, launch_id: LaunchId, status: int, words: str = "") -> None:
        self.alive[launch_id] = Seen(exit_status=status, resident=None, last_words=words)


@dataclass
class Stage:
    """A server's fleet, and the optimizers that its launches become."""

    lake: Lake
    launcher: FakeLauncher
    fleet: Fleet

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
        launcher = FakeLauncher()
        return Stage(self.lake, launcher, replace(self.fleet, launcher=launcher))

    def older(self, launched: Launched, by: timedelta) -> None:
        with self.lake.services.database.writing() as uow:
            began = launched.started_at - by
            uow.launches.put(replace(launched, started_at=began, busy_at=launched.busy_at - by))


@pytest.fixture
def stage(lake: Lake) -> Stage:
    launcher = FakeLauncher()
    return Stage(lake, launcher, Fleet(lake.services.database, lake.services.optimizers, launcher, GROUND))


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
    stage.older(stage.launches[0], timedelta(seconds=301))
    following = stage.next_server()
    following.fleet.activate()
    assert following.launcher.strays == [Process(host="h", pid=1, started=1)]
    assert following.standings[0] is Standing.FAILED


def test_what_an_earlier_server_left_and_has_gone_is_over(stage: Stage) -> None:
    stage.fleet.set(DEFAULT_GROUP, ONE)
    stage.fleet.activate()
    optimizer_id = stage.registers(stage.launches[0])
    stage.fleet.activate()
    stage.lake.services.optimizers.unregister(optimizer_id)
    following = stage.next_server()
    following.fleet.activate()
    assert following.standings == [Standing.ENDED, Standing.STARTING]


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
