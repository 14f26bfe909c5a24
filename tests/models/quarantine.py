"""Model of the quarantine of a keyed table (docs/protocols.md, rules 6.11 to 6.14).

Two copies of a drain bring the records of a topic with one partition. A record is good always, good once somebody has
altered the table, or bad from then on. The copies write bad records to the quarantine and all others to the change
store, in two commits. Users send records of the quarantine again, and drop them. Processes die between any two steps,
and requests arrive late. The server is only its transactions.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from tests.models.explore import Check, Steps

TOPIC = "gfn"
"""The kind of each record: g is always good, f is good once the table is altered, n is bad from then on."""
Records = tuple[int, ...]


class Rules(NamedTuple):
    """The rules, each with the number that docs/protocols.md gives it."""

    quarantines_first: bool = True
    """6.11: a drain writes the bad records of a batch before its changes."""
    leaves_out_quarantined: bool = True
    """6.11: a batch leaves out the records that the quarantine has."""
    compares_records: bool = True
    """6.11: it leaves out these records alone, and not all bad ones below the quarantine's position."""
    compares_position: bool = True
    """6.12: the quarantine compares the position of each commit of a drain."""
    opens_with_epoch: bool = True
    """6.12: only the newest copy of the drain registers at the quarantine."""
    looks_after_opening: bool = True
    """6.12: a copy reads the quarantine after it has registered there."""
    retries_below_position: bool = True
    """6.13: a retry takes only records below the log's position."""
    names_records: bool = True
    """6.13: the position of a retry names the records that it has sent, and the next retry removes them first."""
    retry_fences: bool = True
    """6.13: a retry registers before it reads the quarantine, and its commit is refused once another one has."""
    moves_on: bool = True
    """6.13: the server refuses to set the change store or the quarantine back to an earlier snapshot."""
    drop_names_snapshot: bool = True
    """6.14: a drop removes what the user has seen, and is refused if the quarantine has changed since."""


class Request(NamedTuple):
    """A commit on its way. `store` is `q`, or `c` for the change store."""

    copy: int
    store: str
    epoch: int
    start: int
    end: int
    records: Records


class Copy(NamedTuple):
    """One copy of the drain. `bad` and `good` are the records of its batch, which ends before `end`."""

    phase: str = "idle"  # registered, opened, planned, sent-q, sent-c
    epoch: int = 0
    at: int = 0
    q_epoch: int = 0
    q_position: int = 0
    seen: Records = ()
    end: int = 0
    bad: Records = ()
    good: Records = ()
    sent: Request | None = None


class Retry(NamedTuple):
    """One process that sends records again."""

    phase: str = "idle"  # registered, read, sent
    epoch: int = 0
    position: Records = ()
    records: Records = ()


class World(NamedTuple):
    altered: bool = False
    position: int = 0
    epoch: int = 0
    change: Records = ()
    quarantine: Records = ()
    q_version: int = 0
    q_epoch: int = 0
    q_position: int = 0
    q_through: int = 0  # the end of the newest batch with bad records
    retry_epoch: int = 0
    retry_position: Records = ()  # the records that the newest retry has sent
    dropped: frozenset[int] = frozenset()
    look: tuple[int, Records] | None = None  # what a user sees who is about to drop
    copies: tuple[Copy, ...] = (Copy(), Copy())
    retries: tuple[Retry, ...] = (Retry(), Retry())
    past: tuple[tuple[str, Records, int], ...] = ()  # earlier states of a store; of the change store with its position
    requests: frozenset[Request] = frozenset()
    broken: str | None = None
    left: tuple[tuple[str, int], ...] = ()


def budget(**more: int) -> tuple[tuple[str, int], ...]:
    """How often each event may happen."""
    few = {"register": 2, "crash": 1, "lose": 1, "alter": 1, "retry": 0, "drop": 0, "rollback": 0}
    return tuple((few | more).items())


def decodes(record: int, *, altered: bool) -> bool:
    """Whether the record is a change of the table."""
    return TOPIC[record] == "g" or (TOPIC[record] == "f") == altered


def check(world: World) -> str | None:
    if len(set(world.change)) < len(world.change):
        return "a record is in the table twice"
    if len(set(world.quarantine)) < len(world.quarantine):
        return "a record is in the quarantine twice"
    kept = {*world.change, *world.quarantine, *world.dropped}
    if set(range(world.position)) - kept:
        return "a record was lost"
    if set(world.change) & set(world.quarantine) - set(world.retry_position):
        return "a record is in the table and in the quarantine"
    return world.broken


CHECK: Check[World] = check


def is_done(world: World) -> bool:
    """Each record is in the table, in the quarantine, or dropped."""
    return world.position == len(TOPIC) and not world.requests


def quarantine_steps(rules: Rules) -> Steps[World]:
    return QuarantineModel(rules).steps


class QuarantineModel:
    """All steps under these rules."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules

    def steps(self, world: World) -> Iterator[tuple[str, World]]:
        for label, after in self._steps(world):
            yield label, after if self.rules.moves_on else _remember(world, after)

    def _steps(self, world: World) -> Iterator[tuple[str, World]]:
        yield from _roll_back(world)
        if not world.altered and (after := _spend(world, "alter")) is not None:
            yield "somebody alters the table", after._replace(altered=True)
        for number, copy in enumerate(world.copies):
            yield from self._drain(world, number, copy)
        for request in sorted(world.requests):
            served = self._serve(world._replace(requests=world.requests - {request}), request)
            yield f"the server serves copy {request.copy}: {request.store}", served
        for number, retry in enumerate(world.retries):
            yield from self._retry(world, number, retry)
        yield from self._drop(world)

    def _drain(self, world: World, number: int, copy: Copy) -> Iterator[tuple[str, World]]:
        if copy.phase == "idle" and (after := _spend(world, "register")) is not None:
            registered = Copy("registered", epoch=world.epoch + 1, at=world.position)
            yield f"copy {number} registers", _set(after._replace(epoch=world.epoch + 1), number, registered)
        if copy.phase != "idle" and (after := _spend(world, "crash")) is not None:
            yield f"copy {number} dies", _set(after, number, Copy())
        if copy.phase == "registered":
            if not self.rules.looks_after_opening and not copy.seen and world.quarantine:
                yield f"copy {number} looks", _set(world, number, copy._replace(seen=world.quarantine))
            yield f"copy {number} opens the quarantine", self._open(world, number, copy)
        if copy.phase == "opened":
            for end in range(copy.at + 1, len(TOPIC) + 1):
                yield f"copy {number} reads up to {end}", self._plan(world, number, copy, end)
        if copy.phase == "planned":
            yield f"copy {number} sends", self._send(world, number, copy)
        if copy.phase in {"sent-q", "sent-c"} and copy.sent is not None:
            yield from self._settle(world, number, copy, copy.sent)

    def _open(self, world: World, number: int, copy: Copy) -> World:
        if self.rules.opens_with_epoch and copy.epoch != world.epoch:
            return _set(world, number, Copy())
        opened = copy._replace(phase="opened", q_epoch=world.q_epoch + 1, q_position=world.q_position)
        return _set(world._replace(q_epoch=world.q_epoch + 1), number, opened)

    def _plan(self, world: World, number: int, copy: Copy, end: int) -> World:
        batch, altered = range(copy.at, end), world.altered
        seen = set(world.quarantine if self.rules.looks_after_opening else copy.seen)
        has = seen if self.rules.leaves_out_quarantined else set[int]()
        bad = [record for record in batch if not decodes(record, altered=altered) and record not in has]
        good = [record for record in batch if decodes(record, altered=altered) and record not in has]
        if not self.rules.compares_records:
            bad = [record for record in bad if record >= world.q_through]
            good = [record for record in batch if decodes(record, altered=altered)]
        planned = copy._replace(phase="planned", end=end, bad=tuple(bad), good=tuple(good))
        return _set(world, number, planned)

    def _send(self, world: World, number: int, copy: Copy) -> World:
        """Send the first of the two commits that is left: the one to the quarantine, or that of the changes."""
        is_first = copy.at < copy.end
        if copy.bad and (self.rules.quarantines_first or not is_first):
            request = Request(number, "q", copy.q_epoch, copy.q_position, copy.q_position + 1, copy.bad)
            after = copy._replace(phase="sent-q", sent=request)
        else:
            request = Request(number, "c", copy.epoch, copy.at, copy.end, copy.good)
            after = copy._replace(phase="sent-c", sent=request)
        return _set(world._replace(requests=world.requests | {request}), number, after)

    def _settle(self, world: World, number: int, copy: Copy, sent: Request) -> Iterator[tuple[str, World]]:
        """A copy without an answer asks for the position, and sends the same once more if it is the old one."""
        is_q = sent.store == "q"
        epoch, position = (world.q_epoch, world.q_position) if is_q else (world.epoch, world.position)
        if epoch != sent.epoch:
            yield f"copy {number} is fenced", _set(world, number, Copy())
        elif position == sent.end:
            yield f"copy {number} goes on", _set(world, number, self._go_on(copy, sent))
        elif sent in world.requests and (after := _spend(world, "lose")) is not None:
            again = sent if self.rules.compares_position else sent._replace(start=sent.start - 100)
            waiting = copy._replace(sent=again)
            yield f"copy {number} sends again", _set(after._replace(requests=world.requests | {again}), number, waiting)

    def _go_on(self, copy: Copy, sent: Request) -> Copy:
        if sent.store == "q":
            after = copy._replace(phase="planned", q_position=sent.end, bad=(), sent=None)
            return after if copy.at < copy.end else after._replace(phase="opened")
        after = copy._replace(phase="opened", at=sent.end, sent=None)
        return after._replace(phase="planned") if copy.bad else after

    def _serve(self, world: World, request: Request) -> World:
        """One commit of a drain in one transaction of the server."""
        if request.store == "c":
            if request.epoch != world.epoch or request.start != world.position:
                return world
            return world._replace(position=request.end, change=(*world.change, *request.records))
        if request.epoch != world.q_epoch:
            return world
        if self.rules.compares_position and request.start != world.q_position:
            return world
        return world._replace(
            quarantine=(*world.quarantine, *request.records),
            q_position=request.end,
            q_version=world.q_version + 1,
            q_through=max(world.q_through, world.copies[request.copy].end),
        )

    def _retry(self, world: World, number: int, retry: Retry) -> Iterator[tuple[str, World]]:
        if retry.phase == "idle" and (after := _spend(world, "retry")) is not None:
            epoch = world.retry_epoch + 1
            registered = Retry("registered", epoch, world.retry_position)
            yield f"retry {number} registers", _set_retry(after._replace(retry_epoch=epoch), number, registered)
        if retry.phase != "idle" and (after := _spend(world, "crash")) is not None:
            yield f"retry {number} dies", _set_retry(after, number, Retry())
        if retry.phase == "registered":
            removed = _remove(world, retry.position) if self.rules.names_records else world
            yield f"retry {number} removes {retry.position}", _set_retry(removed, number, retry._replace(phase="clean"))
        if retry.phase == "clean":
            yield from self._choose(world, number, retry)
        if retry.phase == "read":
            yield f"retry {number} sends {retry.records}", self._send_again(world, number, retry)
        if retry.phase == "sent":
            done = _set_retry(_remove(world, retry.records), number, Retry())
            yield f"retry {number} removes {retry.records}", done

    def _choose(self, world: World, number: int, retry: Retry) -> Iterator[tuple[str, World]]:
        limit = world.position if self.rules.retries_below_position else len(TOPIC)
        fit = sorted({r for r in world.quarantine if r < limit and decodes(r, altered=world.altered)})
        for records in (chosen for count in range(1, len(fit) + 1) for chosen in combinations(fit, count)):
            read = retry._replace(phase="read", records=records)
            yield f"retry {number} reads {records}", _set_retry(world, number, read)

    def _send_again(self, world: World, number: int, retry: Retry) -> World:
        is_newest = retry.epoch == world.retry_epoch and retry.position == world.retry_position
        if self.rules.retry_fences and not is_newest:
            return _set_retry(world, number, Retry())
        sent = world._replace(change=(*world.change, *retry.records), retry_position=retry.records)
        return _set_retry(sent, number, retry._replace(phase="sent", position=retry.records))

    def _drop(self, world: World) -> Iterator[tuple[str, World]]:
        if world.look is None and world.quarantine and (after := _spend(world, "drop")) is not None:
            yield "a user looks", after._replace(look=(world.q_version, world.quarantine))
        if world.look is not None:
            version, seen = world.look
            if self.rules.drop_names_snapshot and version != world.q_version:
                yield "a drop is refused", world._replace(look=None)
                return
            unseen = set(world.quarantine) - set(seen)
            after = _remove(world, world.quarantine)._replace(dropped=world.dropped | set(world.quarantine), look=None)
            yield "a user drops", after._replace(broken="a user has dropped an unseen record" if unseen else None)


def _remember(world: World, after: World) -> World:
    """The world after a step, with the stores as they were before."""
    past = after.past
    if world.quarantine != after.quarantine:
        past = (*past, ("q", world.quarantine, 0))
    if world.change != after.change:
        past = (*past, ("c", world.change, world.position))
    return after._replace(past=past)


def _roll_back(world: World) -> Iterator[tuple[str, World]]:
    """Set a store back to an earlier state. The change store takes the log's position with it (rule 6.7)."""
    for store, records, position in world.past:
        after = _spend(world, "rollback")
        if after is not None and store == "q":
            yield f"the quarantine is set back to {records}", after._replace(quarantine=records)
        elif after is not None:
            yield f"the change store is set back to {records}", after._replace(change=records, position=position)


def _remove(world: World, records: Records) -> World:
    left = tuple(record for record in world.quarantine if record not in records)
    changed = left != world.quarantine
    return world._replace(quarantine=left, q_version=world.q_version + changed)


def _set(world: World, number: int, copy: Copy) -> World:
    return world._replace(copies=(*world.copies[:number], copy, *world.copies[number + 1 :]))


def _set_retry(world: World, number: int, retry: Retry) -> World:
    return world._replace(retries=(*world.retries[:number], retry, *world.retries[number + 1 :]))


def _spend(world: World, event: str) -> World | None:
    """The world after one more of these events is used up; None if none is left."""
    left = dict(world.left)
    if left.get(event, 0) == 0:
        return None
    return world._replace(left=tuple((left | {event: left[event] - 1}).items()))
