"""Jobs that are asked for by hand, what they would do and have set aside: a part of `client.tables["db.t"]`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from uuid import UUID

from firn.transport import Json, Transport
from firn.wire import Job, OrphanBatch, Planned


class TableJobs(ABC):
    """The methods of a table's handle that start jobs."""

    __slots__ = ()
    transport: Transport

    @abstractmethod
    def path_to(self, part: str) -> str:
        """The address of one of the table's parts."""

    def merge(self, *, mode: str | None = None) -> Job:
        """Bring pending changes into base now; the job that does it comes back at once."""
        return self.run("merge", {} if mode is None else {"mode": mode})

    def rewrite(
        self,
        *,
        strategy: str | None = None,
        sort_order: Sequence[str] = (),
        where: str | None = None,
        everything: bool = False,
    ) -> Job:
        """Write small files, and such with many deleted rows, anew now: packed, with `sort` or `zorder` also sorted.

        `where` takes only files that may hold such rows; `everything` takes files of any size.
        """
        wanted = {"strategy": strategy, "sort_order": [*sort_order], "where": where, "everything": everything}
        return self.run("rewrite", {key: value for key, value in wanted.items() if value})

    def compact(self) -> Job:
        """Pack the small files of the change store now."""
        return self.run("compact")

    def deletes(self) -> Job:
        """Pack delete files, and drop those that delete nothing any more, now."""
        return self.run("deletes")

    def manifests(self) -> Job:
        """Write the table's manifests anew now."""
        return self.run("manifests")

    def clean(self) -> Job:
        """Drop merged files from the change store's current snapshot now."""
        return self.run("clean")

    def expire(self) -> Job:
        """Remove old snapshots, and the files that only they need, now."""
        return self.run("expire")

    def orphans(self, *, dry_run: bool = False) -> Job:
        """Set aside files at its place that nothing refers to, now; a dry run's result names them."""
        found = self.transport.change("POST", self.path_to("/orphans"), params={"dry_run": dry_run})
        return Job.model_validate(found)

    def quarantine(self) -> list[OrphanBatch]:
        """What was set aside and can be put back, oldest first."""
        return [OrphanBatch.model_validate(one) for one in self.transport.items(self.path_to("/quarantine"))]

    def put_back(self, *, job_id: UUID | str | None = None, paths: Sequence[str] = ()) -> list[str]:
        """Put back what one job has set aside, or these files, or all; gives those that are in place again."""
        body = {"job_id": None if job_id is None else str(job_id), "paths": [*paths]}
        found: list[str] = self.transport.change("POST", self.path_to("/quarantine/restore"), body)["put_back"]
        return found

    def ttl(self) -> Job:
        """Delete the rows that are older than `firn.ttl.max-age` now."""
        return self.run("ttl")

    def tags(self) -> Job:
        """Make the tags that `firn.tags.schedule` asks for, and drop those whose time is over, now."""
        return self.run("tags")

    def statistics(self) -> Job:
        """Count distinct values now: of `firn.statistics.columns`, or of all columns."""
        return self.run("statistics")

    def check_keys(self) -> Job:
        """Count the keys that occur more than once in base, now; the table shows what was found."""
        return self.run("keys")

    def resolve_keys(self, *, keep_highest: str | None = None) -> Job:
        """Keep one row of each key that occurs more than once, now: the newest, or the one with the highest value of a
        column.
        """
        return self.run("keys/resolve", {"highest": keep_highest})

    def plan(self, kind: str, body: Mapping[str, Json] | None = None) -> Planned:
        """What such a job would do now, asked for with the same options as the job itself."""
        told = None if body is None else dict(body)
        found = self.transport.change("POST", self.path_to(f"/{kind}"), told, {"dry_run": True})
        return Planned.model_validate(found)

    def run(self, kind: str, body: Mapping[str, Json] | None = None) -> Job:
        """Start a job of this kind; `body` are the options that its own method has, as the API names them."""
        told = None if body is None else dict(body)
        return Job.model_validate(self.transport.change("POST", self.path_to(f"/{kind}"), told))
