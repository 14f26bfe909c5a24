"""Hive's own locks, which exclude Hive's writers while Firn reads and alters a table.

Firn requests a lock once, sends a heartbeat before each change, and releases it.  After a lost answer a lock may remain
that nobody releases.  The metastore ends a silent lock after a while, and Firn does too, because metastores before
Hive 4 end locks only if they run compactions.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Protocol, TypeVar
from uuid import uuid4

from hive_metastore.ThriftHiveMetastore import Client
from hive_metastore.ttypes import (
    CheckLockRequest,
    DataOperationType,
    HeartbeatRequest,
    LockComponent,
    LockLevel,
    LockRequest,
    LockResponse,
    LockState,
    LockType,
    NoSuchLockException,
    ShowLocksRequest,
    ShowLocksResponseElement,
    UnlockRequest,
)
from thrift.Thrift import TApplicationException, TException

from catalog.errors import Unavailable
from catalog.ports.metastore import LockHolder, TableLock
from server.metastore.errors import LOST, get_message

log = logging.getLogger(__name__)

T = TypeVar("T")

AGENT = "firn"
"""The prefix of the agent of every Firn lock."""
WHOLE_TABLE = ""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_RETRY_SECONDS = 600.0
"""The time after which Firn again requests locks of a metastore that had none."""
_LONGEST_REASON = 200


class Locking(StrEnum):
    """Whether Firn takes locks."""

    AUTO = "auto"
    """If the metastore supports them."""
    REQUIRE = "require"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockSettings:
    """Whether Firn takes locks, and how long it waits for them."""

    locking: Locking = Locking.AUTO
    wait_seconds: float = 5.0
    silent_seconds: float = 300.0
    """The time after which a silent Firn lock counts as left by a dead Firn; Hive's own `hive.txn.timeout`."""
    user: str | None = None


class Ask(Protocol):
    """A call that can be repeated; Unavailable without a valid answer."""

    def __call__(self, request: str, call: Callable[[Client], T]) -> T: ...


class Once(Protocol):
    """A call that must not be repeated; raises thrift's errors, and Unavailable when nothing was sent."""

    def __call__(self, call: Callable[[Client], T]) -> T: ...


@dataclass(frozen=True, slots=True)
class NoLock:
    """See catalog.ports.metastore.Lock."""

    without: str
    busy: Mapping[str, str] = field(default_factory=dict)

    def keep(self) -> None:
        """Do nothing, since there is no lock."""


@dataclass(frozen=True, slots=True)
class HeldLock:
    """See catalog.ports.metastore.Lock."""

    busy: Mapping[str, str]
    _keep: Callable[[], None]
    without: str | None = None

    def keep(self) -> None:
        self._keep()


@dataclass(frozen=True, slots=True)
class _LockRequest:
    """A request in the metastore's queue, granted or not."""

    id: int
    agent: str
    description: str
    names: tuple[str, ...]


class Locks:
    """Takes locks on one metastore; safe to share between threads."""

    def __init__(self, ask: Ask, once: Once, settings: LockSettings) -> None:
        self._ask, self._once, self._settings = ask, once, settings
        self._guard = threading.Lock()
        self._without: tuple[str, float] | None = None
        self._abandoned: set[str] = set()  # agents of locks that may exist but that nobody holds

    @contextlib.contextmanager
    def of(self, database: str, name: str, partitions: Sequence[str], *, wait: bool) -> Iterator[TableLock]:
        """See catalog.ports.metastore.Metastore.lock."""
        if self._settings.locking is Locking.OFF:
            yield NoLock("hive.locks is off")
            return
        try:
            lock, busy = self._take(database, name, partitions, wait=wait)
        except _NoLocks as error:
            yield self._none(str(error), partitions)
            return
        try:
            yield HeldLock(busy, lambda: None if lock is None else self._keep(lock))
        finally:
            if lock is not None:
                self._release(lock)

    def holders(self, database: str, name: str) -> list[LockHolder]:
        """See catalog.ports.metastore.Metastore.lock_holders."""
        if self._settings.locking is Locking.OFF:
            return []
        request = ShowLocksRequest(dbname=database, tablename=name)

        def show(hive: Client) -> Sequence[ShowLocksResponseElement]:
            try:
                return hive.show_locks(request).locks or ()
            except LOST:
                raise
            except TException:  # it keeps no locks
                return ()

        locks = self._ask(f"for the locks of {database}.{name}", show)
        return [
            LockHolder(partition=lock.partname or WHOLE_TABLE, holder=_describe_holder(lock), since=_find_start(lock))
            for lock in locks
            if lock.dbname == database
            and lock.tablename == name
            and lock.type != LockType.SHARED_READ
            and not (lock.agentInfo or "").startswith(f"{AGENT} ")
        ]

    def _none(self, reason: str, partitions: Sequence[str]) -> NoLock:
        if self._settings.locking is Locking.REQUIRE:
            return NoLock(reason, dict.fromkeys(partitions, f"nobody, but hive.locks=require and {reason}"))
        return NoLock(reason)

    def _take(
        self, database: str, name: str, partitions: Sequence[str], *, wait: bool
    ) -> tuple[_LockRequest | None, Mapping[str, str]]:
        """Take a lock on all names that others do not hold; returns it and the holders of the others."""
        until = time.monotonic() + (self._settings.wait_seconds if wait else 0)
        lock, busy = self._request_until(database, name, tuple(partitions), until)
        rest = tuple(partition for partition in partitions if partition not in busy)
        if lock is None and rest:  # without another wait
            lock, late = self._request_until(database, name, rest, until)
            unlocked = {} if lock else {partition: late.get(partition, "others") for partition in rest}
            busy = {**busy, **late, **unlocked}
        return lock, busy

    def _request_until(
        self, database: str, name: str, names: tuple[str, ...], until: float
    ) -> tuple[_LockRequest | None, Mapping[str, str]]:
        """Request a lock and wait for it; returns the lock, or None and the holders that it waits for."""
        lock, state = self._request(database, name, names)
        granted = False
        try:
            others: list[ShowLocksResponseElement] = []
            pause = _FIRST_PAUSE
            while state == LockState.WAITING:
                others = self._find_blocking(database, name, lock)
                state = self._check_state(lock)
                if state != LockState.WAITING or time.monotonic() >= until:
                    break
                time.sleep(min(pause, max(0.0, until - time.monotonic())))
                pause = min(pause * 2, _LONGEST_PAUSE)
            granted = state == LockState.ACQUIRED
        finally:
            if not granted:
                self._release(lock)
        return (lock, {}) if granted else (None, _find_busy(names, others))

    def _request(self, database: str, name: str, names: tuple[str, ...]) -> tuple[_LockRequest, int]:
        """Add a request to the metastore's queue; _NoLocks where it has no locks."""
        with self._guard:
            if self._without is not None and time.monotonic() < self._without[1]:
                raise _NoLocks(self._without[0])
        agent, description = f"{AGENT} {uuid4()}", f"for a lock on {database}.{name}"
        request = LockRequest(
            component=[_component(database, name, partition) for partition in names],
            user=self._settings.user or AGENT,
            hostname=socket.gethostname(),
            agentInfo=agent,
        )
        try:
            answer: LockResponse = self._once(lambda hive: hive.lock(request))
        except LOST as error:
            self._abandon(agent)
            raise Unavailable(f"the Hive metastore did not answer {description}: {get_message(error)}") from error
        except TException as error:
            raise self._record_missing(error) from error
        with self._guard:
            self._without = None
        return _LockRequest(answer.lockid, agent, description, names), answer.state

    def _record_missing(self, error: TException) -> _NoLocks:
        """Log a metastore without locks once, and stop requests for a while, because each fills the metastore's log."""
        reason = f"the metastore has no locks: {_explain(error)}"
        with self._guard:
            is_known = self._without is not None
            self._without = reason, time.monotonic() + _RETRY_SECONDS
        if not is_known:
            log.warning("Firn alters Hive tables without locks: %s (%s)", reason, _get_first_line(error))
        return _NoLocks(reason)

    def _find_blocking(self, database: str, name: str, mine: _LockRequest) -> list[ShowLocksResponseElement]:
        """Find other requests for the same names; ends requests of dead Firns and skips them."""
        request = ShowLocksRequest(dbname=database, tablename=name)
        answer = self._ask(mine.description, lambda hive: hive.show_locks(request))
        locks = [lock for lock in answer.locks or () if lock.dbname == database and lock.tablename in (name, None)]
        now_ms = max((lock.lastheartbeat or 0 for lock in locks if lock.lockid == mine.id), default=0)
        others = []
        for lock in locks:
            if lock.lockid == mine.id:
                continue
            if self._is_dead(lock, now_ms):
                log.warning("ending a lock on %s.%s of a dead Firn: %s", database, name, lock.agentInfo)
                self._end(lock.lockid, lock.agentInfo, mine.description)
            elif lock.state == LockState.ACQUIRED or lock.lockid < mine.id:
                others.append(lock)
        return others

    def _is_dead(self, lock: ShowLocksResponseElement, now_ms: int) -> bool:
        """Whether a lock belongs to a dead Firn; `now_ms` is the metastore's time, from Firn's own new request."""
        agent = lock.agentInfo or ""
        with self._guard:
            if agent in self._abandoned:
                return True
        silent_ms = now_ms - (lock.lastheartbeat or now_ms)
        return agent.startswith(f"{AGENT} ") and silent_ms > self._settings.silent_seconds * 1000

    def _check_state(self, lock: _LockRequest) -> int:
        def check(hive: Client) -> int:
            try:
                return int(hive.check_lock(CheckLockRequest(lockid=lock.id)).state)
            except NoSuchLockException:
                return int(LockState.NOT_ACQUIRED)

        return self._ask(lock.description, check)

    def _keep(self, lock: _LockRequest) -> None:
        def beat(hive: Client) -> bool:
            try:
                hive.heartbeat(HeartbeatRequest(lockid=lock.id))
            except NoSuchLockException:
                return False
            return True

        if not self._ask(lock.description, beat):
            raise Unavailable(f"the Hive metastore ended {lock.description.removeprefix('for ')} while Firn held it")

    def _release(self, lock: _LockRequest) -> None:
        """Release a lock; a failure is only logged, since the changes under the lock stay."""
        try:
            if not self._end(lock.id, lock.agent, lock.description):
                log.warning(
                    "the Hive metastore ended %s before Firn released it", lock.description.removeprefix("for ")
                )
        except Unavailable as error:
            self._abandon(lock.agent)
            log.warning("%s; the lock ends by itself, or Firn ends it when it blocks", error)

    def _end(self, lock_id: int, agent: str, description: str) -> bool:
        """End a lock, which can be repeated; returns whether it existed."""

        def unlock(hive: Client) -> bool:
            try:
                hive.unlock(UnlockRequest(lockid=lock_id))
            except NoSuchLockException:
                return False
            return True

        ended = self._ask(f"to end the request {description}", unlock)
        with self._guard:
            self._abandoned.discard(agent)
        return ended

    def _abandon(self, agent: str) -> None:
        with self._guard:
            self._abandoned.add(agent)


class _NoLocks(Exception):
    """The metastore has no locks; the message says why."""


def _component(database: str, name: str, partition: str) -> LockComponent:
    """Shared with readers, who go on reading what they began with, and with no writer."""
    is_table = partition == WHOLE_TABLE
    return LockComponent(
        type=LockType.SHARED_WRITE,
        level=LockLevel.TABLE if is_table else LockLevel.PARTITION,
        dbname=database,
        tablename=name,
        partitionname=None if is_table else partition,
        operationType=DataOperationType.NO_TXN,  # else the metastore treats it as a write to a transactional table
        isTransactional=False,
    )


def _find_busy(names: Sequence[str], others: Sequence[ShowLocksResponseElement]) -> dict[str, str]:
    """Find the names that others have requested, with the holders; all names if that is unclear."""
    writers = [lock for lock in others if lock.type != LockType.SHARED_READ]
    on_table = [lock for lock in writers if not lock.partname]
    holders = {lock.partname: _describe_holder(lock) for lock in writers if lock.partname in names}
    if on_table or not holders:
        return dict.fromkeys(names, _describe_holder(on_table[0]) if on_table else "others")
    return holders


def _find_start(lock: ShowLocksResponseElement) -> datetime | None:
    return datetime.fromtimestamp(lock.acquiredat / 1000, UTC) if lock.acquiredat else None


def _describe_holder(lock: ShowLocksResponseElement) -> str:
    agent = f" ({lock.agentInfo})" if lock.agentInfo else ""
    return f"{lock.user}@{lock.hostname}{agent}"


def _explain(error: TException) -> str:
    """Explain a refused request for a lock, and what to do; the server's log has the metastore's message."""
    if isinstance(error, TApplicationException) and error.type == TApplicationException.UNKNOWN_METHOD:
        return "its version does not support them (Hive's own does). Set hive.locks=off to stop the requests"
    return (
        "most likely its database lacks the lock tables, which `schematool -initSchema` creates; its log has details. "
        "Set hive.locks=off to stop the requests"
    )


def _get_first_line(error: TException) -> str:
    """Get the first line of an error, since metastores answer with stack traces."""
    lines = get_message(error).strip().splitlines()
    return lines[0][:_LONGEST_REASON] if lines else type(error).__name__
