"""Model of bounded runs: each takes the commits of two inputs up to one time (docs/protocols.md, rule 8.14).

A user starts one run, and nothing else triggers the table. A run takes one commit at least, and as few as it can.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.models.explore import Check, Steps

INPUTS = (0, 1)
Versions = tuple[int, int]


class Rules(NamedTuple):
    """The clauses of rule 8.14."""

    one_time: bool = True
    """All inputs are pinned at one time; otherwise each at its own first commit since the checkpoint."""
    pins_while_choosing: bool = True
    """One transaction chooses and pins; otherwise expiry may come between."""
    never_back: bool = True
    """The time is not before the pins of the checkpoint; otherwise it is that of the oldest state that is left."""
    continues: bool = True
    """A run that has left commits starts the next one."""


class World(NamedTuple):
    history: tuple[int, ...] = ()  # the input of each commit, in the order of time
    expired: frozenset[tuple[int, int]] = frozenset()
    position: Versions = (0, 0)
    passed: Versions = (0, 0)  # what the table has shown before
    chosen: Versions | None = None  # of a run that has not pinned them yet
    pinned: Versions | None = None
    wanted: bool = True  # the user's one run
    left: bool = False  # whether the run at work leaves commits
    commits: int = 4
    expiries: int = 2


def find_states(world: World) -> list[Versions]:
    """The versions of both inputs at each time, oldest first."""
    counts = [world.history[:moment].count for moment in range(len(world.history) + 1)]
    return [(count(0), count(1)) for count in counts]


def check(world: World) -> str | None:
    if world.position not in find_states(world):
        return "the table shows inputs of different times"
    if any(new < old for new, old in zip(world.position, world.passed, strict=True)):
        return "the table goes back"
    if world.pinned is not None and any((name, world.pinned[name]) in world.expired for name in INPUTS):
        return "a state that a run reads has expired"
    if not world.wanted and world.pinned is None and world.chosen is None and world.left:
        return "commits are left, and no run is to come"
    return None


CHECK: Check[World] = check


def bounded_steps(rules: Rules) -> Steps[World]:
    def steps(world: World) -> Iterator[tuple[str, World]]:
        if world.commits:
            for name in INPUTS:
                yield (
                    f"a commit to input {name}",
                    world._replace(history=(*world.history, name), commits=world.commits - 1),
                )
        yield from _expire(world)
        if world.pinned is not None:
            moved = world._replace(position=world.pinned, passed=world.position, pinned=None)
            yield "the run commits", moved._replace(wanted=world.left and rules.continues)
            yield "the run dies", world._replace(pinned=None, wanted=True, left=False)
        elif world.chosen is not None:
            yield "the run pins", world._replace(chosen=None, pinned=world.chosen)
        elif world.wanted:
            yield _choose(rules, world)

    return steps


def _expire(world: World) -> Iterator[tuple[str, World]]:
    """Expiry removes states that are older than the newest one, and that no pin protects."""
    newest = find_states(world)[-1]
    for name in INPUTS if world.expiries else ():
        kept = {newest[name], world.position[name], *(() if world.pinned is None else (world.pinned[name],))}
        for version in {*range(newest[name])} - kept:
            gone = world.expired | {(name, version)}
            yield (
                f"version {version} of input {name} expires",
                world._replace(expired=gone, expiries=world.expiries - 1),
            )


def _choose(rules: Rules, world: World) -> tuple[str, World]:
    states = find_states(world)
    newest, since = states[-1], world.position
    later = [state for state in states if all(new >= old for new, old in zip(state, since, strict=True))]
    left = later if rules.never_back else states
    readable = [state for state in left if all((name, state[name]) not in world.expired for name in INPUTS)]
    chosen = next((state for state in readable if state != since), newest)
    if not rules.one_time:
        first = [min(since[name] + 1, newest[name]) for name in INPUTS]
        chosen = (first[0], first[1])
    chosen_world = world._replace(left=chosen != newest, wanted=False)
    if rules.pins_while_choosing:
        return "a run chooses and pins", chosen_world._replace(pinned=chosen)
    return "a run chooses", chosen_world._replace(chosen=chosen)
