"""Jobs that are requested by hand, what they would do and have set aside: a part of `client.tables["db.t"]`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from uuid import UUID

from firn.protocol.answers.jobs import DryRunOut, JobOut
from firn.protocol.answers.orphans import OrphanBatchOut
from firn.transport import Json, Transport


class TableJobs(ABC):
    """The methods of a table's handle that start jobs."""

    __slots__ = ()
    transport: Transport

    @abstractmethod
    def path_to(self, part: str) -> str:
        """The address of one of the table's parts."""

    def start_job(self, kind: str, **options: Json) -> JobOut:
        """Start a maintenance job of this kind now; the job comes back at once, `client.jobs.wait` waits for its end.

        The options are those of the kind, as the API document has them: `start_job("rewrite", strategy="sort")`,
        `start_job("keys", resolve=True)`. Without options the job does what the table's policy says.
        """
        return JobOut.read(self._request(kind, options, dry_run=False))

    def dry_run(self, kind: str, **options: Json) -> DryRunOut | JobOut:
        """What such a job would do now; it changes nothing.

        To find orphans, every file has to be listed: that dry run is a job, whose result names the files.
        """
        answer = self._request(kind, options, dry_run=True)
        return JobOut.read(answer) if "id" in answer else DryRunOut.read(answer)

    def _request(self, kind: str, options: dict[str, Json], *, dry_run: bool) -> Json:
        body = {"kind": kind, "options": options}
        return self.transport.change("POST", self.path_to("/jobs"), body, {"dry_run": dry_run})

    def quarantine(self) -> list[OrphanBatchOut]:
        """What was set aside and can be put back, oldest first."""
        return [OrphanBatchOut.read(document) for document in self.transport.items(self.path_to("/quarantine"))]

    def restore_files(self, *, job_id: UUID | str | None = None, paths: Sequence[str] = ()) -> list[str]:
        """Put back what one job has set aside, or these files, or all; gives those that are in place again."""
        body = {"job_id": None if job_id is None else str(job_id), "paths": [*paths]}
        restored: list[str] = self.transport.change("POST", self.path_to("/quarantine/restore"), body)["restored"]
        return restored
