"""States of the model of a pipeline's table: inputs, checkpoints, the target, runs (docs/protocols.md#pipelines).

The result of a pipeline's query has one row for each of two keys, made from the rows with this key in two inputs and
from the definition. A version of an input is one commit, which changes one key.
"""

from __future__ import annotations

from typing import NamedTuple

KEYS = (0, 1)
NO_POSITION = 0
Row = tuple[int, ...]
Version = tuple[int, int]
"""Its number, and the key that its commit changed; another number for a key that the query does not read."""


class Rules(NamedTuple):
    """The rules, each with the number that docs/protocols.md gives it."""

    registers_first: bool = True
    """8.1: one transaction registers the run and reads the checkpoint."""
    pins_together: bool = True
    """8.1: that transaction pins all inputs."""
    checks_lease: bool = True
    """8.1: only a run with the current lease gets pins."""
    compares_position: bool = True
    """8.2: a commit names the checkpoint that it starts from, and the server compares it with the stored one."""
    fences_epoch: bool = True
    """8.2: a commit of an earlier run than the registered one is refused."""
    commits_at_once: bool = True
    """8.2: upserts, deletes and the new checkpoint are one snapshot."""
    settles: bool = True
    """8.2: a run whose commit is refused or not answered asks which checkpoint the table has."""
    moves_as_commit: bool = True
    """8.3: a step without a commit is checked as a commit is."""
    rolls_position_back: bool = True
    """8.4: a rollback of the table sets the checkpoint of the snapshot that it goes back to."""
    full_if_rolled_back: bool = True
    """8.5: a run is full if a pinned version is not in the history of its input."""
    full_if_recreated: bool = True
    """8.5: a run is full if an input is another table than the pinned one."""
    full_if_expired: bool = True
    """8.5: a run is full if a pinned version no longer exists."""
    full_if_redefined: bool = True
    """8.5: a run is full if its query is not that of the checkpoint."""
    protects_checkpoint: bool = True
    """8.6: expiry keeps the versions that the table's checkpoint pins."""
    protects_newest_run: bool = True
    """8.6: expiry keeps the versions that the newest run has pinned."""
    expiry_checks_again: bool = True
    """8.6: the transaction that removes a version looks for pins, not only the choice before."""
    cancel_fences: bool = True
    """8.7: the transaction that cancels a run increments the epoch."""
    drop_fences: bool = True
    """8.7: the transaction that drops the pipeline increments the epoch."""
    reset_moves_position: bool = True
    """8.8: a reset moves the position to one without pins; no run uses it up before it commits."""


class Input(NamedTuple):
    """A table that the pipeline reads: the history of its current version, and the numbers of expired versions."""

    uuid: int = 1
    history: tuple[Version, ...] = ((1, 0),)
    newest: int = 1
    expired: frozenset[int] = frozenset()


class Pin(NamedTuple):
    """One version of an input, with the history up to it, by which the model knows the version's rows."""

    uuid: int
    history: tuple[Version, ...]

    @property
    def version(self) -> int:
        return self.history[-1][0]


class Checkpoint(NamedTuple):
    id: int
    definition: int
    pins: tuple[Pin, ...]


class Snapshot(NamedTuple):
    """The target's rows by key, the position in the summary, and the runs' commits in the history."""

    rows: tuple[Row, ...] = ((),) * len(KEYS)
    position: int = NO_POSITION
    commits: tuple[int, ...] = ()


class Request(NamedTuple):
    """A commit of these rows by key; without rows, the step of a checkpoint without a commit."""

    copy: int
    lease: int
    table: int
    epoch: int
    start: int
    end: int
    rows: tuple[tuple[int, Row], ...]
    is_full: bool


class Copy(NamedTuple):
    """An optimizer's attempt at a run."""

    phase: str = "idle"  # leased, looked, half, pinned, waiting
    lease: int = 0
    definition: int = 0
    table: int = 0
    epoch: int = 0
    start: int = NO_POSITION
    since: Checkpoint | None = None
    until: Checkpoint | None = None
    sent: Request | None = None
    is_excused: bool = False  # a user moved the position since it registered


class World(NamedTuple):
    inputs: tuple[Input, Input] = (Input(), Input())
    definition: int = 1
    is_dropped: bool = False
    table: int = 1
    head: Snapshot = Snapshot()
    earlier: tuple[Snapshot, ...] = ()
    epoch: int = 0
    position: int = NO_POSITION
    checkpoints: tuple[Checkpoint, ...] = ()
    newest_run: int = NO_POSITION  # the checkpoint that the newest registered run may bring
    released: frozenset[int] = frozenset()  # checkpoints whose pins were kept for as long as the owner wants
    last_id: int = 0
    copies: tuple[Copy, ...] = (Copy(), Copy())
    requests: frozenset[Request] = frozenset()
    lease: int = 0
    leases: int = 0
    ended: frozenset[int] = frozenset()  # leases of cancelled runs, or of a dropped pipeline
    chosen: tuple[int, int] | None = None  # an input and its version that expiry has found without pins
    reset: str | None = None  # asked for until a full run has committed: "flag" or "position"
    has_flag: bool = False
    broken: str | None = None
    left: tuple[tuple[str, int], ...] = ()


def find_checkpoint(world: World, position: int) -> Checkpoint | None:
    return next((checkpoint for checkpoint in world.checkpoints if checkpoint.id == position), None)


def compute_rows(checkpoint: Checkpoint) -> tuple[Row, ...]:
    """The whole result of the definition at the checkpoint's pins."""
    return tuple(
        (checkpoint.definition, *(part for pin in checkpoint.pins for part in _newest_change(pin, key))) for key in KEYS
    )


def _newest_change(pin: Pin, key: int) -> tuple[int, int]:
    return pin.uuid, max((number for number, changed in pin.history if changed == key), default=0)


def find_affected_keys(inputs: tuple[Input, ...], since: Checkpoint, until: Checkpoint) -> set[int]:
    """The keys that commits between two checkpoints have changed, as far as the versions still tell."""
    keys = set[int]()
    for table, old, new in zip(inputs, since.pins, until.pins, strict=True):
        readable = [number for number, _ in new.history if number >= old.version and number not in table.expired]
        first = min(readable, default=old.version)
        keys |= {key for number, key in new.history if number > first}
    return keys & {*KEYS}


def can_read(table: Input, pin: Pin) -> bool:
    return table.uuid == pin.uuid and pin.version not in table.expired


def spend(world: World, event: str) -> World | None:
    """The world after one more of these events is used up; None if none is left."""
    left = dict(world.left)
    if left.get(event, 0) == 0:
        return None
    return world._replace(left=tuple((left | {event: left[event] - 1}).items()))


def set_copy(world: World, number: int, copy: Copy) -> World:
    return world._replace(copies=(*world.copies[:number], copy, *world.copies[number + 1 :]))


def excuse(world: World) -> World:
    return world._replace(copies=tuple(copy._replace(is_excused=True) for copy in world.copies))
