"""Where published partitions lie: one directory for each table, which no clean-up of another one looks into."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import unquote
from uuid import UUID

from catalog.errors import Conflict, NotFound
from catalog.hive.path_prefix import find_innermost
from catalog.locations.location_rule import PUBLISH_LOCATION, PUBLISHED
from catalog.names import RelationId
from catalog.ports.store import UnitOfWork
from catalog.tables.relation import Relation
from firn.protocol.locations import lies_in, normalize_location
from server.service.planning.planner import load_facts


def get_publish_directory(uow: UnitOfWork, relation: Relation) -> str:
    """Where the partitions of a table lie that are published from now on."""
    root = publish_location(uow, relation) or f"{uow.catalogs.get(relation.catalog).warehouse}/{PUBLISHED}"
    return f"{root.rstrip('/')}/{relation.id}"


def publish_location(uow: UnitOfWork, relation: Relation) -> str | None:
    """Where somebody has asked for the partitions of a table to be published; None: in the warehouse."""
    location: str | None = load_facts(uow, relation).policy[PUBLISH_LOCATION]
    return location


def get_own_directory(uow: UnitOfWork, relation: Relation, counted: Collection[str] = ()) -> str:
    """The table's own directory of published partitions; Conflict where some table's clean-up would find it.

    Or where it would lie in one of the directories below which every file counts as Hive's.
    """
    place = get_publish_directory(uow, relation)
    root = place.rpartition("/")[0]
    if find_innermost(normalize_location(place), {*map(normalize_location, counted)}):
        raise Conflict(
            f"{root} lies in a directory of {relation.hive_name}, below which all files count",
            hint="set firn.hive.publish.location to a directory that is no table's",
        )
    around = [overlap.location for overlap in uow.dropped.find_overlaps([place], but_for=())]
    if any(lies_in(normalize_location(place), normalize_location(overlap)) for overlap in around):
        raise Conflict(
            f"{root} lies within a table's own location: what nothing there refers to is deleted one day",
            hint="set firn.hive.publish.location to a directory that is no table's",
        )
    if any(_is_a_table(uow, part) for part in unquote(root).split("/")):
        raise Conflict(
            f"{root} lies where another table is published to, which takes what it has left there for its own",
            hint="set firn.hive.publish.location to a directory that is no table's",
        )
    return place


def _is_a_table(uow: UnitOfWork, text: str) -> bool:
    """Whether a part of a path is the id of a table, a dropped one too: so published places are named."""
    try:
        relation_id = RelationId(UUID(text))
    except ValueError:
        return False
    try:
        uow.relations.get(relation_id)
    except NotFound:
        return bool(uow.dropped.relations_of(relation_id))
    return True
