"""A table as one job finds it: read in one transaction, after what the job proposes was listed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from catalog.errors import Conflict
from catalog.jobs.job import Job
from catalog.jobs.leases import Lease, check_lease
from catalog.ports.store import UnitOfWork
from catalog.removal.ownership import quarantine_location
from catalog.tables.relation import Relation
from firn.protocol.locations import lies_in, normalize_location
from server.service.commit.commit_target import load_metadata
from server.service.locations.ownership import explain_not_own, list_stores
from server.service.orphans.published_locations import PublishedLocation, find_published_location
from server.service.planning.planner import load_facts
from server.service.tables.metadata_files import MetadataFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanContext:
    """What is known when a job asks."""

    job: Job
    relation: Relation
    tables: Sequence[Relation]
    now: datetime
    lease_began: datetime
    min_age: timedelta
    quarantine: timedelta
    root: str
    """The catalog's quarantine."""
    published: PublishedLocation | None
    """Where a linked table gives its rows to Hive, if it ever did."""

    @property
    def dry_run(self) -> bool:
        """Whether nothing may be moved."""
        return bool(self.job.params.get("dry_run"))

    @property
    def own(self) -> list[str]:
        """The places that no one but this side reads."""
        return [one.location for one in self.tables]

    @property
    def places(self) -> list[str]:
        """Where files may be taken for orphans."""
        is_own = self.published is not None and self.published.shared is None
        return [*self.own, self.published.location] if self.published and is_own else self.own

    def is_own(self, location: str) -> bool:
        """Whether a file lies where no one but this side reads."""
        return any(lies_in(normalize_location(location), normalize_location(one)) for one in self.own)

    def is_there(self, location: str) -> bool:
        """Whether a file lies where it may be taken for an orphan."""
        return any(lies_in(normalize_location(location), normalize_location(one)) for one in self.places)

    @property
    def directory(self) -> str:
        """Where this job's files go."""
        return f"{self.root}/{self.relation.id}/{self.job.id}"


def load_context(uow: UnitOfWork, metadata: MetadataFiles, job: Job) -> OrphanContext:
    """The job's table; Conflict when the database does not show its places to be its own."""
    relation = uow.relations.get(job.relation_id)
    tables = list_stores(uow, relation)
    properties = {one.id: load_metadata(metadata, one).get("properties", {}) for one in tables}
    reason = explain_not_own(uow, relation, properties, by_listing=True)
    if reason is not None:
        raise Conflict(
            f"no file of {relation.name} is taken for an orphan: {reason}",
            hint="see docs/self-optimizing.md, Deleting safely",
        )
    policy = load_facts(uow, relation).policy
    return OrphanContext(
        job=job,
        relation=relation,
        tables=tables,
        now=uow.now(),
        lease_began=job.leased_at or uow.now(),
        min_age=policy["firn.orphans.min-age"],
        quarantine=policy["firn.orphans.quarantine"],
        root=quarantine_location(uow.catalogs.get(relation.catalog).warehouse),
        published=find_published_location(uow, relation),
    )


def load_leased_context(uow: UnitOfWork, metadata: MetadataFiles, lease: Lease) -> OrphanContext:
    """The same, for a request of the job's own; LeaseLost when its lease has ended."""
    return load_context(uow, metadata, check_lease(uow.jobs.get(lease.job_id), lease))
