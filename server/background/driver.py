"""Runs background tasks by APScheduler's clock or a poke, and keeps the last status of each task."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler

from catalog.errors import CatalogError
from server.kerberos.errors import KerberosError
from server.prometheus import TASK_FAILED, TASK_SECONDS

log = logging.getLogger(__name__)


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
    """Runs tasks while this server leads, some always; the others wait for its claim to lapse."""

    def __init__(self, tasks: Sequence[TaskDef], leads: Callable[[], bool]) -> None:
        self.tasks = {task.name: task for task in tasks}
        self.last: dict[str, LastRun] = {}
        self._leads = leads
        self._idle = threading.Condition()
        self._running = 0
        self._stopped = False
        self._scheduler = BackgroundScheduler(timezone="UTC")
        for task in tasks:
            self._scheduler.add_job(
                self._activate,
                "interval",
                args=[task.name],
                id=task.name,
                seconds=task.every_seconds,
                max_instances=1,
                coalesce=True,
                misfire_grace_time=None,  # the default drops a tick that is 1 s late
                next_run_time=datetime.now(UTC),
            )

    def start(self) -> None:
        """Start the clock."""
        self._scheduler.start()

    def stop(self) -> None:
        """Stop the clock and wait for running tasks.

        The scheduler's own wait holds the lock that `poke` needs: a running task that pokes another would never end.
        """
        with self._idle:
            self._stopped = True
        self._scheduler.shutdown(wait=False)
        with self._idle:
            self._idle.wait_for(lambda: not self._running)

    def poke(self, name: str) -> None:
        """Run a task now, as its clock would; nothing after the end."""
        with suppress(JobLookupError):
            self._scheduler.modify_job(name, next_run_time=datetime.now(UTC))

    def _activate(self, name: str) -> None:
        with self._idle:
            if self._stopped:
                return
            self._running += 1
        try:
            self._run(name)
        finally:
            with self._idle:
                self._running -= 1
                self._idle.notify_all()

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
