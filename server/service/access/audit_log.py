"""The audit log: the server writes changes and refusals before it answers them, and allowed reads in batches."""

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
"""Reads that wait while the database is unavailable; any further ones go to the server's log only."""
MOST_STRANGERS = 200
"""Unauthenticated requests between two flushes that get an entry each, so that no outsider can fill the disk."""

Ended = Callable[[int], None]
"""The caller calls it with the status of the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flushed:
    """Counts of one flush."""

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
        """Record a decision; a change or a refusal is in the database when this returns.

        Raises Unavailable or CommitUnknown when the write fails; the caller must not carry out the request then.
        """
        if entry.verdict is Verdict.UNAUTHENTICATED:
            return self._record_stranger(entry)
        if entry.verdict is Verdict.ALLOWED and not entry.changes:
            return lambda status: self._buffer_read(replace(entry, status=status))
        entry_id = self._write(entry)
        if entry.status is not None:
            return lambda _status: None
        return lambda status: self._record_status(entry_id, status)

    def flush(self) -> Flushed:
        """Write the buffered entries; if the write fails, they wait for the next flush."""
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
            # A gap, which the server's log shows, is better than double entries: people count reads by these rows.
            log.warning("unknown whether audit entries were written", extra={"entries": len(buffer)})
        if strangers:
            log.warning("more unauthenticated requests than audit entries", extra={"requests": strangers})
        return Flushed(reads=len(buffer), strangers_not_written=strangers)

    def _record_stranger(self, entry: AuditEntry) -> Ended:
        with self._lock:
            self._strangers += 1
            if self._strangers <= MOST_STRANGERS:
                self._buffer.append(entry)
        return lambda _status: None

    def _buffer_read(self, entry: AuditEntry) -> None:
        with self._lock:
            if len(self._buffer) < MOST_BUFFERED:
                self._buffer.append(entry)
                return
        log.warning("audit", extra={"entry": str(entry)})

    def _record_status(self, entry_id: int, status: int) -> None:
        with self._lock:
            self._statuses[entry_id] = status

    def _write(self, entry: AuditEntry) -> int:
        """Write an entry and return its id; the first of several concurrent requests writes all their entries."""
        own = _Waiting(entry)
        with self._lock:
            self._queue.append(own)
        with self._writing:
            if not own.id:
                self._write_queue(own)
        return own.id

    def _write_queue(self, own: _Waiting) -> None:
        with self._lock:
            batch, self._queue = self._queue, []
        try:
            with self.database.writing() as uow:
                ids = uow.audit.add([waiting.entry for waiting in batch])
        except (CatalogError, CommitUnknown):
            with self._lock:  # each of the other requests tries again, and gets its own error
                self._queue = [waiting for waiting in batch if waiting is not own] + self._queue
            raise
        for waiting, entry_id in zip(batch, ids, strict=True):
            waiting.id = entry_id
