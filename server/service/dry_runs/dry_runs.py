"""Dry runs: what a job would do now, told by the very task that it would be given. Kinds: catalog.maintenance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from catalog.errors import CatalogError, Invalid
from catalog.jobs.job import JobKind
from catalog.maintenance import kind_of
from catalog.maintenance.context import JobContext
from catalog.maintenance.dry_run import DryRun, TooMany, summarize
from catalog.names import CatalogName, TableName
from catalog.planning.dry_run import DryRunResult
from catalog.ports.manifest_reading import ManifestReading
from server.service.jobs.tasks import Tasks
from server.service.locations.location_rule import build_file_rule
from server.service.locations.ownership import list_stores
from server.service.retention.owned_locations import TableLocations


@dataclass(frozen=True)
class DryRuns:
    """Says what a job would do, by the very facts that it would be given."""

    tasks: Tasks
    manifests: ManifestReading
    table_locations: TableLocations

    def run(self, catalog: CatalogName, name: TableName, kind: JobKind, params: Mapping[str, object]) -> DryRunResult:
        """What a job of this kind would do now; Invalid, with the reason, where it would not be taken.

        Of a table with too many files it is told from the head's summary.
        """
        dry_run = kind_of(kind).dry_run
        if dry_run is None:
            raise Invalid(f"there is no dry run of a {kind} job")
        asked = self.tasks.build_unqueued_task(catalog, name, kind, params)
        manifests = self._manifests(asked.context)
        run = DryRun(
            context=asked.context,
            task=asked.task,
            manifests=lambda of: manifests[of["location"]],
            why_files_stay=lambda: self._why_files_stay(asked.context),
        )
        try:
            return dry_run(run)
        except TooMany:
            return summarize(run, of_changes=kind_of(kind).works_on_changes)

    def _why_files_stay(self, context: JobContext) -> str | None:
        with self.tasks.database.reading() as uow:
            places = self.table_locations.list_locations_of(uow, context.relation)
        return next((place.keep_reason for place in places if place.keep_reason), None)

    def _manifests(self, context: JobContext) -> Mapping[str, ManifestReading]:
        """By the location of each of its tables."""
        database, links = self.tasks.database, self.tasks.metadata.files
        readings: dict[str, ManifestReading] = {}
        with database.reading() as uow:
            tables = {table.name.name: table for table in list_stores(uow, context.relation)}
            for store, metadata in context.metadata.items():
                table = tables[store] if store else context.relation
                readings[metadata["location"]] = self.manifests.confined(
                    build_file_rule(uow, database, links, table, metadata)
                )
        return readings

    def check(self, catalog: CatalogName, name: TableName, kind: JobKind, params: Mapping[str, object]) -> None:
        """Invalid, with the reason, for a job that would only fail: a policy that is not set or does not fit."""
        if kind_of(kind).checks_request:
            self.tasks.build_unqueued_task(catalog, name, kind, params)

    def finds_nothing(self, catalog: CatalogName, name: TableName, kind: JobKind, params: Mapping[str, object]) -> bool:
        """Whether there are files, and it is certain that such a job would change none of them.

        What cannot be looked at is left to the job.
        """
        if kind_of(kind).result_if_nothing is None:
            return False
        try:
            would = self.run(catalog, name, kind, params)
        except CatalogError:
            return False
        return would.is_empty and any(touch.count for touch in would.affected)
