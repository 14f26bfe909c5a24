"""The location rule (catalog.locations) on what the database knows: whose directories are where.

No message of this module names another table or its place: its reader may not know of it, see catalog.access.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from uuid import UUID

from catalog.errors import LocationRefused
from catalog.iceberg.json import Json
from catalog.iceberg.reading import unlisted_manifests
from catalog.locations import PUBLISHED, QUARANTINE, AllowedLocations, FileRule, Root, own_locations
from catalog.names import CatalogName
from catalog.ports.files import Links
from catalog.ports.store import Database, UnitOfWork
from catalog.relation import Catalog, Relation
from catalog.vending.storage import StorageConfig
from server.service.hive.places import published_place


def storage_of(uow: UnitOfWork, catalog: CatalogName) -> StorageConfig:
    """How a catalog's files are reached."""
    return StorageConfig.of(uow.catalogs.get(catalog).properties)


def kin(relation: Relation) -> list[UUID]:
    """The relation and the keyed table that owns it: they may lie within each other."""
    return [relation.id] if relation.owner_id is None else [relation.id, relation.owner_id]


def allowed_locations(uow: UnitOfWork, links: Links, catalog: CatalogName) -> AllowedLocations:
    """Where the tables of a catalog may lie; NoSuchCatalog."""
    own = uow.catalogs.get(catalog)
    roots = _roots(own)
    others = [one for one in uow.catalogs.list() if one.name != catalog]
    reserved = {one.warehouse for one in others} - {*roots}
    warehouses = {own.warehouse, *(one.warehouse for one in others)}
    reserved |= {f"{one.rstrip('/')}/{name}" for one in warehouses for name in (QUARANTINE, PUBLISHED)}
    return AllowedLocations(
        catalog=catalog,
        roots=tuple(Root.of(one, links) for one in roots),
        reserved=tuple(Root.of(one, links) for one in sorted(reserved)),
    )


def _roots(catalog: Catalog) -> tuple[str, ...]:
    return (catalog.warehouse, *StorageConfig.of(catalog.properties).allowed)


def check_directories(
    uow: UnitOfWork, links: Links, catalog: CatalogName, locations: Collection[str], but_for: Collection[UUID] = ()
) -> None:
    """LocationRefused unless each is a directory that a table of the catalog may have.

    `but_for` are relations whose places do not count, with the stores that they own: the table itself, see `kin`. Of
    two tables that are added in two catalogs at the same moment both may get in: call `uow.catalogs.hold` before.
    """
    allowed = allowed_locations(uow, links, catalog)
    found = {reading for location in locations for reading in allowed.check_directory(location, links)}
    if found and uow.dropped.places_meeting(found, but_for):
        raise LocationRefused(
            f"no table can have its files at {', '.join(locations)}: another table's are in or around there",
            hint="choose another location, or none, to be given one",
        )


def check_moved(uow: UnitOfWork, links: Links, relation: Relation, before: Json, after: Json) -> None:
    """The same for the directories to which a commit sends a table's files; most commits send them nowhere new."""
    new = [place for place in own_locations(after) if place not in own_locations(before)]
    if new:
        check_directories(uow, links, relation.catalog, new, kin(relation))


def check_registered(
    uow: UnitOfWork, links: Links, relation: Relation, metadata: Json, metadata_location: str, but_for: Iterable[UUID]
) -> None:
    """The same for a table or view whose metadata somebody else has written, and for all files that it names."""
    ids = [*kin(relation), *but_for]
    check_directories(uow, links, relation.catalog, own_locations(metadata), ids)
    allowed = allowed_locations(uow, links, relation.catalog)

    def others(wanted: Collection[str]) -> Iterable[str]:
        return [one.location for one in uow.dropped.places_meeting(wanted, ids)]

    rule = FileRule(table=str(relation.name), allowed=allowed, own=own_locations(metadata), others=others, links=links)
    rule.check([metadata_location, *named_files(metadata)])


def named_files(metadata: Json) -> list[str]:
    """The files that metadata names itself: manifest lists, unlisted manifests, older metadata, statistics."""
    snapshots: Sequence[Json] = metadata.get("snapshots") or ()
    named = [one["manifest-list"] for one in snapshots if one.get("manifest-list") is not None]
    named += [manifest for one in snapshots for manifest in unlisted_manifests(one)]
    named += [one["metadata-file"] for one in metadata.get("metadata-log") or ()]
    for key in ("statistics", "partition-statistics"):
        named += [one["statistics-path"] for one in metadata.get(key) or ()]
    return [str(one) for one in named]


def file_rule(database: Database, links: Links, relation: Relation, metadata: Json | None = None) -> FileRule:
    """Which files this table's metadata may name; `metadata` is its current one, to know where its new files go.

    It reads the allowed locations and the table's Hive table at once, and other tables' directories when it is asked.
    """
    with database.reading() as uow:
        return rule_in(uow, database, links, relation, metadata)


def rule_in(
    uow: UnitOfWork, database: Database, links: Links, relation: Relation, metadata: Json | None = None
) -> FileRule:
    """The same, out of a transaction that is open."""
    own = (relation.location,) if metadata is None else own_locations(metadata)

    def others(wanted: Collection[str]) -> Iterable[str]:
        with database.reading() as now:
            whole = relation if relation.owner_id is None else now.relations.get(relation.owner_id)
            linked = whole if whole.hive_name is not None else None
            return [one.location for one in now.dropped.places_meeting(wanted, kin(relation), but_for_hive_of=linked)]

    return FileRule(
        table=str(relation.name),
        allowed=allowed_locations(uow, links, relation.catalog),
        own=(*own, *relation.former_locations),
        given=hive_locations(uow, relation),
        others=others,
        links=links,
    )


def hive_locations(uow: UnitOfWork, relation: Relation) -> list[str]:
    """Where the files of the Hive table lie that a table, or the keyed table of a store, was upgraded from."""
    whole = relation if relation.owner_id is None else uow.relations.get(relation.owner_id)
    if whole.hive_name is None:
        return []
    database, _, name = whole.hive_name.partition(".")
    indexed = uow.hive.find(whole.catalog, database, name)
    own = [published_place(uow, whole)] + ([] if indexed is None else [indexed.location])
    return [*own, *uow.grounds.elsewhere(whole.id, own)]
