"""The fleet of optimizers that the leading server starts, watches, drains and kills.

The decisions are made in catalog.launch.fleet. The server records every launch before it carries it out. The record
outlives the server: the next one counts the registered optimizers, and gives up launches without a sign of life.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from catalog.errors import NotFound, Unavailable
from catalog.jobs.optimizer_group import DEFAULT_GROUP, GroupName
from catalog.launch.command import HIDDEN, Command, LaunchPaths, build_command, hide_secrets
from catalog.launch.fleet import FleetDecision, FleetMember, LaunchEnd, LaunchStatus, is_lost
from catalog.launch.query_starts import GroupSituation, decide_fleets
from catalog.launch.record import GroupLaunch, LaunchRecord, summarize_launches
from catalog.launch.settings import DeployMode, Launch, LaunchId, LaunchKind, Scaling, check_launch
from catalog.ports.launch import Launcher
from catalog.ports.store import Database, UnitOfWork
from server.service.leadership_fence import Fence, always_leads
from server.service.optimizers.fleet_values import (
    FleetDemand,
    FleetStatus,
    GroupFleet,
    LaunchEnvironment,
    apply_optimizer,
    count_free_for_queries,
    get_last_seen,
    load_demand,
)
from server.service.optimizers.liveness import Liveness
from server.service.optimizers.optimizers import Optimizers, OptimizerStatus

LOOKED_BACK = 100
"""Number of newest launches of a group that decisions consider."""
KEPT = timedelta(days=7)
"""How long the server keeps the records of ended launches."""
_EVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Fleet:
    """Starts and ends optimizers. Any server may read the fleet; only the leading server acts."""

    database: Database
    optimizers: Optimizers
    launcher: Launcher
    environment: LaunchEnvironment
    liveness: Liveness = field(default_factory=Liveness)
    began: datetime = _EVER
    """When this server has started; failures of local launches before that do not count."""

    def set(self, group: GroupName, launch: Launch) -> GroupFleet:
        """Replace the launch settings of a group; running optimizers keep theirs. Raises NotFound."""
        with self.database.writing() as uow:
            uow.queue.hold(group)
            self._save_settings(uow, group, launch)
        return self.show(group)

    def alter(self, group: GroupName, settings: Mapping[str, Any], scaling: Mapping[str, int]) -> GroupFleet:
        """Change some launch settings of a group; all others stay, also those of concurrent requests."""
        with self.database.writing() as uow:
            launch = _change(self._load_group_settings(uow, group).launch, settings, scaling)
            uow.launches.set(GroupLaunch(group=group, launch=launch, changed_at=uow.now()))
        return self.show(group)

    def preview(self, group: GroupName, settings: Mapping[str, Any], scaling: Mapping[str, int]) -> Command:
        """The command of the next launch after a change, with placeholders for secrets. Saves and starts nothing."""
        with self.database.reading() as uow:
            current = self._load_group_settings(uow, group)
        launch = hide_secrets(_change(current.launch, settings, scaling))
        token = None if self.environment.token is None else HIDDEN
        return self._build_command(replace(current, launch=launch), make_launch_id(group, "dry-run"), token)

    def scale(self, group: GroupName, minimum: int, maximum: int) -> GroupFleet:
        """Change only the minimum and maximum number of optimizers of a group."""
        with self.database.writing() as uow:
            uow.queue.hold(group)  # or this would undo the change of a concurrent request
            launch = self._load_group_settings(uow, group).launch
            self._save_settings(
                uow, group, replace(launch, scaling=replace(launch.scaling, minimum=minimum, maximum=maximum))
            )
        return self.show(group)

    def _save_settings(self, uow: UnitOfWork, group: GroupName, launch: Launch) -> None:
        uow.groups.get(group)
        uow.launches.set(GroupLaunch(group=group, launch=check_launch(launch), changed_at=uow.now()))

    def show(self, group: GroupName) -> GroupFleet:
        """The fleet of one group; raises NotFound."""
        return self._load_fleets([group])[group]

    def show_all(self) -> Mapping[GroupName, GroupFleet]:
        """The fleets of all groups whose optimizers the server starts."""
        fleets = self._load_fleets()
        return {group: each for group, each in fleets.items() if each.settings.launch.kind is not LaunchKind.NONE}

    def _load_fleets(self, wanted: Collection[GroupName] = ()) -> Mapping[GroupName, GroupFleet]:
        """The fleets of all groups with settings, and of the wanted ones; raises NotFound for an unknown one."""
        optimizers = self.optimizers.list()
        statuses = _index_by_launch(optimizers)
        with self.database.reading() as uow:
            groups = self._index_settings(uow.launches.settings())
            groups |= {group: self._load_group_settings(uow, group) for group in wanted}
            demand, now = load_demand(uow), uow.now()
            newest = {group: uow.launches.newest(group, LOOKED_BACK) for group in groups}
            living = {group: [each for each in newest[group] if not each.status.is_over] for group in groups}
            situations = {
                group: self._build_situation(settings, living[group], newest[group], statuses, demand)
                for group, settings in groups.items()
            }
        decisions = self._decide(situations, optimizers, now)
        failures = {group: situation.past.failures for group, situation in situations.items()}
        return {
            group: GroupFleet(
                settings=settings, decision=decisions[group], launches=newest[group], failures=failures[group]
            )
            for group, settings in groups.items()
        }

    def _build_situation(
        self,
        settings: GroupLaunch,
        living: Sequence[LaunchRecord],
        newest: Sequence[LaunchRecord],
        statuses: Mapping[LaunchId, OptimizerStatus],
        demand: FleetDemand,
    ) -> GroupSituation:
        return GroupSituation(
            launch=settings.launch,
            members=[self._build_member(launch, statuses.get(launch.id)) for launch in living],
            waiting=demand.of(settings.group),
            past=summarize_launches(newest, settings.changed_at),
        )

    def _decide(
        self, situations: Mapping[GroupName, GroupSituation], optimizers: Sequence[OptimizerStatus], now: datetime
    ) -> Mapping[GroupName, FleetDecision]:
        free = count_free_for_queries(optimizers)
        return decide_fleets(situations, now, lease=self.optimizers.lease, free_for_queries=free)

    def activate(self, fence: Fence = always_leads) -> FleetStatus:
        """Update the records of all launches, then start and end optimizers in every group.

        A server that does not lead any more starts none: the next leader decides from its own view.
        """
        total = FleetStatus()
        optimizers = self.optimizers.list()
        statuses = _index_by_launch(optimizers)
        with self.database.reading() as uow:
            unfinished, demand = [*uow.launches.unfinished()], load_demand(uow)
            settings = self._index_settings(uow.launches.settings())
        unfinished += self._revive_launches(statuses, {launch.id for launch in unfinished})
        self.liveness.observe({launch.id: get_last_seen(statuses.get(launch.id)) for launch in unfinished})
        living: defaultdict[GroupName, list[LaunchRecord]] = defaultdict(list)
        for launch in unfinished:
            current = self._update_launch(launch, statuses.get(launch.id))
            if current.status.is_over:
                total = replace(total, over=total.over + 1)
            else:
                living[launch.group].append(current)
        groups = {group: GroupLaunch(group=group, launch=Launch(), changed_at=_EVER) for group in living} | settings
        with self.database.reading() as uow:
            now = uow.now()
            situations = {
                group: self._build_situation(
                    of_group, living[group], uow.launches.newest(group, LOOKED_BACK), statuses, demand
                )
                for group, of_group in groups.items()
            }
        for group, decision in self._decide(situations, optimizers, now).items():
            total = self._apply(groups[group], decision, living[group], statuses, total, fence)
        return total

    def _revive_launches(
        self, statuses: Mapping[LaunchId, OptimizerStatus], unfinished: Collection[LaunchId]
    ) -> list[LaunchRecord]:
        """Return the given-up launches whose optimizers are back, after a slow start or a network failure.

        They count again; the next decisions drain them if they are too many. An optimizer that was asked to end, or
        whose launch is unknown, is asked to stop.
        """
        revived = []
        for launch_id, status in statuses.items():
            if launch_id in unfinished or status.optimizer.stopping:
                continue
            with self.database.reading() as uow:
                launch = uow.launches.find(launch_id)
            if launch is None or launch.asked_at is not None:
                reason = (
                    "this server does not know its launch"
                    if launch is None
                    else f"its launch has ended: {launch.reason}"
                )
                with suppress(NotFound):
                    self.optimizers.drain(status.optimizer.id, reason, stop=True)
            elif launch.ended_at is not None and status.optimizer.last_seen_at > launch.ended_at:
                revived.append(self._revive(launch))
        return revived

    def _revive(self, launch: LaunchRecord) -> LaunchRecord:
        with self.database.writing() as uow:
            revived = replace(launch, status=LaunchStatus.WORKING, busy_at=uow.now(), ended_at=None, reason=None)
            uow.launches.put(revived)
        return revived

    def close(self) -> None:
        """End all processes of this server and return their jobs to the queue, so that no lease has to expire first."""
        self.launcher.stop_all()
        with suppress(Unavailable):  # then the next server detects their end
            statuses = _index_by_launch(self.optimizers.list())
            with self.database.reading() as uow:
                unfinished = uow.launches.unfinished()
            for launch in unfinished:
                if self._is_gone(launch):
                    self._end_gone(launch, statuses.get(launch.id))

    def _apply(
        self,
        settings: GroupLaunch,
        decision: FleetDecision,
        living: Sequence[LaunchRecord],
        statuses: Mapping[LaunchId, OptimizerStatus],
        total: FleetStatus,
        fence: Fence,
    ) -> FleetStatus:
        by_id = {launch.id: launch for launch in living}
        for end in decision.ends:
            self._end(by_id[end.launch], end, statuses.get(end.launch))
        started = sum(self._start(settings, fence) for _ in range(decision.start))
        return replace(total, started=total.started + started, ended=total.ended + len(decision.ends))

    def _start(self, settings: GroupLaunch, fence: Fence) -> bool:
        """Record the launch, then start the process; if this server dies in between, the next one finds the record.

        False, and nothing is started, if another server leads.
        """
        with self.database.writing() as uow:
            if not fence(uow):
                return False
            now = uow.now()
            launched = LaunchRecord(
                id=make_launch_id(settings.group, secrets.token_hex(4)),
                group=settings.group,
                kind=settings.launch.kind,
                status=LaunchStatus.STARTING,
                started_at=now,
                busy_at=now,
            )
            uow.launches.put(launched)
        try:
            process = self.launcher.start(launched.id, self._command(settings, launched.id))
        except Unavailable as error:
            reason = error.message if error.hint is None else f"{error.message}; {error.hint}"
            self._record_end(launched, LaunchStatus.FAILED, reason)
            return True
        with self.database.writing() as uow:
            uow.launches.put(replace(launched, process=process))
        return True

    def _command(self, settings: GroupLaunch, launch_id: LaunchId) -> Command:
        environment = self.environment
        if environment.needs_token and environment.token is None:
            raise Unavailable(
                "the server would refuse every optimizer: access control is on and optimizers.token is not set",
                hint="set optimizers.token to a token of an optimizer principal",
            )
        if environment.is_local_address and settings.launch.deploy_mode is DeployMode.CLUSTER:
            raise Unavailable(
                f"a driver on the cluster cannot reach the server at {environment.server}",
                hint="set optimizers.server to an address that the nodes of the cluster reach",
            )
        return self._build_command(settings, launch_id, environment.token)

    def _build_command(self, settings: GroupLaunch, launch_id: LaunchId, token: str | None) -> Command:
        environment = self.environment
        paths = LaunchPaths(
            server=environment.server,
            python=environment.python,
            spark_submit=environment.spark_submit,
            application=environment.application,
            directory=f"{environment.directory}/{launch_id}",
            spark_home=environment.spark_home,
            node_python=environment.node_python,
            iceberg=environment.iceberg,
        )
        return build_command(settings.launch, group=settings.group, launch_id=launch_id, paths=paths, token=token)

    def _end(self, launch: LaunchRecord, end: LaunchEnd, status: OptimizerStatus | None) -> None:
        """Ask the optimizer to end; with `end.at_once` kill it, which works only for a process of this machine."""
        if status is not None:
            with suppress(NotFound):  # it has just unregistered
                self.optimizers.drain(status.optimizer.id, end.reason, stop=True)
        if not end.at_once:
            with self.database.writing() as uow:
                uow.launches.put(replace(launch, status=LaunchStatus.DRAINING, asked_at=uow.now(), reason=end.reason))
            return
        if self.launcher.inspect(launch.id) is not None:
            self.launcher.kill(launch.id)
        elif launch.process is not None:
            self.launcher.kill_stray(launch.process)
        self._record_end(launch, LaunchStatus.FAILED if end.is_failure else LaunchStatus.ENDED, end.reason)

    def _update_launch(self, launch: LaunchRecord, status: OptimizerStatus | None) -> LaunchRecord:
        """Update the record of a launch from its process and its optimizer, and return it."""
        process = self.launcher.inspect(launch.id)
        if process is not None and process.exit_status is not None:
            in_order = process.exit_status == 0 or launch.status is LaunchStatus.DRAINING
            output = f": {process.last_words}" if process.last_words and not in_order else ""
            reason = launch.reason if in_order else f"it ended with status {process.exit_status}{output}"
            return self._record_end(launch, LaunchStatus.ENDED if in_order else LaunchStatus.FAILED, reason)
        if process is None and self._is_gone(launch):
            return self._end_gone(launch, status)
        if status is None:
            has_left = process is None and self._has_left(launch)
            return self._record_end(launch, LaunchStatus.ENDED, launch.reason or "it has left") if has_left else launch
        with self.database.writing() as uow:
            now = uow.now()
            updated = apply_optimizer(launch, status.optimizer, now)
            if status.jobs or status.streams or status.queries or launch.status is LaunchStatus.STARTING:
                updated = replace(updated, busy_at=now)
            if updated != launch:
                uow.launches.put(updated)
        return updated

    def _is_gone(self, launch: LaunchRecord) -> bool:
        """Whether the launch was a process of this machine that has ended; local processes end with their server."""
        return launch.kind is LaunchKind.LOCAL and launch.process is not None and self.launcher.is_gone(launch.process)

    def _end_gone(self, launch: LaunchRecord, status: OptimizerStatus | None) -> LaunchRecord:
        if status is not None:
            self.optimizers.unregister(status.optimizer.id)
        return self._record_end(
            launch, LaunchStatus.ENDED, launch.reason or "it ended with the server that had started it"
        )

    def _has_left(self, launch: LaunchRecord) -> bool:
        """Whether an unregistered optimizer has left; one that only could not reach the server registers again."""
        if launch.status is LaunchStatus.WORKING:
            return is_lost(self.liveness.silent_for(launch.id), self.optimizers.lease)
        return launch.status is LaunchStatus.DRAINING

    def _record_end(self, launch: LaunchRecord, status: LaunchStatus, reason: str | None) -> LaunchRecord:
        with self.database.writing() as uow:
            ended = replace(launch, status=status, ended_at=uow.now(), reason=reason)
            uow.launches.put(ended)
            uow.launches.remove_ended_before(uow.now() - KEPT)
        self.launcher.discard(launch.id)
        return ended

    def _build_member(self, launch: LaunchRecord, status: OptimizerStatus | None) -> FleetMember:
        process = self.launcher.inspect(launch.id)
        return FleetMember(
            id=launch.id,
            status=launch.status,
            started_at=launch.started_at,
            busy_at=launch.busy_at,
            jobs=0 if status is None else len(status.jobs),
            streams=0 if status is None else status.streams,
            queries=0 if status is None else status.queries,
            silent_for=self.liveness.silent_for(launch.id),
            resident=None if process is None else process.resident,
            asked_at=launch.asked_at,
        )

    def _load_group_settings(self, uow: UnitOfWork, group: GroupName) -> GroupLaunch:
        uow.groups.get(group)
        groups = self._index_settings(uow.launches.settings())
        return groups.get(group) or GroupLaunch(group=group, launch=Launch(), changed_at=_EVER)

    def _index_settings(self, stored: Sequence[GroupLaunch]) -> dict[GroupName, GroupLaunch]:
        by_group = {settings.group: settings for settings in stored}
        if self.environment.local and DEFAULT_GROUP not in by_group:
            launch = Launch(kind=LaunchKind.LOCAL, scaling=Scaling(maximum=self.environment.local))
            by_group[DEFAULT_GROUP] = GroupLaunch(group=DEFAULT_GROUP, launch=launch, changed_at=self.began)
        return by_group


def _index_by_launch(optimizers: Sequence[OptimizerStatus]) -> dict[LaunchId, OptimizerStatus]:
    """The optimizer of each launch: the one that was seen last.

    A launch has two registered optimizers when the answer to its first registration was lost.
    """
    by_age = sorted(optimizers, key=lambda status: status.optimizer.last_seen_at)
    return {LaunchId(status.optimizer.launch): status for status in by_age if status.optimizer.launch is not None}


def make_launch_id(group: GroupName, suffix: str) -> LaunchId:
    """The id of a launch, which is also a label of Kubernetes and the name of a directory."""
    return LaunchId(f"{group.lower().replace('_', '-')[:32]}-{suffix}")


def _change(launch: Launch, settings: Mapping[str, Any], scaling: Mapping[str, int]) -> Launch:
    return check_launch(replace(launch, **settings, scaling=replace(launch.scaling, **scaling)))
