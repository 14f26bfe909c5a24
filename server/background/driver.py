"""Runs background tasks at intervals or after a poke, and keeps the last status of each task."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime

from catalog.errors import CatalogError
from server.kerberos.errors import KerberosError
from server.prometheus import TASK_FAILED, TASK_SECONDS

log = logging.getLogger(__name__)

MOST_AT_ONCE = 10
"""The tasks that run at once. Tasks beyond it wait, so that a slow metastore does not take all database connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDef:
    """One background task. `activate` takes no arguments and returns a status."""

    name: str
    does: str
    every_seconds: float
    activate: Callable[[], object]
    on_every_server: bool = False
    """Whether every server runs it, for data in its own memory; only the leader runs other tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    """The result of a task's last run."""

    at: datetime
    seconds: float
    status: object = None
    error: str | None = None


class Driver:
    """Runs tasks while this server leads, some always; the others wait for its claim to lapse.

    A task runs at multiples of its interval after the start of its last run; runs of one task never overlap. Intervals
    are measured by a clock that never goes back: after somebody has set the machine's clock back, a schedule of times
    of day would stand still until the clock has caught up (decision 218).
    """

    def __init__(
        self, tasks: Sequence[TaskDef], leads: Callable[[], bool], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.tasks = {task.name: task for task in tasks}
        self.last: dict[str, LastRun] = {}
        self._leads = leads
        self._clock = clock
        self._changed = threading.Condition()
        self._due = dict.fromkeys(self.tasks, clock())
        self._running = set[str]()
        self._stopped = False
        self._pool = ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="background")

    def start(self) -> None:
        """Begin to run tasks, all of them at once."""
        threading.Thread(target=self._run_due_tasks, name="background", daemon=True).start()

    def stop(self) -> None:
        """Begin no more tasks, and wait for those that run. They may still poke others."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._running)
        self._pool.shutdown(wait=False)

    def poke(self, name: str) -> None:
        """Run a task now, or again after its current run, which may have looked too early; nothing after the end."""
        with self._changed:
            if name in self._due:
                self._due[name] = self._clock()
                self._changed.notify_all()

    def _run_due_tasks(self) -> None:
        with self._changed:
            while not self._stopped:
                now = self._clock()
                for name in [name for name, at in self._due.items() if at <= now and name not in self._running]:
                    self._running.add(name)
                    self._due[name] = math.inf  # until the run ends, or a poke
                    self._pool.submit(self._activate, name)
                earliest = min((at for name, at in self._due.items() if name not in self._running), default=math.inf)
                self._changed.wait(min(max(0.0, earliest - now), threading.TIMEOUT_MAX))

    def _activate(self, name: str) -> None:
        began = self._clock()
        try:
            if not self._stopped:
                self._run(name)
        finally:
            with self._changed:
                self._due[name] = min(self._due[name], self._find_next_tick(name, began))
                self._running.discard(name)
                self._changed.notify_all()

    def _find_next_tick(self, name: str, began: float) -> float:
        """The first multiple of the interval that is not over: ticks during a long run are not made up for."""
        every = self.tasks[name].every_seconds
        return began + every * (1 + (self._clock() - began) // every)

    def _run(self, name: str) -> None:
        began, at = time.monotonic(), datetime.now(UTC)
        try:
            task = self.tasks[name]
            if not task.on_every_server and not self._leads():
                return
            status = task.activate()
            run = LastRun(at=at, seconds=time.monotonic() - began, status=status)
        except Exception as error:  # the next tick tries again
            log.exception("background task failed", extra={"task": name})
            run = LastRun(at=at, seconds=time.monotonic() - began, error=_describe_error(error))
        self.last[name] = run
        TASK_SECONDS.labels(name).set(run.seconds)
        TASK_FAILED.labels(name).set(run.error is not None)


def _describe_error(error: Exception) -> str:
    """The words for people; of an error that nobody expects, its kind as well."""
    return str(error) if isinstance(error, CatalogError | KerberosError) else f"{type(error).__name__}: {error}"
