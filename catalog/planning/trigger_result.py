"""What the functions that judge one kind of job each say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from catalog.jobs.job import Job, JobKind
from catalog.planning.facts import Due, TableFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class NotYet:
    """Not due yet: what is lacking, and when time alone will make it due."""

    kind: JobKind
    reason: str
    next_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotApplicable:
    """Asked for by policy, and refused for such a table: a job could only fail."""

    kind: JobKind
    reason: str


JobTrigger = Callable[[TableFacts, Sequence[Job], datetime], Due | NotYet | NotApplicable | None]
"""None: there is nothing that such a job could do."""


def format_count(number: int, what: str) -> str:
    """`1 commit`, `2 commits`."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def format_time(moment: datetime) -> str:
    """A moment in a sentence."""
    return f"{moment:%Y-%m-%d %H:%M} UTC"
