"""A running job: its lease, its session, and its way to commit."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import httpx

from firn.protocol.leases import Lease
from firn.spark.errors import is_refusal
from optimizer.client import ServerApi
from optimizer.errors import JobError, LeaseLost, Refused, Unknown
from optimizer.failures import explain_failure, read_java_trace
from optimizer.file_access import FileAccess
from optimizer.lease_keeper import LeaseKeeper
from optimizer.progress import last_job_failed
from optimizer.spark import JobSession

T = TypeVar("T")


@dataclass(frozen=True)
class Attempt:
    """One attempt at one job, with its lease and its way to commit. It needs no Spark."""

    api: ServerApi
    lease: Lease
    keeper: LeaseKeeper

    @cached_property
    def file_access(self) -> FileAccess:
        """The rule that says which files the job may open."""
        return FileAccess(self.api, self.lease)

    def commit(self, write: Callable[[], T], *, unless_asked: Callable[[], None] = lambda: None) -> T:
        """Announce a commit to the server, and run the function that ends in it.

        If the server does not hear of it, `unless_asked` cleans up, and the write does not begin. Raises Refused if
        certainly nothing was committed, Unknown if the outcome is unknown, LeaseLost if the lease ended first or the
        process stops, httpx.HTTPError if the server is away and got no commit.
        """
        with ExitStack() as undone:
            undone.callback(unless_asked)
            self.keeper.committing()
            undone.pop_all()
        try:
            with self.keeper.writing():
                done = write()
        except (JobError, httpx.HTTPError):
            raise
        except Exception as error:  # any exception of Java: the commit may have been applied all the same
            raise self._failed(error) from error
        self.keeper.has_committed = True
        return done

    def _failed(self, error: Exception) -> JobError:
        return Unknown(explain_failure(error, self.lease))


@dataclass(frozen=True)
class JobRun(Attempt):
    """One attempt at one job in Spark."""

    session: JobSession
    allow_code: bool = False
    """Whether this optimizer runs the Python of pipelines."""

    @cached_property
    def checked(self) -> set[object]:
        """States of tables whose files were checked."""
        return set()

    def _failed(self, error: Exception) -> JobError:
        words = explain_failure(error, self.lease)
        self.keeper.say_trace(read_java_trace(error))
        if is_refusal(error) or last_job_failed(self.session.spark.sparkContext, self.session.tag):
            # Nothing is wrong with a job that a stop has cut off: refused, it would have failed.
            return LeaseLost(words) if self.keeper.is_lost or self.keeper.is_stopping else Refused(words)
        return Unknown(words)
