"""What the functions that judge one kind of job each say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from catalog.job import Job, JobKind
from catalog.planning.facts import Due, TableFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    """Not due yet: what is lacking, and when time alone will make it due."""

    kind: JobKind
    why: str
    next_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Never:
    """Asked for by policy, and refused for such a table: a job could only fail."""

    kind: JobKind
    why: str


Need = Callable[[TableFacts, Sequence[Job], datetime], Due | Later | Never | None]
"""None: there is nothing that such a job could do."""


def counted(number: int, what: str) -> str:
    """`1 commit`, `2 commits`."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def at(moment: datetime) -> str:
    """A moment in a sentence."""
    return f"{moment:%Y-%m-%d %H:%M} UTC"
