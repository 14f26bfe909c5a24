"""The adapters of the server that the services of all areas share: its database, its files and the metastores."""

from __future__ import annotations

from dataclasses import dataclass

from catalog.ports.store import Database
from server.component_settings import make_metastore_ways, make_read_limits, make_tickets
from server.files.column_statistics import StoredColumnStatistics
from server.files.listing import Listings
from server.files.manifest_reading import StoredManifests
from server.files.permissions import StoredPermissions
from server.files.reachable import Reachable
from server.files.rebased_manifest_list import ManifestLists
from server.files.storage import Storage
from server.files.table_files import TableFiles
from server.kerberos.tickets import KeytabTickets
from server.metastore.registry import MetastoreRegistry
from server.service.tables.metadata_files import MetadataFiles
from server.settings import Settings
from server.store.schema import upgrade_schema
from server.store.session import Sessions, open_engine
from server.store.unit_of_work import SqlDatabase


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapters:
    """What services are built on."""

    settings: Settings
    database: Database
    storage: Storage
    metadata: MetadataFiles
    manifests: StoredManifests
    column_statistics: StoredColumnStatistics
    manifest_lists: ManifestLists
    reachable: Reachable
    table_files: TableFiles
    permissions: StoredPermissions
    tickets: KeytabTickets | None
    metastores: MetastoreRegistry


def open_database(settings: Settings) -> Database:
    """Open the database of the settings and upgrade its schema."""
    url = settings.resolved_database_url
    if url.startswith("sqlite"):
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    engine = open_engine(url)
    upgrade_schema(engine)
    return SqlDatabase(Sessions(engine))


def connect_database(settings: Settings) -> Database:
    """Open the database for a worker, whose parent has upgraded the schema."""
    return SqlDatabase(Sessions(open_engine(settings.resolved_database_url)))


def build_adapters(settings: Settings, database: Database) -> Adapters:
    """Build them over one database."""
    storage = Storage(settings.file_io, make_read_limits(settings.reading))
    listings = Listings(dict(settings.file_io), deadlines=storage.deadlines)
    tickets = make_tickets(settings)
    return Adapters(
        settings=settings,
        database=database,
        storage=storage,
        metadata=MetadataFiles(storage, settings.reading.metadata_bytes, settings.reading.cached_metadata_bytes),
        manifests=StoredManifests(storage),
        column_statistics=StoredColumnStatistics(storage),
        manifest_lists=ManifestLists(storage),
        reachable=Reachable(storage),
        table_files=TableFiles(storage, listings, footer_threads=settings.hive.footer_threads),
        permissions=StoredPermissions(storage.deadlines),
        tickets=tickets,
        metastores=MetastoreRegistry(make_metastore_ways(settings.hive, tickets)),
    )
