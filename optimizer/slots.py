"""Slots: threads of one process that each run one job at a time, side by side in one Spark."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

log = logging.getLogger(__name__)


class Slots:
    """A number of threads. The end of the block waits for their work."""

    def __init__(self, count: int, *, name: str = "slot") -> None:
        self._free = threading.Semaphore(count)
        self._threads = ThreadPoolExecutor(count, thread_name_prefix=name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.shutdown(wait=True)

    def take(self, seconds: float) -> bool:
        """Wait for a free slot and keep it for what will be given, or be put back; False when none came free."""
        return self._free.acquire(timeout=seconds)

    def release(self) -> None:
        """Nothing came for a slot that was taken."""
        self._free.release()

    def give(self, work: Callable[[], None]) -> None:
        """Have a slot that was taken do this."""
        self._threads.submit(work).add_done_callback(self._done)

    def _done(self, work: Future[None]) -> None:
        self._free.release()
        if error := work.exception():
            # A job's own errors end in its report; this one is the loop's: it must not end without a word.
            log.error("a slot's work ended in an error", exc_info=error)
