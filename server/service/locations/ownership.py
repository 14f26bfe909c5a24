"""Proves that a table owns its locations, as far as the database knows.

Call it before deleting files because of a listing, a comparison or a drop, and delete nothing when it returns a reason.
Only the storage can show files of other systems: see server.service.orphans.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence

from catalog.keyed.image_build import list_image_directories
from catalog.names import RelationId
from catalog.ports.store import UnitOfWork
from catalog.removal.ownership import (
    explain_outside_warehouse,
    explain_shared_location,
    explain_unowned_location,
    list_used_locations,
    quarantine_location,
)
from catalog.removal.purge import UsedLocation
from catalog.tables.relation import Relation, RelationKind
from server.service.locations.location_rule import find_kin

log = logging.getLogger(__name__)

SHARED = "another table's files lie in or around its directory; the server's log says whose"


def explain_not_own(
    uow: UnitOfWork, relation: Relation, properties: Mapping[RelationId, Mapping[str, str]], *, by_listing: bool
) -> str | None:
    """Why the server must delete nothing in the locations of this table; None when the table owns them alone.

    `relation` is a plain table, a store, or a keyed table (with all its stores); `properties` are those of each table's
    metadata. Files that a comparison of two states names belonged to the table, wherever they lie; files from a listing
    (`by_listing`) must lie inside the warehouse. The answer does not cover relations that are added later: hold all
    catalogs while you act on it (`uow.catalogs.hold_all`), or ask again.
    """
    tables = list_stores(uow, relation)
    reason = _explain_outside_warehouse(uow, tables) if by_listing else None
    images = find_images_directory(uow, relation) if by_listing else None
    locations = [*_locations(tables), *([] if images is None else [images])]
    own = {*find_kin(relation), *(table.id for table in tables)}
    others = uow.dropped.find_overlaps(locations, own)
    return reason or _explain_not_theirs(uow, tables, properties, others, locations)


def explain_published_not_own(uow: UnitOfWork, relation: Relation, location: str) -> str | None:
    """Why the server must delete nothing where a linked table publishes; its own partitions there do not count.

    The location contains the id of the table, so it may lie outside the warehouse.
    """
    others = uow.dropped.find_overlaps([location], but_for=(), but_for_hive_of=relation)
    return _hide_names(explain_shared_location([location], [*others, *_list_firn_locations(uow)]))


def explain_dropped_not_own(
    uow: UnitOfWork, relations: Sequence[Relation], properties: Mapping[RelationId, Mapping[str, str]]
) -> str | None:
    """Why a purge must not delete the files of the relations of one drop; None when these own their locations alone.

    Other dropped tables that are being purged do not count, because they need their files no more.
    """
    tables = [relation for relation in relations if relation.metadata_location is not None]
    others = uow.dropped.find_overlaps(_locations(tables), [relation.id for relation in relations], in_purge=False)
    reason = _explain_outside_warehouse(uow, tables)
    return reason or _explain_not_theirs(uow, tables, properties, others, _locations(tables))


def find_images_directory(uow: UnitOfWork, relation: Relation) -> str | None:
    """The directory of a keyed table's images, if it lies in the warehouse; None for other tables."""
    if relation.kind is not RelationKind.KEYED:
        return None
    directory = list_image_directories(relation)[0]
    return None if explain_outside_warehouse(directory, uow.catalogs.get(relation.catalog).warehouse) else directory


def list_stores(uow: UnitOfWork, relation: Relation) -> Sequence[Relation]:
    """The Iceberg tables that a relation consists of."""
    return uow.relations.stores_of(relation.id) if relation.kind is RelationKind.KEYED else [relation]


def _locations(tables: Sequence[Relation]) -> list[str]:
    return [table.location for table in tables]


def _explain_outside_warehouse(uow: UnitOfWork, tables: Sequence[Relation]) -> str | None:
    reasons = (explain_outside_warehouse(table.location, uow.catalogs.get(table.catalog).warehouse) for table in tables)
    return next((reason for reason in reasons if reason is not None), None)


def _explain_not_theirs(
    uow: UnitOfWork,
    tables: Sequence[Relation],
    properties: Mapping[RelationId, Mapping[str, str]],
    others: Iterable[UsedLocation],
    locations: Sequence[str],
) -> str | None:
    reasons = (explain_unowned_location(table, properties[table.id]) for table in tables)
    reason = next((reason for reason in reasons if reason is not None), None)
    return reason or _hide_names(explain_shared_location(locations, [*others, *_list_firn_locations(uow)]))


def _hide_names(reason: str | None) -> str | None:
    """Replace the reason for the user, who may have no right to know the other table; the log names it."""
    if reason is None:
        return None
    log.warning("the server keeps files: %s", reason)
    return SHARED


def _list_firn_locations(uow: UnitOfWork) -> Iterator[UsedLocation]:
    for catalog in uow.catalogs.list():
        yield UsedLocation("Firn's quarantine", quarantine_location(catalog.warehouse))
    for operation in uow.operations.unfinished():
        used_by = f"the running {operation.kind} of {operation.target}"
        yield from list_used_locations(used_by, [operation.params, operation.journal])
