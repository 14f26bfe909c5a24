"""Model of a table without a key that a pipeline writes: files replaced while others commit (rule 8.20).

The table has rows with affected values, which a run replaces, and others, which it writes again if they are in the same
file. Others append rows, delete rows and compact files at any moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.models.explore import Steps

AFFECTED, OTHER = "affected", "other"


class Rules(NamedTuple):
    """The rules, each with the number that docs/protocols.md gives it."""

    checks_files: bool = True
    """8.20: a commit is refused if a file that it replaces is gone, or has other deletes."""


class Row(NamedTuple):
    kind: str
    number: int


class Attempt(NamedTuple):
    """A run that has read the table, and the files that it saw."""

    files: tuple[tuple[int, frozenset[Row]], ...] = ()
    has_read: bool = False


class World(NamedTuple):
    files: tuple[tuple[int, frozenset[Row]], ...] = ((1, frozenset({Row(AFFECTED, 1), Row(OTHER, 2)})),)
    others: frozenset[int] = frozenset({2})  # the rows that no run computes, as they should be
    attempt: Attempt = Attempt()
    last: int = 10
    left: tuple[tuple[str, int], ...] = (("run", 3), ("foreign", 2), ("crash", 2))


def check(world: World) -> str | None:
    rows = [row for _, content in world.files for row in content]
    if len(rows) != len(set(rows)):
        return "a row is in the table twice"
    present = {row.number for row in rows if row.kind == OTHER}
    if present - world.others:
        return "a deleted row is back"
    if world.others - present:
        return "a row of others is lost"
    return None


def plain_steps(rules: Rules) -> Steps[World]:
    def steps(world: World) -> Iterator[tuple[str, World]]:
        yield from _others(world)
        yield from _run(world, rules)

    return steps


def _spend(world: World, event: str) -> World | None:
    left = dict(world.left)
    return world._replace(left=tuple({**left, event: left[event] - 1}.items())) if left[event] else None


def _others(world: World) -> Iterator[tuple[str, World]]:
    after = _spend(world, "foreign")
    if after is None:
        return
    new = world.last + 1
    added = (*world.files, (new, frozenset({Row(OTHER, new)})))
    yield "somebody appends a row", after._replace(files=added, others=world.others | {new}, last=new)
    rows = frozenset(row for _, content in world.files for row in content)
    yield "a job compacts the files", after._replace(files=((new, rows),), last=new)
    for row in sorted(rows):
        if row.kind == OTHER:
            left = tuple((number, content - {row}) for number, content in world.files)
            yield f"somebody deletes row {row.number}", after._replace(files=left, others=world.others - {row.number})


def _run(world: World, rules: Rules) -> Iterator[tuple[str, World]]:
    attempt = world.attempt
    if not attempt.has_read:
        if (after := _spend(world, "run")) is not None:
            read = Attempt(world.files, has_read=True)
            yield "a run reads the table", after._replace(attempt=read)
        return
    if (after := _spend(world, "crash")) is not None:
        yield "the run dies", after._replace(attempt=Attempt())
    yield "the run commits", _commit(world, rules)


def _commit(world: World, rules: Rules) -> World:
    """Replace the files with affected rows by new ones, as the run has seen them."""
    attempt = world.attempt
    old = [(number, content) for number, content in attempt.files if any(row.kind == AFFECTED for row in content)]
    if rules.checks_files and not set(old) <= set(world.files):
        return world._replace(attempt=Attempt())
    numbers, new = {number for number, _ in old}, world.last + 1
    kept = frozenset(row for _, content in old for row in content if row.kind == OTHER)
    files = [(number, content) for number, content in world.files if number not in numbers]
    files.append((new, kept | {Row(AFFECTED, new)}))
    return world._replace(files=tuple(files), attempt=Attempt(), last=new)
