"""Model of a keyed table with partial columns and column rules (docs/protocols.md, rules 1.7 and 1.8).

Writers set some columns of a row, all of them, or delete it. Merges bring whole commits into base, image builders add
layers, and a ttl job deletes rows whose time, a column, is old. A third column, `total`, has the rule `sum`, and a
writer may send its last commit again. The oracle replays the log one change after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from tests.models.explore import Check, Steps
from tests.models.layers import check_layers

OLD = 0
"""The time of a row that a ttl job deletes."""


class Rules(NamedTuple):
    """The parts of rule 1.7; without one of them a history goes wrong."""

    folds_columns: bool = True
    """Each column has the value of the newest change that sets it; the newest change alone does not decide."""
    delete_resets: bool = True
    """After a delete, columns that no later change sets are null, not as base has them."""
    keeps_base: bool = True
    """Columns that no pending change sets are as base has them."""
    ttl_looks_again: bool = True
    """A delete of old rows is refused if changes have come since the job looked."""
    sums_since_delete: bool = True
    """1.8: a rule combines the values since the last delete; not all pending ones."""
    sums_with_base: bool = True
    """1.8: a change that sets all columns leaves base's value of a column with a rule in the sum."""
    names_batches: bool = True
    """1.8: the server knows a commit that is sent again."""


class Change(NamedTuple):
    key: str
    op: str
    name: str | None = None
    time: int | None = None
    total: int | None = None
    set_columns: frozenset[str] | None = None  # None: all
    sequence: int = 0  # of the commit


class Row(NamedTuple):
    name: str | None = None
    time: int | None = None
    total: int | None = None


Rows = tuple[tuple[str, Row], ...]


class Job(NamedTuple):
    kind: str
    b: int  # the version of base that it read
    through: int = 0
    rows: Rows = ()
    commits: int = 0  # what it had seen of the change store


class World(NamedTuple):
    base: Rows = ()
    b: int = 0
    watermark: int = 0
    changes: tuple[Change, ...] = ()  # in the order of row ids
    commits: int = 0
    log: tuple[Change | None, ...] = ()  # None: the old rows were deleted
    job: Job | None = None
    left: tuple[tuple[str, int], ...] = (("commit", 4), ("job", 3), ("again", 1))


BATCHES = (
    (Change("k", "U", name="a", set_columns=frozenset({"name"})),),
    (Change("k", "U", time=1, set_columns=frozenset({"time"})),),
    (Change("k", "I", name="b", time=OLD, total=1),),
    (Change("k", "D"),),
    (
        Change("k", "U", total=2, set_columns=frozenset({"total"})),
        Change("k", "D"),
        Change("k", "U", name="c", total=4, set_columns=frozenset({"name", "total"})),
    ),
)


def fold(base: Rows, changes: Iterable[Change], rules: Rules) -> Rows:
    """Base's rows with the pending changes, all changes of a key at once: what view, merge and image do."""
    rows, by_key = dict(base), dict[str, list[Change]]()
    for change in changes:
        by_key.setdefault(change.key, []).append(change)
    for key, own in by_key.items():
        is_deleted = any(c.op == "D" for c in own) and rules.delete_resets
        is_whole = is_deleted or any(c.set_columns is None and c.op != "D" for c in own)
        base_row = rows.get(key, Row()) if rules.keeps_base else Row()
        old = Row() if is_whole else base_row
        if not (is_deleted or (is_whole and not rules.sums_with_base)):
            old = old._replace(total=base_row.total)
        rows.pop(key, None)
        if own[-1].op != "D":
            rows[key] = Row(*(_fold_column(own, column, getattr(old, column), rules) for column in Row._fields))
    return tuple(sorted(rows.items()))


def _fold_column(own: list[Change], column: str, old: Any, rules: Rules) -> Any:
    if column == "total":
        last = max((at for at, c in enumerate(own) if c.op == "D" and rules.sums_since_delete), default=-1)
        return _add_up([old, *(c.total for c in own[last + 1 :] if c.set_columns is None or column in c.set_columns)])
    setting = [c for c in own if c.set_columns is None or column in c.set_columns]
    if not rules.delete_resets:
        setting = [c for c in setting if c.op != "D"]
    if not rules.folds_columns:
        setting = own[-1:]
    return getattr(setting[-1], column) if setting else old


def _add_up(values: Iterable[int | None]) -> int | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) if numbers else None


def replay(log: Iterable[Change | None]) -> Rows:
    rows = dict[str, Row]()
    for change in log:
        if change is None:
            rows = {key: row for key, row in rows.items() if row.time != OLD}
        elif change.op == "D":
            rows.pop(change.key, None)
        else:
            set_columns = Row._fields if change.set_columns is None else change.set_columns
            old = rows.get(change.key, Row())
            new: dict[str, Any] = {name: getattr(change, name) for name in set_columns}
            if "total" in new:
                new["total"] = _add_up([old.total, change.total])
            rows[change.key] = old._replace(**new)
    return tuple(sorted(rows.items()))


def check_with(rules: Rules) -> Check[World]:
    def check(world: World) -> str | None:
        pending = [change for change in world.changes if change.sequence > world.watermark]
        return check_layers(world.base, pending, lambda rows, changes: fold(rows, changes, rules), replay(world.log))

    return check


def partial_steps(rules: Rules) -> Steps[World]:
    def steps(world: World) -> Iterator[tuple[str, World]]:
        left = dict(world.left)
        if left["commit"]:
            for number, batch in enumerate(BATCHES):
                yield f"commit {number}", _append(_spend(world, "commit"), batch)
        if left["again"] and world.commits:
            yield "the last commit is sent again", _send_again(_spend(world, "again"), rules)
        if world.job is not None:
            yield f"{world.job.kind} ends", _finish(world, world.job, rules)
        elif left["job"]:
            for job in _plan(world, rules):
                yield f"{job.kind} begins", _spend(world, "job")._replace(job=job)

    return steps


def _append(world: World, batch: tuple[Change, ...]) -> World:
    rows = tuple(change._replace(sequence=world.commits + 1) for change in batch)
    return world._replace(changes=(*world.changes, *rows), commits=world.commits + 1, log=(*world.log, *rows))


def _send_again(world: World, rules: Rules) -> World:
    if rules.names_batches:
        return world
    last = tuple(change for change in world.changes if change.sequence == world.commits)
    return _append(world, last)._replace(log=world.log)


def _plan(world: World, rules: Rules) -> Iterator[Job]:
    pending = [change for change in world.changes if change.sequence > world.watermark]
    for through in {change.sequence for change in pending}:
        rows = fold(world.base, (change for change in pending if change.sequence <= through), rules)
        yield Job("merge", world.b, through, rows)
    old = {key for key, row in world.base if row.time == OLD}
    if old and not any(change.key in old or change.time == OLD for change in pending):
        yield Job("ttl", world.b, commits=world.commits)


def _finish(world: World, job: Job, rules: Rules) -> World:
    world = world._replace(job=None)
    if job.b != world.b:
        return world
    if job.kind == "merge":
        return world._replace(base=job.rows, b=world.b + 1, watermark=job.through)
    if rules.ttl_looks_again and job.commits != world.commits:
        return world
    kept = tuple((key, row) for key, row in world.base if row.time != OLD)
    return world._replace(base=kept, b=world.b + 1, log=(*world.log, None))


def _spend(world: World, kind: str) -> World:
    left = tuple((name, count - (name == kind)) for name, count in world.left)
    return world._replace(left=left)
