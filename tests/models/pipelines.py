"""Model of one table of a pipeline: pins, checkpoints, runs that sleep or die (docs/protocols.md#pipelines).

Two optimizers attempt the runs of the table; a network delays requests and loses answers. The server is only its
transactions, as in the model of streams. A checkpoint is the position of the table's writer.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.models.explore import Check, Steps
from tests.models.pipeline_states import (
    KEYS,
    NO_POSITION,
    Checkpoint,
    Copy,
    Input,
    Pin,
    Request,
    Rules,
    Snapshot,
    World,
    can_read,
    compute_rows,
    excuse,
    find_affected_keys,
    find_checkpoint,
    set_copy,
    spend,
)

NO_KEY = 2
KEY_NAMES = ("key 0", "key 1", "nothing that the query reads")
EVENTS = dict.fromkeys(
    ("undo", "recreate", "outlive", "rollback", "replace", "define", "repeat", "cancel", "drop", "reset", "expire"), 1
)
"""How often random histories have the events that `budget` leaves out."""
AT_WORK = {"leased", "looked", "half", "pinned", "waiting"}


def budget(**more: int) -> tuple[tuple[str, int], ...]:
    """How often each event may still happen. Other events happen only where they are named."""
    few = {"change": 2, "take": 3, "lose": 1, "crash": 1, "lapse": 1}
    return tuple((few | more).items())


def check(world: World) -> str | None:
    checkpoint = find_checkpoint(world, world.position)
    if checkpoint is not None and world.head.rows != compute_rows(checkpoint):
        return "the table is not the result of its checkpoint"
    if len(set(world.head.commits)) < len(world.head.commits):
        return "a run has committed twice"
    return world.broken


CHECK: Check[World] = check


def is_done(world: World) -> bool:
    """The table is the result of the newest definition and of the inputs' current versions."""
    checkpoint = find_checkpoint(world, world.position)
    if checkpoint is None or checkpoint.definition != world.definition:
        return False
    return checkpoint.pins == tuple(Pin(table.uuid, table.history) for table in world.inputs)


def pipeline_steps(rules: Rules) -> Steps[World]:
    return PipelineModel(rules).steps


class PipelineModel:
    """All steps under these rules."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules

    def steps(self, world: World) -> Iterator[tuple[str, World]]:
        for number, table in enumerate(world.inputs):
            yield from self._input(world, number, table)
        yield from self._expire(world)
        yield from self._target(world)
        yield from self._user(world)
        yield from self._lease(world)
        for number, copy in enumerate(world.copies):
            yield from self._copy(world, number, copy)
        for request in sorted(world.requests):
            served, answer = self._serve(world._replace(requests=world.requests - {request}), request)
            yield f"copy {request.copy} gets: {answer}", self._answer(served, request, answer)
            if (lost := spend(served, "lose")) is not None:
                yield f"copy {request.copy}: {answer}, but the answer is lost", lost
            if (twice := spend(served, "repeat")) is not None:
                repeated = twice._replace(requests=twice.requests | {request})
                yield f"copy {request.copy}: {answer}, and the request comes again", repeated

    def _input(self, world: World, number: int, table: Input) -> Iterator[tuple[str, World]]:
        if (after := spend(world, "change")) is not None:
            for key in (*KEYS, NO_KEY):
                version = (table.newest + 1, key)
                changed = table._replace(history=(*table.history, version), newest=table.newest + 1)
                yield f"a commit to input {number} changes {KEY_NAMES[key]}", _set_input(after, number, changed)
        for length in range(1, len(table.history)):
            is_kept = table.history[length - 1][0] not in table.expired
            if is_kept and (after := spend(world, "undo")) is not None:
                undone = table._replace(history=table.history[:length])
                yield f"rollback of input {number} to its version {length}", _set_input(after, number, undone)
        if (after := spend(world, "recreate")) is not None:
            yield f"input {number} is recreated", _set_input(after, number, Input(table.uuid + 1))

    def _expire(self, world: World) -> Iterator[tuple[str, World]]:
        """Expiry chooses a version that nobody needs, and removes it later. Pins are released after a time."""
        if world.chosen is not None:
            number, version = world.chosen
            dropped = world._replace(chosen=None)
            if self.rules.expiry_checks_again and version in self._protected(world, number):
                yield f"version {version} of input {number} stays: it is pinned", dropped
            elif version != world.inputs[number].history[-1][0]:
                yield f"version {version} of input {number} expires", _remove(dropped, number, version)
            return
        for number, table in enumerate(world.inputs):
            kept = {table.history[-1][0], *table.expired, *self._protected(world, number)}
            for version in sorted(set(range(1, table.newest + 1)) - kept):
                if (after := spend(world, "expire")) is not None:
                    yield (
                        f"version {version} of input {number} is chosen for expiry",
                        after._replace(chosen=(number, version)),
                    )
        if (after := spend(world, "outlive")) is not None:
            ids = world.released | {checkpoint.id for checkpoint in world.checkpoints}
            yield "all pins have been kept long enough", after._replace(released=ids)

    def _protected(self, world: World, number: int) -> set[int]:
        ids = {world.position} if self.rules.protects_checkpoint else set[int]()
        if self.rules.protects_newest_run:
            ids.add(world.newest_run)
        return _pinned_versions(world, number, ids - world.released)

    def _target(self, world: World) -> Iterator[tuple[str, World]]:
        for number, snapshot in enumerate(world.earlier):
            if (after := spend(world, "rollback")) is not None:
                position = snapshot.position if self.rules.rolls_position_back else world.position
                back = after._replace(head=snapshot, earlier=(), position=position, reset=None)
                yield f"rollback of the table to snapshot {number}", excuse(back)
        if (after := spend(world, "replace")) is not None:
            empty = after._replace(table=world.table + 1, head=Snapshot(), earlier=(), epoch=0, reset=None)
            yield (
                "the table is dropped and created again",
                excuse(empty._replace(position=NO_POSITION, newest_run=NO_POSITION)),
            )

    def _user(self, world: World) -> Iterator[tuple[str, World]]:
        if (after := spend(world, "define")) is not None:
            yield "a user changes the query", after._replace(definition=world.definition + 1)
        if world.lease and (after := spend(world, "cancel")) is not None:
            yield "a user cancels the run", _end_lease(after, fences=self.rules.cancel_fences)
        if not world.is_dropped and (after := spend(world, "drop")) is not None:
            dropped = _end_lease(after, fences=self.rules.drop_fences)
            yield "a user drops the pipeline", dropped._replace(is_dropped=True)
        if world.is_dropped:
            yield "a user puts the pipeline again", world._replace(is_dropped=False)
        if (after := spend(world, "reset")) is not None:
            reset_world = after._replace(reset="asked", has_flag=not self.rules.reset_moves_position)
            if self.rules.reset_moves_position:
                nowhere = world.last_id + 1
                reset_world = reset_world._replace(epoch=world.epoch + 1, position=nowhere, last_id=nowhere)
            yield "a user resets the table", excuse(reset_world)

    def _lease(self, world: World) -> Iterator[tuple[str, World]]:
        at_work = {copy.lease for copy in world.copies if copy.phase in AT_WORK}
        if world.lease and (after := world if world.lease not in at_work else spend(world, "lapse")) is not None:
            yield "the lease lapses", after._replace(lease=0)
        for number, copy in enumerate(world.copies):
            is_free = world.lease == 0 and not world.is_dropped and copy.phase == "idle"
            if is_free and (after := spend(world, "take")) is not None:
                lease = world.leases + 1
                leased = Copy("leased", lease, world.definition)
                yield (
                    f"copy {number} takes the lease",
                    set_copy(after, number, leased)._replace(lease=lease, leases=lease),
                )

    def _copy(self, world: World, number: int, copy: Copy) -> Iterator[tuple[str, World]]:
        if copy.phase == "leased" and not self.rules.registers_first:
            looked = copy._replace(phase="looked", start=world.position, since=self._since(world, copy))
            yield f"copy {number} reads the checkpoint", set_copy(world, number, looked)
        elif copy.phase in {"leased", "looked", "half"}:
            yield from self._pin(world, number, copy)
        if copy.phase == "pinned":
            yield from self._compute(world, number, copy)
        if copy.phase == "waiting" and copy.sent is not None and copy.sent not in world.requests:
            yield f"copy {number} has no answer", self._settle(world, number, copy, "no answer")
        if copy.phase in AT_WORK and (after := spend(world, "crash")) is not None:
            yield f"copy {number} dies", set_copy(after, number, Copy())

    def _pin(self, world: World, number: int, copy: Copy) -> Iterator[tuple[str, World]]:
        if self.rules.checks_lease and copy.lease != world.lease:
            yield f"copy {number} gets no pins: its lease is over", set_copy(world, number, Copy())
            return
        pins = tuple(Pin(table.uuid, table.history) for table in world.inputs)
        if copy.phase == "half" and copy.until is not None:
            first = copy.until.pins[0]
            if first != pins[0]:
                world = world._replace(broken="a run joins states of two moments")
            pins = (first, pins[1])
        elif not self.rules.pins_together:
            half = copy._replace(phase="half", until=Checkpoint(0, copy.definition, pins[:1]))
            yield f"copy {number} pins one input", set_copy(world, number, half)
            return
        pinned = self._register(world, number, copy, Checkpoint(world.last_id + 1, copy.definition, pins))
        yield f"copy {number} pins", pinned
        if (lost := spend(pinned, "lose")) is not None:
            yield f"copy {number} pins, but the answer is lost", set_copy(lost, number, copy)

    def _register(self, world: World, number: int, copy: Copy, until: Checkpoint) -> World:
        epoch = world.epoch + 1
        if copy.phase != "looked":
            copy = copy._replace(start=world.position, since=self._since(world, copy))
        pinned = copy._replace(phase="pinned", epoch=epoch, until=until, table=world.table, sent=None, is_excused=False)
        stored = world._replace(epoch=epoch, checkpoints=(*world.checkpoints, until), newest_run=until.id)
        return set_copy(stored._replace(last_id=until.id, has_flag=False), number, pinned)

    def _since(self, world: World, copy: Copy) -> Checkpoint | None:
        """The checkpoint whose rows the run may keep; None if it has to compute all rows."""
        since = find_checkpoint(world, world.position)
        if since is None or world.has_flag:
            return None
        if self.rules.full_if_redefined and since.definition != copy.definition:
            return None
        for table, pin in zip(world.inputs, since.pins, strict=True):
            if self.rules.full_if_recreated and pin.uuid != table.uuid:
                return None
            if pin.uuid != table.uuid:
                continue
            if self.rules.full_if_rolled_back and pin.history != table.history[: len(pin.history)]:
                return None
            if self.rules.full_if_expired and pin.version in table.expired:
                return None
        return since

    def _compute(self, world: World, number: int, copy: Copy) -> Iterator[tuple[str, World]]:
        """Compute affected rows, compare them with the table's, and send what differs."""
        until, since = copy.until, copy.since
        assert until is not None
        reads = [*zip(world.inputs, until.pins, strict=True)]
        if since is not None and self.rules.full_if_expired and self.rules.full_if_recreated:
            reads += zip(world.inputs, since.pins, strict=True)
        if not all(can_read(table, pin) for table, pin in reads):
            yield f"copy {number} fails: a pinned version is gone", _end_run(world, number)
            return
        affected = set(KEYS) if since is None else find_affected_keys(world.inputs, since, until)
        result = compute_rows(until)
        rows = tuple((key, result[key]) for key in sorted(affected) if world.head.rows[key] != result[key])
        ids = (number, copy.lease, copy.table, copy.epoch, copy.start, until.id)
        request = Request(*ids, rows, since is None)
        kind = "all rows" if since is None else "what changed"
        sent = set_copy(world, number, copy._replace(phase="waiting", sent=request))
        yield f"copy {number} sends {len(rows)} of {kind}", sent._replace(requests=world.requests | {request})

    def _serve(self, world: World, request: Request) -> tuple[World, str]:
        """One commit, or step without a commit, in one transaction of the server."""
        if request.table != world.table:
            return world, "another table"
        if request.rows or self.rules.moves_as_commit:
            if self.rules.fences_epoch and request.epoch < world.epoch:
                return world, "fenced"
            if self.rules.compares_position and request.start != world.position:
                return world, "moved"
        if request.lease in world.ended:
            return world._replace(broken="a cancelled run has committed"), "committed"
        if not self.rules.commits_at_once and len(request.rows) > 1:
            (key, row), *rest = request.rows
            rows = tuple(row if key == place else old for place, old in enumerate(world.head.rows))
            later = world.requests | {request._replace(rows=tuple(rest))}
            return world._replace(head=world.head._replace(rows=rows), requests=later), "half of it committed"
        return self._apply(world, request), "committed"

    def _apply(self, world: World, request: Request) -> World:
        if world.reset and not request.is_full:
            return world._replace(broken="a reset was forgotten")
        moved = world._replace(position=request.end, reset=None)
        if not request.rows:
            return moved
        changed = dict(request.rows)
        rows = tuple(changed.get(key, world.head.rows[key]) for key in KEYS)
        head = Snapshot(rows, request.end, (*world.head.commits, request.end))
        return moved._replace(head=head, earlier=(*world.earlier, world.head)[-2:])

    def _answer(self, world: World, request: Request, answer: str) -> World:
        """The answer reaches its copy, unless that has died or sent something else since."""
        copy = world.copies[request.copy]
        if copy.sent != request or answer == "half of it committed":
            return world
        if answer == "committed":
            return _end_run(world, request.copy)
        return self._settle(world, request.copy, copy, answer)

    def _settle(self, world: World, number: int, copy: Copy, answer: str) -> World:
        """A copy without success asks where the table is: it has committed, sends again, or was overtaken."""
        request = copy.sent
        assert request is not None
        is_newest = copy.epoch == world.epoch and copy.table == world.table
        if self.rules.settles and is_newest and world.position == request.end:
            return _end_run(world, number)
        if answer == "no answer" and (not self.rules.settles or (is_newest and world.position == request.start)):
            return world._replace(requests=world.requests | {request})
        if is_newest and not copy.is_excused:
            is_lost = world.position != request.end
            fault = "the newest run was refused" if is_lost else "a run that has committed takes itself for overtaken"
            world = world._replace(broken=fault)
        return _end_run(world, number)


def _set_input(world: World, number: int, table: Input) -> World:
    inputs = (*world.inputs[:number], table, *world.inputs[number + 1 :])
    assert len(inputs) == 2
    chosen = world.chosen if table.uuid == world.inputs[number].uuid else None
    return world._replace(inputs=inputs, chosen=chosen)


def _pinned_versions(world: World, number: int, ids: set[int]) -> set[int]:
    pins = [checkpoint.pins[number] for checkpoint in world.checkpoints if checkpoint.id in ids]
    return {pin.version for pin in pins if pin.uuid == world.inputs[number].uuid}


def _remove(world: World, number: int, version: int) -> World:
    newest = [copy for copy in world.copies if (copy.table, copy.epoch) == (world.table, world.epoch)]
    running = {copy.until.id for copy in newest if copy.until is not None}
    if version in _pinned_versions(world, number, {world.position} - world.released):
        world = world._replace(broken="the next run is full without need")
    elif version in _pinned_versions(world, number, running - world.released):
        world = world._replace(broken="a run cannot read what it has pinned")
    table = world.inputs[number]
    return _set_input(world, number, table._replace(expired=table.expired | {version}))


def _end_lease(world: World, *, fences: bool) -> World:
    ended = world._replace(lease=0, ended=world.ended | {world.lease} - {0})
    return ended._replace(epoch=world.epoch + 1, newest_run=NO_POSITION) if fences else ended


def _end_run(world: World, number: int) -> World:
    lease = 0 if world.copies[number].lease == world.lease else world.lease
    return set_copy(world, number, Copy())._replace(lease=lease)
