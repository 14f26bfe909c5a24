"""Optimizers: they come, are heard, are asked to drain or to stop, and leave."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What an optimizer says of itself when it comes."""

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
    """An optimizer as people see it: with the jobs that it holds, and whether it is heard."""

    optimizer: Optimizer
    jobs: Sequence[JobId]
    is_silent: bool


@dataclass(frozen=True)
class Optimizers:
    """The optimizers of one server's database."""

    database: Database
    version: str
    lease: timedelta

    def register(self, registration: Registration) -> Optimizer:
        """Note a new optimizer; Conflict when it talks in another way than this server."""
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
        """Forget an optimizer that is leaving; what it still holds goes back at once."""
        with self.database.writing() as uow:
            held = (job.id for job in uow.jobs.with_status([JobStatus.RUNNING]) if job.owner == optimizer_id)
            for job_id in held:
                job = uow.jobs.lock(job_id)
                if job.status is JobStatus.RUNNING and job.owner == optimizer_id:
                    uow.jobs.put(hand_back(job, uow.now()))
            uow.optimizers.remove(optimizer_id)

    def seen(self, optimizer_id: str, memory: Mapping[str, int]) -> Optimizer:
        """Note that an optimizer asks for work; NotFound when it has to register again, Dismissed when it is to go."""
        with self.database.writing() as uow:
            optimizer = uow.optimizers.saw(optimizer_id, uow.now(), memory)
        if optimizer is None:
            raise _unknown(optimizer_id)
        if optimizer.stopping:
            raise Dismissed(f"optimizer {optimizer_id} was told to stop: {optimizer.reason or 'no reason was given'}")
        return optimizer

    def drain(self, optimizer_id: str, reason: str | None, *, stop: bool = False) -> OptimizerStatus:
        """Give it no new job; with `stop` it ends when it holds none. Asking again changes the reason alone."""
        with self.database.writing() as uow:
            known = uow.optimizers.find(optimizer_id)
            stopping = stop or (known is not None and known.stopping)
            asked = uow.optimizers.ask(optimizer_id, draining=True, stopping=stopping, reason=reason)
        return self._shown(optimizer_id, asked)

    def undrain(self, optimizer_id: str) -> OptimizerStatus:
        """Give it jobs again, unless it has gone meanwhile."""
        with self.database.writing() as uow:
            asked = uow.optimizers.ask(optimizer_id, draining=False, stopping=False, reason=None)
        return self._shown(optimizer_id, asked)

    def list(self) -> Sequence[OptimizerStatus]:
        """All, by group and id."""
        held: defaultdict[str | None, list[JobId]] = defaultdict(list)
        with self.database.reading() as uow:
            now, optimizers = uow.now(), uow.optimizers.list()
            for job in uow.jobs.with_status([JobStatus.RUNNING, JobStatus.COMMITTING]):
                held[job.owner].append(job.id)
        return [
            OptimizerStatus(
                optimizer=optimizer, jobs=held[optimizer.id], is_silent=optimizer.is_silent(now, self.lease)
            )
            for optimizer in optimizers
        ]

    def _shown(self, optimizer_id: str, asked: Optimizer | None) -> OptimizerStatus:
        if asked is None:
            raise _unknown(optimizer_id)
        found = next((status for status in self.list() if status.optimizer.id == optimizer_id), None)
        return found or OptimizerStatus(optimizer=replace(asked), jobs=[], is_silent=False)


def _unknown(optimizer_id: str) -> NotFound:
    return NotFound(f"optimizer {optimizer_id} is not registered", hint="register again")
