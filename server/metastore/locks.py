"""Hive's own locks, which keep its writers away while a table is looked at and altered.

A lock is asked for once, looked after before each change, and given back. Where an answer was lost there may be a lock
that nobody gives back: the metastore ends it when it was silent for long, and so do we, as metastores before Hive 4
end nothing unless they run compactions.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
from catalog.ports.metastore import TableLock
from server.metastore.errors import LOST, said

log = logging.getLogger(__name__)

T = TypeVar("T")

AGENT = "firn"
"""How the locks of every Firn begin to say whose they are."""
WHOLE_TABLE = ""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_ASK_AGAIN_SECONDS = 600.0
"""After which a metastore that had no locks is asked once more."""
_LONGEST_REASON = 200


class Locking(StrEnum):
    """Whether locks are taken."""

    AUTO = "auto"
    """Where the metastore has any."""
    REQUIRE = "require"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockSettings:
    """Whether locks are taken, and how long to wait for them."""

    locking: Locking = Locking.AUTO
    wait_seconds: float = 5.0
    silent_seconds: float = 300.0
    """After which a lock of a Firn is one of a dead Firn; Hive's own `hive.txn.timeout`."""
    user: str | None = None


class Ask(Protocol):
    """A call that may be made twice; Unavailable when there was no answer, or none that the call understands."""

    def __call__(self, what: str, call: Callable[[Client], T]) -> T: ...


class Once(Protocol):
    """A call that may not; errors as thrift has them, and Unavailable when nothing was sent."""

    def __call__(self, call: Callable[[Client], T]) -> T: ...


@dataclass(frozen=True, slots=True)
class NoLock:
    """See catalog.ports.metastore.Lock."""

    without: str
    busy: Mapping[str, str] = field(default_factory=dict)

    def keep(self) -> None:
        """There is nothing to keep."""


@dataclass(frozen=True, slots=True)
class HeldLock:
    """See catalog.ports.metastore.Lock."""

    busy: Mapping[str, str]
    _keep: Callable[[], None]
    without: str | None = None

    def keep(self) -> None:
        self._keep()


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request that the metastore has noted, whether it is granted or not."""

    id: int
    agent: str
    what: str
    names: tuple[str, ...]


class Locks:
    """Takes locks of one metastore; safe to share between threads."""

    def __init__(self, ask: Ask, once: Once, settings: LockSettings) -> None:
        self._ask, self._once, self._settings = ask, once, settings
        self._guard = threading.Lock()
        self._without: tuple[str, float] | None = None
        self._left: set[str] = set()  # agents of locks that may be there, and that nobody holds any more

    @contextlib.contextmanager
    def of(self, database: str, name: str, partitions: Sequence[str], *, wait: bool) -> Iterator[TableLock]:
        """See catalog.ports.metastore.Metastore.lock."""
        if self._settings.locking is Locking.OFF:
            yield NoLock("hive.locks is off")
            return
        try:
            asked, busy = self._taken(database, name, partitions, wait=wait)
        except _NoLocks as error:
            yield self._none(str(error), partitions)
            return
        try:
            yield HeldLock(busy, lambda: None if asked is None else self._keep(asked))
        finally:
            if asked is not None:
                self._release(asked)

    def _none(self, reason: str, partitions: Sequence[str]) -> NoLock:
        if self._settings.locking is Locking.REQUIRE:
            return NoLock(reason, dict.fromkeys(partitions, f"nobody, but hive.locks=require and {reason}"))
        return NoLock(reason)

    def _taken(
        self, database: str, name: str, partitions: Sequence[str], *, wait: bool
    ) -> tuple[_Asked | None, Mapping[str, str]]:
        """A lock of all that others do not hold, and what they do."""
        until = time.monotonic() + (self._settings.wait_seconds if wait else 0)
        asked, busy = self._granted(database, name, tuple(partitions), until)
        rest = tuple(one for one in partitions if one not in busy)
        if asked is None and rest:  # they are not waited for again
            asked, late = self._granted(database, name, rest, until)
            busy = {**busy, **late, **({} if asked else {one: late.get(one, "others") for one in rest})}
        return asked, busy

    def _granted(
        self, database: str, name: str, names: tuple[str, ...], until: float
    ) -> tuple[_Asked | None, Mapping[str, str]]:
        """A lock of all of it, or else whom it waits for."""
        asked, state = self._ask_for(database, name, names)
        granted = False
        try:
            others: list[ShowLocksResponseElement] = []
            pause = _FIRST_PAUSE
            while state == LockState.WAITING:
                others = self._before(database, name, asked)
                state = self._state(asked)
                if state != LockState.WAITING or time.monotonic() >= until:
                    break
                time.sleep(min(pause, max(0.0, until - time.monotonic())))
                pause = min(pause * 2, _LONGEST_PAUSE)
            granted = state == LockState.ACQUIRED
        finally:
            if not granted:
                self._release(asked)
        return (asked, {}) if granted else (None, _busy(names, others))

    def _ask_for(self, database: str, name: str, names: tuple[str, ...]) -> tuple[_Asked, int]:
        """Put the request into the metastore's queue; _NoLocks where it has none."""
        with self._guard:
            if self._without is not None and time.monotonic() < self._without[1]:
                raise _NoLocks(self._without[0])
        agent, what = f"{AGENT} {uuid4()}", f"for a lock on {database}.{name}"
        request = LockRequest(
            component=[_component(database, name, one) for one in names],
            user=self._settings.user or AGENT,
            hostname=socket.gethostname(),
            agentInfo=agent,
        )
        try:
            answer: LockResponse = self._once(lambda hive: hive.lock(request))
        except LOST as error:
            self._forget(agent)
            raise Unavailable(f"the Hive metastore did not answer {what}: {said(error)}") from error
        except TException as error:
            raise self._noted(error) from error
        with self._guard:
            self._without = None
        return _Asked(answer.lockid, agent, what, names), answer.state

    def _noted(self, error: TException) -> _NoLocks:
        """Tell it once, and ask no more for a while: each time it fills the metastore's log."""
        reason = f"the metastore has no locks: {_meaning(error)}"
        with self._guard:
            is_known = self._without is not None
            self._without = reason, time.monotonic() + _ASK_AGAIN_SECONDS
        if not is_known:
            log.warning("Hive tables are altered without locks: %s (%s)", reason, _first_words(error))
        return _NoLocks(reason)

    def _before(self, database: str, name: str, mine: _Asked) -> list[ShowLocksResponseElement]:
        """Other requests for the same, without those of the dead, which are ended."""
        request = ShowLocksRequest(dbname=database, tablename=name)
        answer = self._ask(mine.what, lambda hive: hive.show_locks(request))
        there = [one for one in answer.locks or () if one.dbname == database and one.tablename in (name, None)]
        now_ms = max((one.lastheartbeat or 0 for one in there if one.lockid == mine.id), default=0)
        others = []
        for one in there:
            if one.lockid == mine.id:
                continue
            if self._is_dead(one, now_ms):
                log.warning("ending a lock on %s.%s that a Firn has left: %s", database, name, one.agentInfo)
                self._end(one.lockid, one.agentInfo, mine.what)
            elif one.state == LockState.ACQUIRED or one.lockid < mine.id:
                others.append(one)
        return others

    def _is_dead(self, one: ShowLocksResponseElement, now_ms: int) -> bool:
        """By the metastore's clock: our own request has just been noted."""
        agent = one.agentInfo or ""
        with self._guard:
            if agent in self._left:
                return True
        silent_ms = now_ms - (one.lastheartbeat or now_ms)
        return agent.startswith(f"{AGENT} ") and silent_ms > self._settings.silent_seconds * 1000

    def _state(self, asked: _Asked) -> int:
        def check(hive: Client) -> int:
            try:
                return int(hive.check_lock(CheckLockRequest(lockid=asked.id)).state)
            except NoSuchLockException:
                return int(LockState.NOT_ACQUIRED)

        return self._ask(asked.what, check)

    def _keep(self, asked: _Asked) -> None:
        def beat(hive: Client) -> bool:
            try:
                hive.heartbeat(HeartbeatRequest(lockid=asked.id))
            except NoSuchLockException:
                return False
            return True

        if not self._ask(asked.what, beat):
            raise Unavailable(f"the Hive metastore has ended a lock that was held: {asked.what.removeprefix('for ')}")

    def _release(self, asked: _Asked) -> None:
        """Give it back, as well as that can be done; no failure undoes what was done under it."""
        try:
            if not self._end(asked.id, asked.agent, asked.what):
                log.warning("the Hive metastore has ended %s before it was given back", asked.what.removeprefix("for "))
        except Unavailable as error:
            self._forget(asked.agent)
            log.warning("%s; it ends by itself, or when it is in our way", error)

    def _end(self, lock_id: int, agent: str, what: str) -> bool:
        """Whether it was there; what may be ended twice may be asked twice."""

        def unlock(hive: Client) -> bool:
            try:
                hive.unlock(UnlockRequest(lockid=lock_id))
            except NoSuchLockException:
                return False
            return True

        ended = self._ask(f"to end what was asked {what}", unlock)
        with self._guard:
            self._left.discard(agent)
        return ended

    def _forget(self, agent: str) -> None:
        with self._guard:
            self._left.add(agent)


class _NoLocks(Exception):
    """The metastore has none, in words."""


def _component(database: str, name: str, partition: str) -> LockComponent:
    """Shared with readers, who go on reading what they began with, and with no writer."""
    is_table = partition == WHOLE_TABLE
    return LockComponent(
        type=LockType.SHARED_WRITE,
        level=LockLevel.TABLE if is_table else LockLevel.PARTITION,
        dbname=database,
        tablename=name,
        partitionname=None if is_table else partition,
        operationType=DataOperationType.NO_TXN,  # else it is taken for a write to a transactional table
        isTransactional=False,
    )


def _busy(names: Sequence[str], others: Sequence[ShowLocksResponseElement]) -> dict[str, str]:
    """Which of the names others have asked for, and who; all, where it is not seen for which."""
    writing = [one for one in others if one.type != LockType.SHARED_READ]
    wide = [one for one in writing if not one.partname]
    found = {one.partname: _who(one) for one in writing if one.partname in names}
    if wide or not found:
        return dict.fromkeys(names, _who(wide[0]) if wide else "others")
    return found


def _who(one: ShowLocksResponseElement) -> str:
    about = f" ({one.agentInfo})" if one.agentInfo else ""
    return f"{one.user}@{one.hostname}{about}"


def _meaning(error: TException) -> str:
    """What a refused request for a lock means and what to do; the metastore's own words are in this server's log."""
    if isinstance(error, TApplicationException) and error.type == TApplicationException.UNKNOWN_METHOD:
        return "its version cannot give any (Hive's own can). Set hive.locks=off, and it is not asked"
    return (
        "most likely its database lacks the tables for them, which `schematool -initSchema` makes; its log tells more. "
        "Set hive.locks=off, and it is not asked"
    )


def _first_words(error: TException) -> str:
    """Metastores answer with whole stack traces."""
    words = said(error).strip().splitlines()
    return words[0][:_LONGEST_REASON] if words else type(error).__name__
