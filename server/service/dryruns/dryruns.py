"""Dry runs of every kind that the server can look at; of too many files it is told from the head's summary."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from catalog.errors import CatalogError
from catalog.job import JobKind
from catalog.names import CatalogName, TableName
from catalog.ports.reading import ManifestReading
from catalog.would import Would
from server.service.dryruns import files, keeping, packing, rewriting
from server.service.dryruns.look import Look, TooMany, told_by_summary
from server.service.keeping.places import OwnPlace, OwnPlaces
from server.service.locations import rule_in
from server.service.moment import Moment
from server.service.ownership import tables_of
from server.service.tasks import Tasks

LOOKS: Mapping[JobKind, Callable[[Look], Would]] = {
    JobKind.MERGE: files.merge,
    JobKind.CLEAN: files.clean,
    JobKind.REWRITE: rewriting.rewrite,
    JobKind.COMPACT: packing.compact,
    JobKind.DELETES: packing.deletes,
    JobKind.MANIFESTS: packing.manifests,
    JobKind.EXPIRE: keeping.expire,
    JobKind.TTL: keeping.ttl,
    JobKind.TAGS: keeping.tags,
    JobKind.STATISTICS: keeping.statistics,
    JobKind.KEYS: files.keys,
}
"""Not among them: a search for orphans lists every file, which is a job's to do, and a sync looks at Hive."""


@dataclass(frozen=True)
class DryRuns:
    """Says what a job would do, by the very facts that it would be given."""

    tasks: Tasks
    manifests: ManifestReading
    own_places: OwnPlaces

    def of(self, catalog: CatalogName, name: TableName, kind: JobKind, params: Mapping[str, object]) -> Would:
        """What a job of this kind would do now; Invalid, with the reason, where it would not be taken."""
        asked = self.tasks.if_asked(catalog, name, kind, params)

        def places() -> list[OwnPlace]:
            with self.tasks.database.reading() as uow:
                return self.own_places.of_relation(uow, asked.moment.relation)

        manifests = self._manifests(asked.moment)
        look = Look(moment=asked.moment, task=asked.task, manifests=lambda of: manifests[of["location"]], places=places)
        try:
            return LOOKS[kind](look)
        except TooMany:
            return told_by_summary(look)

    def _manifests(self, moment: Moment) -> Mapping[str, ManifestReading]:
        """By the location of each of its tables."""
        database, links = self.tasks.database, self.tasks.metadata.files
        found: dict[str, ManifestReading] = {}
        with database.reading() as uow:
            tables = {table.name.name: table for table in tables_of(uow, moment.relation)}
            for store, metadata in moment.metadata.items():
                table = tables[store] if store else moment.relation
                found[metadata["location"]] = self.manifests.confined(rule_in(uow, database, links, table, metadata))
        return found

    def check(self, catalog: CatalogName, name: TableName, kind: JobKind, params: Mapping[str, object]) -> None:
        """Invalid, with the reason, for a job that would only fail: a policy that is not set or does not fit."""
        if kind in CHECKED:
            self.tasks.if_asked(catalog, name, kind, params)

    def finds_nothing(self, catalog: CatalogName, name: TableName, kind: JobKind, params: Mapping[str, object]) -> bool:
        """Whether there are files, and it is certain that such a job would change none of them.

        What cannot be looked at is left to the job.
        """
        if kind not in PACKING:
            return False
        try:
            found = self.of(catalog, name, kind, params)
        except CatalogError:
            return False
        return found.is_empty and any(one.count for one in found.touches)


PACKING = frozenset({JobKind.REWRITE, JobKind.COMPACT})
"""Kinds whose dry run chooses files exactly as the job does."""
CHECKED = frozenset({JobKind.TTL, JobKind.TAGS, JobKind.STATISTICS, JobKind.KEYS})
"""Kinds that stand on a policy which has no default, or on a rule that may not fit the table."""
