"""One attempt at an upgrade: the directory it writes to, and its right to go on.

The journal names the directory before anything is written there. An attempt that begins takes the journal over, in
one transaction, and only then removes what earlier attempts have left: one of them may still run, on a server that has
lost its lead, and must find out before it adds a table whose files are gone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from catalog.operation import Operation, OperationId, OperationStatus
from catalog.ports.hive import TableFiles
from catalog.ports.store import Database, UnitOfWork


class Canceled(Exception):
    """Somebody has asked for the operation to stop."""


class Overtaken(Exception):
    """The operation has ended, or another attempt has begun: this one must touch nothing more."""


@dataclass(frozen=True)
class Attempt:
    """The right to carry out one operation, as long as its journal names this attempt's directory."""

    database: Database
    files: TableFiles
    operation: Operation
    root: str

    def begin(self) -> None:
        """Take the operation over; Canceled or Overtaken when there is nothing more to do."""
        with self.database.writing() as uow:
            current = _running(uow, self.operation.id)
            left = _roots(current)
            uow.operations.put(replace(current, journal={"root": self.root, "left": left}))
        self._remove(left)

    def step(self, phase: str, done: int, total: int) -> None:
        """Tell people where it stands, and learn whether to stop."""
        with self.database.writing() as uow:
            current = self.current(uow)
            uow.operations.put(replace(current, phase=phase, done=done, total=total, updated_at=uow.now()))

    def current(self, uow: UnitOfWork) -> Operation:
        """The operation as it is now; Canceled or Overtaken when this attempt is not to go on."""
        current = _running(uow, self.operation.id)
        if current.journal.get("root") != self.root:
            raise Overtaken
        return current

    def end(self, status: OperationStatus, error: str, hint: str | None) -> None:
        """End without a table: nothing of the attempt stays. Overtaken when it is not this one's to end."""
        with self.database.writing() as uow:
            current = uow.operations.lock(self.operation.id)
            if current.status.is_final or current.journal.get("root") != self.root:
                raise Overtaken
            now = uow.now()
            uow.operations.put(replace(current, status=status, error=error, hint=hint, ended_at=now, updated_at=now))
        self._remove(_roots(current))

    def give_up(self) -> None:
        """Leave nothing behind once overtaken: the table, if there is one, lies in another attempt's directory."""
        self._remove([self.root])

    def _remove(self, roots: list[str]) -> None:
        """Nothing refers to these: a table and its operation's end come in one transaction."""
        for root in roots:
            self.files.delete_directory(root)


def _running(uow: UnitOfWork, operation_id: OperationId) -> Operation:
    current = uow.operations.lock(operation_id)
    if current.status.is_final:
        raise Overtaken
    if current.cancel_asked:
        raise Canceled
    return current


def _roots(operation: Operation) -> list[str]:
    """Directories that attempts may have written to."""
    journal = operation.journal
    return [*journal.get("left", ()), *([journal["root"]] if "root" in journal else [])]
