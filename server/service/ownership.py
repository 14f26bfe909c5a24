"""The proof that a table's places are its own, as far as the database can give it.

Whoever deletes files because a listing or a difference names them asks here first, and deletes nothing when there is a
reason against it. What other systems keep there, only the storage can tell: see server.service.orphans.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from catalog.dropped import Place
from catalog.names import RelationId
from catalog.ownership import named_places, quarantine_of, why_not_inside, why_shared
from catalog.ports.store import UnitOfWork
from catalog.relation import Relation, RelationKind


def why_not_its_own(
    uow: UnitOfWork, relation: Relation, properties: Mapping[RelationId, Mapping[str, str]]
) -> str | None:
    """Why nothing may be deleted below the places of this table; None when they are its alone.

    `relation` is a plain table or a keyed one, whose stores' places are looked at together; `properties` are those
    that each table's own metadata holds. A relation that is added later is not seen: whoever acts on the answer keeps
    others from adding any (`uow.catalogs.hold_all`), or asks again.
    """
    tables = tables_of(uow, relation)
    warehouse = uow.catalogs.get(relation.catalog).warehouse
    for one in tables:
        reason = why_not_inside(one, properties[one.id], warehouse)
        if reason is not None:
            return reason
    return why_shared([one.location for one in tables], _places_of_others(uow, relation, tables))


def tables_of(uow: UnitOfWork, relation: Relation) -> Sequence[Relation]:
    """The Iceberg tables that a relation consists of."""
    return uow.relations.stores_of(relation.id) if relation.kind is RelationKind.KEYED else [relation]


def _places_of_others(uow: UnitOfWork, relation: Relation, tables: Sequence[Relation]) -> Iterator[Place]:
    yield from uow.dropped.places_of_others([relation.id, *(one.id for one in tables)])
    for catalog in uow.catalogs.list():
        yield Place("Firn's quarantine", quarantine_of(catalog.warehouse))
        for linked in uow.relations.linked_to_hive(catalog.name):
            for ground in uow.grounds.of(linked.id).values():
                yield from named_places(f"the Hive table {linked.hive_name}", ground.get("location", ""))
    for operation in uow.operations.unfinished():
        used_by = f"the {operation.kind} of {operation.target}, which is under way,"
        yield from named_places(used_by, [operation.params, operation.journal])
