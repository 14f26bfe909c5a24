"""One attempt at an import: its right to continue, and the records that it writes.

What becomes of an entry, the operation's counters and the table itself change in one transaction, which also asks
whether this attempt may still go on: a server that has lost its lead finds out before it registers anything twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from catalog.imports.entry import Entry
from catalog.jobs.operation import Operation, OperationId
from catalog.ports.store import Database, UnitOfWork
from firn.protocol.imports import EntryKind, EntryState
from firn.protocol.operations import OperationStatus

FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(minutes=5)
TRIES = 9
"""About a quarter of an hour in all."""
OWNERSHIP = (
    "the source still points at these tables: stop its writers before anything writes here, "
    "two catalogs that commit to one table lose data"
)


class Canceled(Exception):
    """A user has canceled the import."""


class Overtaken(Exception):
    """The import has ended, or another attempt has begun: this attempt may change nothing more."""


@dataclass(frozen=True)
class ImportAttempt:
    """The right to run an import, as long as its operation names this attempt."""

    database: Database
    operation_id: OperationId
    token: str

    def begin(self) -> Operation:
        """Begin an attempt; raises Canceled or Overtaken if nothing is left to do."""
        with self.database.writing() as uow:
            current = uow.operations.lock(self.operation_id)
            if current.status.is_final:
                raise Overtaken
            begun = replace(current, journal=current.journal | {"attempt": self.token}, error=None, hint=None)
            uow.operations.put(begun)
        if begun.cancel_requested:
            raise Canceled
        return begun

    def clear(self, phase: str) -> None:
        """Start the listing of the source from its beginning."""
        with self.database.writing() as uow:
            current = self._current(uow)
            uow.imports.clear(self.operation_id)
            result = current.result | {"counts": {}, "namespaces": 0, "notes": []}
            uow.operations.put(replace(current, phase=phase, done=0, total=0, result=result, updated_at=uow.now()))

    def record_listing(self, entries: Sequence[Entry], notes: Sequence[str] | None = None) -> None:
        """Save listed entries; notes end the list."""
        with self.database.writing() as uow:
            current = self._current(uow)
            uow.imports.add(entries)
            for entry in entries:
                current = _counted(current, entry)
            relations = sum(entry.kind is not EntryKind.NAMESPACE for entry in entries)
            current = replace(current, total=current.total + relations, updated_at=uow.now())
            if notes is not None:
                journal = {**current.journal, "listed": True, "tries": 0}
                current = replace(
                    current, phase="registering", journal=journal, result=current.result | {"notes": list(notes)}
                )
            uow.operations.put(current)

    def settle(self, uow: UnitOfWork, entry: Entry) -> None:
        """Record the result of an entry, in the transaction that produces it."""
        current = self._current(uow)
        uow.imports.put(entry)
        if current.journal.get("tries"):
            current = replace(current, journal={**current.journal, "tries": 0})
        uow.operations.put(replace(_counted(current, entry), phase="registering", updated_at=uow.now()))

    def wait(self, message: str, hint: str | None) -> bool:
        """Schedule a retry with growing delays; returns False after the last one."""
        with self.database.writing() as uow:
            current = self._current(uow)
            tries = int(current.journal.get("tries", 0)) + 1
            if tries >= TRIES:
                return False
            now = uow.now()
            due = now + min(FIRST_PAUSE * 2 ** (tries - 1), LONGEST_PAUSE)
            journal = {**current.journal, "tries": tries, "retry_at": due.isoformat()}
            waiting = replace(current, journal=journal, phase="waiting for the source", error=message)
            next_step = (
                f"the import continues at {due:%H:%M:%S} UTC; {hint}" if hint else f"it goes on at {due:%H:%M:%S} UTC"
            )
            uow.operations.put(replace(waiting, hint=next_step, updated_at=now))
        return True

    def end(self, status: OperationStatus, error: str | None = None, hint: str | None = None) -> None:
        """End the import and delete its secrets; raises Overtaken if another attempt has begun."""
        with self.database.writing() as uow:
            current = uow.operations.lock(self.operation_id)
            if current.status.is_final or current.journal.get("attempt") != self.token:
                raise Overtaken
            now = uow.now()
            ended = replace(current, status=status, error=error, hint=hint or _advice(current), journal={})
            phase = "done" if status is OperationStatus.SUCCEEDED else str(status)
            uow.operations.put(replace(ended, phase=phase, ended_at=now, updated_at=now))
            uow.imports.forget_secrets(self.operation_id)

    def _current(self, uow: UnitOfWork) -> Operation:
        current = _running(uow, self.operation_id)
        if current.journal.get("attempt") != self.token:
            raise Overtaken
        return current


def is_due(operation: Operation, now: datetime) -> bool:
    """Whether the import should run now: it waits for nothing, its delay is over, or a user has canceled it."""
    retry_at = operation.journal.get("retry_at")
    return operation.cancel_requested or retry_at is None or datetime.fromisoformat(retry_at) <= now


def _running(uow: UnitOfWork, operation_id: OperationId) -> Operation:
    current = uow.operations.lock(operation_id)
    if current.status.is_final:
        raise Overtaken
    if current.cancel_requested:
        raise Canceled
    return current


def _counted(operation: Operation, entry: Entry) -> Operation:
    if entry.state is EntryState.FOUND:
        return operation
    if entry.kind is EntryKind.NAMESPACE:
        namespaces = operation.result.get("namespaces", 0) + (entry.state is EntryState.REGISTERED)
        return replace(operation, result=operation.result | {"namespaces": namespaces})
    counts = dict(operation.result.get("counts", {}))
    counts[entry.state] = counts.get(entry.state, 0) + 1
    return replace(operation, done=operation.done + 1, result=operation.result | {"counts": counts})


def _advice(operation: Operation) -> str | None:
    counts = operation.result.get("counts", {})
    touched = any(counts.get(state) for state in (EntryState.READY, EntryState.REGISTERED, EntryState.REFRESHED))
    return OWNERSHIP if touched else None
