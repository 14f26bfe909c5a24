"""The proof that a table's places are its own, as far as the database can give it.

Whoever deletes files because a listing or a difference names them asks here first, and deletes nothing when there is a
reason against it. What other systems keep there, only the storage can tell: see server.service.orphans.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from uuid import UUID

from catalog.dropped import Place
from catalog.names import RelationId
from catalog.ownership import (
    named_places,
    quarantine_of,
    why_not_inside,
    why_not_said_to_be_its_own,
    why_shared,
)
from catalog.ports.store import UnitOfWork
from catalog.relation import Relation, RelationKind
from server.service.places import kin


def why_not_its_own(
    uow: UnitOfWork, relation: Relation, properties: Mapping[RelationId, Mapping[str, str]], *, by_listing: bool
) -> str | None:
    """Why nothing may be deleted below the places of this table; None when they are its alone.

    `relation` is a plain table, a store, or a keyed table, whose stores' places are looked at together; `properties`
    are those that each table's own metadata holds. What a difference of two states names was the table's, wherever it
    lies; what was found `by_listing` has to lie inside the warehouse. A relation that is added later is not seen:
    whoever acts on the answer keeps others from adding any (`uow.catalogs.hold_all`), or asks again.
    """
    tables = tables_of(uow, relation)
    warehouse = uow.catalogs.get(relation.catalog).warehouse
    for one in tables:
        reason = why_not_inside(one.location, warehouse) if by_listing else None
        reason = reason or why_not_said_to_be_its_own(one, properties[one.id])
        if reason is not None:
            return reason
    locations = [one.location for one in tables]
    return why_shared(locations, _places_of_others(uow, locations, {*kin(relation), *(one.id for one in tables)}))


def tables_of(uow: UnitOfWork, relation: Relation) -> Sequence[Relation]:
    """The Iceberg tables that a relation consists of."""
    return uow.relations.stores_of(relation.id) if relation.kind is RelationKind.KEYED else [relation]


def _places_of_others(uow: UnitOfWork, locations: Sequence[str], but_for: Collection[UUID]) -> Iterator[Place]:
    yield from uow.dropped.places_meeting(locations, but_for=but_for)
    for catalog in uow.catalogs.list():
        yield Place("Firn's quarantine", quarantine_of(catalog.warehouse))
    for operation in uow.operations.unfinished():
        used_by = f"the {operation.kind} of {operation.target}, which is under way,"
        yield from named_places(used_by, [operation.params, operation.journal])
