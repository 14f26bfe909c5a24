"""Keeps a lease: heartbeats from their own thread during the job, and checks that a job makes before it acts."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx

from firn.protocol.leases import Lease
from optimizer.client import ServerApi
from optimizer.errors import JobError, LeaseLost
from optimizer.kept_lease import KeptLease

log = logging.getLogger(__name__)

Progress = dict[str, Any]


class LeaseKeeper(KeptLease):
    """The lease of a job.

    Its work is interrupted when it is lost, or when the process is told to stop while nothing of what is being done is
    committed. A commit that comes after an ended write is not asked for.
    """

    def __init__(self, api: ServerApi, lease: Lease, *, stopping: threading.Event) -> None:
        seconds = lease.heartbeat_seconds
        super().__init__(lease.job_id, stopping, heartbeat_seconds=seconds, first_heartbeat_seconds=seconds)
        self.lease = lease
        self.progress: Callable[[], Progress] = dict
        self.has_committed = False
        self._api = api
        self._stage = "starting"
        self._is_committing = False
        self._is_writing = False
        self._writing_lock = threading.Lock()

    @property
    def is_handed_back(self) -> bool:
        """Whether the process must stop and the job has not begun to commit."""
        return self._stopping.is_set() and not self._is_committing

    @property
    def is_committing(self) -> bool:
        """Whether the job has begun to commit, so that its own record tells how it ended."""
        return self._is_committing

    @property
    def is_stopping(self) -> bool:
        """Whether the process was told to stop."""
        return self._stopping.is_set()

    def stage(self, name: str) -> None:
        """Show the job's next step to people."""
        self._stage = name

    def say(self, line: str) -> None:
        """A line for the job's log; sent with the next beat."""
        log.info(line, extra={"job": self.lease.job_id})
        self._add_line(line)

    def say_trace(self, lines: Sequence[str]) -> None:
        """A stack trace for the job's log, as one entry; nothing for none."""
        if lines:
            self._add_line("\n".join(lines))

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

    @property
    def is_to_end(self) -> bool:
        """Whether the job's work has to end."""
        return self.is_lost or self.is_handed_back or (self.is_stopping and self._is_writing)

    def _interrupt_if_to_end(self) -> None:
        with self._writing_lock:
            super()._interrupt_if_to_end()

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
            self._put_back(lines)
            raise
