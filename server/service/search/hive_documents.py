"""The documents of Hive tables, which the listing of a metastore brings up to date."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.hive.model import HiveTable
from catalog.names import CatalogName
from catalog.ports.store import Database
from catalog.search.document import ColumnText, DocumentKind, SearchDocument, Texts, clean_columns, clean_text
from server.service.search.indexing import BATCH


def index_hive_tables(database: Database, catalog: CatalogName, name: str, tables: Sequence[HiveTable]) -> None:
    """Bring the documents of one Hive database up to date.

    It compares all of them, so a listing completes what an earlier one did not write before its server stopped.
    """
    with database.reading() as uow:
        stored = uow.search_index.hive_digests(catalog, name)
    documents = [_build(catalog, table) for table in tables]
    changed = [document for document in documents if stored.get(document.key) != document.digest]
    gone = sorted(stored.keys() - {document.key for document in documents})
    for start in range(0, len(changed), BATCH):
        with database.writing() as uow:
            uow.search_index.put(changed[start : start + BATCH])
    for start in range(0, len(gone), BATCH):
        with database.writing() as uow:
            uow.search_index.remove(DocumentKind.HIVE_TABLE, catalog, gone[start : start + BATCH])


def _build(catalog: CatalogName, table: HiveTable) -> SearchDocument:
    columns = (*table.columns, *table.partition_columns)
    return SearchDocument(
        kind=DocumentKind.HIVE_TABLE,
        catalog=catalog,
        key=table.full_name,
        namespace=(table.database,),
        name=table.name,
        described=Texts(
            comment=clean_text(table.parameters.get("comment")),
            columns=clean_columns(ColumnText(column.name, column.comment) for column in columns),
        ),
    )
