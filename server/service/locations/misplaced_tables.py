"""Lists tables and views that break the location rule, because they are older or an allowed location was removed.

The list is for administrators; it changes nothing. Firn neither opens nor deletes their misplaced files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from catalog.errors import LocationRefused, NotFound
from catalog.iceberg.json import Json
from catalog.locations.location_rule import list_own_locations
from catalog.names import CatalogName
from catalog.ports.page import Page
from catalog.ports.store import Database
from catalog.tables.relation import Relation, RelationKind
from server.service.locations.location_rule import (
    check_directories,
    check_published,
    find_kin,
    list_named_files,
    load_file_rule,
)
from server.service.tables.metadata_files import MetadataFiles

KINDS = (RelationKind.TABLE, RelationKind.BASE, RelationKind.CHANGE, RelationKind.VIEW)
MOST_FILES_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Misplaced:
    """One violation of the rule by one table, and advice for an administrator."""

    table: str
    problem: str
    advice: str


@dataclass(frozen=True)
class MisplacedTables:
    """Checks the metadata of all tables of a catalog, one page at a time."""

    database: Database
    metadata: MetadataFiles

    def list(self, catalog: CatalogName, *, limit: int, cursor: str | None = None) -> Page[Misplaced]:
        """The violations of the next `limit` tables; a page may be empty before the last. Raises NoSuchCatalog."""
        with self.database.reading() as uow:
            uow.catalogs.get(catalog)
            page = uow.relations.list(catalog, None, KINDS, limit=limit, cursor=cursor)
        violations = [violation for relation in page.items for violation in self._check_relation(relation)]
        return Page(violations, page.next_cursor)

    def _check_relation(self, relation: Relation) -> Iterator[Misplaced]:
        location = relation.metadata_location or ""
        try:
            metadata = self.metadata.read(location)
        except NotFound:
            return  # the table has no metadata file, and each load reports that
        yield from self._check_directories(relation, metadata)
        rule = load_file_rule(self.database, self.metadata.files, relation, metadata)
        refused = list(rule.find_refused([location, *list_named_files(metadata)]).values())
        for error in refused[:MOST_FILES_NAMED]:
            advice = "allow the location if it belongs to the table; otherwise roll back the table or drop it, no purge"
            yield Misplaced(table=str(relation.name), problem=error.message, advice=advice)
        if len(refused) > MOST_FILES_NAMED:
            more = f"{relation.name} names {len(refused) - MOST_FILES_NAMED:,} more such files"
            yield Misplaced(table=str(relation.name), problem=more, advice="")

    def _check_directories(self, relation: Relation, metadata: Json) -> Iterator[Misplaced]:
        links = self.metadata.files
        for location in list_own_locations(metadata):
            try:
                with self.database.reading() as uow:
                    check_directories(uow, links, relation.catalog, [location], find_kin(relation))
            except LocationRefused as error:
                yield Misplaced(table=str(relation.name), problem=error.message, advice=_build_advice(error))
        try:
            with self.database.reading() as uow:
                check_published(uow, links, relation.catalog, metadata.get("properties") or {})
        except LocationRefused as error:
            yield Misplaced(table=str(relation.name), problem=error.message, advice=_build_advice(error))


def _build_advice(error: LocationRefused) -> str:
    return error.hint or "move the table to a directory of its own"
