"""What keeps any lease alive: heartbeats from a thread of their own, and interrupts of work that has to end."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from py4j.protocol import Py4JError

INTERRUPT_SECONDS = 0.5
"""Between two interrupts of work that is to end: it may begin anew each time, as a rewrite does with its next files."""


class KeptLease(ABC):
    """A lease that is kept alive until the block ends.

    When it is lost, or the process is told to stop, `interrupt` is called from the beating thread to end the work that
    the lease's own thread is waiting for: again and again, since it ends only what runs at that moment. It may end
    nothing but Spark's own jobs, of which a commit is none: a commit that Spark has sent goes on, and is answered.
    """

    def __init__(
        self, subject: str, stopping: threading.Event, *, heartbeat_seconds: float, first_heartbeat_seconds: float
    ) -> None:
        self.memory: Callable[[], dict[str, int]] = dict
        self.interrupt: Callable[[], None] = lambda: None
        self._stopping = stopping
        self._heartbeat_seconds, self._first_heartbeat_seconds = heartbeat_seconds, first_heartbeat_seconds
        self._lost: str | None = None
        self._lines: list[str] = []
        self._lines_lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat_until_ended, name=f"beats {subject}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def is_lost(self) -> bool:
        """Whether the lease is over."""
        return self._lost is not None

    @property
    @abstractmethod
    def is_to_end(self) -> bool:
        """Whether the work has to end."""

    @abstractmethod
    def _try_to_beat(self) -> None:
        """Send a heartbeat; note a lost lease, and let the next heartbeat repair what else went wrong."""

    def take_lines(self, most: int | None = None) -> list[str]:
        """The lines of the log that were not sent yet, at most so many."""
        with self._lines_lock:
            lines = self._lines[:most]
            del self._lines[: len(lines)]
        return lines

    def _add_line(self, line: str) -> None:
        with self._lines_lock:
            self._lines.append(line)

    def _put_back(self, lines: Sequence[str]) -> None:
        with self._lines_lock:
            self._lines[:0] = lines

    def _interrupt_if_to_end(self) -> None:
        if self.is_to_end:
            # Spark may have stopped; then nothing is left to interrupt, and the heartbeats go on.
            with suppress(Py4JError, OSError):
                self.interrupt()

    def _beat_until_ended(self) -> None:
        next_beat = self._first_heartbeat_seconds
        waited = 0.0
        while not self._ended.wait(step := min(INTERRUPT_SECONDS, next_beat)):
            waited += step
            self._interrupt_if_to_end()
            if waited >= next_beat and not self.is_lost:
                waited, next_beat = 0.0, self._heartbeat_seconds
                self._try_to_beat()
