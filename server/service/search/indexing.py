"""Fills the search index in the background: no commit writes words, and none waits for them.

Each run does two things. It follows the history of commits, so that a new, renamed or altered table is found seconds
later. And in a round of all tables it compares the index with them, which fills the index after an update from an
earlier release and repairs what the first part missed. The database keeps both positions, so a server that starts
continues where another stopped.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from catalog.errors import CatalogError
from catalog.history.views import read_version_schema
from catalog.iceberg.json import Json
from catalog.iceberg.table import current_schema
from catalog.iceberg.view import current_version
from catalog.names import CatalogName, RelationId
from catalog.ports.store import Database, UnitOfWork
from catalog.search.document import (
    LONGEST_COLUMN,
    ColumnText,
    DocumentKind,
    SearchDocument,
    Texts,
    build_source,
    clean_columns,
    clean_text,
)
from catalog.tables.column_description import list_fields
from catalog.tables.description import read_column_labels, read_description
from catalog.tables.relation import Relation, RelationKind
from server.service.tables.metadata_files import MetadataFiles

log = logging.getLogger(__name__)

BATCH = 50
"""Documents in one transaction, which takes milliseconds: SQLite's commits wait for it."""
COMPARED = 500
"""Tables that one step of a round compares."""
AT_ONCE = 4
EVENTS = 5_000
"""Commits that one run follows at most."""
OVERLAP = 100
"""Commits that a run follows again, because PostgreSQL shows commits in another order than their numbers."""
ROUND_SECONDS = 10.0
"""Time that one run spends on the round."""
BETWEEN_ROUNDS = timedelta(hours=1)
_EVENTS, _ROUND, _RESTS = "events", "round", "rests "
_RELATION_KINDS = (DocumentKind.TABLE, DocumentKind.VIEW)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchStatus:
    """Counts of one run."""

    written: int = 0
    compared: int = 0
    unreadable: int = 0
    """Tables that are found by their names only until the next round, because their metadata cannot be read."""

    def __add__(self, other: SearchStatus) -> SearchStatus:
        """The sum of both."""
        return SearchStatus(
            written=self.written + other.written,
            compared=self.compared + other.compared,
            unreadable=self.unreadable + other.unreadable,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    """A relation with the place of the metadata that has its columns."""

    relation: Relation
    metadata_location: str | None
    source: str


@dataclass(frozen=True)
class SearchIndexing:
    """Keeps documents like their tables and views. Runs of two servers at once are harmless."""

    database: Database
    metadata: MetadataFiles

    def run_once(self) -> SearchStatus:
        """Follow new commits, then continue the round of all tables."""
        return self._follow_commits() + self._continue_round()

    def _follow_commits(self) -> SearchStatus:
        with self.database.reading() as uow:
            newest, stored = uow.search_index.newest_event(), uow.search_index.position(_EVENTS)
            known = newest if stored is None else int(stored)
            until = min(newest, known + EVENTS)
            changed = uow.search_index.changed_after(known - OVERLAP, until) if until > known else ()
        if stored is not None and until == known:
            return SearchStatus()
        status = self._index(list(changed), is_changed=True)
        with self.database.writing() as uow:
            uow.search_index.set_position(_EVENTS, str(until))
        return status

    def _continue_round(self) -> SearchStatus:
        status, began = SearchStatus(), time.monotonic()
        while time.monotonic() - began < ROUND_SECONDS:
            with self.database.reading() as uow:
                position = uow.search_index.position(_ROUND) or ""
                if position.startswith(_RESTS) and uow.now() < datetime.fromisoformat(position.removeprefix(_RESTS)):
                    return status
                after = None if position.startswith(_RESTS) or not position else RelationId(UUID(position))
                ids = uow.search_index.relations_after(after, limit=COMPARED)
            status += self._index(ids)
            if len(ids) < COMPARED:
                self._remove_leftovers()
            with self.database.writing() as uow:
                rests = f"{_RESTS}{(uow.now() + BETWEEN_ROUNDS).isoformat()}"
                uow.search_index.set_position(_ROUND, rests if len(ids) < COMPARED else ids[-1].hex)
        return status

    def _index(self, relation_ids: Sequence[RelationId], *, is_changed: bool = False) -> SearchStatus:
        """Write the documents of relations whose stored source is old, or of all that are known to have changed."""
        with self.database.reading() as uow:
            subjects = _load_subjects(uow, relation_ids)
            sources = uow.search_index.sources(relation_ids)
        self._remove([relation_id for relation_id in relation_ids if relation_id not in subjects])
        old = [
            subject
            for relation_id, subject in subjects.items()
            if is_changed or sources.get(relation_id) != subject.source
        ]
        status = SearchStatus(compared=len(relation_ids))
        for start in range(0, len(old), BATCH):
            status += self._write(old[start : start + BATCH])
        return status

    def _write(self, subjects: Sequence[_Subject]) -> SearchStatus:
        with ThreadPoolExecutor(min(AT_ONCE, len(subjects)), "search") as threads:
            documents = list(threads.map(self._build, subjects))
        with self.database.writing() as uow:
            existing = {relation_id.hex for relation_id in _lock(uow, subjects)}
            written = uow.search_index.put([document for document in documents if document.key in existing])
        return SearchStatus(written=written, unreadable=sum(not document.source for document in documents))

    def _build(self, subject: _Subject) -> SearchDocument:
        """Build the document; of a relation without readable metadata, which any engine may write, one of its name."""
        relation, kind = subject.relation, DocumentKind.TABLE
        metadata: Json = {}
        source, described = subject.source, Texts()
        try:
            if subject.metadata_location is not None:
                metadata = self.metadata.read(subject.metadata_location)
            described = _read_texts(relation, metadata)
        except CatalogError as error:
            log.warning("the search cannot read the columns of %s: %s", relation.name, error.message)
            source = ""
        except Exception:
            log.exception("the search cannot read the columns of %s", relation.name)
            source = ""
        if relation.kind is RelationKind.VIEW:
            kind = DocumentKind.VIEW
        return SearchDocument(
            kind=kind,
            catalog=relation.catalog,
            key=relation.id.hex,
            namespace=relation.name.namespace,
            name=relation.name.name,
            source=source,
            described=described,
        )

    def _remove_leftovers(self) -> None:
        with self.database.reading() as uow:
            gone = uow.search_index.leftovers(limit=COMPARED)
            linked = {catalog.name for catalog in uow.catalogs.list() if catalog.metastore_uri is not None}
            unlinked = sorted(set(uow.search_index.hive_catalogs()) - linked)
        self._remove(gone)
        for catalog in unlinked:
            remove_hive_databases(self.database, catalog, keep=())

    def _remove(self, relation_ids: Sequence[RelationId]) -> None:
        for start in range(0, len(relation_ids), BATCH):
            keys = [relation_id.hex for relation_id in relation_ids[start : start + BATCH]]
            with self.database.writing() as uow:
                for kind in _RELATION_KINDS:
                    uow.search_index.remove(kind, None, keys)


def _load_subjects(uow: UnitOfWork, relation_ids: Sequence[RelationId]) -> Mapping[RelationId, _Subject]:
    """Load relations with the metadata of their columns, which a keyed table has in its base store."""
    relations = uow.relations.get_many(relation_ids)
    relations = {relation_id: relation for relation_id, relation in relations.items() if not relation.kind.is_store}
    keyed = uow.keyed.get_many(
        [relation_id for relation_id, relation in relations.items() if relation.kind is RelationKind.KEYED]
    )
    bases = uow.relations.get_many([table.base_id for table in keyed.values()])
    stats = uow.stats.get_many([*relations, *bases])
    subjects = {}
    for relation_id, relation in relations.items():
        holder = bases.get(keyed[relation_id].base_id, relation) if relation_id in keyed else relation
        counted = stats.get(holder.id)
        version = holder.metadata_location if counted is None else counted.schema_id
        subjects[relation_id] = _Subject(
            relation=relation,
            metadata_location=holder.metadata_location,
            source=build_source(relation.name.namespace, relation.name.name, version),
        )
    return subjects


def _lock(uow: UnitOfWork, subjects: Sequence[_Subject]) -> Collection[RelationId]:
    return uow.relations.lock_existing([subject.relation.id for subject in subjects])


def _read_texts(relation: Relation, metadata: Json) -> Texts:
    properties = metadata.get("properties") or {}
    description, of_columns = read_description(properties), read_column_labels(properties)
    columns = (
        ColumnText(path, field.get("doc"), of_columns.get(field.get("id", -1), ()))
        for path, field in list_fields(_read_schema(relation, metadata))
    )
    return Texts(
        comment=clean_text(description.comment),
        owner=clean_text(description.owner, LONGEST_COLUMN),
        labels=description.labels,
        columns=clean_columns(columns),
    )


def _read_schema(relation: Relation, metadata: Json) -> Json:
    if not metadata:
        return {}
    if relation.kind is RelationKind.VIEW:
        return read_version_schema(metadata, current_version(metadata))
    return current_schema(metadata)


def remove_hive_databases(database: Database, catalog: CatalogName, keep: Collection[str]) -> None:
    """Remove the documents of Hive databases that are gone, in small transactions."""
    with database.reading() as uow:
        gone = [name for name in uow.search_index.hive_databases(catalog) if name not in keep]
        keys = [key for name in gone for key in uow.search_index.hive_digests(catalog, name)]
    for start in range(0, len(keys), BATCH):
        with database.writing() as uow:
            uow.search_index.remove(DocumentKind.HIVE_TABLE, catalog, keys[start : start + BATCH])
