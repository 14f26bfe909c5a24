"""Answers about jobs: a job, its attempts and log, and a dry run."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from firn.protocol.base import Open, Out
from firn.protocol.jobs import JobKind, JobOutcome, JobStatus


class AttemptOut(Out):
    """One attempt of an optimizer at a job. `outcome` says how it ended."""

    number: int
    optimizer: str
    leased_at: datetime
    ended_at: datetime | None
    outcome: str | None


class JobOut(Out):
    """One job. `allowed_actions` names the actions that are allowed now."""

    id: UUID
    catalog: str
    table: str
    kind: Open[JobKind]
    status: JobStatus
    outcome: Open[JobOutcome] | None
    """The result of a job that succeeded."""
    group: str
    reason: str
    attempt: int
    owner: str | None
    created_at: datetime
    deadline: datetime
    """The latest time at which it should begin. Optimizers take the job with the earliest deadline first."""
    priority: str
    is_long: bool
    leased_at: datetime | None
    lease_until: datetime | None
    ended_at: datetime | None
    committed_snapshot_id: str | None
    error: str | None
    params: dict[str, Any]
    progress: dict[str, Any]
    result: dict[str, Any]
    predicted: dict[str, Any]
    attempts: list[AttemptOut]
    """The last ten, oldest first."""
    allowed_actions: list[str]


class LogLine(Out):
    """One line of a job's log."""

    at: datetime
    line: str


class AffectedItemsOut(Out):
    """Items of one kind that a job would change or skip."""

    items: str
    count: int
    bytes: int | None


class DryRunOut(Out):
    """The result of a dry run: the action, the affected items and the gain.

    If it is not exact, the numbers are estimates and a note names them.
    """

    kind: Open[JobKind]
    action: str
    affected: list[AffectedItemsOut]
    gain: dict[str, int]
    exact: bool
    notes: list[str]
    is_empty: bool
    """Whether it is certain that the job would change nothing."""
