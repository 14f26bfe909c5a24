"""Model of truncates in a log (docs/protocols.md, rule 6.16).

Two copies of a drain bring a topic with one partition to the change store. A record sets a key, or truncates the table.
A truncate has no keys, so the copy reads the table's rows and deletes each of them. Copies die and restart, and
requests arrive late. The server is only its transactions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.models.explore import Check, Steps

TOPIC = "abtac"
"""The key that each record sets; `t` truncates the table."""
Rows = tuple[tuple[str, int], ...]
"""The live keys, and the offset of the record that each one has."""


class Rules(NamedTuple):
    """The rules, each with the number that docs/protocols.md gives it."""

    splits_batches: bool = True
    """6.16: a batch ends before a truncate, which is a batch of its own."""
    reads_at_position: bool = True
    """6.16: the rows are those of a snapshot whose position is that of the truncate."""


class Request(NamedTuple):
    copy: int
    epoch: int
    start: int
    end: int
    deletes: frozenset[str]
    """The keys that are deleted before the batch's records are applied."""


class Copy(NamedTuple):
    """One copy. `rows` are those that it saw at its last look, and `at` is the position then."""

    phase: str = "idle"
    epoch: int = 0
    at: int = 0
    rows: Rows = ()


class World(NamedTuple):
    position: int = 0
    epoch: int = 0
    rows: Rows = ()
    copies: tuple[Copy, ...] = (Copy(), Copy())
    requests: frozenset[Request] = frozenset()
    starts: int = 3


def replay(end: int) -> Rows:
    """The rows that the records below an offset make."""
    rows: dict[str, int] = {}
    for offset, key in enumerate(TOPIC[:end]):
        if key == "t":
            rows.clear()
        else:
            rows[key] = offset
    return tuple(sorted(rows.items()))


def check(world: World) -> str | None:
    expected = dict(replay(world.position))
    rows = dict(world.rows)
    if rows.keys() - expected.keys():
        return "a row has outlived the truncate"
    if expected.keys() - rows.keys():
        return "a row after the truncate is gone"
    return None if rows == expected else "a row is old"


CHECK: Check[World] = check


def truncate_steps(rules: Rules) -> Steps[World]:
    def steps(world: World) -> Iterator[tuple[str, World]]:
        for number, copy in enumerate(world.copies):
            if world.starts > 0:
                started = Copy("ready", world.epoch + 1, world.position, world.rows)
                after = world._replace(epoch=world.epoch + 1, starts=world.starts - 1)
                yield f"copy {number} starts", _set_copy(after, number, started)
            if copy.phase == "ready":
                yield from _send(rules, world, number, copy)
        for request in sorted(world.requests, key=str):
            rest = world._replace(requests=world.requests - {request})
            yield f"copy {request.copy} is served", _serve(rest, request)

    return steps


def _send(rules: Rules, world: World, number: int, copy: Copy) -> Iterator[tuple[str, World]]:
    looks = [world.rows] if rules.reads_at_position else [world.rows, copy.rows]
    if rules.reads_at_position and copy.at != world.position:
        looks = []  # another copy has moved on: this one looks again, or is fenced
    for rows in looks:
        for end in range(copy.at + 1, len(TOPIC) + 1):
            batch = TOPIC[copy.at : end]
            if "t" in batch and len(batch) > 1 and rules.splits_batches:
                continue
            deletes = frozenset(key for key, _ in rows) if "t" in batch else frozenset[str]()
            request = Request(number, copy.epoch, copy.at, end, deletes)
            sent = _set_copy(world, number, copy._replace(phase="waiting"))
            yield f"copy {number} sends {copy.at} to {end}", sent._replace(requests=world.requests | {request})


def _serve(world: World, request: Request) -> World:
    copy = world.copies[request.copy]
    if request.epoch < world.epoch or request.start != world.position:
        return _answer(world, request, copy._replace(phase="idle"))
    rows = {key: offset for key, offset in world.rows if key not in request.deletes}
    for offset in range(request.start, request.end):
        if TOPIC[offset] != "t":
            rows[TOPIC[offset]] = offset
    after = world._replace(position=request.end, rows=tuple(sorted(rows.items())))
    # The copy remembers the rows of its last look, not those that it has just written.
    return _answer(after, request, copy._replace(phase="ready", at=request.end))


def _answer(world: World, request: Request, copy: Copy) -> World:
    return _set_copy(world, request.copy, copy) if copy.epoch == request.epoch else world


def _set_copy(world: World, number: int, copy: Copy) -> World:
    return world._replace(copies=(*world.copies[:number], copy, *world.copies[number + 1 :]))
