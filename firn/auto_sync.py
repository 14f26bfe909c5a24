"""A table over a Hive table, brought up to Hive before it is read or written, and Hive brought up to it after that.

Both see work of others through to its end: syncs, merges and publishes are jobs, which need an optimizer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from firn.errors import Refused, StillRunning, Unavailable
from firn.jobs import LONGEST_POLL_SECONDS, POLL_SECONDS
from firn.protocol.answers.jobs import JobOut
from firn.protocol.jobs import JobStatus

if TYPE_CHECKING:
    from firn.client import Client, Name

SECONDS = 600.0
"""How long one read or write waits for what it asked for."""
_ROUNDS = 8
"""Two take over all that was there before the first; more only see what others go on writing."""


class AutoSync(StrEnum):
    """What of Hive's side is taken over before a table is read or written."""

    NONE = "none"
    METADATA = "metadata"
    """Columns."""
    DATA = "data"
    """Columns, partitions and files."""


@dataclass(frozen=True)
class LinkedTable:
    """A table over a Hive table of the same catalog."""

    client: Client
    name: Name
    hive_table: str
    seconds: float = SECONDS

    @property
    def _hive_name(self) -> str:
        return f"{self.name.catalog}.{self.hive_table}"

    def sync(self, what: AutoSync) -> None:
        """Take over what Hive's side has done until now.

        Refused when the two differ in a way that somebody has to settle, or when the sync's job fails; Unavailable when
        no optimizer is there to run it; StillRunning when it takes too long.
        """
        if what is AutoSync.NONE:
            return
        reason = f"{self.name} was not brought up to Hive's {self.hive_table}"
        deadline = time.monotonic() + self.seconds
        for number in range(_ROUNDS):
            told = self._answer(partial(self._sync, what, is_first=number == 0), deadline, reason)
            if told["conflict"]:
                raise Refused(f"{reason}: {told['message']}", hint="settle it, or go on with auto_sync='none'")
            if told["job"] is not None:
                self._ended(JobOut.read(told["job"]), deadline, reason)
            elif not told["changed"]:
                return

    def _sync(self, what: AutoSync, *, is_first: bool) -> Mapping[str, Any]:
        """Signals do not tell of every file everywhere: all directories are listed once."""
        only_schema = what is AutoSync.METADATA
        told: Mapping[str, Any] = self.client.hive.sync(
            self._hive_name, everything=is_first and not only_schema, only_schema=only_schema
        )
        return told

    def publish(self) -> None:
        """Give Hive what is in the table now, merging it first; errors as of `sync`, with Unavailable also where Hive
        has just written itself to partitions that it was to be given.
        """
        reason = f"Hive's {self.hive_table} was not given it"
        deadline = time.monotonic() + self.seconds
        told, ended = self._published(deadline, reason, merge=True)
        if ended is not None and ended.kind == "merge":  # asked for by now, so it has merged all of it
            told, ended = self._published(deadline, reason, merge=False)
        again = f"`firn hive publish {self.hive_table}` tries again"
        if told["partitions_waiting"]:
            raise Unavailable(f"{reason}: {told['message']}", hint=again)
        if ended is not None and (missed := ended.result.get("skipped", 0) + ended.result.get("remaining", 0)):
            raise Unavailable(f"{reason} in {missed} partitions, which it has changed meanwhile", hint=again)

    def _published(self, deadline: float, reason: str, *, merge: bool) -> tuple[Mapping[str, Any], JobOut | None]:
        """The answer, and the job that it began, ended."""
        told = self._answer(lambda: self.client.hive.publish(self._hive_name, merge=merge), deadline, reason)
        return told, None if told["job"] is None else self._ended(JobOut.read(told["job"]), deadline, reason)

    def _answer(self, ask: Callable[[], Mapping[str, Any]], deadline: float, reason: str) -> Mapping[str, Any]:
        """Ask until nothing else is in the way: another job, or files that are a moment old."""
        pause = POLL_SECONDS
        while True:
            told, refusal = _asked(ask)
            if told is not None and not told["waiting"]:
                return told
            active = self.client.tables[str(self.name)].show().active_job
            if refusal is not None and active is None:
                raise refusal
            if active is not None:
                self._ended(active, deadline, reason, is_ours=False)
            elif time.monotonic() > deadline:
                raise StillRunning(
                    f"{reason} within {self.seconds:.0f} s: {told and told['message']}", hint="try again later"
                )
            time.sleep(pause)
            pause = min(pause * 1.2, LONGEST_POLL_SECONDS)

    def _ended(self, job: JobOut, deadline: float, reason: str, *, is_ours: bool = True) -> JobOut:
        """The job once it has succeeded."""
        if job.status is JobStatus.PENDING and not self.client.optimizers():
            raise Unavailable(
                f"{reason}: its {job.kind} job waits for an optimizer, and none is registered",
                hint=f"start one with `firn optimizer`; job {job.id} runs then",
            )
        try:
            ended = self.client.jobs.wait(job.id, seconds=max(0.0, deadline - time.monotonic()))
        except StillRunning as error:
            words = f"{reason} within {self.seconds:.0f} s: job {job.id} ({job.kind}) goes on"
            raise StillRunning(words, hint=error.hint) from error
        if is_ours and ended.status is not JobStatus.SUCCEEDED:
            raise Refused(f"{reason}: its {job.kind} job {ended.status}: {ended.error}", hint=f"look at job {job.id}")
        return ended


def _asked(ask: Callable[[], Mapping[str, Any]]) -> tuple[Mapping[str, Any] | None, Refused | None]:
    """The answer, or the refusal, which may be that a job is at work."""
    try:
        return ask(), None
    except Refused as error:
        return None, error


def find_linked_table(client: Client, table: str, *, seconds: float = SECONDS) -> LinkedTable | None:
    """The link of a table; None for a table that is over no Hive table, or that this API does not know."""
    name = client.name(table)
    hive_table = client.tables[table].show().hive_name
    return None if hive_table is None else LinkedTable(client, name, hive_table, seconds)


def sync_from_hive(client: Client, table: str, what: AutoSync | str) -> None:
    """Sync a table with its Hive table, if it has one. Errors as of `LinkedTable.sync`, NotFound for no table."""
    if AutoSync(what) is not AutoSync.NONE and (found := find_linked_table(client, table)) is not None:
        found.sync(AutoSync(what))
