"""The state of a fleet of optimizers, and the values from which the server decides about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from catalog.jobs.optimizer import Optimizer
from catalog.jobs.optimizer_group import GroupName
from catalog.launch.fleet import FleetDecision, LaunchStatus, QueueDemand
from catalog.launch.record import GroupLaunch, LaunchRecord
from catalog.ports.store import UnitOfWork
from server.service.optimizers.optimizers import OptimizerStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetStatus:
    """Numbers of optimizers that one run has started, asked to end, and found ended."""

    started: int = 0
    ended: int = 0
    over: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFleet:
    """The launches of one group, for users."""

    settings: GroupLaunch
    decision: FleetDecision
    launches: Sequence[LaunchRecord]
    failures: int
    """Number of starts that have failed in a row."""

    def count(self, status: LaunchStatus) -> int:
        """The number of launches with this status."""
        return sum(launch.status is status for launch in self.launches)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchEnvironment:
    """The programs of this machine, and the server's settings for launches."""

    server: str
    python: str
    spark_submit: str
    application: str
    directory: str
    spark_home: str | None = None
    """The Spark of a spark-submit that pip installed beside the server."""
    node_python: str = "python3"
    iceberg: Mapping[str, str] = field(default_factory=dict)
    """Spark's settings that load the server's Iceberg runtime."""
    is_local_address: bool = False
    """Whether other machines cannot reach `server`."""
    token: str | None = None
    needs_token: bool = False
    local: int = 0
    """Number of local optimizers of the default group, unless a user has configured the group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetDemand:
    """What waits for optimizers: jobs and streams for those of their group, queries for any that answers queries."""

    groups: Mapping[GroupName, QueueDemand]
    queries_since: datetime | None = None
    """Since when the oldest query waits; None if none waits."""

    def of(self, group: GroupName) -> QueueDemand:
        """What waits for the optimizers of a group."""
        return replace(self.groups.get(group, QueueDemand()), queries_since=self.queries_since)


def load_demand(uow: UnitOfWork) -> FleetDemand:
    """Load the waiting jobs, streams and queries, and the times since which the oldest wait."""
    demand: dict[GroupName, QueueDemand] = {}
    for queued in uow.queue.waiting():
        total = demand.get(queued.group, QueueDemand(since=queued.oldest))
        since = min(total.since or queued.oldest, queued.oldest)
        demand[queued.group] = QueueDemand(jobs=total.jobs + queued.jobs, since=since)
    for waiting in uow.streams.waiting(uow.now()):
        total = demand.get(group := GroupName(waiting.group), QueueDemand())
        demand[group] = replace(total, streams=waiting.streams, streams_since=waiting.oldest)
    query = uow.queries.find_queued()
    return FleetDemand(groups=demand, queries_since=None if query is None else query.created_at)


def count_free_for_queries(statuses: Iterable[OptimizerStatus]) -> int:
    """Count the queries that optimizers would take now, beside those that they answer."""
    taking = (status for status in statuses if not status.optimizer.draining and not status.is_silent)
    return sum(max(0, status.optimizer.query_slots - status.queries) for status in taking)


def get_last_seen(status: OptimizerStatus | None) -> datetime | None:
    """Get the time of the optimizer's last request."""
    return None if status is None else status.optimizer.last_seen_at


def apply_optimizer(launch: LaunchRecord, optimizer: Optimizer, now: datetime) -> LaunchRecord:
    """Update the record of a launch from its optimizer: working, or draining after a user has stopped it."""
    if optimizer.stopping:
        reason = launch.reason or optimizer.reason
        return replace(launch, status=LaunchStatus.DRAINING, asked_at=launch.asked_at or now, reason=reason)
    return replace(launch, status=LaunchStatus.WORKING, asked_at=None, reason=None)
