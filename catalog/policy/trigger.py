"""The language of merge triggers: `rows >= 500000 or (commits >= 20 and age >= 5 min)`.

Facts are the pending `rows`, `bytes` and `commits`, the `age` of the oldest of them, and the time `elapsed` since the
last merge. All facts only grow until a merge, so `>=` suffices, and a true trigger stays true. `and` binds closer than
`or`.
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
MAX_DEPTH = 20
HINT = "write such as rows >= 500000 or (commits >= 20 and age >= 5 min), of rows, bytes, commits, age and elapsed"


class TriggerFact(StrEnum):
    """The facts of pending changes."""

    ROWS = "rows"
    BYTES = "bytes"
    COMMITS = "commits"
    AGE = "age"  # of the oldest pending change
    ELAPSED = "elapsed"  # since the last merge, or since the table's creation


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingChanges:
    """The pending changes at one moment."""

    rows: int
    bytes: int
    commits: int
    since: datetime
    """When the oldest of them arrived."""
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
    """One fact reaches a limit; the limit of a time is in seconds."""

    fact: TriggerFact
    limit: float

    def holds(self, waiting: PendingChanges) -> bool:
        return waiting.amount(self.fact) >= self.limit

    def reason(self, waiting: PendingChanges) -> str:
        """The fact's value beside its limit."""
        return f"{_AMOUNTS[self.fact](waiting.amount(self.fact))} (limit {_LIMITS[self.fact](self.limit)})"

    def next_at(self, waiting: PendingChanges) -> datetime | None:
        """When it will hold if nothing else happens; None if time alone cannot make it hold."""
        if self.holds(waiting):
            return waiting.now
        if self.fact not in TIMES:
            return None
        return (waiting.since if self.fact is TriggerFact.AGE else waiting.merged_at) + timedelta(seconds=self.limit)

    def reached(self, waiting: PendingChanges) -> float | None:
        """The reached share of the limit; None for times, which only pass."""
        return None if self.fact in TIMES else waiting.amount(self.fact) / max(self.limit, 1)


@dataclass(frozen=True, slots=True)
class AllOf:
    """All parts hold."""

    parts: tuple[Trigger, ...]

    def holds(self, waiting: PendingChanges) -> bool:
        return all(part.holds(waiting) for part in self.parts)

    def reason(self, waiting: PendingChanges) -> str:
        """All parts if it holds; otherwise the missing parts."""
        lacking = [part for part in self.parts if not part.holds(waiting)]
        return " and ".join(part.reason(waiting) for part in lacking or self.parts)

    def next_at(self, waiting: PendingChanges) -> datetime | None:
        moments = [part.next_at(waiting) for part in self.parts]
        due_times = [moment for moment in moments if moment is not None]
        return max(due_times) if len(due_times) == len(moments) else None

    def reached(self, waiting: PendingChanges) -> float | None:
        shares = [share for part in self.parts if (share := part.reached(waiting)) is not None]
        return min(shares, default=None)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one part holds."""

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


def _format_span(seconds: float) -> str:
    return format_duration(timedelta(seconds=seconds))


_PARSERS: Mapping[TriggerFact, Callable[[str], float]] = {
    TriggerFact.ROWS: parse_count,
    TriggerFact.COMMITS: parse_count,
    TriggerFact.BYTES: parse_size,
    TriggerFact.AGE: lambda text: parse_duration(text).total_seconds(),
    TriggerFact.ELAPSED: lambda text: parse_duration(text).total_seconds(),
}
_AMOUNTS: Mapping[TriggerFact, Callable[[float], str]] = {
    TriggerFact.ROWS: lambda amount: f"{amount:,} {'row' if amount == 1 else 'rows'} pending",
    TriggerFact.COMMITS: lambda amount: f"{amount:,} {'commit' if amount == 1 else 'commits'} pending",
    TriggerFact.BYTES: lambda amount: f"{format_size(amount)} pending",
    TriggerFact.AGE: lambda amount: f"oldest change pending for {_format_span(amount)}",
    TriggerFact.ELAPSED: lambda amount: f"last merged {_format_span(amount)} ago",
}
_LIMITS: Mapping[TriggerFact, Callable[[float], str]] = {
    TriggerFact.ROWS: lambda limit: f"{limit:,}",
    TriggerFact.COMMITS: lambda limit: f"{limit:,}",
    TriggerFact.BYTES: format_size,
    TriggerFact.AGE: _format_span,
    TriggerFact.ELAPSED: _format_span,
}

_WORD = re.compile(
    r"\s*(?:(?P<name>[A-Za-z]+)|(?P<number>\d[\d_.]*\s*(?!and\b|or\b)[A-Za-z]*)|(?P<sign>>=|[()])|(?P<end>$))"
)


def parse_trigger(text: str) -> Trigger:
    """The trigger; Invalid with the position of the first error."""
    if len(text) > LONGEST_TEXT:
        raise Invalid(f"a trigger has {LONGEST_TEXT} characters at most, not {len(text)}", hint=HINT)
    return _Parser(text).parse()


class _Parser:
    """A recursive descent parser: any := all (or all)*, all := part (and part)*, part := ( any ) | FACT >= AMOUNT."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        """The start of the next word, with the blanks before it."""

    def parse(self) -> Trigger:
        trigger = self._parse_any(0)
        if self._read_word()[0]:
            raise self._make_expectation_error("and, or, or the end")
        return trigger

    def _parse_any(self, depth: int) -> Trigger:
        parts = [self._parse_all(depth)]
        while self._take("or"):
            parts.append(self._parse_all(depth))
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def _parse_all(self, depth: int) -> Trigger:
        parts = [self._parse_part(depth)]
        while self._take("and"):
            parts.append(self._parse_part(depth))
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def _parse_part(self, depth: int) -> Trigger:
        if depth > MAX_DEPTH:
            raise self._make_expectation_error(f"no more than {MAX_DEPTH} brackets within each other")
        if self._take("("):
            inner = self._parse_any(depth + 1)
            if not self._take(")"):
                raise self._make_expectation_error("and, or, or )")
            return inner
        word, end = self._read_word()
        if word.lower() not in tuple(TriggerFact):
            raise self._make_expectation_error(f"one of {', '.join(TriggerFact)}")
        self.at = end
        if not self._take(">="):
            raise self._make_expectation_error(f">= after {word}")
        return AtLeast(TriggerFact(word.lower()), self._parse_amount(TriggerFact(word.lower())))

    def _parse_amount(self, fact: TriggerFact) -> float:
        word, end = self._read_word()
        if not word[:1].isdigit():
            raise self._make_expectation_error("an amount")
        try:
            limit = _PARSERS[fact](word.replace("_", ""))
        except Invalid as error:
            raise self._make_error(error.message, error.hint) from error
        self.at = end
        return limit

    def _read_word(self) -> tuple[str, int]:
        """The next word, empty at the end, and its end position."""
        match = _WORD.match(self.text, self.at)
        if match is None:
            raise self._make_expectation_error("a word, a number, >= or a bracket")
        return match[0].strip(), match.end()

    def _take(self, word: str) -> bool:
        next_word, end = self._read_word()
        if next_word.lower() != word:
            return False
        self.at = end
        return True

    def _make_expectation_error(self, expectation: str) -> Invalid:
        rest = self.text[self.at :].split()
        return self._make_error(
            f"expected {expectation}, found {rest[0]!r}" if rest else f"expected {expectation}, found the end"
        )

    def _make_error(self, message: str, hint: str | None = None) -> Invalid:
        blanks = len(self.text[self.at :]) - len(self.text[self.at :].lstrip())
        return Invalid(f"at character {self.at + blanks + 1} of {self.text!r}: {message}", hint=hint or HINT)
