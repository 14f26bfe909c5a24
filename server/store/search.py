"""The search index in the database: full-text tables of SQLite, and full-text indexes of PostgreSQL."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    FromClause,
    Select,
    and_,
    delete,
    func,
    literal_column,
    or_,
    select,
    text,
    true,
    update,
)
from sqlalchemy import cast as sql_cast
from sqlalchemy import column as sql_column
from sqlalchemy import table as sql_table
from sqlalchemy.dialects.postgresql import TSQUERY
from sqlalchemy.orm import InstrumentedAttribute

from catalog.access.privileges import Securable
from catalog.names import SEPARATOR, CatalogName, RelationId, encode_namespace
from catalog.ports.search import FoundDocument, SearchScope
from catalog.search.document import DocumentKind, SearchDocument
from catalog.tables.relation import RelationKind
from firn.protocol.history import Topic
from server.store.catalogs import starts_with
from server.store.rows import CommitEventRow, RelationRow
from server.store.search_rows import WORD_TABLE, SearchDocumentRow, SearchPositionRow
from server.store.session import ReadSession
from server.store.upsert import insert_unless_taken, upsert

_KINDS = (RelationKind.TABLE, RelationKind.KEYED, RelationKind.VIEW)
_OF_RELATIONS = (DocumentKind.TABLE, DocumentKind.VIEW)
_CHANGING = (Topic.LIFE, Topic.SCHEMA, Topic.PROPERTIES)
_MOST_MATCHES = 20_000
"""Matches of words that a search compares with a scope. So its time has a limit with any rights."""
_WORDS = sql_table(WORD_TABLE, sql_column("rowid"))
_HIGHEST = "\U0010ffff"


@dataclass(frozen=True)
class SqlSearchIndex:
    """See catalog.ports.search.SearchIndex."""

    session: ReadSession

    def put(self, documents: Sequence[SearchDocument]) -> int:
        """Write the documents that differ from the stored ones; one that another server has just added stays."""
        stored = self._stored([document.key for document in documents])
        written = 0
        for document in documents:
            digest = document.digest
            number, before = stored.get((document.kind, document.key, document.catalog), (None, None))
            if before == digest:
                continue
            values = _values(document, digest)
            if number is None:
                written += insert_unless_taken(self.session, SearchDocumentRow, values)
            else:
                self.session.execute(update(SearchDocumentRow).where(SearchDocumentRow.id == number).values(**values))
                written += 1
        return written

    def _stored(self, keys: Collection[str]) -> Mapping[tuple[str, str, str], tuple[int, str]]:
        row = SearchDocumentRow
        query = select(row.kind, row.key, row.catalog, row.id, row.digest).where(row.key.in_(keys))
        return {
            (kind, key, catalog): (number, digest) for kind, key, catalog, number, digest in self.session.execute(query)
        }

    def remove(self, kind: DocumentKind, catalog: CatalogName | None, keys: Collection[str]) -> None:
        """Remove documents by key."""
        which = [SearchDocumentRow.kind == kind, SearchDocumentRow.key.in_(keys)]
        if catalog is not None:
            which.append(SearchDocumentRow.catalog == catalog)
        self.session.execute(delete(SearchDocumentRow).where(*which))

    def sources(self, relation_ids: Collection[RelationId]) -> Mapping[RelationId, str]:
        """The sources of stored documents."""
        row = SearchDocumentRow
        keys = [relation_id.hex for relation_id in relation_ids]
        query = select(row.key, row.source).where(row.kind.in_(_OF_RELATIONS), row.key.in_(keys))
        return {RelationId(UUID(key)): source for key, source in self.session.execute(query)}

    def hive_digests(self, catalog: CatalogName, database: str) -> Mapping[str, str]:
        """The digests of one Hive database's documents, by key."""
        document = SearchDocumentRow
        query = select(document.key, document.digest).where(*_in_hive(catalog), document.namespace == database)
        return {row.key: row.digest for row in self.session.execute(query)}

    def hive_databases(self, catalog: CatalogName) -> Collection[str]:
        """The Hive databases with documents."""
        return set(self.session.scalars(select(SearchDocumentRow.namespace).where(*_in_hive(catalog)).distinct()))

    def hive_catalogs(self) -> Collection[CatalogName]:
        """The catalogs with documents of Hive tables."""
        row = SearchDocumentRow
        query = select(row.catalog).where(row.kind == DocumentKind.HIVE_TABLE).distinct()
        return {CatalogName(name) for name in self.session.scalars(query)}

    def relations_after(self, after: RelationId | None, *, limit: int) -> Sequence[RelationId]:
        """The next relations by id."""
        query = select(RelationRow.id).where(RelationRow.kind.in_(_KINDS))
        if after is not None:
            query = query.where(RelationRow.id > after)
        return [RelationId(key) for key in self.session.scalars(query.order_by(RelationRow.id).limit(limit))]

    def leftovers(self, *, limit: int) -> Sequence[RelationId]:
        """Documents without a relation."""
        row = SearchDocumentRow
        keys = self.session.scalars(select(row.key).where(row.kind.in_(_OF_RELATIONS))).all()
        exist = {relation_id.hex for relation_id in self.session.scalars(select(RelationRow.id))}
        return [RelationId(UUID(key)) for key in keys if key not in exist][:limit]

    def newest_event(self) -> int:
        """The newest commit's id."""
        return self.session.scalar(select(func.max(CommitEventRow.id))) or 0

    def changed_after(self, event: int, until: int) -> Collection[RelationId]:
        """The relations of commits that change a document."""
        row = CommitEventRow
        changing = or_(*(row.topics.contains(topic) for topic in _CHANGING))
        changed = set(self.session.scalars(select(row.relation_id).where(row.id > event, row.id <= until, changing)))
        owners = select(RelationRow.id, RelationRow.owner_id).where(
            RelationRow.id.in_(changed), RelationRow.owner_id.is_not(None)
        )
        of_stores = {store: owner for store, owner in self.session.execute(owners) if owner}
        return {RelationId(of_stores.get(relation_id, relation_id)) for relation_id in changed}

    def position(self, name: str) -> str | None:
        """A stored position."""
        return self.session.scalar(select(SearchPositionRow.position).where(SearchPositionRow.name == name))

    def set_position(self, name: str, position: str) -> None:
        """Store a position."""
        upsert(self.session, SearchPositionRow, {"name": name, "position": position})

    def by_exact_name(self, folded: str, scope: SearchScope, *, limit: int) -> Sequence[FoundDocument]:
        """Documents of this name."""
        return self._find(select(SearchDocumentRow).where(SearchDocumentRow.folded_name == folded), scope, limit)

    def by_beginning(self, folded: str, scope: SearchScope, *, limit: int) -> Sequence[FoundDocument]:
        """Documents whose names begin like this."""
        name = SearchDocumentRow.folded_name
        query = select(SearchDocumentRow).where(name >= folded, name < folded + _HIGHEST).order_by(name)
        return self._find(query, scope, limit)

    def by_name_words(self, words: Sequence[str], scope: SearchScope, *, limit: int) -> Sequence[FoundDocument]:
        """Documents with these words in their names."""
        return self._by_words(words, [SearchDocumentRow.name_words], scope, limit)

    def by_other_words(self, words: Sequence[str], scope: SearchScope, *, limit: int) -> Sequence[FoundDocument]:
        """Documents with these words in columns and comments."""
        return self._by_words(words, [SearchDocumentRow.other_words], scope, limit)

    def by_any_words(self, words: Sequence[str], scope: SearchScope, *, limit: int) -> Sequence[FoundDocument]:
        """Documents with these words anywhere."""
        both = [SearchDocumentRow.name_words, SearchDocumentRow.other_words]
        return self._by_words(words, both, scope, limit)

    def _by_words(
        self, words: Sequence[str], columns: Sequence[InstrumentedAttribute[str]], scope: SearchScope, limit: int
    ) -> Sequence[FoundDocument]:
        if not words or not scope.kinds:
            return []
        if self.session.get_bind().dialect.name == "sqlite":
            return self._find(_match_in_sqlite(words, columns), scope, limit)
        # Before its statistics exist, PostgreSQL would rather read all documents than use the index.
        self.session.execute(text("SET LOCAL enable_seqscan = off"))
        documents = self._find(_match_in_postgres(words, columns), scope, limit)
        self.session.execute(text("SET LOCAL enable_seqscan = on"))
        return documents

    def _find(self, matches: Select[Any], scope: SearchScope, limit: int) -> Sequence[FoundDocument]:
        if not scope.kinds:
            return []
        is_everything = scope.within is None and len(scope.kinds) == len(DocumentKind)
        match = matches.limit(limit if is_everything else _MOST_MATCHES).subquery()
        columns = (match.c.kind, match.c.catalog, match.c.key, match.c.texts)
        query = select(*columns).where(_is_within(match, scope)).limit(limit)
        return [
            FoundDocument(kind=DocumentKind(kind), catalog=CatalogName(catalog), key=key, texts=texts)
            for kind, catalog, key, texts in self.session.execute(query)
        ]


def _match_in_sqlite(words: Sequence[str], columns: Sequence[InstrumentedAttribute[str]]) -> Select[Any]:
    """Join the full-text table. Words have letters and digits only, so nothing in them is syntax of a query."""
    terms = " AND ".join(f'"{word}" *' for word in words)
    query = f"{{{' '.join(column.key for column in columns)}}} : ({terms})"
    matches = literal_column(WORD_TABLE).op("MATCH")(query)
    return select(SearchDocumentRow).join(_WORDS, SearchDocumentRow.id == _WORDS.c.rowid).where(matches)


def _match_in_postgres(words: Sequence[str], columns: Sequence[InstrumentedAttribute[str]]) -> Select[Any]:
    """Compare with the indexed expressions, in which the space has to be a constant."""
    vectors = [func.array_to_tsvector(func.string_to_array(column, literal_column("' '"))) for column in columns]
    terms = [sql_cast(f"'{word}':*", TSQUERY) for word in words]
    return select(SearchDocumentRow).where(*(or_(*(vector.op("@@")(term) for vector in vectors)) for term in terms))


def _is_within(match: FromClause, scope: SearchScope) -> ColumnElement[bool]:
    condition: ColumnElement[bool] = true()
    if len(scope.kinds) < len(DocumentKind):
        condition = match.c.kind.in_(sorted(scope.kinds))
    if scope.within is None:
        return condition
    return and_(condition, or_(*(_lies_in(match, securable) for securable in scope.within), literal_column("1 = 0")))


def _lies_in(match: FromClause, place: Securable) -> ColumnElement[bool]:
    conditions = [match.c.catalog == place.catalog]
    if place.namespace:
        path = encode_namespace(place.namespace)
        below = starts_with(cast("Any", match.c.namespace), path + SEPARATOR)
        conditions.append(
            match.c.namespace == path if place.table is not None else or_(match.c.namespace == path, below)
        )
    if place.table is not None:
        conditions.append(match.c.name == place.table)
    return and_(*conditions)


def _in_hive(catalog: CatalogName) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return SearchDocumentRow.kind == DocumentKind.HIVE_TABLE, SearchDocumentRow.catalog == catalog


def _values(document: SearchDocument, digest: str) -> dict[str, Any]:
    return {
        "kind": document.kind,
        "catalog": document.catalog,
        "key": document.key,
        "namespace": encode_namespace(document.namespace),
        "name": document.name,
        "folded_name": document.folded_name,
        "name_words": document.name_words,
        "other_words": document.other_words,
        "texts": document.texts,
        "source": document.source,
        "digest": digest,
    }
