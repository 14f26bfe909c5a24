"""Whose files lie where: in a catalog that hands out access to files, no table moves into another's place.

A reader of the one would reach the other's files. Whoever could choose such a place could take it from the other, too:
access is handed out to neither (server.service.vending).
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from catalog.errors import Invalid
from catalog.iceberg.json import Json
from catalog.names import CatalogName
from catalog.ports.store import UnitOfWork
from catalog.relation import Relation
from catalog.vending.reach import own_locations
from catalog.vending.storage import StorageConfig


def storage_of(uow: UnitOfWork, catalog: CatalogName) -> StorageConfig:
    """How a catalog's files are reached."""
    return StorageConfig.of(uow.catalogs.get(catalog).properties)


def kin(relation: Relation) -> list[UUID]:
    """The relation and the keyed table that owns it: they may lie within each other."""
    return [relation.id] if relation.owner_id is None else [relation.id, relation.owner_id]


def refuse_occupied(uow: UnitOfWork, relation: Relation, locations: Sequence[str]) -> None:
    """Invalid when another table's files lie in or around these locations. The other is not named: see catalog.access.

    Of two that are added at the same moment both may get in; then neither is vended.
    """
    if not storage_of(uow, relation.catalog).hands_out:
        return
    if uow.dropped.places_meeting(locations, but_for=kin(relation)):
        raise Invalid(
            f"{relation.name} cannot have its files at {', '.join(locations)}: another table's are in or around there",
            hint="choose another location, or none, to be given one",
        )


def refuse_moving_in(uow: UnitOfWork, relation: Relation, before: Json, after: Json) -> None:
    """The same for the places to which a commit sends a table's files; most commits send them nowhere new."""
    new = [place for place in own_locations(after) if place not in own_locations(before)]
    if new:
        refuse_occupied(uow, relation, new)
