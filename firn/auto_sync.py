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
    from firn.client import Client
    from firn.names import Name

SECONDS = 600.0
"""How long one read or write waits for what it asked for."""
_ROUNDS = 8
"""Two take over all that was there before the first; more only see what others go on writing."""


class AutoSync(StrEnum):
    """The extent of the sync from Hive before each read or write of a table."""

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

    def sync(self, extent: AutoSync) -> None:
        """Sync the table with the changes of Hive until now.

        Raises Refused if a difference needs a person's decision, or if the sync's job fails; Unavailable if no
        optimizer is registered; StillRunning if the sync takes too long.
        """
        if extent is AutoSync.NONE:
            return
        reason = f"{self.name} is not in sync with the Hive table {self.hive_table}"
        deadline = time.monotonic() + self.seconds
        for number in range(_ROUNDS):
            answer = self._request_until_free(partial(self._sync, extent, is_first=number == 0), deadline, reason)
            if answer["conflict"]:
                raise Refused(
                    f"{reason}: {answer['message']}", hint="resolve it, or read without a sync: auto_sync='none'"
                )
            if answer["job"] is not None:
                self._wait_for_success(JobOut.read(answer["job"]), deadline, reason)
            elif not answer["changed"]:
                return

    def _sync(self, extent: AutoSync, *, is_first: bool) -> Mapping[str, Any]:
        """The first sync lists all directories, because Hive does not report every file of every writer."""
        only_schema = extent is AutoSync.METADATA
        answer: Mapping[str, Any] = self.client.hive.sync(
            self._hive_name, everything=is_first and not only_schema, only_schema=only_schema
        )
        return answer

    def publish(self) -> None:
        """Publish the table to Hive, after a merge if changes are pending.

        Raises the errors of `sync`. Unavailable also means that Hive itself wrote to partitions of the publish.
        """
        reason = f"Hive's {self.hive_table} did not get the changes"
        deadline = time.monotonic() + self.seconds
        answer, ended = self._request_publish(deadline, reason, merge=True)
        if ended is not None and ended.kind == "merge":  # asked for by now, so it has merged all of it
            answer, ended = self._request_publish(deadline, reason, merge=False)
        again = f"`firn hive publish {self.hive_table}` tries again"
        if answer["partitions_waiting"]:
            raise Unavailable(f"{reason}: {answer['message']}", hint=again)
        if ended is not None and (missed := ended.result.get("skipped", 0) + ended.result.get("remaining", 0)):
            raise Unavailable(f"{reason} in {missed} partitions, which it has changed meanwhile", hint=again)

    def _request_publish(self, deadline: float, reason: str, *, merge: bool) -> tuple[Mapping[str, Any], JobOut | None]:
        """Request a publish and wait for its job; the answer, and the job, None without one."""
        answer = self._request_until_free(
            lambda: self.client.hive.publish(self._hive_name, merge=merge), deadline, reason
        )
        return answer, None if answer["job"] is None else self._wait_for_success(
            JobOut.read(answer["job"]), deadline, reason
        )

    def _request_until_free(
        self, ask: Callable[[], Mapping[str, Any]], deadline: float, reason: str
    ) -> Mapping[str, Any]:
        """Repeat the request until nothing delays it: another job, or files that are only moments old."""
        pause = POLL_SECONDS
        while True:
            answer, refusal = _try_request(ask)
            if answer is not None and not answer["waiting"]:
                return answer
            active = self.client.tables[str(self.name)].show().active_job
            if refusal is not None and active is None:
                raise refusal
            if active is not None:
                self._wait_for_success(active, deadline, reason, is_ours=False)
            elif time.monotonic() > deadline:
                raise StillRunning(
                    f"{reason} within {self.seconds:.0f} s: {answer and answer['message']}", hint="try again later"
                )
            time.sleep(pause)
            pause = min(pause * 1.2, LONGEST_POLL_SECONDS)

    def _wait_for_success(self, job: JobOut, deadline: float, reason: str, *, is_ours: bool = True) -> JobOut:
        """Wait for a job; the ended job. Raises Refused if a job of ours did not succeed."""
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


def _try_request(ask: Callable[[], Mapping[str, Any]]) -> tuple[Mapping[str, Any] | None, Refused | None]:
    """The answer, or the refusal; the server refuses, for example, while a job is active."""
    try:
        return ask(), None
    except Refused as error:
        return None, error


def find_linked_table(client: Client, table: str, *, seconds: float = SECONDS) -> LinkedTable | None:
    """Find the link of a table; None for a table without a Hive table."""
    name = client.name(table)
    hive_table = client.tables[table].show().hive_name
    return None if hive_table is None else LinkedTable(client, name, hive_table, seconds)


def sync_from_hive(client: Client, table: str, extent: AutoSync | str) -> None:
    """Sync a table with its Hive table, if it has one. Errors as of `LinkedTable.sync`, NotFound for no table."""
    if AutoSync(extent) is not AutoSync.NONE and (linked := find_linked_table(client, table)) is not None:
        linked.sync(AutoSync(extent))
