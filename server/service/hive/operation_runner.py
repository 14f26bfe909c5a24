"""Upgrades and checks are carried out a few at a time: one that is huge, or cannot end, holds up no other."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace

from catalog.jobs.operation import Operation, OperationId
from catalog.ports.store import Database
from firn.protocol.operations import OperationKind

log = logging.getLogger(__name__)

KINDS = tuple(kind for kind in OperationKind if kind.can_pause)
LOOK_SECONDS = 1.0
AGAIN_SECONDS = 30.0
"""The pause before the next try of an operation that another server took over, or that had an unexpected error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeStatus:
    """Counts of one activation."""

    finished: int = 0
    failed: int = 0


@dataclass
class OperationRunner:
    """One activation: it runs all open operations, also those that start meanwhile.

    `carry_out` returns whether an operation succeeded; None if it continues later or elsewhere.
    """

    database: Database
    at_once: int
    leads: Callable[[], bool]
    halted: threading.Event
    carry_out: Callable[[Operation], bool | None]
    _under_way: dict[Future[bool | None], Operation] = field(default_factory=dict)
    _again_at: dict[OperationId, float] = field(default_factory=dict)
    _broken: dict[str, Exception] = field(default_factory=dict)
    _status: UpgradeStatus = field(default_factory=UpgradeStatus)

    def all(self) -> UpgradeStatus:
        """ExceptionGroup at the end when there were errors that leave an operation to the next activation."""
        # One thread more than slots: what is to be canceled does not wait for what is huge.
        with ThreadPoolExecutor(self.at_once + 1, thread_name_prefix="upgrade") as pool:
            while True:
                for operation in self._next():
                    self._under_way[pool.submit(self.carry_out, operation)] = operation
                if not self._under_way:
                    break
                ended, _ = wait(self._under_way, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
                for future in ended:
                    self._note(self._under_way.pop(future), future)
        if self._broken:
            raise ExceptionGroup(f"could not go on with {', '.join(self._broken)}", list(self._broken.values()))
        return self._status

    def _next(self) -> Sequence[Operation]:
        free = self.at_once - len(self._under_way)
        if free < 0 or self.halted.is_set() or not self.leads():
            return []
        now = time.monotonic()
        waiting = [operation_id for operation_id, again_at in self._again_at.items() if now < again_at]
        busy = [operation.id for operation in self._under_way.values()]
        with self.database.reading() as uow:
            operations = uow.operations.next(KINDS, but_for=[*busy, *waiting], limit=free + 1)
        return [operation for place, operation in enumerate(operations) if place < free or operation.cancel_requested]

    def _note(self, operation: Operation, future: Future[bool | None]) -> None:
        name = f"{operation.catalog}.{operation.target}"
        error = future.exception()
        if error is None:
            self._broken.pop(name, None)
            self._count(operation.id, future.result())
            return
        if not isinstance(error, Exception):
            raise error
        log.error("could not go on with the %s of %s", operation.kind, name, exc_info=error)
        self._broken[name] = error
        self._again_at[operation.id] = time.monotonic() + AGAIN_SECONDS

    def _count(self, operation_id: OperationId, succeeded: bool | None, /) -> None:  # noqa: FBT001 -- a future's result
        if succeeded is None:
            self._again_at[operation_id] = time.monotonic() + AGAIN_SECONDS
            return
        status = self._status
        self._status = replace(status, finished=status.finished + succeeded, failed=status.failed + (not succeeded))
