"""When a merge is due, in a language of its own: `rows >= 500000 or (commits >= 20 and age >= 5 min)`.

Facts are `rows`, `bytes` and `commits` that are pending, the `age` of the oldest of them, and the time `elapsed` since
the last merge. All of them only grow until a merge comes, so `>=` is all that is needed, and what is true stays true.
`and` binds closer than `or`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from catalog.errors import Invalid
from catalog.policy.units import format_duration, format_size, parse_count, parse_duration, parse_size

LONGEST_TEXT = 1000
DEEPEST = 20
HINT = "write such as rows >= 500000 or (commits >= 20 and age >= 5 min), of rows, bytes, commits, age and elapsed"


class TriggerFact(StrEnum):
    """What is known of changes that wait for a merge."""

    ROWS = "rows"
    BYTES = "bytes"
    COMMITS = "commits"
    AGE = "age"  # of the oldest pending change
    ELAPSED = "elapsed"  # since the last merge, or since the table was made


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingChanges:
    """The changes that wait for a merge, at one moment."""

    rows: int
    bytes: int
    commits: int
    since: datetime
    """When the oldest of them came."""
    merged_at: datetime
    now: datetime

    def amount(self, fact: TriggerFact) -> float:
        """The fact's value; times in seconds."""
        match fact:
            case TriggerFact.AGE:
                return (self.now - self.since).total_seconds()
            case TriggerFact.ELAPSED:
                return (self.now - self.merged_at).total_seconds()
            case _:
                return int(getattr(self, fact))


@dataclass(frozen=True, slots=True)
class AtLeast:
    """One fact has reached a limit; of times in seconds."""

    fact: TriggerFact
    limit: float

    def holds(self, waiting: PendingChanges) -> bool:
        return waiting.amount(self.fact) >= self.limit

    def reason(self, waiting: PendingChanges) -> str:
        """What the fact says now, beside its limit."""
        return f"{_SAID[self.fact](waiting.amount(self.fact))} (limit {_LIMIT[self.fact](self.limit)})"

    def next_at(self, waiting: PendingChanges) -> datetime | None:
        """When it will hold if nothing else happens; None when time alone does not make it."""
        if self.holds(waiting):
            return waiting.now
        if self.fact not in TIMES:
            return None
        return (waiting.since if self.fact is TriggerFact.AGE else waiting.merged_at) + timedelta(seconds=self.limit)

    def reached(self, waiting: PendingChanges) -> float | None:
        """The share of the limit that is reached; None for times, which only pass."""
        return None if self.fact in TIMES else waiting.amount(self.fact) / max(self.limit, 1)


@dataclass(frozen=True, slots=True)
class AllOf:
    """All parts hold."""

    parts: tuple[Trigger, ...]

    def holds(self, waiting: PendingChanges) -> bool:
        return all(part.holds(waiting) for part in self.parts)

    def reason(self, waiting: PendingChanges) -> str:
        """When it holds, all of it; otherwise what is missing."""
        lacking = [part for part in self.parts if not part.holds(waiting)]
        return " and ".join(part.reason(waiting) for part in lacking or self.parts)

    def next_at(self, waiting: PendingChanges) -> datetime | None:
        moments = [part.next_at(waiting) for part in self.parts]
        known = [moment for moment in moments if moment is not None]
        return max(known) if len(known) == len(moments) else None

    def reached(self, waiting: PendingChanges) -> float | None:
        shares = [share for part in self.parts if (share := part.reached(waiting)) is not None]
        return min(shares, default=None)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """One part at least holds."""

    parts: tuple[Trigger, ...]

    def holds(self, waiting: PendingChanges) -> bool:
        return any(part.holds(waiting) for part in self.parts)

    def reason(self, waiting: PendingChanges) -> str:
        """The first part that holds; otherwise the first of all."""
        return next((part for part in self.parts if part.holds(waiting)), self.parts[0]).reason(waiting)

    def next_at(self, waiting: PendingChanges) -> datetime | None:
        return min((moment for part in self.parts if (moment := part.next_at(waiting)) is not None), default=None)

    def reached(self, waiting: PendingChanges) -> float | None:
        shares = [share for part in self.parts if (share := part.reached(waiting)) is not None]
        return max(shares, default=None)


Trigger = AtLeast | AllOf | AnyOf
TIMES = (TriggerFact.AGE, TriggerFact.ELAPSED)


def _span(seconds: float) -> str:
    return format_duration(timedelta(seconds=seconds))


_READ: Mapping[TriggerFact, Callable[[str], float]] = {
    TriggerFact.ROWS: parse_count,
    TriggerFact.COMMITS: parse_count,
    TriggerFact.BYTES: parse_size,
    TriggerFact.AGE: lambda text: parse_duration(text).total_seconds(),
    TriggerFact.ELAPSED: lambda text: parse_duration(text).total_seconds(),
}
_SAID: Mapping[TriggerFact, Callable[[float], str]] = {
    TriggerFact.ROWS: lambda amount: f"{amount:,} {'row' if amount == 1 else 'rows'} pending",
    TriggerFact.COMMITS: lambda amount: f"{amount:,} {'commit' if amount == 1 else 'commits'} pending",
    TriggerFact.BYTES: lambda amount: f"{format_size(amount)} pending",
    TriggerFact.AGE: lambda amount: f"oldest change pending for {_span(amount)}",
    TriggerFact.ELAPSED: lambda amount: f"last merged {_span(amount)} ago",
}
_LIMIT: Mapping[TriggerFact, Callable[[float], str]] = {
    TriggerFact.ROWS: lambda limit: f"{limit:,}",
    TriggerFact.COMMITS: lambda limit: f"{limit:,}",
    TriggerFact.BYTES: format_size,
    TriggerFact.AGE: _span,
    TriggerFact.ELAPSED: _span,
}

_WORD = re.compile(
    r"\s*(?:(?P<name>[A-Za-z]+)|(?P<number>\d[\d_.]*\s*(?!and\b|or\b)[A-Za-z]*)|(?P<sign>>=|[()])|(?P<end>$))"
)


def parse_trigger(text: str) -> Trigger:
    """The trigger, or Invalid with the place at which it stops making sense."""
    if len(text) > LONGEST_TEXT:
        raise Invalid(f"a trigger has {LONGEST_TEXT} characters at most, not {len(text)}", hint=HINT)
    return _Parser(text).whole()


class _Parser:
    """Recursive descent: any := all (or all)*, all := one (and one)*, one := ( any ) | FACT >= AMOUNT."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        """Where the next word begins, blanks included."""

    def whole(self) -> Trigger:
        trigger = self._any(0)
        if self._next()[0]:
            raise self._expected("and, or, or the end")
        return trigger

    def _any(self, depth: int) -> Trigger:
        parts = [self._all(depth)]
        while self._took("or"):
            parts.append(self._all(depth))
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def _all(self, depth: int) -> Trigger:
        parts = [self._one(depth)]
        while self._took("and"):
            parts.append(self._one(depth))
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def _one(self, depth: int) -> Trigger:
        if depth > DEEPEST:
            raise self._expected(f"no more than {DEEPEST} brackets within each other")
        if self._took("("):
            inner = self._any(depth + 1)
            if not self._took(")"):
                raise self._expected("and, or, or )")
            return inner
        word, end = self._next()
        if word.lower() not in tuple(TriggerFact):
            raise self._expected(f"one of {', '.join(TriggerFact)}")
        self.at = end
        if not self._took(">="):
            raise self._expected(f">= after {word}")
        return AtLeast(TriggerFact(word.lower()), self._amount(TriggerFact(word.lower())))

    def _amount(self, fact: TriggerFact) -> float:
        word, end = self._next()
        if not word[:1].isdigit():
            raise self._expected("an amount")
        try:
            limit = _READ[fact](word.replace("_", ""))
        except Invalid as error:
            raise self._wrong(error.message, error.hint) from error
        self.at = end
        return limit

    def _next(self) -> tuple[str, int]:
        """The next word, empty at the end, and where it ends."""
        found = _WORD.match(self.text, self.at)
        if found is None:
            raise self._expected("a word, a number, >= or a bracket")
        return found[0].strip(), found.end()

    def _took(self, word: str) -> bool:
        found, end = self._next()
        if found.lower() != word:
            return False
        self.at = end
        return True

    def _expected(self, what: str) -> Invalid:
        rest = self.text[self.at :].split()
        return self._wrong(f"expected {what}, found {rest[0]!r}" if rest else f"expected {what}, found the end")

    def _wrong(self, message: str, hint: str | None = None) -> Invalid:
        blanks = len(self.text[self.at :]) - len(self.text[self.at :].lstrip())
        return Invalid(f"at character {self.at + blanks + 1} of {self.text!r}: {message}", hint=hint or HINT)
