"""Model of one background job: leases, fencing, lost answers, cancels and settling (docs/protocols.md#jobs-and-leases).

Two optimizers, a network that delays and duplicates, any number of servers. A server is only its transactions, because
all state is in the database: a restart is a lost request or a lost answer, and two servers are two requests in any
order. A lease may expire at any moment: a paused optimizer and a skewed clock look the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.models.explore import Check, Steps

ENDED = {"SUCCEEDED", "FAILED", "CANCELED"}


class Rules(NamedTuple):
    """The rules, each with the number that docs/protocols.md gives it."""

    ends_lease: bool = True
    """2.1: reaping, cancelling, settling and every final state end the lease in their own transaction."""
    fences_in_commit: bool = True
    """2.2: the transaction that moves the table's pointer checks the token, not an earlier one."""
    records_commit: bool = True
    """2.2 and 2.5: that transaction writes the token into the job's row; settling and cancelling read only this row."""
    replays_first: bool = True
    """2.3: a recorded commit is answered with success before the lease is looked at."""
    fences_everything: bool = True
    """2.4: commits that make no snapshot carry the token too."""


class Optimizer(NamedTuple):
    phase: str = "idle"  # working, ready, sent, committed, refused
    token: int = 0


class World(NamedTuple):
    state: str = "PENDING"
    last_token: int = 0
    current: int = 0  # the token that is current, 0 when none is
    recorded: int = 0  # the job's row: the token whose commit was applied
    applied: tuple[int, ...] = ()  # the truth: tokens whose effect is in the table
    signed: frozenset[int] = frozenset()  # tokens that can be found in the table's history
    optimizers: tuple[Optimizer, ...] = (Optimizer(), Optimizer())
    in_flight: frozenset[int] = frozenset()
    checked: frozenset[int] = frozenset()  # commits that passed a lease check made before the transaction
    written: frozenset[int] = frozenset()  # outputs, by token
    deleted: frozenset[int] = frozenset()
    left: tuple[tuple[str, int], ...] = ()


def budget(**more: int) -> tuple[tuple[str, int], ...]:
    """How often each disturbance may still happen."""
    return tuple(({"expire": 2, "lose": 2, "crash": 1, "cancel": 1, "trim": 1, "lease": 3} | more).items())


def check(world: World) -> str | None:
    if len(world.applied) > 1:
        return "a job was applied twice"
    if set(world.applied) & world.deleted:
        return "files of an applied commit were deleted"
    if world.state in {"FAILED", "CANCELED"} and world.applied:
        return f"{world.state}, but its commit is in the table"
    if world.state == "SUCCEEDED" and not world.applied:
        return "SUCCEEDED without a commit"
    return None


CHECK: Check[World] = check


def is_ended(world: World) -> bool:
    return world.state in ENDED


class JobModel:
    """All steps of one job under these rules; `makes_snapshot` is False for expiry, orphan removal and drops."""

    def __init__(self, rules: Rules, *, makes_snapshot: bool = True) -> None:
        self.rules, self.makes_snapshot = rules, makes_snapshot
        self.is_fenced = makes_snapshot or rules.fences_everything

    def steps(self, world: World) -> Iterator[tuple[str, World]]:
        left = dict(world.left)
        yield from self._network(world, left)
        for number, optimizer in enumerate(world.optimizers):
            yield from self._optimizer(world, left, number, optimizer)
        yield from self._server(world, left)

    def _is_known(self, world: World, token: int) -> bool:
        return world.recorded == token if self.rules.records_commit else token in world.signed

    def _end_lease(self, world: World, state: str) -> World:
        """A transition that takes the job from its optimizer."""
        return world._replace(state=state, current=0 if self.rules.ends_lease else world.current)

    def _apply(self, world: World, token: int) -> World:
        signed = world.signed | ({token} if self.makes_snapshot else set())
        return world._replace(applied=(*world.applied, token), signed=signed, recorded=token)

    def _serve(self, world: World, token: int) -> tuple[World, str | None]:
        """One commit request in one server, and its answer; None while the request is still inside."""
        if self.rules.replays_first and self._is_known(world, token):
            return world, "committed"
        has_record = self.rules.records_commit and bool(world.recorded)
        if self.is_fenced and (token != world.current or has_record):
            return world, "refused"
        if not self.rules.fences_in_commit:
            return world._replace(checked=world.checked | {token}), None
        if token in world.applied:  # assert-ref-snapshot-id fails on a repeated request
            return world, "refused"
        return self._apply(world, token), "committed"

    def _settle(self, world: World) -> World:
        if self.rules.records_commit:
            is_done = bool(world.recorded)
        else:
            is_done = any(self._is_known(world, token) for token in range(1, world.last_token + 1))
        return self._end_lease(world, "SUCCEEDED" if is_done else "PENDING")

    def _network(self, world: World, left: dict[str, int]) -> Iterator[tuple[str, World]]:
        for token in sorted(world.in_flight):
            after, answer = self._serve(world, token)
            arrived = after._replace(in_flight=after.in_flight - {token})
            received = f"server gets commit {token}"
            yield f"{received}: {answer or 'lease checked'}", _answered(arrived, token, answer)
            if left["lose"]:
                yield f"commit {token} is lost", _spend(world, "lose")._replace(in_flight=world.in_flight - {token})
                yield f"{received}: {answer}, answer lost", _spend(arrived, "lose")
                again = _spend(_answered(after, token, answer), "lose")
                yield f"commit {token} is delivered twice: {answer}", again
        for token in sorted(world.checked):
            after = self._apply(world._replace(checked=world.checked - {token}), token)
            yield f"server applies commit {token}", _answered(after, token, "committed")

    def _optimizer(
        self, world: World, left: dict[str, int], number: int, optimizer: Optimizer
    ) -> Iterator[tuple[str, World]]:
        name = f"optimizer {number}"
        if optimizer.phase == "idle":
            if world.state == "PENDING" and left["lease"]:
                token = world.last_token + 1
                leased = _spend(world, "lease")._replace(state="RUNNING", last_token=token, current=token)
                yield f"{name} leases: token {token}", _put(leased, number, "working", token)
            return
        is_owner = world.current == optimizer.token and world.state not in ENDED
        if optimizer.phase in {"working", "ready"}:
            yield from self._before_commit(world, number, optimizer, is_owner=is_owner)
        else:
            yield from self._after_commit(world, left, number, optimizer, is_owner=is_owner)
        if left["crash"]:
            yield f"{name} crashes", _put(_spend(world, "crash"), number, "idle")

    def _before_commit(
        self, world: World, number: int, optimizer: Optimizer, *, is_owner: bool
    ) -> Iterator[tuple[str, World]]:
        token, name = optimizer.token, f"optimizer {number}"
        if optimizer.phase == "working":
            yield f"{name} writes its output", _put(world._replace(written=world.written | {token}), number, "ready")
        elif is_owner and world.state in {"RUNNING", "COMMITTING"}:
            sent = world._replace(state="COMMITTING", in_flight=world.in_flight | {token})
            yield f"{name} reports COMMITTING and sends commit {token}", _put(sent, number, "sent")
        elif not is_owner:  # it has sent nothing: it may delete its own output
            deleted = world._replace(deleted=world.deleted | {token})
            yield f"{name} lost its lease and deletes its output", _put(deleted, number, "idle")

    def _after_commit(
        self, world: World, left: dict[str, int], number: int, optimizer: Optimizer, *, is_owner: bool
    ) -> Iterator[tuple[str, World]]:
        token, name = optimizer.token, f"optimizer {number}"
        if optimizer.phase == "sent":  # no answer in time: the request or the answer is late or lost
            if left["lose"] and token not in world.in_flight:
                sent = world._replace(in_flight=world.in_flight | {token})
                yield f"{name} sends commit {token} again", _spend(sent, "lose")
            unknown = self._end_lease(world, "UNKNOWN") if is_owner else world
            yield f"{name} reports UNKNOWN", _put(unknown, number, "idle")
        elif optimizer.phase == "committed":
            counts = world.recorded == token and world.state not in ENDED if self.rules.records_commit else is_owner
            done = self._end_lease(world, "SUCCEEDED") if counts else world
            yield f"{name} reports success", _put(done, number, "idle")
        elif optimizer.phase == "refused":
            failed = _put(world._replace(deleted=world.deleted | {token}), number, "idle")
            if is_owner:
                failed = self._settle(failed) if self.rules.records_commit else self._end_lease(failed, "FAILED")
            yield f"{name} is refused, deletes its output and reports failure", failed

    def _server(self, world: World, left: dict[str, int]) -> Iterator[tuple[str, World]]:
        if world.state in {"RUNNING", "COMMITTING"}:
            has_owner = any(o.token == world.current for o in world.optimizers if o.phase != "idle")
            if left["expire"] or not has_owner:
                after = _spend(world, "expire") if left["expire"] else world
                next_state = "PENDING" if world.state == "RUNNING" else "UNKNOWN"
                yield f"the lease expires in {world.state}", self._end_lease(after, next_state)
        if world.state == "UNKNOWN":
            settled = self._settle(world)
            yield f"the server settles the job: {settled.state}", settled
        if left["cancel"] and world.state not in ENDED and not (self.rules.records_commit and world.recorded):
            yield "a user cancels", self._end_lease(_spend(world, "cancel"), "CANCELED")
        if left["trim"] and world.signed:
            yield "expiry, rollback or a drop shortens the history", _spend(world, "trim")._replace(signed=frozenset())
        if not left["lease"] and world.state == "PENDING":
            yield "too many tries", self._end_lease(world, "FAILED")
        for token in sorted(world.written - world.deleted):
            if token != world.current and not self._is_known(world, token) and world.state != "UNKNOWN":
                yield f"the server deletes the output of {token}", world._replace(deleted=world.deleted | {token})


def job_steps(rules: Rules, *, makes_snapshot: bool = True) -> Steps[World]:
    return JobModel(rules, makes_snapshot=makes_snapshot).steps


def _spend(world: World, kind: str) -> World:
    return world._replace(left=tuple((k, n - (k == kind)) for k, n in world.left))


def _put(world: World, number: int, phase: str, token: int | None = None) -> World:
    optimizers = list(world.optimizers)
    optimizers[number] = Optimizer(phase, optimizers[number].token if token is None else token)
    return world._replace(optimizers=tuple(optimizers))


def _answered(world: World, token: int, answer: str | None) -> World:
    """The world once the optimizer that waits for this commit has its answer."""
    for number, optimizer in enumerate(world.optimizers):
        if answer is not None and optimizer == Optimizer("sent", token):
            return _put(world, number, answer)
    return world
