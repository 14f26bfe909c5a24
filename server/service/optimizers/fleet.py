"""The optimizers that the server starts: watched, started, drained and killed by the one server that leads.

What is decided is decided in catalog.launch.fleet. Every launch is noted before it is carried out. The note outlives
this server: the next one counts what it finds registered, and gives up what nobody hears of.
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
from catalog.jobs.optimizer import Optimizer
from catalog.jobs.optimizer_group import DEFAULT_GROUP, GroupName
from catalog.launch.command import Command, LaunchPaths, build_command
from catalog.launch.fleet import (
    FleetDecision,
    FleetMember,
    LaunchEnd,
    LaunchStatus,
    QueueDemand,
    decide_launches,
    is_lost,
)
from catalog.launch.record import GroupLaunch, LaunchRecord, summarize_launches
from catalog.launch.settings import Launch, LaunchId, LaunchKind, Scaling, check_launch
from catalog.ports.launch import Launcher
from catalog.ports.store import Database, UnitOfWork
from server.service.optimizers.liveness import Liveness
from server.service.optimizers.optimizers import Optimizers, OptimizerStatus

LOOKED_BACK = 100
"""Newest launches of a group that are looked at."""
KEPT = timedelta(days=7)
_EVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetStatus:
    """What one look at all groups has done."""

    started: int = 0
    ended: int = 0
    over: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFleet:
    """One group, as people see it."""

    settings: GroupLaunch
    decision: FleetDecision
    launches: Sequence[LaunchRecord]
    failures: int
    """Starts that have failed in a row."""

    def count(self, status: LaunchStatus) -> int:
        """How many launches stand there."""
        return sum(launch.status is status for launch in self.launches)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchEnvironment:
    """What launches stand on: the machine's programs, and what the server was told about them."""

    server: str
    python: str
    spark_submit: str
    application: str
    directory: str
    token: str | None = None
    needs_token: bool = False
    local: int = 0
    """Local optimizers of the default group, while nothing was set for it."""


@dataclass(frozen=True)
class Fleet:
    """Safe to look at any time, by any server; only the one that leads acts."""

    database: Database
    optimizers: Optimizers
    launcher: Launcher
    environment: LaunchEnvironment
    liveness: Liveness = field(default_factory=Liveness)
    began: datetime = _EVER
    """When this server did: what kept an earlier one from starting local optimizers may have been mended."""

    def set(self, group: GroupName, launch: Launch) -> GroupFleet:
        """How the group's optimizers are started from now on; those that run already stay as they are."""
        with self.database.writing() as uow:
            uow.queue.hold(group)
            self._set(uow, group, launch)
        return self.show(group)

    def alter(self, group: GroupName, settings: Mapping[str, Any], scaling: Mapping[str, int]) -> GroupFleet:
        """Some of what is set; what is not named stays, also what somebody else sets meanwhile."""
        with self.database.writing() as uow:
            uow.groups.get(group)
            known = self._settings(uow.launches.settings()).get(group)
            launch = Launch() if known is None else known.launch
            launch = check_launch(replace(launch, **settings, scaling=replace(launch.scaling, **scaling)))
            uow.launches.set(GroupLaunch(group=group, launch=launch, changed_at=uow.now()))
        return self.show(group)

    def scale(self, group: GroupName, minimum: int, maximum: int) -> GroupFleet:
        """Other bounds, and nothing else."""
        with self.database.writing() as uow:
            uow.queue.hold(group)  # what somebody else sets meanwhile would be undone
            known = self._settings_of(uow, group).launch
            self._set(uow, group, replace(known, scaling=replace(known.scaling, minimum=minimum, maximum=maximum)))
        return self.show(group)

    def _set(self, uow: UnitOfWork, group: GroupName, launch: Launch) -> None:
        uow.groups.get(group)
        uow.launches.set(GroupLaunch(group=group, launch=check_launch(launch), changed_at=uow.now()))

    def show(self, group: GroupName) -> GroupFleet:
        """NotFound when there is no such group."""
        shown = self._shown()
        with self.database.reading() as uow:
            return self._of_group(uow, self._settings_of(uow, group), _waiting(uow), shown)

    def all(self) -> Mapping[GroupName, GroupFleet]:
        """The groups whose optimizers the server starts."""
        shown = self._shown()
        with self.database.reading() as uow:
            known, waiting = self._settings(uow.launches.settings()), _waiting(uow)
            return {
                group: self._of_group(uow, settings, waiting, shown)
                for group, settings in known.items()
                if settings.launch.kind is not LaunchKind.NONE
            }

    def _of_group(
        self,
        uow: UnitOfWork,
        settings: GroupLaunch,
        waiting: Mapping[GroupName, QueueDemand],
        shown: Mapping[LaunchId, OptimizerStatus],
    ) -> GroupFleet:
        newest = uow.launches.newest(settings.group, LOOKED_BACK)
        members = [self._member(launch, shown.get(launch.id)) for launch in newest if not launch.status.is_over]
        went, waits = summarize_launches(newest, settings.changed_at), waiting.get(settings.group, QueueDemand())
        decision = decide_launches(settings.launch, members, waits, went, uow.now(), lease=self.optimizers.lease)
        return GroupFleet(settings=settings, decision=decision, launches=newest, failures=went.failures)

    def activate(self) -> FleetStatus:
        """Look at every group once."""
        done = FleetStatus()
        shown = self._shown()
        with self.database.reading() as uow:
            unfinished, waiting = [*uow.launches.unfinished()], _waiting(uow)
            settings = self._settings(uow.launches.settings())
        unfinished += self._back(shown, {launch.id for launch in unfinished})
        self.liveness.observe({launch.id: _last_seen(shown.get(launch.id)) for launch in unfinished})
        living: defaultdict[GroupName, list[LaunchRecord]] = defaultdict(list)
        for launch in unfinished:
            seen = self._brought_up_to_date(launch, shown.get(launch.id))
            if seen.status.is_over:
                done = replace(done, over=done.over + 1)
            else:
                living[launch.group].append(seen)
        for group in {**dict.fromkeys(settings), **living}:
            of_group = settings.get(group) or GroupLaunch(group=group, launch=Launch(), changed_at=_EVER)
            done = self._look(of_group, living[group], shown, waiting.get(group, QueueDemand()), done)
        return done

    def _shown(self) -> dict[LaunchId, OptimizerStatus]:
        """The optimizer of each launch. It has two where the answer to its registration was lost: the one that asks."""
        by_age = sorted(self.optimizers.list(), key=lambda status: status.optimizer.last_seen_at)
        return {LaunchId(status.optimizer.launch): status for status in by_age if status.optimizer.launch is not None}

    def _back(self, shown: Mapping[LaunchId, OptimizerStatus], unfinished: Collection[LaunchId]) -> list[LaunchRecord]:
        """Launches that were given up and are heard again, of an image that took long or after a parted network.

        They count again, and are drained if they are too many. One that had been asked to end is asked again.
        """
        found = []
        for launch, status in shown.items():
            if launch in unfinished or status.optimizer.stopping:
                continue
            with self.database.reading() as uow:
                known = uow.launches.find(launch)
            if known is None or known.asked_at is not None:
                reason = "its launch is not known here" if known is None else f"its launch has ended: {known.reason}"
                with suppress(NotFound):
                    self.optimizers.drain(status.optimizer.id, reason, stop=True)
            elif known.ended_at is not None and status.optimizer.last_seen_at > known.ended_at:
                found.append(self._counted_again(known))
        return found

    def _counted_again(self, known: LaunchRecord) -> LaunchRecord:
        with self.database.writing() as uow:
            back = replace(known, status=LaunchStatus.WORKING, busy_at=uow.now(), ended_at=None, reason=None)
            uow.launches.put(back)
        return back

    def close(self) -> None:
        """End all that was started here, and give back what it held: no lease has to lapse, no start to wait."""
        self.launcher.stop_all()
        with suppress(Unavailable):  # then the next server finds out
            shown = self._shown()
            with self.database.reading() as uow:
                unfinished = uow.launches.unfinished()
            for launch in unfinished:
                if self._is_gone(launch):
                    self._gone(launch, shown.get(launch.id))

    def _look(
        self,
        settings: GroupLaunch,
        living: Sequence[LaunchRecord],
        shown: Mapping[LaunchId, OptimizerStatus],
        waiting: QueueDemand,
        done: FleetStatus,
    ) -> FleetStatus:
        with self.database.reading() as uow:
            newest, now = uow.launches.newest(settings.group, LOOKED_BACK), uow.now()
        members = [self._member(launch, shown.get(launch.id)) for launch in living]
        went = summarize_launches(newest, settings.changed_at)
        decision = decide_launches(settings.launch, members, waiting, went, now, lease=self.optimizers.lease)
        by_id = {launch.id: launch for launch in living}
        for end in decision.ends:
            self._end(by_id[end.launch], end, shown.get(end.launch))
        for _ in range(decision.start):
            self._start(settings)
        return replace(done, started=done.started + decision.start, ended=done.ended + len(decision.ends))

    def _start(self, settings: GroupLaunch) -> None:
        """Noted first: whatever happens after, somebody will see to it."""
        with self.database.writing() as uow:
            now = uow.now()
            launched = LaunchRecord(
                id=LaunchId(f"{settings.group.lower().replace('_', '-')[:32]}-{secrets.token_hex(4)}"),
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
            self._over(launched, LaunchStatus.FAILED, error.message)
            return
        with self.database.writing() as uow:
            uow.launches.put(replace(launched, process=process))

    def _command(self, settings: GroupLaunch, launch_id: LaunchId) -> Command:
        environment = self.environment
        if environment.needs_token and environment.token is None:
            raise Unavailable("access control is on and optimizers.token is not set: no optimizer would be let in")
        place = LaunchPaths(
            server=environment.server,
            python=environment.python,
            spark_submit=environment.spark_submit,
            application=environment.application,
            directory=f"{environment.directory}/{launch_id}",
        )
        return build_command(
            settings.launch, group=settings.group, launch_id=launch_id, place=place, token=environment.token
        )

    def _end(self, launch: LaunchRecord, end: LaunchEnd, shown: OptimizerStatus | None) -> None:
        """In order it is asked through the server, wherever it runs; at once only a process of this machine can be."""
        if shown is not None:
            with suppress(NotFound):  # it has just left
                self.optimizers.drain(shown.optimizer.id, end.reason, stop=True)
        if not end.at_once:
            with self.database.writing() as uow:
                uow.launches.put(replace(launch, status=LaunchStatus.DRAINING, asked_at=uow.now(), reason=end.reason))
            return
        if self.launcher.look(launch.id) is not None:
            self.launcher.kill(launch.id)
        elif launch.process is not None:
            self.launcher.kill_stray(launch.process)
        self._over(launch, LaunchStatus.FAILED if end.is_failure else LaunchStatus.ENDED, end.reason)

    def _brought_up_to_date(self, launch: LaunchRecord, shown: OptimizerStatus | None) -> LaunchRecord:
        """The launch as it is now seen."""
        seen = self.launcher.look(launch.id)
        if seen is not None and seen.exit_status is not None:
            in_order = seen.exit_status == 0 or launch.status is LaunchStatus.DRAINING
            words = f": {seen.last_words}" if seen.last_words and not in_order else ""
            reason = launch.reason if in_order else f"it ended with status {seen.exit_status}{words}"
            return self._over(launch, LaunchStatus.ENDED if in_order else LaunchStatus.FAILED, reason)
        if seen is None and self._is_gone(launch):
            return self._gone(launch, shown)
        if shown is None:
            gone = seen is None and self._has_left(launch)
            return self._over(launch, LaunchStatus.ENDED, launch.reason or "it has left") if gone else launch
        with self.database.writing() as uow:
            now = uow.now()
            up_to_date = _heard(launch, shown.optimizer, now)
            if shown.jobs or launch.status is LaunchStatus.STARTING:
                up_to_date = replace(up_to_date, busy_at=now)
            if up_to_date != launch:
                uow.launches.put(up_to_date)
        return up_to_date

    def _is_gone(self, launch: LaunchRecord) -> bool:
        """Whether it was a process of this machine and is none any more: such a one ends with its server."""
        return launch.kind is LaunchKind.LOCAL and launch.process is not None and self.launcher.is_gone(launch.process)

    def _gone(self, launch: LaunchRecord, shown: OptimizerStatus | None) -> LaunchRecord:
        if shown is not None:
            self.optimizers.unregister(shown.optimizer.id)
        return self._over(launch, LaunchStatus.ENDED, launch.reason or "it ended with the server that had started it")

    def _has_left(self, launch: LaunchRecord) -> bool:
        """Of one that is not registered. Forgotten while nobody could hear it, it comes back and says so."""
        if launch.status is LaunchStatus.WORKING:
            return is_lost(self.liveness.silent_for(launch.id), self.optimizers.lease)
        return launch.status is LaunchStatus.DRAINING

    def _over(self, launch: LaunchRecord, status: LaunchStatus, reason: str | None) -> LaunchRecord:
        with self.database.writing() as uow:
            over = replace(launch, status=status, ended_at=uow.now(), reason=reason)
            uow.launches.put(over)
            uow.launches.remove_ended_before(uow.now() - KEPT)
        self.launcher.forget(launch.id)
        return over

    def _member(self, launch: LaunchRecord, shown: OptimizerStatus | None) -> FleetMember:
        seen = self.launcher.look(launch.id)
        return FleetMember(
            id=launch.id,
            status=launch.status,
            started_at=launch.started_at,
            busy_at=launch.busy_at,
            jobs=0 if shown is None else len(shown.jobs),
            silent_for=self.liveness.silent_for(launch.id),
            resident=None if seen is None else seen.resident,
            asked_at=launch.asked_at,
        )

    def _settings_of(self, uow: UnitOfWork, group: GroupName) -> GroupLaunch:
        uow.groups.get(group)
        known = self._settings(uow.launches.settings())
        return known.get(group) or GroupLaunch(group=group, launch=Launch(), changed_at=_EVER)

    def _settings(self, known: Sequence[GroupLaunch]) -> dict[GroupName, GroupLaunch]:
        found = {settings.group: settings for settings in known}
        if self.environment.local and DEFAULT_GROUP not in found:
            launch = Launch(kind=LaunchKind.LOCAL, scaling=Scaling(maximum=self.environment.local))
            found[DEFAULT_GROUP] = GroupLaunch(group=DEFAULT_GROUP, launch=launch, changed_at=self.began)
        return found


def _waiting(uow: UnitOfWork) -> dict[GroupName, QueueDemand]:
    """The jobs of each group that nobody has taken."""
    found: dict[GroupName, QueueDemand] = {}
    for queued in uow.queue.waiting():
        others = found.get(queued.group, QueueDemand(since=queued.oldest))
        since = min(others.since or queued.oldest, queued.oldest)
        found[queued.group] = QueueDemand(jobs=others.jobs + queued.jobs, since=since)
    return found


def _last_seen(shown: OptimizerStatus | None) -> datetime | None:
    return None if shown is None else shown.optimizer.last_seen_at


def _heard(launch: LaunchRecord, optimizer: Optimizer, now: datetime) -> LaunchRecord:
    """A launch whose optimizer is registered: people may stop that, or take a stop back."""
    if optimizer.stopping:
        reason = launch.reason or optimizer.reason
        return replace(launch, status=LaunchStatus.DRAINING, asked_at=launch.asked_at or now, reason=reason)
    return replace(launch, status=LaunchStatus.WORKING, asked_at=None, reason=None)
