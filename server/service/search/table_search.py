"""Finds tables, views and Hive tables: candidates from the index, then what the caller may see of each as it is now."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from catalog.access.privileges import SERVER, Privilege, Rights, Securable
from catalog.names import CatalogName, RelationId, TableName, fold_case
from catalog.ports.search import FoundDocument, SearchScope
from catalog.ports.store import UnitOfWork
from catalog.search.document import DocumentKind, parse_texts
from catalog.search.matching import Match, Rank, Typed, match_name, match_texts
from catalog.tables.relation import Relation, RelationKind
from firn.protocol.search import SearchHit, SearchKind
from server.service.access.visibility import Visibility, get_securable

_Key = tuple[DocumentKind, CatalogName, str]
CANDIDATES = 50
"""Documents that each lookup of the index returns."""
_MOST_SCOPES = 500
"""Granted objects that a search compares in the database; with more it finds the catalogs, and then decides itself."""


@dataclass(frozen=True, slots=True)
class RankedHit:
    """A hit with the order among hits of its kind."""

    rank: Rank
    hit: SearchHit

    @property
    def order(self) -> tuple[Rank, int, str, str]:
        """Better matches first, then shorter names."""
        return (self.rank, len(self.hit.name), self.hit.name, self.hit.catalog or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Object:
    """The object of a document as it is now."""

    kind: SearchKind
    catalog: CatalogName
    name: TableName
    securable: Securable
    detail: str
    document: FoundDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSearch:
    """One search for tables; a caller sees names as in lists, and columns and comments only of readable tables."""

    uow: UnitOfWork
    typed: Typed
    visible: Visibility
    kinds: Collection[DocumentKind]
    catalog: CatalogName | None
    """The only catalog to search; None means all."""

    def run(self) -> Iterator[RankedHit]:
        """Find hits, in no order. A table may match by its name, and again by a column or comment."""
        names = iter(()) if self.typed.labels else self._find_by_names(self._scope(Privilege.LIST))
        by_name = self._look_up(names)
        by_text = self._look_up(self._find_by_texts(self._scope(Privilege.READ)))
        for candidate in by_name.values():
            full_name = str(candidate.name)
            match = match_name(self.typed, full_name, candidate.name.name)
            if match is not None and self.visible.sees(candidate.securable):
                yield _build_hit(candidate, match)
        for candidate in by_text.values():
            match = match_texts(self.typed, str(candidate.name), parse_texts(candidate.document.texts))
            if match is not None and self.visible.readable(candidate.securable):
                yield _build_hit(candidate, match)

    def _find_by_names(self, scope: SearchScope) -> Iterator[FoundDocument]:
        index, folded = self.uow.search_index, fold_case(_last_part(self.typed.text))
        if folded:
            yield from index.by_exact_name(folded, scope, limit=CANDIDATES)
            yield from index.by_beginning(folded, scope, limit=CANDIDATES)
        yield from index.by_name_words(self.typed.words, scope, limit=CANDIDATES)

    def _find_by_texts(self, scope: SearchScope) -> Iterator[FoundDocument]:
        index, words = self.uow.search_index, self.typed.index_words
        yield from index.by_other_words(words, scope, limit=CANDIDATES)
        if len(words) > 1:
            yield from index.by_any_words(words, scope, limit=CANDIDATES)

    def _scope(self, privilege: Privilege) -> SearchScope:
        within = None if self.visible.rights is None else list_scopes(self.visible.rights, privilege)
        if self.catalog is not None:
            only = Securable(self.catalog)
            within = [only] if within is None else [_narrow(scope, only) for scope in within if _meet(scope, only)]
        return SearchScope(kinds=self.kinds, within=within)

    def _look_up(self, matches: Iterator[FoundDocument]) -> dict[_Key, _Object]:
        """The objects of documents as they are now, without those that are gone or upgraded."""
        documents = {(document.kind, document.catalog, document.key): document for document in matches}
        objects = {**self._look_up_relations(documents), **self._look_up_hive(documents)}
        return {key: objects[key] for key in documents if key in objects}

    def _look_up_relations(self, documents: Mapping[_Key, FoundDocument]) -> dict[_Key, _Object]:
        ids = {
            key: RelationId(UUID(document.key))
            for key, document in documents.items()
            if document.kind is not DocumentKind.HIVE_TABLE
        }
        relations = self.uow.relations.get_many(ids.values())
        return {
            key: _describe_relation(relations[relation_id], documents[key])
            for key, relation_id in ids.items()
            if relation_id in relations
        }

    def _look_up_hive(self, documents: Mapping[_Key, FoundDocument]) -> dict[_Key, _Object]:
        hive = {key: document for key, document in documents.items() if document.kind is DocumentKind.HIVE_TABLE}
        names: dict[CatalogName, list[str]] = {}
        for document in hive.values():
            names.setdefault(document.catalog, []).append(document.key)
        upgraded = {catalog: self.uow.relations.of_hives(catalog, keys) for catalog, keys in names.items()}
        objects = {}
        for key, document in hive.items():
            if document.key in upgraded[document.catalog]:
                continue
            if (table := self._find_in_hive(document)) is not None:
                objects[key] = table
        return objects

    def _find_in_hive(self, document: FoundDocument) -> _Object | None:
        database, _, name = document.key.partition(".")
        indexed = self.uow.hive.find(document.catalog, database, name)
        if indexed is None:
            return None
        table = TableName((database,), name)
        return _Object(
            kind=SearchKind.HIVE_TABLE,
            catalog=document.catalog,
            name=table,
            securable=Securable.of(document.catalog, table),
            detail=indexed.format,
            document=document,
        )


def list_scopes(rights: Rights, privilege: Privilege) -> Sequence[Securable] | None:
    """The objects in which a caller may have this privilege on tables, and granted tables; None is everywhere."""
    if rights.has(privilege, SERVER):
        return None
    scopes = [scope for scope, held in rights.held.items() if privilege in held or scope.table is not None]
    if len(scopes) > _MOST_SCOPES:
        return sorted({Securable(scope.catalog) for scope in scopes}, key=str)
    return scopes


def _meet(scope: Securable, other: Securable) -> bool:
    return scope.holds(other) or other.holds(scope)


def _narrow(scope: Securable, only: Securable) -> Securable:
    return only if scope.holds(only) else scope


def _last_part(text: str) -> str:
    return text.rpartition(".")[2]


def _describe_relation(relation: Relation, document: FoundDocument) -> _Object:
    return _Object(
        kind=SearchKind.VIEW if relation.kind is RelationKind.VIEW else SearchKind.TABLE,
        catalog=relation.catalog,
        name=relation.name,
        securable=get_securable(relation),
        detail="keyed" if relation.kind is RelationKind.KEYED else "",
        document=document,
    )


def _build_hit(candidate: _Object, match: Match) -> RankedHit:
    hit = SearchHit(
        kind=candidate.kind,
        catalog=candidate.catalog,
        name=str(candidate.name),
        id=candidate.document.key if candidate.kind is not SearchKind.HIVE_TABLE else None,
        part=match.part,
        column=match.column,
        text=match.text,
        detail=candidate.detail,
    )
    return RankedHit(match.rank, hit)
