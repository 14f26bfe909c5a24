"""The index of each linked metastore's tables: kept in the background, so that no page waits for a metastore."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from catalog.errors import CatalogError, Invalid, NotFound
from catalog.hive.model import HiveTable
from catalog.hive.table_index import IndexedBlocker, IndexedTable, TableFacts
from catalog.hive.upgrade_check import find_blockers
from catalog.names import CatalogName
from catalog.ports.hive import Metastores
from catalog.ports.metastore import Metastore
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Catalog, Relation
from server.service.hive.hive_state import split_name
from server.service.search.hive_documents import index_hive_tables
from server.service.search.indexing import remove_hive_databases

_NAMES = 1_000
_SPARK = "spark.sql.statistics"
_DIGITS = 18
"""The length of a number that fits into 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexStatus:
    """Counts of one listing of all metastores."""

    databases: int = 0
    tables: int = 0
    changed: int = 0
    unavailable: tuple[str, ...] = ()
    """Catalogs whose metastore did not answer, with its words."""


@dataclass(frozen=True)
class HiveIndex:
    """Lists metastores; safe to run at any time, any number of times."""

    database: Database
    metastores: Metastores

    def activate(self) -> IndexStatus:
        """List every linked metastore once; one that is away does not hold up the others."""
        status = IndexStatus()
        with self.database.reading() as uow:
            catalogs = uow.catalogs.list()
        for catalog in catalogs:
            if catalog.metastore_uri is None:
                continue
            try:
                status = _sum(status, self.refresh(catalog))
            except CatalogError as error:
                away = (*status.unavailable, f"{catalog.name}: {error.message}")
                status = _sum(status, IndexStatus(unavailable=away))
        return status

    def metastore(self, catalog: CatalogName) -> Metastore:
        """The metastore that a catalog is linked to; Invalid when it has none."""
        with self.database.reading() as uow:
            uri = uow.catalogs.get(catalog).metastore_uri
        if uri is None:
            raise Invalid(
                f"catalog {catalog!r} is not linked to a Hive Metastore",
                hint="create a catalog with --metastore thrift://HOST:PORT",
            )
        return self.metastores.of(uri)

    def table(self, relation: Relation) -> HiveTable:
        """A linked table as its metastore has it now; NotFound when it is gone, Unavailable without an answer."""
        return self.metastore(relation.catalog).table(*split_name(relation.hive_name or ""))

    def refresh(self, catalog: Catalog) -> IndexStatus:
        """List one catalog's metastore, one transaction per database. If that fails, the catalog shows the reason."""
        try:
            return self._list_tables(catalog)
        except CatalogError as error:
            if catalog.metastore_uri is not None:
                with self.database.writing() as uow:
                    uow.catalogs.note_metastore_down(catalog.name, error.message, uow.now())
            raise

    def _list_tables(self, catalog: Catalog) -> IndexStatus:
        metastore = self.metastore(catalog.name)
        databases = metastore.databases()
        status = IndexStatus(databases=len(databases))
        for name in databases:
            status = _sum(status, self.refresh_database(catalog, name))
        with self.database.writing() as uow:
            uow.hive.keep_databases(catalog.name, databases)
            uow.catalogs.note_metastore_down(catalog.name, None, uow.now())
        remove_hive_databases(self.database, catalog.name, keep=databases)
        return status

    def refresh_database(self, catalog: Catalog, name: str) -> IndexStatus:
        """List one database of it; one that is gone has no tables."""
        metastore = self.metastore(catalog.name)
        try:
            tables = metastore.tables_detail(name, metastore.tables(name))
        except NotFound:
            tables = []
        with self.database.writing() as uow:
            now = uow.now()
            indexed = [_to_index_row(catalog.name, table, now) for table in tables]
            sizes = _load_sizes(uow, catalog.name, [table.full_name for table in indexed])
            changed = uow.hive.replace(catalog.name, name, indexed, sizes)
        index_hive_tables(self.database, catalog.name, name, tables)
        return IndexStatus(tables=len(tables), changed=changed)


def _load_sizes(uow: UnitOfWork, catalog: CatalogName, names: Sequence[str]) -> Mapping[str, TableFacts]:
    """The sizes of upgraded tables as Firn counts them: Hive's statistics end with Firn's first own commit."""
    sizes = dict[str, TableFacts]()
    for begin in range(0, len(names), _NAMES):  # databases limit the parameters of a query
        linked = uow.relations.of_hives(catalog, names[begin : begin + _NAMES])
        statuses = uow.table_statuses.get_many([relation.id for relation in linked.values()])
        for name, relation in linked.items():
            if (status := statuses.get(relation.id)) is not None:
                sizes[name] = TableFacts(files=status.data_files, bytes=status.bytes, rows=status.rows)
    return sizes


def _sum(status: IndexStatus, other: IndexStatus) -> IndexStatus:
    return IndexStatus(
        databases=status.databases + other.databases,
        tables=status.tables + other.tables,
        changed=status.changed + other.changed,
        unavailable=other.unavailable or status.unavailable,
    )


def _to_index_row(catalog: CatalogName, table: HiveTable, now: datetime) -> IndexedTable:
    return IndexedTable(
        catalog=catalog,
        database=table.database,
        name=table.name,
        format=format_name(table),
        location=table.location,
        columns=len(table.columns) + len(table.partition_columns),
        partition_columns=tuple(column.name for column in table.partition_columns),
        ddl_time=table.ddl_time,
        blockers=tuple(_blockers(table)),
        seen_at=now,
        facts=read_facts(table),
    )


_STATISTICS = {
    "files": ("numFiles",),
    "bytes": ("totalSize", f"{_SPARK}.totalSize"),
    "rows": ("numRows", f"{_SPARK}.numRows"),
}


def read_facts(table: HiveTable) -> TableFacts:
    """Read the statistics that Hive and Spark keep in the parameters of a table. Those of partitions need a check."""
    parameters, numbers = table.parameters, dict[str, int | None]()
    for name, keys in _STATISTICS.items():
        # Hive writes -1, or 0 for a partitioned table, if it does not know.
        counts = [number for key in keys if (number := parse_statistic(parameters.get(key)))]
        numbers[name] = counts[0] if counts else None
    times = [
        time
        for key in ("last_modified_time", "transient_lastDdlTime")
        if (time := parse_statistic(parameters.get(key)))
    ]
    return TableFacts(
        **numbers,
        partitions=None if table.partition_columns else 0,
        last_write=max(times, default=None),
        writer=(parameters.get("last_modified_by") or table.owner or "")[:255] or None,
    )


def parse_statistic(text: str | None) -> int | None:
    """Parse a number of a parameter, which any engine may have written; None unless it fits."""
    if text is None or not text.isascii() or not text.isdecimal() or len(text) > _DIGITS:
        return None
    return int(text)


def _blockers(table: HiveTable) -> Sequence[IndexedBlocker]:
    """The blockers that the table itself shows. A check also reads the partitions."""
    blockers = find_blockers(table, ())
    return [
        IndexedBlocker(code=str(blocker.code), message=blocker.message, advice=blocker.advice) for blocker in blockers
    ]


def format_name(table: HiveTable) -> str:
    """The format in one word."""
    if table.is_view:
        return "view"
    return table.provider or str(table.storage.format)
