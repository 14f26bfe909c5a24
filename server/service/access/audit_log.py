"""The audit trail: changes and refusals are written before they are answered, allowed reads in batches."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from catalog.access.audit_log import AuditEntry, Verdict
from catalog.errors import CatalogError, CommitUnknown
from catalog.ports.store import Database

log = logging.getLogger(__name__)

MOST_BUFFERED = 50_000
"""Reads that wait for a database that is away; beyond it they go to the server's log alone."""
MOST_STRANGERS = 200
"""Requests without a good token between two flushes that get a line each: nobody may fill the disk from outside."""

Ended = Callable[[int], None]
"""To be called with the status that a request was answered with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flushed:
    """What a flush has written."""

    reads: int
    strangers_not_written: int


@dataclass
class _Waiting:
    entry: AuditEntry
    id: int = 0


@dataclass
class AuditLog:
    """Writes the audit log of one server."""

    database: Database
    _queue: list[_Waiting] = field(default_factory=list)
    _buffer: list[AuditEntry] = field(default_factory=list)
    _statuses: dict[int, int] = field(default_factory=dict)
    _strangers: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _writing: threading.Lock = field(default_factory=threading.Lock)

    def record_decision(self, entry: AuditEntry) -> Ended:
        """Record a decision. A change or a refusal is in the database when this returns.

        Raises Unavailable or CommitUnknown when it cannot be written: then nothing of the request was done, nor may be.
        """
        if entry.verdict is Verdict.UNAUTHENTICATED:
            return self._stranger(entry)
        if entry.verdict is Verdict.ALLOWED and not entry.changes:
            return lambda status: self._buffered(replace(entry, status=status))
        written = self._written(entry)
        if entry.status is not None:
            return lambda _status: None
        return lambda status: self._ended(written, status)

    def flush(self) -> Flushed:
        """Write what was buffered; what cannot be written waits for the next time."""
        with self._lock:
            buffer, self._buffer = self._buffer, []
            statuses, self._statuses = self._statuses, {}
            strangers, self._strangers = max(0, self._strangers - MOST_STRANGERS), 0
        try:
            if buffer or statuses:
                with self.database.writing() as uow:
                    uow.audit.add(buffer)
                    uow.audit.ended(statuses)
        except CatalogError:
            with self._lock:
                self._buffer = [*buffer, *self._buffer]
                self._statuses = {**statuses, **self._statuses}
            raise
        except CommitUnknown:
            # Written twice would be worse than a gap that the server's log fills: who counts reads counts these rows.
            log.warning("whether audit entries were written is not known", extra={"entries": len(buffer)})
        if strangers:
            log.warning("requests without a good token were not audited one by one", extra={"requests": strangers})
        return Flushed(reads=len(buffer), strangers_not_written=strangers)

    def _stranger(self, entry: AuditEntry) -> Ended:
        with self._lock:
            self._strangers += 1
            if self._strangers <= MOST_STRANGERS:
                self._buffer.append(entry)
        return lambda _status: None

    def _buffered(self, entry: AuditEntry) -> None:
        with self._lock:
            if len(self._buffer) < MOST_BUFFERED:
                self._buffer.append(entry)
                return
        log.warning("audit", extra={"entry": str(entry)})

    def _ended(self, entry_id: int, status: int) -> None:
        with self._lock:
            self._statuses[entry_id] = status

    def _written(self, entry: AuditEntry) -> int:
        """Several requests at once are written in one transaction, by whichever of them comes first."""
        mine = _Waiting(entry)
        with self._lock:
            self._queue.append(mine)
        with self._writing:
            if not mine.id:
                self._write_queue(mine)
        return mine.id

    def _write_queue(self, mine: _Waiting) -> None:
        with self._lock:
            batch, self._queue = self._queue, []
        try:
            with self.database.writing() as uow:
                ids = uow.audit.add([one.entry for one in batch])
        except (CatalogError, CommitUnknown):
            with self._lock:  # the others try for themselves, and learn for themselves that it fails
                self._queue = [one for one in batch if one is not mine] + self._queue
            raise
        for one, entry_id in zip(batch, ids, strict=True):
            one.id = entry_id
