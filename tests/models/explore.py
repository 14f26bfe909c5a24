"""Explore a model: breadth first, so that the first trace found is a shortest one, and by random walks.

A model has an initial state, `steps(state)` with each possible next state and its label, and `check(state)`, which
returns the invariant that the state breaks or None. States are hashable values.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)
Steps = Callable[[S], Iterable[tuple[str, S]]]
Check = Callable[[S], str | None]


@dataclass(slots=True)
class Exploration:
    """What an exploration saw: how much, whether that was everything, and a shortest trace to each violation."""

    states: int = 0
    is_complete: bool = False
    violations: dict[str, list[str]] = field(default_factory=dict)

    def __str__(self) -> str:
        how_many = "all" if self.is_complete else "the first"
        lines = [f"{how_many} {self.states:,} states, {len(self.violations)} violations"]
        for violation, labels in self.violations.items():
            lines.append(f"   {violation}\n      " + " ; ".join(labels))
        return "\n".join(lines)


class _Search(Generic[S]):
    """The states seen so far, each with the step that led to it first."""

    def __init__(self, initial: S) -> None:
        self.origins: dict[S, tuple[S, str] | None] = {initial: None}
        self.queue = deque([initial])

    def trace(self, state: S) -> list[str]:
        labels = []
        while (origin := self.origins[state]) is not None:
            state, label = origin
            labels.append(label)
        return labels[::-1]


def exhaust(initial: S, steps: Steps[S], check: Check[S], limit: int, *, stop_at_first: bool = False) -> Exploration:
    """Visit states breadth first until all are seen or `limit` are. A state that breaks an invariant is not left."""
    search = _Search(initial)
    result = Exploration()
    while search.queue and len(search.origins) < limit:
        state = search.queue.popleft()
        if violation := check(state):
            result.violations.setdefault(violation, search.trace(state))
            if stop_at_first:
                break
            continue
        for label, after in steps(state):
            if after not in search.origins:
                search.origins[after] = (state, label)
                search.queue.append(after)
    result.states, result.is_complete = len(search.origins), not search.queue
    return result


def walk(
    initial: S,
    steps: Steps[S],
    check: Check[S],
    *,
    histories: int,
    length: int,
    seed: int = 1,
    wanted: str | None = None,
) -> Exploration:
    """Follow random histories; each ends at its first violation, and all of them at the wanted one."""
    rng = random.Random(seed)
    result = Exploration()
    for _ in range(histories):
        state, labels = initial, list[str]()
        for _ in range(length):
            choices = list(steps(state))
            if not choices:
                break
            label, state = rng.choice(choices)
            labels.append(label)
            result.states += 1
            if violation := check(state):
                shortest = result.violations.get(violation)
                if shortest is None or len(labels) < len(shortest):
                    result.violations[violation] = labels
                if violation == wanted:
                    return result
                break
    return result


def find_stuck(initial: S, steps: Steps[S], is_done: Callable[[S], bool], limit: int) -> tuple[bool, list[str] | None]:
    """Whether all states were seen, and a shortest trace to one from which no finished state can be reached."""
    search = _Search(initial)
    predecessors: dict[S, list[S]] = {}
    while search.queue and len(search.origins) < limit:
        state = search.queue.popleft()
        for label, after in steps(state):
            predecessors.setdefault(after, []).append(state)
            if after not in search.origins:
                search.origins[after] = (state, label)
                search.queue.append(after)
    can_finish: set[S] = set()
    todo = [state for state in search.origins if is_done(state)]
    while todo:
        state = todo.pop()
        if state not in can_finish:
            can_finish.add(state)
            todo += predecessors.get(state, [])
    stuck = next((state for state in search.origins if state not in can_finish), None)
    return not search.queue, None if stuck is None else search.trace(stuck)
