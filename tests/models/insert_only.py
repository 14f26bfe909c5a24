"""Model of an insert-only keyed table (docs/protocols.md, rule 1.9).

Writers insert rows. Any engine may also append changes that say `U` or `D`. Merges bring whole commits into base, image
builders add layers, and a ttl job deletes rows whose value is old. The oracle replays the log one change after the
other: a change inserts a row if its key has none, and otherwise does nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tests.models.explore import Check, Steps
from tests.models.layers import check_layers

OLD = "old"
"""The value of a row that a ttl job deletes."""


class Rules(NamedTuple):
    """The parts of rule 1.9; without one of them a history goes wrong."""

    base_wins: bool = True
    """A pending change of a key that base has does nothing."""
    oldest_wins: bool = True
    """Of the pending changes of a key the oldest counts."""
    ignores_deletes: bool = True
    """A change that says `D` does nothing."""
    ttl_merges: bool = True
    """A ttl job that deletes a row with pending changes also brings these changes into base."""
    ttl_looks_again: bool = True
    """A delete of old rows is refused if changes have come since the job looked."""


class Change(NamedTuple):
    key: str
    op: str
    value: str | None = None
    sequence: int = 0  # of the commit


Rows = tuple[tuple[str, str | None], ...]


class Job(NamedTuple):
    kind: str
    b: int  # the version of base that it read
    rows: Rows
    through: int
    commits: int = 0  # what it had seen of the change store


class World(NamedTuple):
    base: Rows = ()
    b: int = 0
    watermark: int = 0
    changes: tuple[Change, ...] = ()  # in the order of row ids
    commits: int = 0
    log: tuple[Change | None, ...] = ()  # None: the old rows were deleted
    job: Job | None = None
    left: tuple[tuple[str, int], ...] = (("commit", 4), ("job", 3))


BATCHES = (
    (Change("k", "I", "a"), Change("k", "I", "b")),
    (Change("k", "I", OLD),),
    (Change("k", "U", "c"), Change("l", "I", "d")),
    (Change("k", "D"),),
)


def insert(base: Rows, changes: Iterable[Change], rules: Rules) -> Rows:
    """Base's rows with the pending changes, all changes of a key at once: what view, merge and image do."""
    chosen = dict[str, Change]()
    for change in changes:
        if change.op == "D" and rules.ignores_deletes:
            continue
        if change.key not in chosen or not rules.oldest_wins:
            chosen[change.key] = change
    rows = dict(base)
    for key, change in chosen.items():
        if key in rows and rules.base_wins:
            continue
        rows[key] = change.value
        if change.op == "D":
            del rows[key]
    return tuple(sorted(rows.items()))


def replay(log: Iterable[Change | None]) -> Rows:
    rows = dict[str, str | None]()
    for change in log:
        if change is None:
            rows = {key: value for key, value in rows.items() if value != OLD}
        elif change.op != "D":
            rows.setdefault(change.key, change.value)
    return tuple(sorted(rows.items()))


def check_with(rules: Rules) -> Check[World]:
    def check(world: World) -> str | None:
        pending = [change for change in world.changes if change.sequence > world.watermark]
        return check_layers(world.base, pending, lambda rows, changes: insert(rows, changes, rules), replay(world.log))

    return check


def insert_only_steps(rules: Rules) -> Steps[World]:
    def steps(world: World) -> Iterator[tuple[str, World]]:
        left = dict(world.left)
        if left["commit"]:
            for number, batch in enumerate(BATCHES):
                yield f"commit {number}", _append(_spend(world, "commit"), batch)
        if world.job is not None:
            yield f"{world.job.kind} ends", _finish(world, world.job, rules)
        elif left["job"]:
            for job in _plan(world, rules):
                yield f"{job.kind} begins", _spend(world, "job")._replace(job=job)

    return steps


def _append(world: World, batch: tuple[Change, ...]) -> World:
    rows = tuple(change._replace(sequence=world.commits + 1) for change in batch)
    return world._replace(changes=(*world.changes, *rows), commits=world.commits + 1, log=(*world.log, *rows))


def _plan(world: World, rules: Rules) -> Iterator[Job]:
    pending = [change for change in world.changes if change.sequence > world.watermark]
    for through in {change.sequence for change in pending}:
        rows = insert(world.base, (change for change in pending if change.sequence <= through), rules)
        yield Job("merge", world.b, rows, through)
    old = {key for key, value in world.base if value == OLD}
    concerned = any(change.key in old or change.value == OLD for change in pending)
    if concerned and rules.ttl_merges:
        yield Job("ttl by merge", world.b, _keep_young(insert(world.base, pending, rules)), world.commits)
    elif old:
        yield Job("ttl", world.b, _keep_young(world.base), world.watermark, commits=world.commits)


def _keep_young(rows: Rows) -> Rows:
    return tuple((key, value) for key, value in rows if value != OLD)


def _finish(world: World, job: Job, rules: Rules) -> World:
    world = world._replace(job=None)
    if job.b != world.b:
        return world
    deletes = job.kind != "merge"
    seen = job.commits if job.kind == "ttl" else job.through
    if deletes and rules.ttl_looks_again and seen != world.commits:
        return world
    log = (*world.log, None) if deletes else world.log
    return world._replace(base=job.rows, b=world.b + 1, watermark=job.through, log=log)


def _spend(world: World, kind: str) -> World:
    left = tuple((name, count - (name == kind)) for name, count in world.left)
    return world._replace(left=left)
