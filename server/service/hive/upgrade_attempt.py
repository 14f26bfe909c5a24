"""One attempt at an upgrade: the directory it writes to, and its right to go on.

The journal names the directory before anything is written there. An attempt that begins takes the journal over, in
one transaction, and only then removes what earlier attempts have left: one of them may still run, on a server that has
lost its lead, and must find out before it adds a table whose files are gone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from catalog.hive.wave import Wave
from catalog.jobs.operation import Operation, OperationId, enter_phase
from catalog.ports.files import TableFiles
from catalog.ports.store import Database, UnitOfWork
from firn.protocol.operations import OperationKind, OperationStatus

LISTING = "listing directories"
COUNTING = "counting keys"
_UNITS = {LISTING: "directories", COUNTING: "rows"}
"""The counted unit of each phase that does not count files."""


class Canceled(Exception):
    """A user has canceled the operation."""


class Paused(Exception):
    """A user has paused the operation."""


class Halted(Exception):
    """This server stops: the next one begins it anew."""


class Overtaken(Exception):
    """The operation has ended, or another attempt has begun: this one must touch nothing more."""


@dataclass(frozen=True)
class UpgradeAttempt:
    """The right to carry out one operation, as long as its journal names this attempt's directory."""

    database: Database
    files: TableFiles
    operation: Operation
    root: str
    halted: threading.Event = field(default_factory=threading.Event)

    def begin(self) -> None:
        """Take the operation over; Canceled, Paused or Overtaken when there is nothing more to do."""
        with self.database.writing() as uow:
            current = uow.operations.lock(self.operation.id)
            if current.status.is_final:
                raise Overtaken
            if current.status is OperationStatus.PAUSED:
                raise Paused
            left = _roots(current)
            begun = replace(current, done=0, total=0, journal={"root": self.root, "left": left})
            uow.operations.put(enter_phase(begun, "checking", uow.now()))
        if current.cancel_requested:
            raise Canceled
        self._remove(left)

    def step(self, phase: str, done: int, total: int, result: Mapping[str, Any] | None = None) -> None:
        """Store the progress and the `found` facts for people; return whether to stop."""
        if self.halted.is_set():
            raise Halted
        with self.database.writing() as uow:
            current = self.current(uow)
            result = {**current.result, **(result or {})}
            progressed = replace(current, done=done, total=total, unit=_UNITS.get(phase, "files"), result=result)
            uow.operations.put(enter_phase(progressed, phase, uow.now()))

    def current(self, uow: UnitOfWork) -> Operation:
        """The operation as it is now; Canceled, Paused or Overtaken when this attempt is not to go on."""
        current = running(uow, self.operation.id)
        if current.journal.get("root") != self.root:
            raise Overtaken
        return current

    def end(self, status: OperationStatus, error: str, hint: str | None, *, phase: str | None = None) -> None:
        """End without a table: nothing of the attempt stays. Overtaken when it is not this one's to end."""
        with self.database.writing() as uow:
            # Before the operation, as a resume of the wave does.
            wave = None if self.operation.batch is None else uow.waves.lock(self.operation.batch)
            current = uow.operations.lock(self.operation.id)
            if current.status.is_final or current.journal.get("root") != self.root:
                raise Overtaken
            now = uow.now()
            ended = replace(current, status=status, error=error, hint=hint, phase=phase or current.phase)
            uow.operations.put(replace(ended, ended_at=now, updated_at=now))
            if status is OperationStatus.FAILED:
                note_failure(uow, current, error, wave)
        self._remove(_roots(current))

    def tell(self, phase: str, report: Mapping[str, Any], also: Callable[[UnitOfWork], None]) -> None:
        """End a check, with its report, and do `also` in the same transaction."""
        with self.database.writing() as uow:
            current, now = self.current(uow), uow.now()
            also(uow)
            done = replace(current, status=OperationStatus.SUCCEEDED, phase=phase, result=dict(report), journal={})
            uow.operations.put(replace(done, ended_at=now, updated_at=now))

    def give_up(self) -> None:
        """Leave nothing behind once overtaken or paused: a table lies in another attempt's directory, if anywhere."""
        self._remove([self.root])

    def _remove(self, roots: list[str]) -> None:
        """Nothing refers to these: a table and its operation's end come in one transaction."""
        for root in roots:
            self.files.delete_directory(root)


def running(uow: UnitOfWork, operation_id: OperationId, *, lock: bool = True) -> Operation:
    """An operation that is to go on, locked unless it is only looked at; Canceled, Paused or Overtaken if it is not."""
    current = uow.operations.lock(operation_id) if lock else uow.operations.get(operation_id)
    if current.status.is_final:
        raise Overtaken
    if current.cancel_requested:
        raise Canceled
    if current.status is OperationStatus.PAUSED:
        raise Paused
    return current


def _roots(operation: Operation) -> list[str]:
    """Directories that attempts may have written to."""
    journal = operation.journal
    return [*journal.get("left", ()), *([journal["root"]] if "root" in journal else [])]


def note_failure(uow: UnitOfWork, operation: Operation, error: str, wave: Wave | None) -> None:
    """Store a failed upgrade in the index, and stop its wave if it allows no further failure.

    This is part of the transaction that ends the operation: if the server dies, no further upgrade starts either.
    """
    if operation.kind is OperationKind.UPGRADE:
        uow.hive.note_failure(operation.catalog, operation.target, error)
    if wave is None:
        return
    stopped = wave.after_failures(uow.operations.failures(wave.batch), operation.target)
    if stopped is not None:
        uow.waves.put(stopped)
        uow.operations.pause_all(wave.batch, uow.now())
