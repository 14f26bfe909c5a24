"""Dry runs: report what a job would do now, from the same task that the job would get. Kinds: catalog.maintenance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from catalog.errors import CatalogError, Invalid
from catalog.jobs.job import JobKind
from catalog.maintenance import kind_of
from catalog.maintenance.context import JobContext
from catalog.maintenance.dry_run import DryRun, TooMany, summarize
from catalog.names import CatalogName, TableName
from catalog.planning.dry_run_result import DryRunResult
from catalog.ports.manifest_reading import ManifestReading
from server.service.jobs.tasks import Tasks
from server.service.locations.location_rule import build_file_rule
from server.service.locations.ownership import list_stores
from server.service.retention.owned_locations import TableLocations


@dataclass(frozen=True)
class DryRuns:
    """Runs dry runs with the same facts that a job would get."""

    tasks: Tasks
    manifests: ManifestReading
    table_locations: TableLocations

    def run(self, catalog: CatalogName, name: TableName, kind: JobKind, params: Mapping[str, object]) -> DryRunResult:
        """The result of a job of this kind if it ran now; raises Invalid when the table would not accept it.

        For a table with too many files, the result comes from the summary of the current snapshot.
        """
        dry_run = kind_of(kind).dry_run
        if dry_run is None:
            raise Invalid(f"there is no dry run of a {kind} job")
        unqueued = self.tasks.build_unqueued_task(catalog, name, kind, params)
        manifests = self._map_manifests(unqueued.context)
        run = DryRun(
            context=unqueued.context,
            task=unqueued.task,
            manifests=lambda metadata: manifests[metadata["location"]],
            why_files_stay=lambda: self._explain_kept_files(unqueued.context),
        )
        try:
            return dry_run(run)
        except TooMany:
            return summarize(run, of_changes=kind_of(kind).works_on_changes)

    def _explain_kept_files(self, context: JobContext) -> str | None:
        with self.tasks.database.reading() as uow:
            locations = self.table_locations.list_locations_of(uow, context.relation)
        return next((location.keep_reason for location in locations if location.keep_reason), None)

    def _map_manifests(self, context: JobContext) -> Mapping[str, ManifestReading]:
        """The manifest readers of the job's tables, by table location."""
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
        """Raise Invalid for a job that would only fail, because a policy is missing or does not fit the table."""
        if kind_of(kind).checks_request:
            self.tasks.build_unqueued_task(catalog, name, kind, params)

    def finds_nothing(self, catalog: CatalogName, name: TableName, kind: JobKind, params: Mapping[str, object]) -> bool:
        """Whether the table has files and the job would certainly change none of them.

        False when the dry run fails: then the job finds out.
        """
        if kind_of(kind).result_if_nothing is None:
            return False
        try:
            result = self.run(catalog, name, kind, params)
        except CatalogError:
            return False
        return result.is_empty and any(items.count for items in result.affected)
