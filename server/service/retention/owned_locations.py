"""Checks that a table owns its location; jobs ask before they delete each batch of files."""

from __future__ import annotations

from dataclasses import dataclass

from catalog.errors import LocationRefused
from catalog.jobs.leases import Lease, check_lease
from catalog.names import TableName
from catalog.ports.store import Database, UnitOfWork
from catalog.removal.ownership import explain_outside_warehouse, explain_unowned_location
from catalog.tables.relation import Relation
from server.service.commit.commit_target import load_metadata
from server.service.locations.location_rule import load_allowed_locations
from server.service.locations.ownership import explain_not_own, list_stores
from server.service.tables.metadata_files import MetadataFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLocation:
    """The location of one table of a job; `keep_reason` is why the job must delete none of its files."""

    name: TableName
    location: str
    keep_reason: str | None


@dataclass(frozen=True)
class TableLocations:
    """Reads the database at each call, because another table may come to a location at any moment."""

    database: Database
    metadata: MetadataFiles

    def list_locations(self, lease: Lease) -> list[TableLocation]:
        """The locations of all tables that the job works on; raises LeaseLost when its lease has ended."""
        with self.database.reading() as uow:
            job = check_lease(uow.jobs.get(lease.job_id), lease)
            relation = uow.relations.get(job.relation_id)
            return self.list_locations_of(uow, relation)

    def list_locations_of(self, uow: UnitOfWork, relation: Relation) -> list[TableLocation]:
        """The locations of a plain table, or of the stores of a keyed table."""
        return [
            TableLocation(name=table.name, location=table.location, keep_reason=self._explain_kept(uow, table))
            for table in list_stores(uow, relation)
        ]

    def _explain_kept(self, uow: UnitOfWork, table: Relation) -> str | None:
        """Why the files must stay, without the names of other tables, which only the server's log shows."""
        properties = load_metadata(self.metadata, table).get("properties", {})
        unowned = explain_unowned_location(table, properties)
        outside = explain_outside_warehouse(table.location, uow.catalogs.get(table.catalog).warehouse)
        if unowned is not None or outside is not None:
            return unowned or f"{outside}: other systems may write there"
        try:
            load_allowed_locations(uow, self.metadata.files, table.catalog).check_directory(
                table.location, self.metadata.files
            )
        except LocationRefused as error:
            return error.message
        return explain_not_own(uow, table, {table.id: properties}, by_listing=True)
