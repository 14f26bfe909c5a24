"""Applies the location rule (catalog.locations.location_rule) to the table directories that the database knows.

No message of this module names another table or its location, because the reader may have no right to know of it
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
    list_own_locations,
)
from catalog.locations.paths import DATA_PATHS
from catalog.locations.readings import list_parents, list_readings
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

_MAX_LOCATIONS_PER_QUERY = 200


def find_kin(relation: Relation) -> list[UUID]:
    """The ids of a relation and of the keyed table that owns it; these two may lie within each other."""
    return [relation.id] if relation.owner_id is None else [relation.id, relation.owner_id]


def check_directories(
    uow: UnitOfWork, links: Links, catalog: CatalogName, locations: Collection[str], but_for: Collection[UUID] = ()
) -> None:
    """Raise LocationRefused unless a table of the catalog may use each of the directories.

    `but_for` are relations, with their stores, whose locations do not count: the table itself, see `find_kin`. Call
    `uow.catalogs.hold` before, so that no other catalog adds a table at the same moment.
    """
    if not locations:
        return
    allowed = load_allowed_locations(uow, links, catalog)
    readings = {reading for location in locations for reading in allowed.check_directory(location, links)}
    if readings and uow.dropped.find_overlaps(readings, but_for):
        raise LocationRefused(
            f"no table can have its files at {', '.join(locations)}: files of another table lie in or around it",
            hint="choose another location, or none, so that the server chooses one",
        )


def check_moved(uow: UnitOfWork, links: Links, relation: Relation, before: Json, after: Json) -> None:
    """Raise LocationRefused when a commit moves a table's files to a refused directory; most commits move nothing."""
    new = [location for location in list_own_locations(after) if location not in list_own_locations(before)]
    if new:
        check_directories(uow, links, relation.catalog, new, find_kin(relation))
    published = _get_publish_location(after)
    if published != _get_publish_location(before):
        check_published(uow, links, relation.catalog, after.get("properties") or {})


def check_properties(uow: UnitOfWork, links: Links, catalog: CatalogName, properties: Mapping[str, str]) -> None:
    """Check the locations in the properties of a table that the server creates later, at a location of its choice."""
    check_directories(uow, links, catalog, [properties[key] for key in DATA_PATHS if properties.get(key)])
    check_published(uow, links, catalog, properties)


def has_moved(before: Json, after: Json) -> bool:
    """Whether `check_moved` has anything to check; needs no query."""
    return list_own_locations(before) != list_own_locations(after) or _get_publish_location(
        before
    ) != _get_publish_location(after)


def _get_publish_location(metadata: Json) -> str | None:
    location: str | None = (metadata.get("properties") or {}).get(PUBLISH_LOCATION)
    return location


def check_readable(
    uow: UnitOfWork, links: Links, catalog: CatalogName, location: str, but_for: Collection[UUID] = ()
) -> None:
    """Raise LocationRefused for a metadata file that a client may not name; call it before opening the file."""
    allowed = load_allowed_locations(uow, links, catalog)
    hint = allowed.make_refusal(location).hint
    rule = _build_foreign_rule(uow, links, allowed, "the request", (), but_for, hint=hint)
    rule.check([location])


def check_registered(
    uow: UnitOfWork, links: Links, relation: Relation, metadata: Json, metadata_location: str, but_for: Iterable[UUID]
) -> None:
    """Check the locations of a table or view to register, of its metadata file, and of all files that it names."""
    ids = [*find_kin(relation), *but_for]
    check_directories(uow, links, relation.catalog, list_own_locations(metadata), ids)
    allowed = load_allowed_locations(uow, links, relation.catalog)
    rule = _build_foreign_rule(uow, links, allowed, str(relation.name), list_own_locations(metadata), ids)
    rule.check([metadata_location, *list_named_files(metadata)])


def _build_foreign_rule(
    uow: UnitOfWork,
    links: Links,
    allowed: AllowedLocations,
    table: str,
    own: Sequence[str],
    but_for: Collection[UUID],
    *,
    hint: str | None = None,
) -> FileRule:
    def list_other_tables(locations: Collection[str]) -> Iterable[str]:
        return [used.location for used in uow.dropped.find_overlaps(locations, but_for)]

    return FileRule(table=table, allowed=allowed, own=own, others=list_other_tables, links=links, hint=hint)


def find_dropped_around(uow: UnitOfWork, catalog: CatalogName, location: str) -> list[UUID]:
    """The dropped relations of the catalog whose directory holds the location, except those in purge.

    A user can register a dropped table again, under any name, because registering requires read access to the catalog.
    """
    kept = uow.dropped.kept_at(catalog)
    return [
        relation_id for relation_id, place in kept if lies_in(normalize_location(location), normalize_location(place))
    ]


def list_named_files(metadata: Json) -> list[str]:
    """The files that a metadata file names directly: manifest lists, unlisted manifests, older metadata, statistics."""
    snapshots: Sequence[Json] = metadata.get("snapshots") or ()
    files = [snapshot["manifest-list"] for snapshot in snapshots if snapshot.get("manifest-list") is not None]
    files += [manifest for snapshot in snapshots for manifest in unlisted_manifests(snapshot)]
    files += [entry["metadata-file"] for entry in metadata.get("metadata-log") or ()]
    for key in ("statistics", "partition-statistics"):
        files += [file["statistics-path"] for file in metadata.get(key) or ()]
    return [str(location) for location in files]


def load_file_rule(database: Database, links: Links, relation: Relation, metadata: Json | None = None) -> FileRule:
    """The rule for the files that a table's metadata may name; `metadata` is the current one, for its data paths.

    This function reads the allowed locations and the linked Hive table; the rule itself reads other tables' directories
    when it is applied.
    """
    with database.reading() as uow:
        return build_file_rule(uow, database, links, relation, metadata)


def build_file_rule(
    uow: UnitOfWork, database: Database, links: Links, relation: Relation, metadata: Json | None = None
) -> FileRule:
    """The same as `load_file_rule`, within an open transaction."""
    own = (relation.location,) if metadata is None else list_own_locations(metadata)

    def list_other_tables(locations: Collection[str]) -> Iterable[str]:
        with database.reading() as current:
            owner = relation if relation.owner_id is None else current.relations.get(relation.owner_id)
            linked = owner if owner.hive_name is not None else None
            overlaps = current.dropped.find_overlaps(locations, find_kin(relation), but_for_hive_of=linked)
            return [used.location for used in overlaps]

    allowed = load_allowed_locations(uow, links, relation.catalog)
    warehouse = normalize_location(uow.catalogs.get(relation.catalog).warehouse)
    # Only inside the warehouse: for a registered table, a client may have made up a former location elsewhere.
    former = [location for location in relation.former_locations if lies_in(normalize_location(location), warehouse)]
    return FileRule(
        table=str(relation.name),
        allowed=allowed,
        own=(*own, *former),
        hive_locations=list_hive_locations(uow, links, allowed, relation),
        others=list_other_tables,
        links=links,
    )


def list_hive_locations(uow: UnitOfWork, links: Links, allowed: AllowedLocations, relation: Relation) -> list[str]:
    """The directories of the Hive table that a table, or the keyed table of a store, is linked to.

    Directories inside another table do not count.
    """
    owner = relation if relation.owner_id is None else uow.relations.get(relation.owner_id)
    if owner.hive_name is None:
        return []
    database, _, name = owner.hive_name.partition(".")
    indexed = uow.hive.find(owner.catalog, database, name)
    locations = [] if indexed is None else [indexed.location]
    configured = publish_location(uow, owner)
    with suppress(LocationRefused):
        if configured:
            allowed.check_published(configured, links)
        locations.append(get_publish_directory(uow, owner))
    locations += uow.baselines.elsewhere(owner.id, locations)
    # A Hive user who may alter the table may give it any directory.
    foreign = find_hive_tables_inside(uow, owner.catalog, owner.hive_name, locations, below=False)
    return [location for location in locations if location not in foreign]


def find_hive_tables_inside(
    uow: UnitOfWork, catalog: CatalogName, full_name: str, locations: Collection[str], *, below: bool
) -> list[str]:
    """The directories of a Hive table that lie inside another table; with `below`, also those around another table.

    Without this check, a Hive user could name the directory of another table and read it through an upgrade.
    """
    if not locations:
        return []
    linked = uow.relations.of_hive(catalog, full_name)
    own = [] if linked is None else [linked.id]
    own += [table.id for _, table in uow.dropped.list_linked() if table.hive_name == full_name]
    searched = (
        locations
        if len(locations) <= _MAX_LOCATIONS_PER_QUERY
        else {location.rstrip("/").rpartition("/")[0] for location in locations}
    )
    overlapping = uow.dropped.find_overlaps(searched, own, only_tables=True)
    readings = {reading for used in overlapping for reading in list_readings(used.location)}
    return [
        location
        for location in locations
        if readings and _is_inside_or_around(list_readings(location), readings, below=below)
    ]


def _is_inside_or_around(readings: Collection[str], others: Collection[str], *, below: bool) -> bool:
    if any(ancestor in others for reading in readings for ancestor in list_parents(reading)):
        return True
    return below and any(lies_in(other, reading) for reading in readings for other in others)
