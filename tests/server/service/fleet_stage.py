"""A server's fleet over processes that do what a test says, and a clock that only it sets."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from catalog.errors import Unavailable
from catalog.jobs.optimizer_group import DEFAULT_GROUP
from catalog.launch.command import Command
from catalog.launch.fleet import LaunchStatus
from catalog.launch.record import LaunchRecord, Process
from catalog.launch.settings import Launch, LaunchId, LaunchKind, Scaling
from catalog.ports.launch import Seen
from firn.protocol.leases import PROTOCOL
from server.service.optimizers.fleet import Fleet
from server.service.optimizers.fleet_values import LaunchEnvironment
from server.service.optimizers.liveness import Liveness
from server.service.optimizers.optimizers import OptimizerStatus, Registration
from tests.server.lake import Lake

GROUND = LaunchEnvironment(server="http://s", python="py", spark_submit="submit", application="app", directory="/d")
ONE = Launch(kind=LaunchKind.LOCAL, scaling=Scaling(minimum=1, maximum=1))


@dataclass
class FakeLauncher:
    """Processes that do what the test says."""

    alive: dict[LaunchId, Seen] = field(default_factory=dict)
    commands: list[Command] = field(default_factory=list)
    killed: list[LaunchId] = field(default_factory=list)
    strays: list[Process] = field(default_factory=list)
    gone: list[Process] = field(default_factory=list)
    refuses: str | None = None

    def start(self, launch_id: LaunchId, command: Command) -> Process:
        if self.refuses is not None:
            raise Unavailable(self.refuses)
        self.commands.append(command)
        self.alive[launch_id] = Seen(exit_status=None, resident=100, last_words="")
        return Process(host="h", pid=len(self.commands), started=1)

    def inspect(self, launch_id: LaunchId) -> Seen | None:
        return self.alive.get(launch_id)

    def kill(self, launch_id: LaunchId) -> None:
        self.killed.append(launch_id)
        del self.alive[launch_id]

    def kill_stray(self, process: Process) -> bool:
        self.strays.append(process)
        return True

    def is_gone(self, process: Process) -> bool:
        return process in self.gone

    def discard(self, launch_id: LaunchId) -> None:
        self.alive.pop(launch_id, None)

    def stop_all(self) -> None:
        self.gone += [Process(host="h", pid=number, started=1) for number in range(1, len(self.commands) + 1)]
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
    def launches(self) -> list[LaunchRecord]:
        """Oldest first."""
        return [*reversed(self.fleet.show(DEFAULT_GROUP).launches)]

    @property
    def table_statuses(self) -> list[LaunchStatus]:
        return [launch.status for launch in self.launches]

    def registers(self, launched: LaunchRecord) -> str:
        coming = Registration(group=DEFAULT_GROUP, host="h", pid=1, version="0", protocol=PROTOCOL, launch=launched.id)
        return self.lake.services.optimizers.register(coming).id

    def shown(self) -> OptimizerStatus:
        (optimizer,) = self.lake.services.optimizers.list()
        return optimizer

    def next_server(self) -> Stage:
        """After the death of the one that started all."""
        return a_stage(self.lake, self.fleet.environment)

    def hears_nothing(self, seconds: float) -> None:
        """The server looks every five seconds meanwhile."""
        until = self.watch.seconds + seconds
        while self.watch.seconds < until:
            self.watch.seconds += 5
            self.fleet.activate()

    def was_last_seen(self, optimizer_id: str, ago: timedelta) -> None:
        with self.lake.services.database.writing() as uow:
            uow.optimizers.record_heartbeat(optimizer_id, uow.now() - ago, {})


def a_stage(lake: Lake, environment: LaunchEnvironment = GROUND) -> Stage:
    launcher, watch, services = FakeLauncher(), Watch(), lake.services
    with services.database.reading() as uow:
        began = uow.now()
    fleet = Fleet(services.database, services.optimizers, launcher, environment, Liveness(watch), began)
    return Stage(lake, launcher, fleet, watch)
