"""The results of the triggers of job kinds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from catalog.jobs.job import Job, JobKind
from catalog.planning.facts import Due, TableFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class NotYet:
    """Not due yet: the missing condition, and the time when it becomes due by time alone."""

    kind: JobKind
    reason: str
    next_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotApplicable:
    """A kind that the policy asks for but the table does not allow: a job could only fail."""

    kind: JobKind
    reason: str


JobTrigger = Callable[[TableFacts, Sequence[Job], datetime], Due | NotYet | NotApplicable | None]
"""A trigger; None means that such a job has nothing to do."""


def format_count(number: int, noun: str) -> str:
    """`1 commit`, `2 commits`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def format_time(moment: datetime) -> str:
    """A time in a sentence."""
    return f"{moment:%Y-%m-%d %H:%M} UTC"
