"""Model of chunks of a backfill that optimizers compute beside live runs (decision 180).

The query gives the value of each of two keys in the one input. A live run moves the table from one checkpoint to the
next one. A chunk is one key; it reads the input at the table's checkpoint and commits by itself, while live runs go on.
Other writers may damage rows before somebody requests the backfill, which has to repair them. A run of all rows ends
the chunks (decision 187).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.models.explore import Check, Steps

KEYS = (0, 1)
VALUES = (None, 1, 2)
NOTHING = 0
Rows = tuple[int | None, ...]


class Rules(NamedTuple):
    """What keeps the table right; decision 180 has them in words."""

    reads_at_checkpoint: bool = True
    """A chunk reads its inputs at the table's checkpoint, and not as they are now."""
    drops_written: bool = True
    """A chunk leaves out the keys that live runs have written since that checkpoint."""
    checks_at_commit: bool = True
    """The server refuses the commit of a chunk if a live run has committed since these keys were looked for."""
    lives_write_unchanged: bool = True
    """Live runs write affected rows that are right already, too, while chunks are computed beside them."""
    fences_at_request: bool = True
    """The request of a backfill increments the epoch: a run that began before leaves out rows, and commits nothing."""
    checks_history: bool = True
    """The server refuses the commit of a chunk if its checkpoint is no longer in the history of the table."""
    checks_snapshot: bool = True
    """It refuses it, too, if the snapshot with which the chunk compared its rows is no longer in the history."""
    done_by_snapshot: bool = True
    """A chunk is done while the table's history has the snapshot of its commit, and not by a checkpoint."""
    compares_both_sides: bool = True
    """A chunk deletes the rows that the query does not give."""
    skips_need_position: bool = True
    """A chunk that finds nothing to write is checked as a commit, too."""
    full_stops_chunks: bool = True
    """The claim of a run of all rows voids the chunks that are computed, and none is taken until it has ended."""
    full_compares_after_claim: bool = True
    """A run of all rows compares its rows with those that the table has after the claim."""
    waits_end_with_epoch: bool = True
    """If a run of all rows ends without a commit, chunks go on after an increment of the epoch."""


class Step(NamedTuple):
    """A live commit of the table's history, or a step without rows: where it leads, and the keys that it wrote."""

    position: int
    keys: frozenset[int]


class Snapshot(NamedTuple):
    """The table at one moment. `serial` numbers the commits; `line` are the live steps of its history."""

    rows: Rows
    damaged: frozenset[int] = frozenset()
    late: frozenset[int] = frozenset()
    line: tuple[Step, ...] = ()
    serials: frozenset[int] = frozenset({NOTHING})

    @property
    def position(self) -> int:
        return self.line[-1].position if self.line else NOTHING


class Live(NamedTuple):
    """An attempt at a live run: from its pins to the request that it sends."""

    phase: str = "idle"  # pinned, claimed, ready
    epoch: int = 0
    start: int = NOTHING
    end: int = NOTHING
    version: int = 0
    is_beside: bool = False
    """Whether it has pinned after the request of the backfill."""
    rows: tuple[tuple[int, int | None], ...] = ()
    is_full: bool = False
    compared: Rows = ()
    """The rows of the table with which a run of all rows compares."""


class Side(NamedTuple):
    """An attempt at a chunk. `compared` is the snapshot whose row it has compared, and `seen` the position at which it
    looked for keys that live runs have written.
    """

    phase: str = "idle"  # taken, computed, ready, sent
    key: int = 0
    at: int = NOTHING
    value: int | None = None
    writes: bool = False
    compared: int = NOTHING
    seen: int = NOTHING


class World(NamedTuple):
    history: tuple[Rows, ...] = ((1, 2),)
    head: Snapshot = Snapshot((1, 2), line=(Step(1, frozenset()),))
    earlier: tuple[Snapshot, ...] = ()
    checkpoints: tuple[tuple[int, int], ...] = ((1, 0),)
    last_id: int = 1
    serial: int = 0
    epoch: int = 1
    live: Live = Live()
    late_requests: frozenset[Live] = frozenset()
    sides: tuple[Side, ...] = (Side(), Side())
    done: tuple[tuple[int, int], ...] | None = None
    """The serials and positions of the commits that have ended the chunks; None before the request."""
    waits_for: int = NOTHING
    """The run of all rows for which chunks wait."""
    left: tuple[tuple[str, int], ...] = ()


def build(**more: int) -> World:
    """A world whose table is built; how often each event may still happen."""
    few = {"change": 2, "run": 2, "damage": 1, "backfill": 1, "take": 3, "crash": 1}
    return World(left=tuple((few | more).items()))


def is_shown_done(rules: Rules, world: World, key: int) -> bool:
    """Whether users see the chunk of a key as done."""
    serial, position = (NOTHING, NOTHING) if world.done is None else world.done[key]
    if serial == NOTHING:
        return False
    return serial in world.head.serials if rules.done_by_snapshot else position <= world.head.position


def check_with(rules: Rules) -> Check[World]:
    def check(world: World) -> str | None:
        version = dict(world.checkpoints).get(world.head.position)
        right = None if version is None else world.history[version]
        if right is not None and any(world.head.rows[key] != right[key] for key in {*KEYS} - world.head.damaged):
            return "the table is not the result of its checkpoint"
        wrong = {key for key in KEYS if right is not None and world.head.rows[key] != right[key]}
        if any(is_shown_done(rules, world, key) for key in wrong - world.head.late):
            return "a chunk is done, and its row is not"
        return None

    return check


def beside_steps(rules: Rules) -> Steps[World]:
    return BesideModel(rules).steps


class BesideModel:
    """All steps under these rules."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules

    def steps(self, world: World) -> Iterator[tuple[str, World]]:
        yield from self._others(world)
        yield from self._live(world)
        for number, side in enumerate(world.sides):
            yield from self._side(world, number, side)

    def _others(self, world: World) -> Iterator[tuple[str, World]]:
        for key in KEYS:
            for value in VALUES:
                newest = world.history[-1]
                if value != newest[key] and (after := spend(world, "change")) is not None:
                    yield (
                        f"key {key} becomes {value}",
                        after._replace(history=(*world.history, put(newest, key, value))),
                    )
                if value != world.head.rows[key] and (after := spend(world, "damage")) is not None:
                    yield f"somebody writes {value} into the row of key {key}", _damage(after, key, value)
        if world.done is None and (after := spend(world, "backfill")) is not None:
            epoch = world.epoch + self.rules.fences_at_request
            yield "a user requests a backfill", after._replace(done=((NOTHING, NOTHING),) * len(KEYS), epoch=epoch)
        for number, snapshot in enumerate(world.earlier):
            if (after := spend(world, "rollback")) is not None:
                yield f"rollback of the table to snapshot {number}", after._replace(head=snapshot, earlier=())

    def _live(self, world: World) -> Iterator[tuple[str, World]]:
        live = world.live
        if live.phase == "idle" and (after := spend(world, "run")) is not None:
            end, epoch, version = world.last_id + 1, world.epoch + 1, len(world.history) - 1
            pinned = Live("pinned", epoch, world.head.position, end, version, world.done is not None)
            checkpoints = (*world.checkpoints, (end, version))
            yield "a live run pins", _pin(after, pinned, checkpoints)
            if (full := spend(after, "full")) is not None:
                pinned = pinned._replace(is_full=True, compared=world.head.rows)
                yield "a run of all rows pins", _pin(full, pinned, checkpoints)
        if live.phase == "pinned" and live.is_full and live.epoch == world.epoch:
            yield "the run of all rows claims the chunks", self._claim(world, live)
        if live.phase == "claimed":
            yield "the run of all rows computes", world._replace(live=self._compute_full(world, live))
        if world.waits_for not in (NOTHING, world.head.position) and live.phase == "idle":
            epoch = world.epoch + self.rules.waits_end_with_epoch
            yield "chunks go on without the run of all rows", world._replace(waits_for=NOTHING, epoch=epoch)
        if live.phase == "pinned" and not live.is_full:
            yield "the live run computes", world._replace(live=self._compute_live(world, live))
        if live.phase == "ready":
            yield self._serve_live(world._replace(live=Live()), live)
        if live.phase != "idle" and (after := spend(world, "crash")) is not None:
            sent = world.late_requests | ({live} if live.phase == "ready" else set())
            yield "the live run dies", after._replace(live=Live(), late_requests=sent)
        for request in sorted(world.late_requests):
            yield self._serve_live(world._replace(late_requests=world.late_requests - {request}), request)

    def _compute_live(self, world: World, live: Live) -> Live:
        since, result = world.history[dict(world.checkpoints)[live.start]], world.history[live.version]
        affected = [key for key in KEYS if since[key] != result[key]]
        keeps = self.rules.lives_write_unchanged and live.is_beside
        rows = tuple((key, result[key]) for key in affected if keeps or world.head.rows[key] != result[key])
        return live._replace(phase="ready", rows=rows)

    def _claim(self, world: World, live: Live) -> World:
        claimed = world._replace(live=live._replace(phase="claimed"))
        if world.done is None or not self.rules.full_stops_chunks:
            return claimed
        return claimed._replace(waits_for=live.end, sides=(Side(),) * len(world.sides))

    def _compute_full(self, world: World, live: Live) -> Live:
        result = world.history[live.version]
        compared = world.head.rows if self.rules.full_compares_after_claim else live.compared
        rows = tuple((key, result[key]) for key in KEYS if compared[key] != result[key])
        return live._replace(phase="ready", rows=rows)

    def _serve_live(self, world: World, live: Live) -> tuple[str, World]:
        if (live.epoch, live.start) != (world.epoch, world.head.position):
            return "the live commit is refused", world
        step = Step(live.end, frozenset(key for key, _ in live.rows))
        head = world.head._replace(line=(*world.head.line, step))
        if live.is_full:
            after = _commit(world, head, dict(live.rows))
            ended = (after.serial, live.end)
            done = None if world.done is None or not live.is_beside else (ended,) * len(KEYS)
            return f"checkpoint {live.end} of all rows is committed", after._replace(done=done or world.done)
        if not live.rows:
            return f"checkpoint {live.end} without rows", world._replace(head=head)
        return f"checkpoint {live.end} is committed", _commit(world, head, dict(live.rows))

    def _side(self, world: World, number: int, side: Side) -> Iterator[tuple[str, World]]:
        if (
            side.phase == "idle"
            and world.done is not None
            and dict(world.checkpoints).get(world.head.position) is not None
            and world.waits_for in (NOTHING, world.head.position)
        ):
            for key in KEYS:
                if not is_shown_done(self.rules, world, key) and (after := spend(world, "take")) is not None:
                    yield f"side {number} takes key {key}", _set(after, number, Side("taken", key, world.head.position))
        if side.phase == "taken":
            yield f"side {number} computes", _set(world, number, self._compute_side(world, side))
        if side.phase == "computed":
            yield f"side {number} looks for written keys", _set(world, number, self._look(world, side))
        if side.phase == "ready":
            yield self._serve_side(_set(world, number, Side()), side)
        if side.phase != "idle" and (after := spend(world, "crash")) is not None:
            yield f"side {number} dies", _set(after, number, Side())

    def _compute_side(self, world: World, side: Side) -> Side:
        version = dict(world.checkpoints)[side.at] if self.rules.reads_at_checkpoint else len(world.history) - 1
        value = world.history[version][side.key]
        is_needed = self.rules.compares_both_sides or value is not None
        writes = is_needed and world.head.rows[side.key] != value
        return side._replace(phase="computed", value=value, writes=writes, compared=max(world.head.serials))

    def _look(self, world: World, side: Side) -> Side:
        written = _list_written(world, side.at)
        is_written = self.rules.drops_written and side.key in written
        return side._replace(phase="ready", writes=side.writes and not is_written, seen=world.head.position)

    def _serve_side(self, world: World, side: Side) -> tuple[str, World]:
        label = f"the chunk of key {side.key}"
        is_checked = side.writes or self.rules.skips_need_position
        if is_checked and self.rules.checks_history and side.at not in {step.position for step in world.head.line}:
            return f"{label} is refused: its checkpoint has gone", world
        if is_checked and self.rules.checks_snapshot and side.compared not in world.head.serials:
            return f"{label} is refused: the table was rolled back", world
        if is_checked and self.rules.checks_at_commit and side.seen != world.head.position:
            return f"{label} is refused: a live run came first", world
        if world.done is None or is_shown_done(self.rules, world, side.key):
            return f"{label} is done already", world
        after = _commit(world, world.head, {side.key: side.value} if side.writes else {})
        ended = (after.serial, world.head.position)
        done = tuple(ended if key == side.key else entry for key, entry in enumerate(after.done or ()))
        return f"{label} is committed", after._replace(done=done)


def _pin(world: World, pinned: Live, checkpoints: tuple[tuple[int, int], ...]) -> World:
    """The new pins end the run for which chunks have waited."""
    return world._replace(
        live=pinned, last_id=pinned.end, epoch=pinned.epoch, checkpoints=checkpoints, waits_for=NOTHING
    )


def _list_written(world: World, since: int) -> set[int]:
    """The keys that live runs have written after a checkpoint."""
    return {key for step in world.head.line if step.position > since for key in step.keys}


def _commit(world: World, head: Snapshot, rows: dict[int, int | None]) -> World:
    serial = world.serial + 1
    changed = tuple(rows.get(key, head.rows[key]) for key in KEYS)
    repaired = head._replace(
        rows=changed,
        damaged=head.damaged - {*rows},
        late=head.late - {*rows},
        serials=head.serials | {serial},
    )
    return world._replace(head=repaired, earlier=(*world.earlier, world.head)[-2:], serial=serial)


def _damage(world: World, key: int, value: int | None) -> World:
    """Somebody else writes a row."""
    late = world.head.late | ({key} if world.done is not None else set())
    damaged = world.head.damaged | {key}
    return world._replace(head=world.head._replace(rows=put(world.head.rows, key, value), damaged=damaged, late=late))


def put(rows: Rows, key: int, value: int | None) -> Rows:
    """The rows with another value of a key."""
    return (*rows[:key], value, *rows[key + 1 :])


def _set(world: World, number: int, side: Side) -> World:
    return world._replace(sides=(*world.sides[:number], side, *world.sides[number + 1 :]))


def spend(world: World, event: str) -> World | None:
    """The world after one more of these events is used up; None if none is left."""
    left = dict(world.left)
    if left.get(event, 0) == 0:
        return None
    return world._replace(left=tuple((left | {event: left[event] - 1}).items()))
