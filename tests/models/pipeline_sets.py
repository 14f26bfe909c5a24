"""Model of tables that move together, and of held runs (docs/protocols.md#pipelines, rules 8.15 to 8.19).

One input has versions 0, 1, 2 and so on. The rows of table A change with each version, those of table B only with each
even one. Two optimizers attempt the runs of both; a network delays requests and loses answers. Files have the number of
the run that has written them. A user may cancel a run, publish or discard a held one, and reset or roll back one table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.models.explore import Check, Steps

SET = (0, 1)
NAMES = "AB"
EVENTS = dict.fromkeys(("hold", "cancel", "reset", "rollback", "clean", "repeat"), 1)
"""Events that `budget` leaves out."""


def budget(**more: int) -> tuple[tuple[str, int], ...]:
    """How often each event may still happen."""
    few = {"change": 3, "take": 3, "lose": 1, "crash": 1}
    return tuple((few | more).items())


class Rules(NamedTuple):
    """The rules, each with the number that docs/protocols.md gives it."""

    commits_together: bool = True
    """8.15: one transaction commits all tables of the run."""
    checks_all: bool = True
    """8.15: that transaction compares epoch and position of each table, also of one that gets no rows."""
    moves_together: bool = True
    """8.15: and moves the position of each."""
    pins_together: bool = True
    """8.16: one transaction registers the writers of all tables and pins the inputs of all."""
    holds_as_commit: bool = True
    """8.17: the server checks a hold as it checks a commit."""
    held_blocks_pins: bool = True
    """8.17: no run of the tables gets pins while one is held."""
    publishes_as_commit: bool = True
    """8.18: publishing is a commit: it compares epochs and positions."""
    keeps_held_files: bool = True
    """8.18: orphan removal keeps the files of held runs."""
    discard_fences: bool = True
    """8.19: the transaction that ends the hold increments the epochs."""


class Table(NamedTuple):
    """One table: rows of a version of the input, its writer, and the runs whose files it needs."""

    rows: int = 0
    position: int = 0
    epoch: int = 0
    files: tuple[int, ...] = ()
    earlier: tuple[tuple[int, int, tuple[int, ...]], ...] = ()
    """Rows, position and files of the snapshot before."""


class Request(NamedTuple):
    """A commit or a hold. `rows` has the version of each table that gets rows, None for one that gets none."""

    copy: int
    run: int
    versions: tuple[int, int]
    epochs: tuple[int, int]
    starts: tuple[int, int]
    rows: tuple[int | None, int | None]
    holds: bool = False
    tables: tuple[int, ...] = SET
    """Those that this transaction is about."""


class Copy(NamedTuple):
    phase: str = "idle"  # leased, half, pinned, waiting
    lease: int = 0
    run: int = 0
    versions: tuple[int, int] = (0, 0)
    epochs: tuple[int, int] = (0, 0)
    starts: tuple[int, int] = (0, 0)
    holds: bool = False


class World(NamedTuple):
    version: int = 0
    tables: tuple[Table, Table] = (Table(), Table())
    runs: tuple[tuple[int, int], ...] = ((0, 0),)
    """The versions that runs have pinned for the tables. The number of a run is the position that it reaches."""
    copies: tuple[Copy, Copy] = (Copy(), Copy())
    requests: frozenset[Request] = frozenset()
    lease: int = 0
    leases: int = 0
    ended: frozenset[int] = frozenset()
    """Runs that were cancelled."""
    held: Request | None = None
    approving: Request | None = None
    """What a user publishes: the server has read it, and has not committed it yet."""
    deleted: frozenset[int] = frozenset()
    is_excused: bool = False
    """Whether a user has moved one table alone, and no run has committed since."""
    broken: str | None = None
    left: tuple[tuple[str, int], ...] = ()


def rows_of(table: int, version: int) -> int:
    """The rows of a table at a version of the input."""
    return version if table == 0 else version - version % 2


def check(world: World) -> str | None:
    states = [
        {version for version in range(world.version + 1) if rows_of(n, version) == world.tables[n].rows} for n in SET
    ]
    if not states[0] & states[1] and not world.is_excused:
        return "a reader sees two states"
    for number, table in enumerate(world.tables):
        if table.position >= 0 and rows_of(number, world.runs[table.position][number]) != table.rows:
            return "a table is not the result of its checkpoint"
        if set(table.files) & world.deleted:
            return "a table needs a file that was deleted"
    if world.held is not None and world.held.run in world.deleted:
        return "a held run has lost its files"
    if not world.is_excused and world.tables[0].position != world.tables[1].position:
        return "the tables have checkpoints of two runs"
    return world.broken


CHECK: Check[World] = check


def set_steps(rules: Rules) -> Steps[World]:
    return SetModel(rules).steps


class SetModel:
    """All steps under these rules."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules

    def steps(self, world: World) -> Iterator[tuple[str, World]]:
        if (after := spend(world, "change")) is not None:
            yield "the input changes", after._replace(version=world.version + 1)
        yield from self._user(world)
        yield from self._approval(world)
        yield from self._lease(world)
        for number, copy in enumerate(world.copies):
            yield from self._copy(world, number, copy)
        for request in sorted(world.requests, key=repr):
            yield from self._deliver(world, request)

    def _user(self, world: World) -> Iterator[tuple[str, World]]:
        if world.lease and (after := spend(world, "cancel")) is not None:
            first, second = (table._replace(epoch=table.epoch + 1) for table in world.tables)
            ended = world.ended | {copy.run for copy in world.copies if copy.lease == world.lease and copy.run}
            yield "a user cancels the run", after._replace(tables=(first, second), lease=0, ended=ended)
        if (after := spend(world, "reset")) is not None:
            moved = world.tables[1]._replace(epoch=world.tables[1].epoch + 1, position=-1)
            yield "a user resets table B", _set_table(after, 1, moved)._replace(is_excused=True)
        if world.tables[1].earlier and (after := spend(world, "rollback")) is not None:
            rows, position, files = world.tables[1].earlier[-1]
            back = world.tables[1]._replace(rows=rows, position=position, files=files, earlier=())
            yield "a user rolls table B back", _set_table(after, 1, back)._replace(is_excused=True)
        if (after := spend(world, "clean")) is not None:
            kept = {copy.run for copy in world.copies} | {request.run for request in world.requests}
            kept |= {run for table in world.tables for run in _reach(table)}
            if self.rules.keeps_held_files and world.held is not None:
                kept.add(world.held.run)
            yield "orphan removal", after._replace(deleted=world.deleted | set(range(1, len(world.runs))) - kept)

    def _approval(self, world: World) -> Iterator[tuple[str, World]]:
        """Publishing reads the hold first and commits later, so another user may discard it in between."""
        if world.held is not None and world.approving is None:
            yield "a user publishes the held run", world._replace(approving=world.held)
        if world.held is not None:
            first, second = (table._replace(epoch=table.epoch + 1) for table in world.tables)
            tables = (first, second) if self.rules.discard_fences else world.tables
            yield "a user discards the run", world._replace(held=None, tables=tables)
        if world.approving is not None:
            request, ready = world.approving, world._replace(approving=None)
            if self.rules.publishes_as_commit and not self._is_current(world, request):
                yield "nothing is published: superseded", ready
            else:
                held = None if ready.held == request else ready.held
                yield "the held run is published", self._apply(ready, request)._replace(held=held)

    def _lease(self, world: World) -> Iterator[tuple[str, World]]:
        if world.lease:
            yield "the lease lapses", world._replace(lease=0)
        for number, copy in enumerate(world.copies):
            if world.lease == 0 and copy.phase == "idle" and (after := spend(world, "take")) is not None:
                lease = world.leases + 1
                leased = _set_copy(after, number, Copy("leased", lease))
                yield f"copy {number} takes the lease", leased._replace(lease=lease, leases=lease)

    def _copy(self, world: World, number: int, copy: Copy) -> Iterator[tuple[str, World]]:
        is_blocked = self.rules.held_blocks_pins and world.held is not None
        if copy.phase in ("leased", "half") and (copy.lease != world.lease or is_blocked):
            yield f"copy {number} gets no pins", _set_copy(world, number, Copy())
        elif copy.phase in ("leased", "half"):
            yield from self._pin(world, number, copy)
        if copy.phase == "pinned":
            yield from self._send(world, number, copy)
        if copy.phase != "idle" and (after := spend(world, "crash")) is not None:
            yield f"copy {number} dies", _set_copy(after, number, Copy())

    def _pin(self, world: World, number: int, copy: Copy) -> Iterator[tuple[str, World]]:
        members = SET if self.rules.pins_together else ((0,) if copy.phase == "leased" else (1,))
        registered = world
        for table in members:
            state = registered.tables[table]
            registered = _set_table(registered, table, state._replace(epoch=state.epoch + 1))
        is_first = copy.phase == "leased"
        for n in members:
            copy = copy._replace(
                epochs=_put(copy.epochs, n, registered.tables[n].epoch),
                starts=_put(copy.starts, n, world.tables[n].position),
                versions=_put(copy.versions, n, world.version),
            )
        if is_first and not self.rules.pins_together:
            yield f"copy {number} pins for table A", _set_copy(registered, number, copy._replace(phase="half"))
            return
        pinned = copy._replace(phase="pinned", run=len(world.runs))
        stored = registered._replace(runs=(*world.runs, pinned.versions))
        yield f"copy {number} pins", _set_copy(stored, number, pinned)
        if (held := spend(stored, "hold")) is not None:
            yield f"copy {number} pins, and will hold", _set_copy(held, number, pinned._replace(holds=True))

    def _send(self, world: World, number: int, copy: Copy) -> Iterator[tuple[str, World]]:
        new = [rows_of(n, copy.versions[n]) for n in SET]
        first, second = (None if new[n] == world.tables[n].rows else new[n] for n in SET)
        rows = (first, second)
        request = Request(number, copy.run, copy.versions, copy.epochs, copy.starts, rows, copy.holds)
        parts = [request] if self.rules.commits_together else [request._replace(tables=(n,)) for n in SET]
        sent = _set_copy(world, number, copy._replace(phase="waiting"))
        yield f"copy {number} sends {rows}", sent._replace(requests=world.requests | {*parts})

    def _deliver(self, world: World, request: Request) -> Iterator[tuple[str, World]]:
        served, answer = self._serve(world._replace(requests=world.requests - {request}), request)
        yield f"run {request.run}: {answer}", _end_run(served, request)
        if (lost := spend(served, "lose")) is not None:
            again = lost._replace(requests=lost.requests | {request})
            yield f"run {request.run}: {answer}, the answer is lost, and the request is sent again", again
        if (twice := spend(served, "repeat")) is not None:
            yield f"run {request.run}: {answer}, and it sleeps", twice

    def _serve(self, world: World, request: Request) -> tuple[World, str]:
        if request.holds:
            return self._hold(world, request)
        if not self._is_current(world, request):
            return world, "superseded"
        if request.run in world.ended:
            return world._replace(broken="a cancelled run has committed"), "committed"
        return self._apply(world, request), "committed"

    def _hold(self, world: World, request: Request) -> tuple[World, str]:
        if self.rules.holds_as_commit and not self._is_current(world, request):
            return world, "hold refused"
        if world.held is not None and world.held != request:
            return world._replace(broken="a held run was replaced by another one"), "held"
        if request.run in world.ended:
            return world._replace(broken="a cancelled run is held"), "held"
        return world._replace(held=request), "held"

    def _is_current(self, world: World, request: Request) -> bool:
        """Whether epochs and positions are still those of the pins."""
        members = (
            request.tables if self.rules.checks_all else [n for n in request.tables if request.rows[n] is not None]
        )
        return all(
            (world.tables[n].epoch, world.tables[n].position) == (request.epochs[n], request.starts[n]) for n in members
        )

    def _apply(self, world: World, request: Request) -> World:
        if world.tables[0].rows > request.versions[0]:
            world = world._replace(broken="rows of an older run replace newer ones")
        for number in request.tables:
            table, rows = world.tables[number], request.rows[number]
            if rows is not None:
                earlier, files = ((table.rows, table.position, table.files),), (*table.files, request.run)
                moved = table._replace(rows=rows, position=request.run, files=files, earlier=earlier)
            else:
                moved = table._replace(position=request.run) if self.rules.moves_together else table
            world = _set_table(world, number, moved)
        return world._replace(is_excused=world.is_excused and request.tables != SET)


def _put(pair: tuple[int, int], number: int, value: int) -> tuple[int, int]:
    return (value, pair[1]) if number == 0 else (pair[0], value)


def _reach(table: Table) -> set[int]:
    return {*table.files, *(run for _, _, files in table.earlier for run in files)}


def spend(world: World, event: str) -> World | None:
    """The world after one more of these events is used up; None if none is left."""
    left = dict(world.left)
    if left.get(event, 0) == 0:
        return None
    return world._replace(left=tuple((left | {event: left[event] - 1}).items()))


def _set_table(world: World, number: int, table: Table) -> World:
    tables = [*world.tables]
    tables[number] = table
    return world._replace(tables=(tables[0], tables[1]))


def _set_copy(world: World, number: int, copy: Copy) -> World:
    copies = [*world.copies]
    copies[number] = copy
    return world._replace(copies=(copies[0], copies[1]))


def _end_run(world: World, request: Request) -> World:
    """The answer reaches the copy, unless it has died or begun another run."""
    copy = world.copies[request.copy]
    if copy.run != request.run or any(other.run == request.run for other in world.requests):
        return world
    lease = 0 if copy.lease == world.lease else world.lease
    return _set_copy(world, request.copy, Copy())._replace(lease=lease)
