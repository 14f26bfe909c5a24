"""The state of a table for one request of an orphan job, read in one transaction after the job has listed files."""

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
from server.service.locations.ownership import explain_not_own, find_images_directory, list_stores
from server.service.orphans.published_locations import PublishedLocation, find_published_location
from server.service.planning.policies import load_stored_policy
from server.service.tables.metadata_files import MetadataFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanContext:
    """State of the job, its table and its policy at the time of a request."""

    job: Job
    relation: Relation
    tables: Sequence[Relation]
    now: datetime
    lease_began: datetime
    min_age: timedelta
    quarantine_period: timedelta
    """How long files stay in quarantine before the server deletes them."""
    quarantine_root: str
    """The directory of the catalog's quarantine."""
    images: str | None
    """The directory of a keyed table's images, in which other writers' files may lie, too."""
    published: PublishedLocation | None
    """Where a linked table publishes to Hive; None if it never has."""

    @property
    def dry_run(self) -> bool:
        """Whether the job must not move any file."""
        return bool(self.job.params.get("dry_run"))

    @property
    def own_locations(self) -> list[str]:
        """The locations of the Iceberg tables and of images, which Hive never reads."""
        return [*(table.location for table in self.tables), *([] if self.images is None else [self.images])]

    @property
    def candidate_locations(self) -> list[str]:
        """The locations where the job may remove orphans: own locations first, then the published location."""
        is_own = self.published is not None and self.published.shared is None
        return [*self.own_locations, self.published.location] if self.published and is_own else self.own_locations

    def is_own(self, location: str) -> bool:
        """Whether a file lies in one of the own locations."""
        return _lies_in_any(location, self.own_locations)

    def is_candidate_location(self, location: str) -> bool:
        """Whether a file lies in one of the candidate locations."""
        return _lies_in_any(location, self.candidate_locations)

    @property
    def job_directory(self) -> str:
        """The quarantine directory for the files of this job."""
        return f"{self.quarantine_root}/{self.relation.id}/{self.job.id}"


def load_context(uow: UnitOfWork, metadata: MetadataFiles, job: Job) -> OrphanContext:
    """The context of a job; raises Conflict when the database does not prove that the table owns its locations."""
    relation = uow.relations.get(job.relation_id)
    tables = list_stores(uow, relation)
    properties = {table.id: load_metadata(metadata, table).get("properties", {}) for table in tables}
    reason = explain_not_own(uow, relation, properties, by_listing=True)
    if reason is not None:
        raise Conflict(
            f"the server removes no orphans of {relation.name}: {reason}",
            hint="see docs/self-optimizing.md, Deleting safely",
        )
    policy = load_stored_policy(uow, relation)
    return OrphanContext(
        job=job,
        relation=relation,
        tables=tables,
        now=uow.now(),
        lease_began=job.leased_at or uow.now(),
        min_age=policy["firn.orphans.min-age"],
        quarantine_period=policy["firn.orphans.quarantine"],
        images=find_images_directory(uow, relation),
        quarantine_root=quarantine_location(uow.catalogs.get(relation.catalog).warehouse),
        published=find_published_location(uow, relation),
    )


def load_leased_context(uow: UnitOfWork, metadata: MetadataFiles, lease: Lease) -> OrphanContext:
    """The context for a request of the job itself; raises LeaseLost when its lease has ended."""
    return load_context(uow, metadata, check_lease(uow.jobs.get(lease.job_id), lease))


def _lies_in_any(location: str, directories: Sequence[str]) -> bool:
    return any(lies_in(normalize_location(location), normalize_location(directory)) for directory in directories)
