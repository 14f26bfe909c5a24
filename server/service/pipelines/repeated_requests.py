"""Requests for runs and backfills that come again, with the same idempotency key.

A client sends the key again if it got no answer, or has started anew. The key of a run is a parameter of its job, so it
lives as long as the job. A table of its own would forget it earlier, and a schedule that comes back after hours would
start the run again. The key of a backfill determines its id, so it lives as long as the backfill.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4, uuid5

from catalog.errors import Invalid, NotFound
from catalog.jobs.job import Job
from catalog.pipelines.backfill import Backfill, BackfillId
from catalog.pipelines.pipeline import Pipeline, PipelineTable
from catalog.ports.store import UnitOfWork
from catalog.ports.work import JobFilter
from firn.protocol.backfills import BackfillRequest
from server.service.pipelines.bounded_inputs import TO

IDEMPOTENCY_KEY = "idempotency_key"
"""The parameter of a run's job with the key of the request."""
_NEWEST_RUNS = 200
"""The runs of a table among which a key is looked for. A run that is active is always one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedRun:
    """What a user wants of a run. With `to` it takes no later commits."""

    full: bool = False
    to: datetime | None = None
    idempotency_key: str | None = None

    def build_params(self, requester: str | None) -> dict[str, Any]:
        """The parameters of the run's job."""
        params: dict[str, Any] = {"full": self.full, "requested_by": requester}
        if self.to is not None:
            params[TO] = self.to.astimezone(UTC).isoformat()
        if self.idempotency_key is not None:
            params[IDEMPOTENCY_KEY] = self.idempotency_key
        return params


def find_repeated(uow: UnitOfWork, pipeline: Pipeline, subject: PipelineTable, params: dict[str, Any]) -> Job | None:
    """The run that an earlier request with the same key of the same user has started; the subject has to be locked.

    Invalid if that request wanted another run.
    """
    key = params.get(IDEMPOTENCY_KEY)
    if key is None:
        return None
    jobs = uow.jobs.list(JobFilter(subject_ids=[subject.id]), limit=_NEWEST_RUNS).items
    same = ("requested_by", IDEMPOTENCY_KEY)
    job = next((job for job in jobs if all(job.params.get(name) == params[name] for name in same)), None)
    if job is None:
        return None
    wanted = {"full": params["full"], TO: params.get(TO), "pipeline": pipeline.name}
    if any(job.params.get(name) != value for name, value in wanted.items()):
        raise Invalid(f"idempotency key {key} was used for another run, {job.id}", hint="use a new key")
    return job


def build_backfill_id(table: PipelineTable, requester: str | None, body: BackfillRequest) -> BackfillId:
    """The id of a requested backfill: with a key, always the same one for this table and user."""
    if body.idempotency_key is None or body.dry_run:
        return BackfillId(uuid4())
    return BackfillId(uuid5(table.id, json.dumps([requester, body.idempotency_key])))


def find_backfill(uow: UnitOfWork, backfill_id: BackfillId) -> Backfill | None:
    """The backfill of an earlier request with the same key, if the server still has it."""
    try:
        return uow.backfills.get(backfill_id)
    except NotFound:
        return None


def check_repeated_backfill(stored: Backfill, body: BackfillRequest) -> None:
    """Invalid if the earlier request with the same key wanted another backfill."""
    same = (body.where, body.chunk_seconds, body.beside) == (stored.where, stored.chunk_seconds, stored.beside)
    if not same or (body.chunks is not None and len(stored.chunks) > body.chunks):  # a narrow range has fewer
        raise Invalid(
            f"idempotency key {body.idempotency_key} was used for another backfill, {stored.id}", hint="use a new key"
        )
