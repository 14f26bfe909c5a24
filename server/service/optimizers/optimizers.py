"""The registered optimizers: registration, signs of life, draining, stopping and leaving."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from catalog.errors import Dismissed, NotFound
from catalog.jobs.job import JobId, JobStatus, OptimizerId
from catalog.jobs.leases import hand_back
from catalog.jobs.optimizer import Optimizer, check_protocol
from catalog.ports.store import Database
from server.service.streams.stream_leases import hand_back_streams


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The data that an optimizer sends when it registers."""

    group: str
    host: str
    pid: int
    version: str
    protocol: int
    slots: int = 1
    launch: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerStatus:
    """An optimizer with its jobs, and the numbers of its streams and queries.

    It is silent when it has not sent a sign of life for the length of a lease.
    """

    optimizer: Optimizer
    jobs: Sequence[JobId]
    streams: int
    queries: int
    is_silent: bool


@dataclass(frozen=True)
class Optimizers:
    """Registers optimizers, and drains or stops them."""

    database: Database
    version: str
    lease: timedelta

    def register(self, registration: Registration) -> Optimizer:
        """Register a new optimizer; raises Conflict when it uses another protocol version."""
        check_protocol(registration.protocol, registration.version, self.version)
        with self.database.writing() as uow:
            now = uow.now()
            optimizer = Optimizer(
                id=OptimizerId(f"{registration.host}-{registration.pid}-{secrets.token_hex(3)}"),
                group=registration.group,
                host=registration.host,
                pid=registration.pid,
                version=registration.version,
                registered_at=now,
                last_seen_at=now,
                slots=registration.slots,
                launch=registration.launch,
                facts=dict(registration.facts),
            )
            uow.optimizers.put(optimizer)
        return optimizer

    def unregister(self, optimizer_id: str) -> None:
        """Remove an optimizer that is leaving; its running jobs return to the queue at once."""
        with self.database.writing() as uow:
            held_ids = (job.id for job in uow.jobs.with_status([JobStatus.RUNNING]) if job.owner == optimizer_id)
            for job_id in held_ids:
                job = uow.jobs.lock(job_id)
                if job.status is JobStatus.RUNNING and job.owner == optimizer_id:
                    uow.jobs.put(hand_back(job, uow.now()))
            hand_back_streams(uow, OptimizerId(optimizer_id))
            uow.optimizers.remove(optimizer_id)

    def record_poll(self, optimizer_id: str, memory: Mapping[str, int]) -> Optimizer:
        """Record that an optimizer asks for work, with its memory use in bytes.

        Raises NotFound when it has to register again, and Dismissed when it has to stop.
        """
        with self.database.writing() as uow:
            optimizer = uow.optimizers.record_heartbeat(optimizer_id, uow.now(), memory)
        if optimizer is None:
            raise _build_unknown_error(optimizer_id)
        if optimizer.stopping:
            raise Dismissed(f"optimizer {optimizer_id} has to stop: {optimizer.reason or 'no reason was given'}")
        return optimizer

    def drain(self, optimizer_id: str, reason: str | None, *, stop: bool = False) -> OptimizerStatus:
        """Give an optimizer no new jobs; with `stop` it ends after its last job. A repeated call updates the reason.

        Raises NotFound.
        """
        with self.database.writing() as uow:
            current = uow.optimizers.find(optimizer_id)
            stopping = stop or (current is not None and current.stopping)
            optimizer = uow.optimizers.ask(optimizer_id, draining=True, stopping=stopping, reason=reason)
        return self._build_status(optimizer_id, optimizer)

    def undrain(self, optimizer_id: str) -> OptimizerStatus:
        """Give a drained optimizer jobs again; raises NotFound when it has left."""
        with self.database.writing() as uow:
            optimizer = uow.optimizers.ask(optimizer_id, draining=False, stopping=False, reason=None)
        return self._build_status(optimizer_id, optimizer)

    def list(self) -> Sequence[OptimizerStatus]:
        """All registered optimizers, by group and id."""
        jobs_by_optimizer: defaultdict[str | None, list[JobId]] = defaultdict(list)
        with self.database.reading() as uow:
            now, optimizers = uow.now(), uow.optimizers.list()
            for job in uow.jobs.with_status([JobStatus.RUNNING, JobStatus.COMMITTING]):
                jobs_by_optimizer[job.owner].append(job.id)
            streams, queries = uow.streams.count_by_owner(), uow.queries.count_by_optimizer()
        return [
            OptimizerStatus(
                optimizer=optimizer,
                jobs=jobs_by_optimizer[optimizer.id],
                streams=streams.get(optimizer.id, 0),
                queries=queries.get(optimizer.id, 0),
                is_silent=optimizer.is_silent(now, self.lease),
            )
            for optimizer in optimizers
        ]

    def _build_status(self, optimizer_id: str, optimizer: Optimizer | None) -> OptimizerStatus:
        if optimizer is None:
            raise _build_unknown_error(optimizer_id)
        status = next((status for status in self.list() if status.optimizer.id == optimizer_id), None)
        return status or OptimizerStatus(optimizer=replace(optimizer), jobs=[], streams=0, queries=0, is_silent=False)


def _build_unknown_error(optimizer_id: str) -> NotFound:
    return NotFound(f"optimizer {optimizer_id} is not registered", hint="register again")
