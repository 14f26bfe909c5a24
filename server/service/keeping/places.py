"""Whether the files below a table's location are its own: asked before each batch of files that a job deletes."""

from __future__ import annotations

from dataclasses import dataclass

from catalog.job import Lease, check_lease
from catalog.names import TableName
from catalog.ports.store import Database, UnitOfWork
from catalog.relation import Relation
from server.service.facts import load_metadata
from server.service.metadata import MetadataFiles
from server.service.ownership import tables_of, why_not_its_own


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPlace:
    """Where one table of a job has its files, and why none of them may be deleted, if so."""

    name: TableName
    location: str
    kept_because: str | None


@dataclass(frozen=True)
class OwnPlaces:
    """Reads the database anew each time: another table may come to a place at any moment."""

    database: Database
    metadata: MetadataFiles

    def of(self, lease: Lease) -> list[OwnPlace]:
        """Of all tables that the job works on; LeaseLost when its lease has ended."""
        with self.database.reading() as uow:
            job = check_lease(uow.jobs.get(lease.job_id), lease)
            relation = uow.relations.get(job.relation_id)
            return self.of_relation(uow, relation)

    def of_relation(self, uow: UnitOfWork, relation: Relation) -> list[OwnPlace]:
        """Of a plain table, or of a keyed one's stores."""
        return [self._place(uow, table) for table in tables_of(uow, relation)]

    def _place(self, uow: UnitOfWork, table: Relation) -> OwnPlace:
        properties = {table.id: load_metadata(self.metadata, table).get("properties", {})}
        reason = why_not_its_own(uow, table, properties, by_listing=True)
        return OwnPlace(name=table.name, location=table.location, kept_because=reason)
