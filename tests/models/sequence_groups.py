"""Model of a keyed table with a sequence group (docs/protocols.md, rule 1.10).

The columns `place` and `at` are a group, ordered by `at`; `name` is a column of its own. Writers set the group, a part
of it, the whole row, or delete the row; the values of the group arrive in any order. Merges bring whole commits into
base, and image builders add layers. The oracle replays the log one change after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tests.models.explore import Check, Steps
from tests.models.layers import check_layers


class Rules(NamedTuple):
    """The parts of rule 1.10; without one of them a history goes wrong."""

    orders_by_value: bool = True
    """The change with the greatest sequence value wins, not the newest one."""
    later_wins_ties: bool = True
    compares_base: bool = True
    """Base takes part with its own sequence value."""
    base_loses_ties: bool = True
    null_is_least: bool = True
    """A change without a sequence value loses to every value; it is not ignored where there is none."""
    counts_since_delete: bool = True
    """A delete resets the group."""
    whole_takes_part: bool = True
    """A change that sets all columns does not replace base's values of the group."""
    sets_as_whole: bool = True
    """A change that names a part of the group sets none of it."""


GROUP = frozenset({"place", "at"})


class Change(NamedTuple):
    key: str
    op: str
    name: str | None = None
    place: str | None = None
    at: int | None = None
    set_columns: frozenset[str] | None = None  # None: all
    sequence: int = 0  # of the commit


class Row(NamedTuple):
    name: str | None = None
    place: str | None = None
    at: int | None = None


Rows = tuple[tuple[str, Row], ...]


class Merge(NamedTuple):
    b: int  # the version of base that it read
    through: int
    rows: Rows


class World(NamedTuple):
    base: Rows = ()
    b: int = 0
    watermark: int = 0
    changes: tuple[Change, ...] = ()  # in the order of row ids
    commits: int = 0
    merge: Merge | None = None
    left: tuple[tuple[str, int], ...] = (("commit", 4), ("merge", 2))


BATCHES = (
    (Change("k", "U", place="late", at=1, set_columns=GROUP),),
    (Change("k", "U", place="tied", at=1, set_columns=GROUP),),
    (Change("k", "U", place="early", at=2, set_columns=GROUP), Change("k", "U", place="same", at=2, set_columns=GROUP)),
    (Change("k", "U", name="n", set_columns=frozenset({"name"})),),
    (Change("k", "U", place="part", at=9, set_columns=frozenset({"at"})),),
    (Change("k", "I", name="whole", place="none"),),
    (Change("k", "D", at=7),),
    (Change("k", "D"), Change("k", "U", place="back", at=0, set_columns=GROUP)),
)


def fold(base: Rows, changes: Iterable[Change], rules: Rules) -> Rows:
    """Base's rows with the pending changes, all changes of a key at once: what view, merge and image do."""
    rows, by_key = dict(base), dict[str, list[Change]]()
    for change in changes:
        by_key.setdefault(change.key, []).append(change)
    for key, own in by_key.items():
        last = max((at for at, c in enumerate(own) if c.op == "D"), default=-1)
        old = Row() if last >= 0 else rows.get(key, Row())
        rows.pop(key, None)
        if own[-1].op != "D":
            named = [c for c in own[last + 1 :] if c.set_columns is None or "name" in c.set_columns]
            place, at = _fold_group(own, last, old, rules)
            rows[key] = Row(named[-1].name if named else old.name, place, at)
    return tuple(sorted(rows.items()))


def _fold_group(own: list[Change], last_delete: int, old: Row, rules: Rules) -> tuple[str | None, int | None]:
    counting = own[last_delete + 1 if rules.counts_since_delete else 0 :]
    setting = [c for c in counting if c.op != "D" and _sets_group(c, rules)]
    if not rules.null_is_least:
        setting = [c for c in setting if c.at is not None]
    if not setting:
        return old.place, old.at
    if not rules.later_wins_ties:
        setting = setting[::-1]
    winner = max(reversed(setting), key=lambda c: _order(c.at)) if rules.orders_by_value else setting[-1]
    replaces = not rules.whole_takes_part and any(c.set_columns is None for c in setting)
    base_wins = _order(old.at) > _order(winner.at) or (
        not rules.base_loses_ties and old.at is not None and old.at == winner.at
    )
    if rules.compares_base and not replaces and base_wins:
        return old.place, old.at
    return winner.place, winner.at


def _sets_group(change: Change, rules: Rules) -> bool:
    return change.set_columns is None or (
        change.set_columns >= GROUP if rules.sets_as_whole else bool(change.set_columns & GROUP)
    )


def _order(value: int | None) -> int:
    return -1 if value is None else value


def replay(log: Iterable[Change]) -> Rows:
    rows = dict[str, Row]()
    for change in log:
        if change.op == "D":
            rows.pop(change.key, None)
            continue
        row = rows.get(change.key, Row())
        if change.set_columns is None or "name" in change.set_columns:
            row = row._replace(name=change.name)
        if (change.set_columns is None or change.set_columns >= GROUP) and _order(change.at) >= _order(row.at):
            row = row._replace(place=change.place, at=change.at)
        rows[change.key] = row
    return tuple(sorted(rows.items()))


def check_with(rules: Rules) -> Check[World]:
    def check(world: World) -> str | None:
        pending = [change for change in world.changes if change.sequence > world.watermark]
        return check_layers(world.base, pending, lambda rows, own: fold(rows, own, rules), replay(world.changes))

    return check


def group_steps(rules: Rules) -> Steps[World]:
    def steps(world: World) -> Iterator[tuple[str, World]]:
        left = dict(world.left)
        if left["commit"]:
            for number, batch in enumerate(BATCHES):
                yield f"commit {number}", _append(_spend(world, "commit"), batch)
        if world.merge is not None:
            yield "the merge ends", _finish(world, world.merge)
        elif left["merge"]:
            pending = [change for change in world.changes if change.sequence > world.watermark]
            for through in {change.sequence for change in pending}:
                rows = fold(world.base, (change for change in pending if change.sequence <= through), rules)
                yield (
                    f"a merge through {through} begins",
                    _spend(world, "merge")._replace(merge=Merge(world.b, through, rows)),
                )

    return steps


def _append(world: World, batch: tuple[Change, ...]) -> World:
    rows = tuple(change._replace(sequence=world.commits + 1) for change in batch)
    return world._replace(changes=(*world.changes, *rows), commits=world.commits + 1)


def _finish(world: World, merge: Merge) -> World:
    world = world._replace(merge=None)
    if merge.b != world.b:
        return world
    return world._replace(base=merge.rows, b=world.b + 1, watermark=merge.through)


def _spend(world: World, kind: str) -> World:
    left = tuple((name, count - (name == kind)) for name, count in world.left)
    return world._replace(left=left)
