"""The proof that a table's places are its own, as far as the database can give it.

Whoever deletes files because a listing, a difference or a drop names them asks here first, and deletes nothing when
there is a reason against it. What other systems keep there, only the storage can tell: see server.service.orphans.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence

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
    """Why nothing may be deleted below the places of this table; None when they are its alone.

    `relation` is a plain table, a store, or a keyed table, whose stores' places are looked at together; `properties`
    are those that each table's own metadata holds. What a difference of two states names was the table's, wherever it
    lies; what was found `by_listing` has to lie inside the warehouse. A relation that is added later is not seen:
    whoever acts on the answer keeps others from adding any (`uow.catalogs.hold_all`), or asks again.
    """
    tables = list_stores(uow, relation)
    reason = _why_not_inside(uow, tables) if by_listing else None
    own = {*find_kin(relation), *(table.id for table in tables)}
    return reason or _why_not_theirs(uow, tables, properties, uow.dropped.find_overlaps(_locations(tables), own))


def explain_published_not_own(uow: UnitOfWork, relation: Relation, place: str) -> str | None:
    """Why nothing may be deleted where a linked table publishes; its own partitions there are no reason.

    The place carries the table's id, so it need not be inside the warehouse.
    """
    others = uow.dropped.find_overlaps([place], but_for=(), but_for_hive_of=relation)
    return _without_names(explain_shared_location([place], [*others, *_places_of_firn(uow)]))


def explain_dropped_not_own(
    uow: UnitOfWork, relations: Sequence[Relation], properties: Mapping[RelationId, Mapping[str, str]]
) -> str | None:
    """The same of the relations of one drop, whose files a purge is to delete.

    Another drop that is being purged already needs its files no more.
    """
    tables = [relation for relation in relations if relation.metadata_location is not None]
    others = uow.dropped.find_overlaps(_locations(tables), [relation.id for relation in relations], in_purge=False)
    return _why_not_inside(uow, tables) or _why_not_theirs(uow, tables, properties, others)


def list_stores(uow: UnitOfWork, relation: Relation) -> Sequence[Relation]:
    """The Iceberg tables that a relation consists of."""
    return uow.relations.stores_of(relation.id) if relation.kind is RelationKind.KEYED else [relation]


def _locations(tables: Sequence[Relation]) -> list[str]:
    return [table.location for table in tables]


def _why_not_inside(uow: UnitOfWork, tables: Sequence[Relation]) -> str | None:
    reasons = (explain_outside_warehouse(table.location, uow.catalogs.get(table.catalog).warehouse) for table in tables)
    return next((reason for reason in reasons if reason is not None), None)


def _why_not_theirs(
    uow: UnitOfWork,
    tables: Sequence[Relation],
    properties: Mapping[RelationId, Mapping[str, str]],
    others: Iterable[UsedLocation],
) -> str | None:
    said = (explain_unowned_location(table, properties[table.id]) for table in tables)
    reason = next((reason for reason in said if reason is not None), None)
    return reason or _without_names(explain_shared_location(_locations(tables), [*others, *_places_of_firn(uow)]))


def _without_names(reason: str | None) -> str | None:
    """What people are told: whoever asks may not know of the other table. Its name is in the server's log."""
    if reason is None:
        return None
    log.warning("files are kept: %s", reason)
    return SHARED


def _places_of_firn(uow: UnitOfWork) -> Iterator[UsedLocation]:
    for catalog in uow.catalogs.list():
        yield UsedLocation("Firn's quarantine", quarantine_location(catalog.warehouse))
    for operation in uow.operations.unfinished():
        used_by = f"the {operation.kind} of {operation.target}, which is under way,"
        yield from list_used_locations(used_by, [operation.params, operation.journal])
