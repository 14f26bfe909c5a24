"""Keeps a lease: heartbeats from their own thread during the job, and checks that a job makes before it acts."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import httpx

from firn.protocol.leases import Lease
from optimizer.client import ServerApi
from optimizer.errors import JobError, LeaseLost

log = logging.getLogger(__name__)

Progress = dict[str, Any]
INTERRUPT_SECONDS = 0.5
"""Between two interrupts of work that is to end: it may begin anew each time, as a rewrite does with its next files."""


class LeaseKeeper:
    """One lease, kept alive until the block ends.

    When it is lost, or the process is told to stop while nothing of what is being done is committed, `interrupt` is
    called from the beating thread to end the work that the job's own thread is waiting for: again and again, since it
    ends only what runs at that moment. It may end nothing but Spark's own jobs, of which a commit is none: one that was
    asked for goes on, and one that comes after an ended write is not asked for.
    """

    def __init__(self, api: ServerApi, lease: Lease, *, stopping: threading.Event) -> None:
        self.lease = lease
        self.progress: Callable[[], Progress] = dict
        self.memory: Callable[[], dict[str, int]] = dict
        self.interrupt: Callable[[], None] = lambda: None
        self.has_committed = False
        self._api = api
        self._stopping = stopping
        self._stage = "starting"
        self._lines: list[str] = []
        self._lines_lock = threading.Lock()
        self._is_committing = False
        self._is_writing = False
        self._writing_lock = threading.Lock()
        self._lost: str | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat_until_ended, name=f"beats {lease.job_id}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def is_handed_back(self) -> bool:
        """Whether the process must stop and the job has not begun to commit."""
        return self._stopping.is_set() and not self._is_committing

    @property
    def is_stopping(self) -> bool:
        """Whether the process was told to stop."""
        return self._stopping.is_set()

    @property
    def is_lost(self) -> bool:
        """Whether the server has said that the lease is over."""
        return self._lost is not None

    def stage(self, name: str) -> None:
        """Show the job's next step to people."""
        self._stage = name

    def say(self, line: str) -> None:
        """A line for the job's log; sent with the next beat."""
        log.info(line, extra={"job": self.lease.job_id})
        with self._lines_lock:
            self._lines.append(line)

    def say_trace(self, lines: Sequence[str]) -> None:
        """A stack trace for the job's log, as one entry; nothing for none."""
        if lines:
            with self._lines_lock:
                self._lines.append("\n".join(lines))

    def check(self) -> None:
        """Ask the server, now, whether the lease still stands; LeaseLost when it does not."""
        if self._lost is not None or self.is_handed_back:
            raise LeaseLost(self._lost or "this optimizer is stopping")
        self._beat()

    def committing(self) -> None:
        """Say that the commit comes. LeaseLost when it may not; from here on a stop ends nothing but writes."""
        if self._lost is not None or self.is_handed_back:
            raise LeaseLost(self._lost or "this optimizer is stopping")
        self._is_committing = True
        self._api.committing(self.lease)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Around a write that ends in its commit: a stop interrupts it. Once this is left, nothing of it is cut off."""
        self._is_writing = True
        try:
            yield
        finally:
            with self._writing_lock:
                self._is_writing = False

    def take_lines(self) -> list[str]:
        """The lines not sent yet."""
        with self._lines_lock:
            lines, self._lines = self._lines, []
        return lines

    def _beat_until_ended(self) -> None:
        next_beat = self.lease.heartbeat_seconds
        waited = 0.0
        while not self._ended.wait(step := min(INTERRUPT_SECONDS, next_beat)):
            waited += step
            with self._writing_lock:
                if self._is_to_end:
                    self.interrupt()
            if waited >= next_beat and not self.is_lost:
                waited = 0.0
                self._try_to_beat()

    @property
    def _is_to_end(self) -> bool:
        return self.is_lost or self.is_handed_back or (self.is_stopping and self._is_writing)

    def _try_to_beat(self) -> None:
        try:
            self._beat()
        except LeaseLost:
            log.warning("the lease is over", extra={"job": self.lease.job_id})
        except (JobError, httpx.HTTPError) as error:
            # The next beat may get through; if none does, the server ends the lease and fences the commit.
            log.warning("beat failed: %s", error)

    def _beat(self) -> None:
        lines = self.take_lines()
        try:
            self._api.beat(self.lease, {"stage": self._stage, **self.progress()}, lines, self.memory())
        except LeaseLost as error:
            self._lost = str(error)
            raise
        except (JobError, httpx.HTTPError):
            with self._lines_lock:
                self._lines[:0] = lines
            raise
