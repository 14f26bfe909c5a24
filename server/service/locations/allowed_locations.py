"""The locations where a catalog's tables may lie, from its properties and the warehouses of other catalogs."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from catalog.credentials.storage_config import ALLOWED, StorageConfig
from catalog.errors import LocationRefused
from catalog.locations.links import Links
from catalog.locations.location_rule import PUBLISH_LOCATION, PUBLISHED, QUARANTINE, AllowedLocations, Root
from catalog.names import CatalogName
from catalog.ports.store import UnitOfWork
from catalog.tables.relation import Catalog


def load_storage(uow: UnitOfWork, catalog: CatalogName) -> StorageConfig:
    """The storage configuration of a catalog."""
    return StorageConfig.of(uow.catalogs.get(catalog).properties)


def load_allowed_locations(uow: UnitOfWork, links: Links, catalog: CatalogName) -> AllowedLocations:
    """The locations where the tables of a catalog may lie; raises NoSuchCatalog."""
    own = uow.catalogs.get(catalog)
    roots = _list_roots(own)
    others = [other for other in uow.catalogs.list() if other.name != catalog]
    reserved = {other.warehouse for other in others} - {*roots}
    warehouses = {own.warehouse, *(other.warehouse for other in others)}
    reserved |= {f"{warehouse.rstrip('/')}/{name}" for warehouse in warehouses for name in (QUARANTINE, PUBLISHED)}
    return AllowedLocations(
        catalog=catalog,
        roots=tuple(Root.of(root, links) for root in roots),
        reserved=tuple(Root.of(root, links) for root in sorted(reserved)),
    )


def _list_roots(catalog: Catalog) -> tuple[str, ...]:
    return (catalog.warehouse, *StorageConfig.of(catalog.properties).allowed)


def check_published(uow: UnitOfWork, links: Links, catalog: CatalogName, settings: Mapping[str, str]) -> None:
    """Raise LocationRefused when the publish location in the settings is not allowed for the catalog."""
    location = settings.get(PUBLISH_LOCATION)
    if not location:
        return
    readings = load_allowed_locations(uow, links, catalog).check_published(location, links)
    if readings and uow.dropped.find_overlaps(readings, ()):
        raise LocationRefused(
            f"Firn cannot publish to {location}: it lies in a table's directory",
            hint=f"set {PUBLISH_LOCATION} to a directory outside of all tables",
        )


def allow_locations(uow: UnitOfWork, catalog: CatalogName, locations: Collection[str]) -> Catalog:
    """Add locations to a catalog's allowed locations, and return the catalog; raises NoSuchCatalog."""
    current = uow.catalogs.get(catalog)
    allowed = dict.fromkeys((*StorageConfig.of(current.properties).allowed, *locations))
    if not locations or len(allowed) == len(StorageConfig.of(current.properties).allowed):
        return current
    changed = uow.catalogs.change_properties(catalog, updates={ALLOWED: ",".join(allowed)}, removals=())
    StorageConfig.of(changed.properties)
    return changed
