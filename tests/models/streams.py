"""Model of one stream into a keyed table: positions, epochs, leases, restarts, rollbacks (docs/protocols.md#streams).

A topic with one partition, whose records belong to transactions of their producers; two copies of the writer that
brings them to the change store; a network that delays requests and loses answers. The server is only its transactions,
as in the model of jobs. Offsets begin at 0; a position is the next offset to read. A copy starts by itself, as `firn
drain` does, or with the stream's lease, as an optimizer does. All records are changes of one key, of which readers see
the change with the highest row id.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.models.explore import Check, Steps

OPEN, COMMITTED, ABORTED = "oca"
STOPPED = {"idle", "fenced", "moved", "gap"}


class Rules(NamedTuple):
    """The rules, each with the number that docs/protocols.md gives it."""

    compares_position: bool = True
    """6.1: the commit's transaction compares the position from which it read with the stored one."""
    replays_first: bool = True
    """6.1: a commit that is recorded is answered with success before epoch and position are looked at."""
    fences_epoch: bool = True
    """6.2: a commit of an earlier epoch than the registered one is refused."""
    registers_first: bool = True
    """6.2: registration gives the epoch and the position in one transaction."""
    names_positions: bool = True
    """6.3: a commit is known by its position in the source, not by a number that a checkpoint counts."""
    ends_at_stable_offset: bool = True
    """6.4: a batch ends below the first record whose transaction is open."""
    stops_at_gap: bool = True
    """6.5: records that the topic no longer has are skipped by a user, never by the writer."""
    stamps_position: bool = True
    """6.6: each snapshot of the change store carries the position, also those of other writers and of jobs."""
    rolls_position_back: bool = True
    """6.7: a rollback sets the position of the snapshot that it goes back to."""
    checks_rebased: bool = True
    """6.1: a commit that another one overtakes is checked again, at the head onto which the server rebases it."""
    numbers_rebased: bool = True
    """6.1: the head onto which the server rebases a commit gives it its row ids."""
    orders_changes: bool = True
    """6.8: within a commit all changes of a key are in one file, in the order of the source."""
    keeps_last: bool = True
    """6.8: of a key that has moved between partitions of base, a commit has the last change only."""
    lease_registers: bool = True
    """6.9: the transaction that gives a copy the lease registers it."""
    pause_fences: bool = True
    """6.10: the transaction that pauses the stream increments the epoch."""
    reset_fences: bool = True
    """6.15: the transaction that resets the position registers a copy, so earlier copies commit nothing more."""
    reset_compares: bool = True
    """6.15: a reset compares the position at which the user agreed to it with the stored one."""
    one_lease: bool = True
    """6.9: a copy gets the lease only if no other one has it. Saves work, and protects nothing."""
    lost_lease_ends: bool = True
    """6.9: a copy ends when a heartbeat tells it that its lease is over. Saves work, and protects nothing."""


SAVES_WORK = {"one_lease", "lost_lease_ends"}
"""The rules without which copies do work twice. Positions and epochs keep the table right all the same."""


class Snapshot(NamedTuple):
    """The head of the change store: offsets of the records in it, merged or not, and the position in its summary."""

    records: tuple[int, ...] = ()
    position: int = 0
    newest: int = -1
    """The offset of the change with the highest row id."""


class Request(NamedTuple):
    copy: int
    epoch: int
    batch: int
    start: int
    end: int
    records: tuple[int, ...]
    newest: int
    """The offset of the change that gets the highest row id of the commit; -1 without records."""
    first_row: int
    """The first row id at the head that the copy has loaded."""
    lease: int = 0


class Copy(NamedTuple):
    """One copy of the writer. `at` and `batch` are what it counts itself."""

    phase: str = "idle"  # looked, ready, waiting; or stopped: fenced, moved, gap
    epoch: int = 0
    at: int = 0
    batch: int = 0
    sent: Request | None = None
    is_excused: bool = False  # a user moved the position since it registered
    lease: int = 0  # that it took; 0 for a copy that was started by hand


class World(NamedTuple):
    topic: str = ""
    earliest: int = 0
    head: Snapshot = Snapshot()
    earlier: tuple[Snapshot, ...] = ()
    epoch: int = 0
    position: int = 0
    recorded: frozenset[tuple[int, int, int]] = frozenset()  # epoch, start and end of applied commits
    batches: frozenset[int] = frozenset()
    copies: tuple[Copy, ...] = (Copy(), Copy())
    requests: frozenset[Request] = frozenset()
    checked: frozenset[Request] = frozenset()
    """Requests that the server has checked, and may apply to a later head."""
    next_row: int = 0
    skipped: frozenset[int] = frozenset()
    lease: int = 0  # the current one; 0 while no copy has it
    leases: int = 0  # so many were given
    is_paused: bool = False
    planned: tuple[int, int] | None = None
    """The reset to which a user has agreed: from a position to another one."""
    broken: str | None = None
    left: tuple[tuple[str, int], ...] = ()


def budget(**more: int) -> tuple[tuple[str, int], ...]:
    """How often each event may still happen. Events of leases and resets happen only where they are named."""
    few = {"produce": 2, "register": 2, "lose": 1, "crash": 1, "forget": 1, "other": 1, "rollback": 1, "expire": 1}
    few["overtake"] = 1
    return tuple((few | more).items())


def stable_offset(topic: str) -> int:
    """The first offset whose transaction is open, else the end."""
    return topic.index(OPEN) if OPEN in topic else len(topic)


def check(world: World) -> str | None:
    records = world.head.records
    if len(set(records)) < len(records):
        return "a record is in the table twice"
    committed = {offset for offset, state in enumerate(world.topic) if state == COMMITTED}
    below = {offset for offset in committed if offset < world.head.position}
    if below - set(records) - world.skipped:
        return "a record was lost"
    if {offset for offset in committed if offset >= world.head.position} & set(records):
        return "a read of table and topic shows a record twice"
    if records and world.head.newest != max(records):
        return "an older change of a key wins"
    for copy in world.copies:
        missing = {offset for offset in committed if offset < copy.at} - set(records) - world.skipped
        if copy.phase == "ready" and not copy.is_excused and copy.epoch == world.epoch and missing:
            return "a writer has gone on past records that the table does not have"
    return world.broken


CHECK: Check[World] = check


def works_twice(world: World) -> bool:
    """Whether two copies with a lease are at work."""
    return sum(copy.phase in {"ready", "waiting"} and copy.lease > 0 for copy in world.copies) > 1


def is_done(world: World) -> bool:
    """The table has every record that was committed, but for those that a user skipped."""
    committed = {offset for offset, state in enumerate(world.topic) if state == COMMITTED}
    is_quiet = OPEN not in world.topic and not world.requests and not world.checked
    return is_quiet and committed <= set(world.head.records) | world.skipped


def stream_steps(rules: Rules) -> Steps[World]:
    return StreamModel(rules).steps


class StreamModel:
    """All steps under these rules."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules

    def steps(self, world: World) -> Iterator[tuple[str, World]]:
        yield from self._topic(world)
        yield from self._others(world)
        yield from self._reset(world)
        yield from self._stream(world)
        for number, copy in enumerate(world.copies):
            yield from self._copy(world, number, copy)
        for request in sorted(world.requests):
            served, answer = self._serve(world._replace(requests=world.requests - {request}), request)
            yield f"copy {request.copy} gets: {answer}", self._answer(served, request, answer)
            if (lost := _spend(served, "lose")) is not None:
                yield f"copy {request.copy}: {answer}, but the answer is lost", lost
        yield from self._rebase(world)

    def _rebase(self, world: World) -> Iterator[tuple[str, World]]:
        """The server checks a commit, and applies it to the head of a later moment."""
        for request in sorted(world.requests):
            if self._serve(world, request)[0].head != world.head and (after := _spend(world, "overtake")) is not None:
                requests, checked = world.requests - {request}, world.checked | {request}
                yield f"copy {request.copy}: checked", after._replace(requests=requests, checked=checked)
        for request in sorted(world.checked):
            after = world._replace(checked=world.checked - {request})
            served, answer = self._apply(after, request), "committed"
            if self.rules.checks_rebased:
                served, answer = self._serve(after, request)
            yield f"copy {request.copy} gets after the check: {answer}", self._answer(served, request, answer)

    def _topic(self, world: World) -> Iterator[tuple[str, World]]:
        if (after := _spend(world, "produce")) is not None:
            yield "a record is produced", after._replace(topic=world.topic + OPEN)
        for offset in (offset for offset, state in enumerate(world.topic) if state == OPEN):
            for ended in (COMMITTED, ABORTED):
                topic = world.topic[:offset] + ended + world.topic[offset + 1 :]
                yield f"transaction of {offset}: {ended}", world._replace(topic=topic)
        if world.earliest < stable_offset(world.topic) and (after := _spend(world, "expire")) is not None:
            yield "the topic drops its first record", after._replace(earliest=world.earliest + 1)

    def _others(self, world: World) -> Iterator[tuple[str, World]]:
        """Another writer, or a clean, makes a snapshot; a user rolls the table back."""
        if (after := _spend(world, "other")) is not None:
            position = world.head.position if self.rules.stamps_position else 0
            moved = _move_head(after, world.head._replace(position=position))
            yield "somebody else makes a snapshot", moved._replace(next_row=world.next_row + 1)
        for number, snapshot in enumerate(world.earlier):
            if (after := _spend(world, "rollback")) is not None:
                yield f"rollback to snapshot {number}", self._roll_back(after, snapshot)
        if any(copy.phase == "gap" for copy in world.copies) and world.position < world.earliest:
            skipped = world.skipped | set(range(world.position, world.earliest))
            snapshot = world.head._replace(position=world.earliest)
            after = _move_head(world, snapshot)._replace(position=world.earliest, skipped=skipped)
            yield "a user skips what the topic no longer has", _excuse(after)

    def _reset(self, world: World) -> Iterator[tuple[str, World]]:
        """A user looks at what a reset would lose or repeat, and agrees to it; later the server moves the position."""
        if world.planned is None:
            for to in range(world.earliest, stable_offset(world.topic) + 1):
                if to != world.position and (after := _spend(world, "reset")) is not None:
                    yield (
                        f"a user agrees to go from {world.position} to {to}",
                        after._replace(planned=(world.position, to)),
                    )
            return
        start, to = world.planned
        dropped = world._replace(planned=None)
        if self.rules.reset_compares and start != world.position:
            yield "the reset is refused: the position has moved", dropped
        elif to >= world.earliest:
            yield f"the position goes from {world.position} to {to}", self._move_position(dropped, start, to)

    def _move_position(self, world: World, start: int, to: int) -> World:
        """The user has agreed to miss the records from start to `to`, or to read those from `to` to start again."""
        again = range(to, start)
        records = tuple(offset for offset in world.head.records if offset not in again)
        head = Snapshot(records, to, max(records, default=-1))
        epoch = world.epoch + 1 if self.rules.reset_fences else world.epoch
        moved = _move_head(world, head)._replace(position=to, epoch=epoch, earlier=())
        return moved._replace(skipped=(world.skipped | set(range(start, to))) - set(again))

    def _stream(self, world: World) -> Iterator[tuple[str, World]]:
        """The stream's lease: given to a copy, silent for too long, lost; a user pauses and resumes the stream."""
        at_work = {copy.lease for copy in world.copies if copy.phase in {"ready", "waiting"}}
        if world.lease and (after := world if world.lease not in at_work else _spend(world, "lapse")) is not None:
            yield "the lease lapses", after._replace(lease=0)
        if not world.is_paused and (after := _spend(world, "pause")) is not None:
            epoch = world.epoch + 1 if self.rules.pause_fences else world.epoch
            yield "a user pauses the stream", after._replace(is_paused=True, lease=0, epoch=epoch)
        if world.is_paused:
            yield "a user resumes the stream", world._replace(is_paused=False)
        for number, copy in enumerate(world.copies):
            is_free = not world.is_paused and (world.lease == 0 or not self.rules.one_lease)
            if is_free and copy.phase in STOPPED and (after := _spend(world, "take")) is not None:
                yield f"copy {number} takes the lease", self._take(after, number, copy)
            is_lost = copy.lease not in {0, world.lease} and copy.phase in {"ready", "waiting"}
            if is_lost and self.rules.lost_lease_ends:
                ended = copy._replace(phase="idle", sent=None, lease=0)
                yield f"copy {number} learns that its lease is over", _set_copy(world, number, ended)

    def _take(self, world: World, number: int, copy: Copy) -> World:
        lease = world.leases + 1
        leased_world, leased = world._replace(lease=lease, leases=lease), copy._replace(lease=lease)
        if self.rules.lease_registers:
            return self._register(leased_world, number, leased, world.position)
        ready = leased._replace(phase="ready", epoch=world.epoch, at=world.position, sent=None, is_excused=False)
        return _set_copy(leased_world, number, ready)

    def _roll_back(self, world: World, snapshot: Snapshot) -> World:
        position = snapshot.position if self.rules.rolls_position_back else world.position
        recorded = frozenset(commit for commit in world.recorded if commit[2] <= snapshot.position)
        return _excuse(world._replace(head=snapshot, earlier=(), position=position, recorded=recorded))

    def _copy(self, world: World, number: int, copy: Copy) -> Iterator[tuple[str, World]]:
        if copy.phase in STOPPED and (after := _spend(world, "register")) is not None:
            if self.rules.registers_first:
                by_hand = copy._replace(lease=0)
                yield f"copy {number} registers", self._register(after, number, by_hand, world.position)
            else:
                looked = copy._replace(phase="looked", at=world.position)
                yield f"copy {number} reads the position", _set_copy(after, number, looked)
        if copy.phase == "looked":
            yield f"copy {number} registers", self._register(world, number, copy, copy.at)
        if copy.phase == "ready":
            yield from self._read(world, number, copy)
        if copy.phase == "waiting" and copy.sent is not None and copy.sent not in world.requests:
            yield f"copy {number} sends again", world._replace(requests=world.requests | {copy.sent})
        if copy.phase in {"ready", "waiting"}:
            if (after := _spend(world, "crash")) is not None:
                yield f"copy {number} dies", _set_copy(after, number, copy._replace(phase="idle", sent=None))
            if not self.rules.names_positions and (after := _spend(world, "forget")) is not None:
                forgotten = copy._replace(phase="idle", sent=None, at=0, batch=0)
                yield f"copy {number} dies and loses its checkpoint", _set_copy(after, number, forgotten)

    def _register(self, world: World, number: int, copy: Copy, position: int) -> World:
        at = position if self.rules.names_positions else copy.at
        ready = copy._replace(phase="ready", epoch=world.epoch + 1, at=at, sent=None, is_excused=False)
        return _set_copy(world._replace(epoch=world.epoch + 1), number, ready)

    def _read(self, world: World, number: int, copy: Copy) -> Iterator[tuple[str, World]]:
        end = stable_offset(world.topic) if self.rules.ends_at_stable_offset else len(world.topic)
        if copy.at < world.earliest and self.rules.stops_at_gap:
            yield f"copy {number} stops: records are gone", _set_copy(world, number, copy._replace(phase="gap"))
        elif copy.at < end:
            first = max(copy.at, world.earliest)
            records = tuple(offset for offset in range(first, end) if world.topic[offset] == COMMITTED)
            for kind, newest in self._write(records):
                request = Request(
                    number, copy.epoch, copy.batch, copy.at, end, records, newest, world.next_row, copy.lease
                )
                sent = _set_copy(world, number, copy._replace(phase="waiting", sent=request))
                yield (
                    f"copy {number} sends {copy.at} to {end}{kind}",
                    sent._replace(requests=world.requests | {request}),
                )

    def _write(self, records: tuple[int, ...]) -> Iterator[tuple[str, int]]:
        """Each way in which a copy may write its files, and the change that readers then see."""
        yield "", max(records, default=-1)
        if len(records) > 1 and not self.rules.orders_changes:
            yield " in two files", min(records)
        if len(records) > 1 and not self.rules.keeps_last:
            yield " in two partitions", min(records)

    def _serve(self, world: World, request: Request) -> tuple[World, str]:
        """One commit request in one transaction of the server, and its answer."""
        if not self.rules.names_positions:
            if request.batch in world.batches:
                return world, "committed"
            return self._apply(world._replace(batches=world.batches | {request.batch}), request), "committed"
        commit = (request.epoch, request.start, request.end)
        if self.rules.replays_first and commit in world.recorded:
            return world, "committed"
        if self.rules.fences_epoch and request.epoch < world.epoch:
            return world, "fenced"
        if self.rules.compares_position and request.start != world.position:
            return world, "moved"
        return self._apply(world._replace(recorded=world.recorded | {commit}), request), "committed"

    def _apply(self, world: World, request: Request) -> World:
        if world.is_paused and request.lease:
            world = world._replace(broken="a paused stream has committed")
        newest = request.newest if request.records else world.head.newest
        snapshot = Snapshot((*world.head.records, *request.records), request.end, newest)
        first = world.next_row if self.rules.numbers_rebased else request.first_row
        broken = "two changes have one row id" if request.records and first < world.next_row else world.broken
        next_row = max(world.next_row, first + len(request.records))
        return _move_head(world, snapshot)._replace(position=request.end, next_row=next_row, broken=broken)

    def _answer(self, world: World, request: Request, answer: str) -> World:
        """The answer reaches its copy, unless that has died or sent something else since."""
        copy = world.copies[request.copy]
        if copy.sent != request:
            return world
        if answer == "committed":
            ready = copy._replace(phase="ready", at=request.end, batch=copy.batch + 1, sent=None)
            return _set_copy(world, request.copy, ready)
        if copy.epoch == world.epoch and not copy.is_excused:
            world = world._replace(broken="the newest copy was refused")
        return _set_copy(world, request.copy, copy._replace(phase=answer, sent=None))


def _move_head(world: World, snapshot: Snapshot) -> World:
    return world._replace(head=snapshot, earlier=(*world.earlier, world.head)[-2:])


def _excuse(world: World) -> World:
    return world._replace(copies=tuple(copy._replace(is_excused=True) for copy in world.copies))


def _set_copy(world: World, number: int, copy: Copy) -> World:
    return world._replace(copies=(*world.copies[:number], copy, *world.copies[number + 1 :]))


def _spend(world: World, event: str) -> World | None:
    """The world after one more of these events is used up; None if none is left."""
    left = dict(world.left)
    if left.get(event, 0) == 0:
        return None
    return world._replace(left=tuple((left | {event: left[event] - 1}).items()))
