"""Whether the files below a table's location are its own: asked before each batch of files that a job deletes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catalog.job import Lease, check_lease
from catalog.keeping.expiry import why_no_deletes
from catalog.names import TableName
from catalog.ports.store import Database, UnitOfWork
from catalog.relation import Relation, RelationKind
from server.service.facts import load_metadata
from server.service.metadata import MetadataFiles
from server.service.places import kin


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
        stores: Sequence[Relation] = uow.relations.stores_of(relation.id) or [relation]
        return [self._place(uow, store) for store in stores]

    def _place(self, uow: UnitOfWork, relation: Relation) -> OwnPlace:
        others = uow.dropped.places_meeting([relation.location], but_for=kin(relation))
        reason = why_no_deletes(
            relation.location,
            load_metadata(self.metadata, relation).get("properties", {}),
            is_plain=relation.kind is RelationKind.TABLE and relation.hive_name is None,
            used_by=[other.used_by for other in others],
        )
        return OwnPlace(name=relation.name, location=relation.location, kept_because=reason)
