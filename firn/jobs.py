"""Long work, seen from outside: jobs that optimizers run, operations that the server runs, and waiting for both."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from firn.errors import StillRunning
from firn.protocol.answers.jobs import JobOut, LogLine
from firn.protocol.answers.operations import OperationOut
from firn.protocol.answers.orphans import OrphanBatchOut
from firn.transport import Transport

T = TypeVar("T")

POLL_SECONDS = 0.25
LONGEST_POLL_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Jobs:
    """Background jobs of the server."""

    transport: Transport

    def list(
        self,
        *,
        catalog: str | None = None,
        status: Sequence[str] = (),
        kind: Sequence[str] = (),
        limit: int | None = None,
    ) -> Iterator[JobOut]:
        """Newest first, page by page."""
        params = {"catalog": catalog, "status": status or None, "kind": kind or None}
        documents = self.transport.items("/jobs", params, limit=limit)
        return (JobOut.read(document) for document in documents)

    def get(self, job_id: UUID | str) -> JobOut:
        """One job."""
        return JobOut.read(self.transport.get(f"/jobs/{job_id}"))

    def logs(self, job_id: UUID | str) -> Sequence[LogLine]:
        """What its optimizers wrote, oldest first."""
        return [LogLine.read(document) for document in self.transport.items(f"/jobs/{job_id}/logs")]

    def deleted(self, job_id: UUID | str, limit: int | None = None) -> Iterator[OrphanBatchOut]:
        """The files that it has taken for orphans, or deleted for good: batch by batch, page by page."""
        documents = self.transport.items(f"/jobs/{job_id}/deleted", limit=limit)
        return (OrphanBatchOut.read(document) for document in documents)

    def cancel(self, job_id: UUID | str) -> JobOut:
        """Give it up; refused once it has committed."""
        return JobOut.read(self.transport.change("POST", f"/jobs/{job_id}/cancel"))

    def retry(self, job_id: UUID | str) -> JobOut:
        """Plan a new job like a failed or canceled one."""
        return JobOut.read(self.transport.change("POST", f"/jobs/{job_id}/retry"))

    def wait(
        self, job_id: UUID | str, *, seconds: float | None = 600, on_progress: Callable[[JobOut], None] = lambda _: None
    ) -> JobOut:
        """The job once it has ended, however it did; the method calls `on_progress` with each state on the way.

        StillRunning when that takes longer than `seconds`; None waits without end.
        """
        return wait_until_final(
            lambda: self.get(job_id), lambda job: job.status.is_final, seconds, on_progress, f"job {job_id}"
        )


@dataclass(frozen=True, slots=True)
class Operations:
    """Upgrades and the like."""

    transport: Transport

    def list(
        self, *, catalog: str | None = None, batch: UUID | str | None = None, limit: int | None = None
    ) -> Iterator[OperationOut]:
        """Newest first; those of one batch in the order in which they are carried out."""
        params = {"catalog": catalog, "batch": None if batch is None else str(batch)}
        documents = self.transport.items("/operations", params, limit=limit)
        return (OperationOut.read(document) for document in documents)

    def get(self, operation_id: UUID | str) -> OperationOut:
        """One operation."""
        return OperationOut.read(self.transport.get(f"/operations/{operation_id}"))

    def pause(self, operation_id: UUID | str) -> OperationOut:
        """It stops at its next step, and stays so until it is resumed."""
        return self._turned(operation_id, "pause")

    def resume(self, operation_id: UUID | str) -> OperationOut:
        """It begins anew when its turn comes."""
        return self._turned(operation_id, "resume")

    def cancel(self, operation_id: UUID | str) -> OperationOut:
        """It stops at its next step, and leaves nothing behind."""
        return self._turned(operation_id, "cancel")

    def _turned(self, operation_id: UUID | str, verb: str) -> OperationOut:
        return OperationOut.read(self.transport.change("POST", f"/operations/{operation_id}/{verb}"))

    def wait(
        self,
        operation_id: UUID | str,
        *,
        seconds: float | None = 3600,
        on_progress: Callable[[OperationOut], None] = lambda _: None,
    ) -> OperationOut:
        """The operation once it has ended, as a job."""
        name = f"operation {operation_id}"
        return wait_until_final(
            lambda: self.get(operation_id), lambda operation: operation.status.is_final, seconds, on_progress, name
        )


def wait_until_final(
    load: Callable[[], T],
    is_final: Callable[[T], bool],
    seconds: float | None,
    on_progress: Callable[[T], None],
    name: str,
) -> T:
    """Load a state until it is final, and call `on_progress` with each one. `name` names the work in StillRunning."""
    deadline, pause = time.monotonic() + (math.inf if seconds is None else seconds), POLL_SECONDS
    while True:
        state = load()
        on_progress(state)
        if is_final(state):
            return state
        if time.monotonic() > deadline:
            raise StillRunning(
                f"{name} has not ended within {seconds:.0f} s; it continues", hint="check its state later"
            )
        time.sleep(pause)
        pause = min(pause * 1.2, LONGEST_POLL_SECONDS)
