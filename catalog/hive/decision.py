"""Decisions: what a sync or publish does with each partition, and why it holds one back.

Both flows work in three steps. They detect what differs, classify each partition by a list of filters, and apply the
decisions. A filter is given partitions and returns a decision for each one that it holds back; the others go on to the
next filter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

K = TypeVar("K", bound=StrEnum)
F = TypeVar("F")


@dataclass(frozen=True, slots=True)
class Decision(Generic[K, F]):
    """The decision about one partition: a kind for programs, a reason and advice for people."""

    kind: K
    facts: F
    reason: str = ""
    advice: str = ""
    """The step that ends the wait, for people; empty if the server goes on by itself."""
    held_by: str = ""
    """The filter that holds the partition back."""

    @property
    def words(self) -> str:
        """Reason and advice, for people."""
        return f"{self.reason}. {self.advice}" if self.advice else self.reason


@dataclass(frozen=True, slots=True)
class Filter(Generic[K, F]):
    """One reason to hold partitions back, with a name that people see."""

    name: str
    kind: K
    advice: str
    find: Callable[[Mapping[str, F]], Mapping[str, str]]
    """Returns the partitions that the filter holds back, each with its reason."""

    def decide(self, partitions: Mapping[str, F]) -> dict[str, Decision[K, F]]:
        """Decide about the partitions that the filter holds back."""
        return {
            name: Decision(self.kind, partitions[name], reason, self.advice, self.name)
            for name, reason in self.find(partitions).items()
            if name in partitions
        }


def apply_filters(
    partitions: Mapping[str, F], filters: Sequence[Filter[K, F]]
) -> tuple[dict[str, F], dict[str, Decision[K, F]]]:
    """Apply filters in order. Returns the partitions that no filter holds back, and a decision about each other one."""
    remaining, decisions = dict(partitions), dict[str, Decision[K, F]]()
    for filter_ in filters:
        decided = filter_.decide(remaining)
        decisions |= decided
        remaining = {name: facts for name, facts in remaining.items() if name not in decided}
    return remaining, decisions


MOST_HELD = 20
"""The largest number of groups of held-back partitions in an answer; the message covers all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """Partitions that one filter holds back for one reason."""

    filter: str
    kind: str
    partitions: int
    example: str
    """The first of them by name; empty for a table without partitions."""
    reason: str
    advice: str

    @property
    def message(self) -> str:
        """The reason and the advice, for people."""
        wait = "1 partition waits" if self.partitions == 1 else f"{self.partitions:,} partitions wait"
        return f"{wait}, because {self.reason}: {self.advice}" if self.advice else f"{wait}, because {self.reason}"


def group_held(decisions: Mapping[str, Decision[K, F]]) -> tuple[HeldBack, ...]:
    """Group the partitions that are held back by filter and reason, in the order of the decisions."""
    names: dict[tuple[str, str, str, str], list[str]] = {}
    for name, decision in decisions.items():
        if decision.held_by:
            group = (decision.held_by, str(decision.kind), decision.reason, decision.advice)
            names.setdefault(group, []).append(name)
    return tuple(
        HeldBack(
            filter=held_by, kind=kind, partitions=len(partitions), example=min(partitions), reason=reason, advice=advice
        )
        for (held_by, kind, reason, advice), partitions in names.items()
    )
