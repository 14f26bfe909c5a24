"""The location rule (catalog.locations.location_rule) on what the database knows: whose directories are where.

No message of this module names another table or its place: its reader may not know of it
(catalog.access.privileges).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from uuid import UUID

from catalog.errors import LocationRefused
from catalog.iceberg.json import Json
from catalog.iceberg.reading import unlisted_manifests
from catalog.locations.links import Links
from catalog.locations.location_rule import (
    PUBLISH_LOCATION,
    AllowedLocations,
    FileRule,
    lineage,
    list_own_locations,
    list_readings,
)
from catalog.locations.paths import DATA_PATHS
from catalog.names import CatalogName
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Relation
from firn.protocol.locations import lies_in, normalize_location
from server.service.hive.publish_locations import get_publish_directory, publish_location
from server.service.locations.allowed_locations import check_published, load_allowed_locations, load_storage

__all__ = [
    "build_file_rule",
    "check_directories",
    "check_moved",
    "check_properties",
    "check_published",
    "check_readable",
    "check_registered",
    "find_dropped_around",
    "find_hive_tables_inside",
    "find_kin",
    "has_moved",
    "list_named_files",
    "load_allowed_locations",
    "load_file_rule",
    "load_storage",
]

_MOST_ASKED = 200


def find_kin(relation: Relation) -> list[UUID]:
    """The relation and the keyed table that owns it: they may lie within each other."""
    return [relation.id] if relation.owner_id is None else [relation.id, relation.owner_id]


def check_directories(
    uow: UnitOfWork, links: Links, catalog: CatalogName, locations: Collection[str], but_for: Collection[UUID] = ()
) -> None:
    """LocationRefused unless each is a directory that a table of the catalog may have.

    `but_for` are relations whose places do not count, with the stores that they own: the table itself, see `find_kin`.
    Of two tables that are added in two catalogs at the same moment both may get in: call `uow.catalogs.hold` before.
    """
    if not locations:
        return
    allowed = load_allowed_locations(uow, links, catalog)
    found = {reading for location in locations for reading in allowed.check_directory(location, links)}
    if found and uow.dropped.find_overlaps(found, but_for):
        raise LocationRefused(
            f"no table can have its files at {', '.join(locations)}: another table's are in or around there",
            hint="choose another location, or none, to be given one",
        )


def check_moved(uow: UnitOfWork, links: Links, relation: Relation, before: Json, after: Json) -> None:
    """The same for the directories to which a commit sends a table's files; most commits send them nowhere new."""
    new = [place for place in list_own_locations(after) if place not in list_own_locations(before)]
    if new:
        check_directories(uow, links, relation.catalog, new, find_kin(relation))
    published = _published(after)
    if published != _published(before):
        check_published(uow, links, relation.catalog, after.get("properties") or {})


def check_properties(uow: UnitOfWork, links: Links, catalog: CatalogName, properties: Mapping[str, str]) -> None:
    """The same for the properties of a table that is made later, at a location of Firn's choice."""
    check_directories(uow, links, catalog, [properties[key] for key in DATA_PATHS if properties.get(key)])
    check_published(uow, links, catalog, properties)


def has_moved(before: Json, after: Json) -> bool:
    """Whether `check_moved` has anything to look at, which takes no query to know."""
    return list_own_locations(before) != list_own_locations(after) or _published(before) != _published(after)


def _published(metadata: Json) -> str | None:
    location: str | None = (metadata.get("properties") or {}).get(PUBLISH_LOCATION)
    return location


def check_readable(
    uow: UnitOfWork, links: Links, catalog: CatalogName, location: str, but_for: Collection[UUID] = ()
) -> None:
    """LocationRefused for a metadata file that a client names, before it is opened."""
    allowed = load_allowed_locations(uow, links, catalog)
    rule = _foreign_rule(uow, links, allowed, "the request", (), but_for, hint=allowed.refusal(location).hint)
    rule.check([location])


def check_registered(
    uow: UnitOfWork, links: Links, relation: Relation, metadata: Json, metadata_location: str, but_for: Iterable[UUID]
) -> None:
    """The same for a table or view whose metadata somebody else has written, and for all files that it names."""
    ids = [*find_kin(relation), *but_for]
    check_directories(uow, links, relation.catalog, list_own_locations(metadata), ids)
    allowed = load_allowed_locations(uow, links, relation.catalog)
    rule = _foreign_rule(uow, links, allowed, str(relation.name), list_own_locations(metadata), ids)
    rule.check([metadata_location, *list_named_files(metadata)])


def _foreign_rule(
    uow: UnitOfWork,
    links: Links,
    allowed: AllowedLocations,
    table: str,
    own: Sequence[str],
    but_for: Collection[UUID],
    *,
    hint: str | None = None,
) -> FileRule:
    def others(wanted: Collection[str]) -> Iterable[str]:
        return [used.location for used in uow.dropped.find_overlaps(wanted, but_for)]

    return FileRule(table=table, allowed=allowed, own=own, others=others, links=links, hint=hint)


def find_dropped_around(uow: UnitOfWork, catalog: CatalogName, location: str) -> list[UUID]:
    """What was dropped from this catalog and had the file in its directory: who registers may read all of the catalog.

    So a table that was dropped can be registered again, under any name; what is being purged cannot.
    """
    kept = uow.dropped.kept_at(catalog)
    return [
        relation_id for relation_id, place in kept if lies_in(normalize_location(location), normalize_location(place))
    ]


def list_named_files(metadata: Json) -> list[str]:
    """The files that metadata names itself: manifest lists, unlisted manifests, older metadata, statistics."""
    snapshots: Sequence[Json] = metadata.get("snapshots") or ()
    named = [snapshot["manifest-list"] for snapshot in snapshots if snapshot.get("manifest-list") is not None]
    named += [manifest for snapshot in snapshots for manifest in unlisted_manifests(snapshot)]
    named += [entry["metadata-file"] for entry in metadata.get("metadata-log") or ()]
    for key in ("statistics", "partition-statistics"):
        named += [file["statistics-path"] for file in metadata.get(key) or ()]
    return [str(location) for location in named]


def load_file_rule(database: Database, links: Links, relation: Relation, metadata: Json | None = None) -> FileRule:
    """Which files this table's metadata may name; `metadata` is its current one, to know where its new files go.

    It reads the allowed locations and the table's Hive table at once, and other tables' directories when it is asked.
    """
    with database.reading() as uow:
        return build_file_rule(uow, database, links, relation, metadata)


def build_file_rule(
    uow: UnitOfWork, database: Database, links: Links, relation: Relation, metadata: Json | None = None
) -> FileRule:
    """The same, out of a transaction that is open."""
    own = (relation.location,) if metadata is None else list_own_locations(metadata)

    def others(wanted: Collection[str]) -> Iterable[str]:
        with database.reading() as now:
            whole = relation if relation.owner_id is None else now.relations.get(relation.owner_id)
            linked = whole if whole.hive_name is not None else None
            return [
                used.location for used in now.dropped.find_overlaps(wanted, find_kin(relation), but_for_hive_of=linked)
            ]

    allowed = load_allowed_locations(uow, links, relation.catalog)
    warehouse = normalize_location(uow.catalogs.get(relation.catalog).warehouse)
    # Of a registered table somebody else has written where it was: in a landing area that makes nothing its own.
    former = [location for location in relation.former_locations if lies_in(normalize_location(location), warehouse)]
    return FileRule(
        table=str(relation.name),
        allowed=allowed,
        own=(*own, *former),
        given=list_hive_locations(uow, links, allowed, relation),
        others=others,
        links=links,
    )


def list_hive_locations(uow: UnitOfWork, links: Links, allowed: AllowedLocations, relation: Relation) -> list[str]:
    """Where the files of the Hive table lie that a table, or the keyed table of a store, was upgraded from.

    Directories inside another table's do not count.
    """
    whole = relation if relation.owner_id is None else uow.relations.get(relation.owner_id)
    if whole.hive_name is None:
        return []
    database, _, name = whole.hive_name.partition(".")
    indexed = uow.hive.find(whole.catalog, database, name)
    places = [] if indexed is None else [indexed.location]
    told = publish_location(uow, whole)
    with suppress(LocationRefused):
        if told:
            allowed.check_published(told, links)
        places.append(get_publish_directory(uow, whole))
    places += uow.baselines.elsewhere(whole.id, places)
    # Whoever may alter the table in Hive may name any directory there.
    foreign = find_hive_tables_inside(uow, whole.catalog, whole.hive_name, places, below=False)
    return [place for place in places if place not in foreign]


def find_hive_tables_inside(
    uow: UnitOfWork, catalog: CatalogName, full_name: str, locations: Collection[str], *, below: bool
) -> list[str]:
    """Of a Hive table's directories those inside another table's; with `below`, those around one as well.

    Who may name directories in Hive would else read that table's files through an upgrade.
    """
    if not locations:
        return []
    linked = uow.relations.of_hive(catalog, full_name)
    own = [] if linked is None else [linked.id]
    own += [table.id for _, table in uow.dropped.over_hive() if table.hive_name == full_name]
    wanted = (
        locations
        if len(locations) <= _MOST_ASKED
        else {location.rstrip("/").rpartition("/")[0] for location in locations}
    )
    meeting = uow.dropped.find_overlaps(wanted, own, only_tables=True)
    places = {reading for place in meeting for reading in list_readings(place.location)}
    return [location for location in locations if places and _meets(list_readings(location), places, below=below)]


def _meets(found: Collection[str], places: Collection[str], *, below: bool) -> bool:
    if any(above in places for reading in found for above in lineage(reading)):
        return True
    return below and any(lies_in(place, reading) for reading in found for place in places)
