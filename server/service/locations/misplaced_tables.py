"""Tables and views that break the location rule: they are older than it, or an allowed location was taken away.

They are listed for administrators; nothing is changed. Firn does not open or delete their files that lie elsewhere.
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
    """One thing of one table that breaks the rule, and what an administrator can do."""

    table: str
    problem: str
    advice: str


@dataclass(frozen=True)
class MisplacedTables:
    """Reads the metadata of every table of a catalog, a page at a time."""

    database: Database
    metadata: MetadataFiles

    def list(self, catalog: CatalogName, *, limit: int, cursor: str | None = None) -> Page[Misplaced]:
        """What is found in the next `limit` tables: often nothing, while there are further pages. NoSuchCatalog."""
        with self.database.reading() as uow:
            uow.catalogs.get(catalog)
            page = uow.relations.list(catalog, None, KINDS, limit=limit, cursor=cursor)
        return Page([found for relation in page.items for found in self._of(relation)], page.next_cursor)

    def _of(self, relation: Relation) -> Iterator[Misplaced]:
        location = relation.metadata_location or ""
        try:
            metadata = self.metadata.look_into(location)
        except NotFound:
            return  # it cannot be read at all, which loads of it say
        yield from self._directories(relation, metadata)
        rule = load_file_rule(self.database, self.metadata.files, relation, metadata)
        refused = list(rule.refused([location, *list_named_files(metadata)]).values())
        for error in refused[:MOST_FILES_NAMED]:
            advice = "allow the location if it is the table's, else roll the table back, or drop it without purging"
            yield Misplaced(table=str(relation.name), problem=error.message, advice=advice)
        if len(refused) > MOST_FILES_NAMED:
            more = f"{relation.name} names {len(refused) - MOST_FILES_NAMED:,} more such files"
            yield Misplaced(table=str(relation.name), problem=more, advice="")

    def _directories(self, relation: Relation, metadata: Json) -> Iterator[Misplaced]:
        links = self.metadata.files
        for location in list_own_locations(metadata):
            try:
                with self.database.reading() as uow:
                    check_directories(uow, links, relation.catalog, [location], find_kin(relation))
            except LocationRefused as error:
                yield Misplaced(table=str(relation.name), problem=error.message, advice=_advice(error))
        try:
            with self.database.reading() as uow:
                check_published(uow, links, relation.catalog, metadata.get("properties") or {})
        except LocationRefused as error:
            yield Misplaced(table=str(relation.name), problem=error.message, advice=_advice(error))


def _advice(error: LocationRefused) -> str:
    return (error.hint or "").rpartition("; or ")[2] or "move it to a directory of its own"
