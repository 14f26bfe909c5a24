"""Model of backfills beside live runs: chunks are part of live runs (docs/protocols.md#pipelines, rules 8.9 to 8.13).

The result of the query has one row for each of two keys: the value of the key in the one input. Other writers may
damage rows of the table; a backfill that somebody requests afterwards has to repair them. Requests of runs arrive in
any order, and also when their sender has died.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.models.explore import Check, Steps

KEYS = (0, 1)
VALUES = (None, 1, 2)
DAMAGED = 9
EVENTS = ("rollback", "reset", "pause", "cancel", "replay", "full")
"""Events that happen only where a budget names them."""
NOTHING = 0
Rows = tuple[int | None, ...]


class Rules(NamedTuple):
    """The rules, each with the number that docs/protocols.md gives it."""

    done_with_commit: bool = True
    """8.9: a chunk is done if, and because, the table's writer has reached the checkpoint that claimed it."""
    pins_release: bool = True
    """8.9: pins release the claims of checkpoints that the writer has not reached."""
    reads_own_pins: bool = True
    """8.10: a run computes its chunks at its own pins."""
    compares_both_sides: bool = True
    """8.10: a chunk is compared with the table's rows, too: those that the query no longer gives are deleted."""
    rollback_reopens: bool = True
    """8.11: a rollback of the table takes chunks along that were done later."""
    full_run_claims_older: bool = True
    """8.12: a full run ends the chunks of backfills that are older than its pins, and of no other."""
    replay_adds: bool = True
    """8.13: a replay adds changes to those since the checkpoint; it takes none away."""


class Chunk(NamedTuple):
    """What a backfill recomputes: one key, or with `since`, what changed since this version."""

    key: int = 0
    since: int | None = None
    claim: int = NOTHING
    done: int = NOTHING


class Backfill(NamedTuple):
    status: str = "active"  # paused, canceled
    requested_at: int = 0  # the newest id at that time
    chunks: tuple[Chunk, ...] = ()


class Snapshot(NamedTuple):
    """Rows by key; `damaged` are keys whose row other writers have written, `late` those after the request."""

    rows: Rows = (None,) * len(KEYS)
    damaged: frozenset[int] = frozenset()
    late: frozenset[int] = frozenset()
    position: int = NOTHING


class Request(NamedTuple):
    epoch: int
    start: int
    end: int
    rows: tuple[tuple[int, int | None], ...]


class Copy(NamedTuple):
    """An optimizer's attempt at a run."""

    phase: str = "idle"  # pinned, computed, ready
    epoch: int = 0
    start: int = NOTHING
    since: int | None = None  # the version at the checkpoint; None for a full run
    until: int = NOTHING
    version: int = 0
    chunks: tuple[Chunk, ...] = ()
    request: Request | None = None


class World(NamedTuple):
    history: tuple[Rows, ...] = ((1, 2),)
    head: Snapshot = Snapshot()
    earlier: tuple[Snapshot, ...] = ()
    position: int = NOTHING
    checkpoints: tuple[tuple[int, int], ...] = ()  # their ids, and the versions that they pin
    last_id: int = 0
    epoch: int = 0
    copies: tuple[Copy, ...] = (Copy(), Copy())
    requests: frozenset[Request] = frozenset()
    backfill: Backfill | None = None
    left: tuple[tuple[str, int], ...] = ()


def budget(**more: int) -> tuple[tuple[str, int], ...]:
    """How often each event may still happen."""
    few = {"change": 2, "run": 4, "backfill": 1, "damage": 1, "crash": 1}
    return tuple((few | more).items())


def build(**more: int) -> World:
    """A world whose table is built, with this budget."""
    head = Snapshot(World().history[0], position=1)
    return World(head=head, position=1, checkpoints=((1, 0),), last_id=1, epoch=1, left=budget(**more))


def find_version(world: World, checkpoint: int) -> int | None:
    return dict(world.checkpoints).get(checkpoint)


def is_shown_done(rules: Rules, world: World, chunk: Chunk) -> bool:
    """What users see: the same as the next pins will find."""
    if chunk.done and (chunk.done <= world.position or not rules.rollback_reopens):
        return True
    return rules.done_with_commit and chunk.claim != NOTHING and chunk.claim == world.position


def settle(rules: Rules, world: World) -> World:
    """What pins do first: they end the chunks that are done, and release the claims of all others."""
    backfill = world.backfill
    if backfill is None:
        return world
    chunks = []
    for chunk in backfill.chunks:
        if is_shown_done(rules, world, chunk):
            chunks.append(chunk._replace(done=chunk.done or world.position, claim=NOTHING))
        else:
            chunks.append(chunk._replace(done=NOTHING, claim=NOTHING if rules.pins_release else chunk.claim))
    return world._replace(backfill=backfill._replace(chunks=tuple(chunks)))


def check_with(rules: Rules) -> Check[World]:
    def check(world: World) -> str | None:
        version = find_version(world, world.position)
        right = None if version is None else world.history[version]
        if right is not None and any(world.head.rows[key] != right[key] for key in {*KEYS} - world.head.damaged):
            return "the table is not the result of its checkpoint"
        for chunk in world.backfill.chunks if world.backfill is not None else ():
            is_wrong = chunk.since is None and chunk.key in world.head.damaged - world.head.late
            if is_wrong and is_shown_done(rules, world, chunk):
                return "a chunk is done, and its rows are not"
        return None

    return check


def is_done(world: World) -> bool:
    """The table shows the newest version, and all chunks of an active backfill are done."""
    if find_version(world, world.position) != len(world.history) - 1:
        return False
    backfill = world.backfill
    is_active = backfill is not None and backfill.status == "active"
    return not is_active or all(is_shown_done(Rules(), world, chunk) for chunk in world.backfill.chunks)  # type: ignore[union-attr]


def backfill_steps(rules: Rules) -> Steps[World]:
    return BackfillModel(rules).steps


class BackfillModel:
    """All steps under these rules."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules

    def steps(self, world: World) -> Iterator[tuple[str, World]]:
        yield from self._others(world)
        yield from self._user(world)
        for number, copy in enumerate(world.copies):
            yield from self._copy(world, number, copy)
        for request in sorted(world.requests, key=lambda request: request.end):
            yield self._serve(world._replace(requests=world.requests - {request}), request)

    def _others(self, world: World) -> Iterator[tuple[str, World]]:
        """Commits to the input, damage, and rollbacks of the table."""
        for key in KEYS:
            for value in VALUES:
                newest = world.history[-1]
                if value != newest[key] and (after := spend(world, "change")) is not None:
                    changed = (*newest[:key], value, *newest[key + 1 :])
                    yield f"key {key} becomes {value}", after._replace(history=(*world.history, changed))
            if (after := spend(world, "damage")) is not None:
                head = world.head
                rows = (*head.rows[:key], DAMAGED, *head.rows[key + 1 :])
                late = head.late if world.backfill is None else head.late | {key}
                damaged = head._replace(rows=rows, damaged=head.damaged | {key}, late=late)
                yield f"somebody damages the row of key {key}", after._replace(head=damaged)
        for number, snapshot in enumerate(world.earlier):
            if (after := spend(world, "rollback")) is not None:
                back = after._replace(head=snapshot, earlier=(), position=snapshot.position)
                yield f"rollback of the table to snapshot {number}", back

    def _user(self, world: World) -> Iterator[tuple[str, World]]:
        backfill = world.backfill
        if backfill is None:
            yield from self._request(world)
        elif backfill.status != "canceled":
            for event, status in (("pause", "paused"), ("resume", "active"), ("cancel", "canceled")):
                if status != backfill.status and (after := spend(world, event)) is not None:
                    yield f"a user chooses: {event}", after._replace(backfill=backfill._replace(status=status))
        if (after := spend(world, "reset")) is not None:
            nowhere = world.last_id + 1
            yield (
                "a user resets the table",
                after._replace(epoch=world.epoch + 1, position=nowhere, last_id=nowhere),
            )

    def _request(self, world: World) -> Iterator[tuple[str, World]]:
        if find_version(world, world.position) is None:
            return
        if (after := spend(world, "backfill")) is not None:
            chunks = tuple(Chunk(key) for key in KEYS)
            yield "a user requests a backfill", after._replace(backfill=Backfill("active", world.last_id, chunks))
        for checkpoint, version in world.checkpoints:
            if (after := spend(world, "replay")) is not None:
                replay = Backfill("active", world.last_id, (Chunk(since=version),))
                yield f"a user replays from checkpoint {checkpoint}", after._replace(backfill=replay)

    def _copy(self, world: World, number: int, copy: Copy) -> Iterator[tuple[str, World]]:
        if copy.phase == "idle" and (after := spend(world, "run")) is not None:
            yield f"copy {number} pins", self._pin(settle(self.rules, after), number, is_full=False)
        if copy.phase == "idle" and (after := spend(world, "full")) is not None:
            yield f"copy {number} pins for all rows", self._pin(settle(self.rules, after), number, is_full=True)
        if copy.phase == "pinned":
            yield f"copy {number} computes", self._compute(world, number, copy)
        if copy.phase == "computed":
            yield f"copy {number} claims all chunks", self._claim_all(world, number, copy)
        if copy.phase == "ready" and copy.request is not None:
            sent = _set_copy(world, number, Copy())
            yield f"copy {number} sends", sent._replace(requests=world.requests | {copy.request})
        if copy.phase != "idle" and (after := spend(world, "crash")) is not None:
            yield f"copy {number} dies", _set_copy(after, number, Copy())

    def _pin(self, world: World, number: int, *, is_full: bool) -> World:
        until, epoch = world.last_id + 1, world.epoch + 1
        since = None if is_full else find_version(world, world.position)
        version = len(world.history) - 1
        world = world._replace(last_id=until, epoch=epoch, checkpoints=(*world.checkpoints, (until, version)))
        backfill = world.backfill
        chunks: tuple[Chunk, ...] = ()
        if backfill is not None and backfill.status == "active" and since is not None:
            chunks = tuple(chunk for chunk in backfill.chunks if not chunk.done)[:1]
            world = world._replace(backfill=self._claim(backfill, chunks, until))
        pinned = Copy("pinned", epoch, world.position, since, until, version, chunks)
        return _set_copy(world, number, pinned)

    def _claim(self, backfill: Backfill, chunks: tuple[Chunk, ...], until: int) -> Backfill:
        claimed = chunks[0]._replace(claim=until) if chunks else None
        if claimed is not None and not self.rules.done_with_commit:
            claimed = claimed._replace(done=1)
        return backfill._replace(
            chunks=tuple(claimed if claimed is not None and chunk == chunks[0] else chunk for chunk in backfill.chunks)
        )

    def _compute(self, world: World, number: int, copy: Copy) -> World:
        """Compare what is affected with the table's rows. A full run then claims all chunks that are older than it."""
        newest = len(world.history) - 1
        result = world.history[copy.version]
        affected = {*KEYS} if copy.since is None else _list_changed(world, copy.since, copy.version)
        values = {key: result[key] for key in KEYS}
        for chunk in copy.chunks:
            if chunk.since is not None:
                more = _list_changed(world, chunk.since, copy.version)
                affected = affected | more if self.rules.replay_adds else more
            elif self.rules.compares_both_sides or result[chunk.key] is not None:
                affected = affected | {chunk.key}
                values[chunk.key] = world.history[copy.version if self.rules.reads_own_pins else newest][chunk.key]
        rows = tuple((key, values[key]) for key in sorted(affected) if world.head.rows[key] != values[key])
        request = Request(copy.epoch, copy.start, copy.until, rows)
        phase = "computed" if copy.since is None else "ready"
        return _set_copy(world, number, copy._replace(phase=phase, request=request))

    def _claim_all(self, world: World, number: int, copy: Copy) -> World:
        """What a full run asks for before it commits."""
        world = _set_copy(world, number, copy._replace(phase="ready"))
        backfill = world.backfill
        if backfill is None or copy.epoch != world.epoch:
            return world
        if self.rules.full_run_claims_older and backfill.requested_at >= copy.until:
            return world
        chunks = tuple(chunk if chunk.done else chunk._replace(claim=copy.until) for chunk in backfill.chunks)
        return world._replace(backfill=backfill._replace(chunks=chunks))

    def _serve(self, world: World, request: Request) -> tuple[str, World]:
        """One commit, or one step without a commit, in one transaction of the server."""
        if (request.epoch, request.start) != (world.epoch, world.position):
            return f"the commit of checkpoint {request.end} is refused", world
        moved = world._replace(position=request.end)
        backfill = moved.backfill
        if not self.rules.pins_release and backfill is not None:
            chunks = tuple(chunk._replace(done=request.end) if chunk.claim else chunk for chunk in backfill.chunks)
            moved = moved._replace(backfill=backfill._replace(chunks=chunks))
        changed = dict(request.rows)
        if not changed:
            return f"checkpoint {request.end} without a commit", moved
        head = moved.head
        rows = tuple(changed.get(key, head.rows[key]) for key in KEYS)
        repaired = head._replace(
            rows=rows, damaged=head.damaged - {*changed}, late=head.late - {*changed}, position=request.end
        )
        return f"checkpoint {request.end} is committed", moved._replace(
            head=repaired, earlier=(*world.earlier, world.head)[-2:]
        )


def _list_changed(world: World, since: int, until: int) -> set[int]:
    """The keys whose values differ: a change there and back is none, as in the files of two versions."""
    return {key for key in KEYS if world.history[since][key] != world.history[until][key]}


def _set_copy(world: World, number: int, copy: Copy) -> World:
    return world._replace(copies=(*world.copies[:number], copy, *world.copies[number + 1 :]))


def spend(world: World, event: str) -> World | None:
    """The world after one more of these events is used up; None if none is left."""
    left = dict(world.left)
    if left.get(event, 0) == 0:
        return None
    return world._replace(left=tuple((left | {event: left[event] - 1}).items()))
